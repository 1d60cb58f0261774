"""What was acknowledged last, noted apart from the store, so that its loss is seen at the next opening.

SQLite reads its log up to the first damaged page and drops what comes after it without a word. Two
things tell: commits that lie behind that place in the log, and a note, `callboard.db-last`, of the last
acknowledged event, of the last purge, and of how many pages of the log can be read. The note is written
after each commit and not synced: after a kill it is exact, and after a power cut it may be older, but
never newer than what the disk has.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import apsw

from ...errors import StorageError
from ..tables.topics import LOG_HEAD

if TYPE_CHECKING:
    from ..tables.connection import SqlConnection

SUFFIX = "-last"
"""Of the note's name, behind that of the store."""

_FORMAT = struct.Struct(">8s32sQQI64sQ8sI")
_MAGIC = b"callast2"
_CHECKSUM = struct.Struct(">I")

_SELECT = f"""
select m.value, (select max(id) from events), e.event, ({LOG_HEAD})
from meta m left join events e on e.id = ? where m.key = 'epoch'
"""
_SELECT_LAST = """
select e.id, e.at_ms, s.session_id, e.event
from events e join sessions s on s.id = e.session where e.id = (select max(id) from events)
"""

LogPlace = tuple[bytes, int]
"""The mark of a log, which each of its rounds changes, and its pages up to the end of the last commit."""


class Acknowledged(NamedTuple):
    """What was acknowledged last.

    That is an event, with its place and time, its session and its bytes' checksum; none (0) in a store
    without sessions. `purge` is the number in the log of topics that the last purge has reached, and
    `log_pages` must be readable in the log with this mark.
    """

    epoch: str
    event_id: int
    at_ms: int
    checksum: int
    session_id: str
    purge: int
    log_mark: bytes
    log_pages: int


class LastCommit:
    """Writes the note of a store that is open for writing; used in the writer's thread alone.

    Args:
        store: The store's file.
        connection: Its writer.
        log_place: Returns where the log ends.
    """

    def __init__(
        self, store: Path, connection: apsw.Connection, log_place: Callable[[], LogPlace]
    ) -> None:
        self._path = Path(f"{store}{SUFFIX}")
        self._connection = connection
        self._log_place = log_place
        self._purge = 0
        self._epoch = b""
        self._descriptor = -1

    def note(self, event_id: int, at_ms: int, session_id: str, data: bytes) -> None:
        """Note the last event of a commit. An older note stays right, so a failure is none."""
        with suppress(OSError):
            if self._descriptor < 0:
                self._epoch = _epoch(self._connection).encode()
                if (known := _read(self._path)) is not None:
                    self._purge = max(self._purge, known.purge)
                self._descriptor = os.open(
                    self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
                )
            record = _FORMAT.pack(
                *(_MAGIC, self._epoch, event_id, at_ms, zlib.crc32(data), session_id.encode()[:64]),
                *(self._purge, *self._log_place()),
            )
            os.pwrite(self._descriptor, record + _CHECKSUM.pack(zlib.crc32(record)), 0)

    def forget(self) -> None:
        """Remove the note, durably, before events are removed that it may name."""
        self.close()
        try:
            self._path.unlink()
        except FileNotFoundError:
            return
        except OSError as error:
            raise StorageError(f"{self._path} can't be removed: {error.strerror}.") from error
        folder = os.open(self._path.parent, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def note_purge(self, connection: SqlConnection) -> None:
        """Note a purge, with the last event that is on record now."""
        self._purge = connection.execute(LOG_HEAD).get
        last: tuple[int, int, str, bytes] | None = connection.execute(_SELECT_LAST).fetchone()
        self.note(*(last or (0, 0, "", b"")))

    def close(self) -> None:
        """Close the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def loss(connection: apsw.Connection, store: Path) -> str:
    """Return what a store has lost of what was acknowledged, or nothing if it has all.

    Nobody else may write to it. The note of another store is removed. Raises `apsw.Error`.
    """
    note, log = Path(f"{store}{SUFFIX}"), Path(f"{store}-wal")
    known = _read(note)
    lost = _commits_behind(connection, log, known)
    if known is not None and connection.table_exists("main", "meta"):
        found = connection.execute(_SELECT, (known.event_id,)).fetchone()
        epoch, newest, data, log_head = found or ("", 0, None, 0)
        if epoch != known.epoch:
            if log.exists() and log.stat().st_size > 0:
                return "its log is that of another store"
            note.unlink()  # somebody put another store in place, which is whole
        elif known.event_id and not _is(data, known):
            count = max(known.event_id - (newest or 0), 1)
            return (
                f"of what was acknowledged, the last {count} events at least are missing, up to "
                f"one of {known.session_id} at {_time(known.at_ms)}"
            )
        elif log_head < known.purge:
            return (
                "a purge that was acknowledged is missing: what it removed may be there again, and "
                "is to be purged again"
            )
    if lost:
        commits = "commit that was" if lost == 1 else f"{lost} commits that were"
        return f"its log breaks off before {'a ' * (lost == 1)}{commits} acknowledged"
    return ""


def has_rest(connection: apsw.Connection, store: Path) -> bool:
    """Return whether the log goes on behind where SQLite stops to read it, with a commit that was on its way.

    With half of one that the next crash leaves, it would look like two, which were acknowledged. Raises `apsw.Error`.
    """
    found = _behind(connection, Path(f"{store}-wal"))
    return found is not None and found.commits > 0


def has_last(connection: apsw.Connection, store: Path) -> bool:
    """Return whether a copy of a store is known to have the event that was acknowledged last."""
    known = _read(Path(f"{store}{SUFFIX}"))
    try:
        row = None if known is None else next(connection.execute(_SELECT, (known.event_id,)), None)
    except apsw.Error:
        return False
    return known is not None and row is not None and row[0] == known.epoch and _is(row[2], known)


def _is(data: object, known: Acknowledged) -> bool:
    return isinstance(data, bytes) and zlib.crc32(data) == known.checksum


def _read(path: Path) -> Acknowledged | None:
    """Return what the note says; `None` if there is none, or it is damaged itself."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    record, check = data[: _FORMAT.size], data[_FORMAT.size :]
    if len(check) != _CHECKSUM.size or _CHECKSUM.pack(zlib.crc32(record)) != check:
        return None
    magic, epoch, event_id, at_ms, checksum, session_id, *rest = _FORMAT.unpack(record)
    if magic != _MAGIC:
        return None
    name = session_id.rstrip(b"\0").decode(errors="replace")
    return Acknowledged(epoch.decode(), event_id, at_ms, checksum, name, *rest)


def _epoch(connection: apsw.Connection) -> str:
    return str(connection.execute("select value from meta where key = 'epoch'").get)


def _time(at_ms: int) -> str:
    from datetime import datetime

    return f"{datetime.fromtimestamp(at_ms / 1000).astimezone():%Y-%m-%d %H:%M:%S}"


# ── SQLite's log (https://www.sqlite.org/fileformat2.html#the_write_ahead_log) ────────────────────

HEADER = struct.Struct(">8xI4x8s8x")
"""Size of a page, and the log's mark: two salts."""
_FRAME = struct.Struct(">4xI8s8x")
"""Pages of the store after this commit (0: not the end of one), and the mark of its log."""
_TORN_COMMITS = 1
"""A power cut may leave the end of the one commit that was on its way, and not its beginning."""


class _Behind(NamedTuple):
    """What lies in a log of this mark behind the pages `at` which SQLite reads."""

    mark: bytes
    at: int
    commits: int
    torn: int


def _commits_behind(connection: apsw.Connection, log: Path, known: Acknowledged | None) -> int:
    """Return how many acknowledged commits lie in the log behind where SQLite stops to read it."""
    if (found := _behind(connection, log)) is None:
        return 0
    if known is not None and known.log_mark == found.mark and found.at < known.log_pages:
        return max(found.commits, 1)  # also where its own end is what is damaged
    return found.commits if found.commits > found.torn else 0


def _behind(connection: apsw.Connection, log: Path) -> _Behind | None:
    try:
        with log.open("rb") as file:
            head = file.read(HEADER.size)
            if len(head) < HEADER.size:
                return None
            page_size, mark = HEADER.unpack(head)
            torn = _TORN_COMMITS
            if not _is_sound(head):
                # The header is on the disk before the first commit: what follows it is lost.
                _, mark = _FRAME.unpack(file.read(_FRAME.size).ljust(_FRAME.size))
                page_size, torn = connection.pragma("page_size"), 0
            read, _ = connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)
            at, size, count = max(read, 0), _FRAME.size + page_size, 0
            end = at
            while True:
                file.seek(HEADER.size + at * size)
                frame = file.read(_FRAME.size)
                if len(frame) < _FRAME.size:
                    break
                pages, its = _FRAME.unpack(frame)
                count += pages > 0 and its == mark
                at += 1
    except FileNotFoundError:
        return None
    return _Behind(mark, end, count, torn)


def _is_sound(head: bytes) -> bool:
    """Whether the header's checksum is that of its 24 bytes: sums of words, of either byte order."""
    order = ">" if head[3] & 1 else "<"
    words = struct.unpack(f"{order}6I", head[:24])
    first = second = 0
    for one, other in zip(words[::2], words[1::2], strict=True):
        first = (first + one + second) & 0xFFFFFFFF
        second = (second + other + first) & 0xFFFFFFFF
    return struct.unpack(">2I", head[24:32]) == (first, second)
