"""The log of file versions: contents and changes in one file that only grows.

One file, so that one flush makes a change durable. A frame has a type, a length and a checksum. A crash
can leave an incomplete frame at the end, which is not read and is cut off by the next writer: no change
begins before its frame is flushed. The head of the file says how far it was flushed when the latest
change began. A broken frame before that point is damage, and is never cut off.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import heapq
import os
import struct
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator
from pathlib import Path
from threading import Lock
from weakref import WeakValueDictionary, finalize

import msgspec

from ..disk.private_folder import make_folders, sync_path
from ..errors import StorageError, StorageFull
from ..text import UNDECODABLE
from .file_versions import (
    MAX_MEMORY_BYTES,
    MAX_SESSION_BYTES,
    Change,
    ChangeEnded,
    FileState,
    KnownChange,
    known_changes,
)

FOLDER = "callboard.versions"
"""The folder in the data folder; it has a file for each session."""

CHUNK_BYTES = 1024 * 1024
"""Contents are read and written in pieces of this size; larger ones gain nothing."""

_FILE_HEAD = struct.Struct(">8sQI")
_MAGIC = b"cbundo1\n"
_HEAD_READS = 3
"""Attempts to read a head that may be written at the same time."""
_HEAD = struct.Struct(">cQI")
END_ROOM_BYTES = 128
"""Zeros behind a change that has begun, which the frame of its end replaces: a full disk can't keep it out."""
_CONTENT, _ENTRY = b"B", b"E"
_ENTRIES: msgspec.msgpack.Decoder[Change | ChangeEnded] = msgspec.msgpack.Decoder(
    Change | ChangeEnded
)


class VersionLog:
    """One log; safe to use from any thread.

    Args:
        path: The file, or `None` for a nameless one that ends with the process.
        max_bytes: The most that is kept.
    """

    def __init__(self, path: Path | None, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._path = path
        self._lock = Lock()
        self._end: int | None = None
        self._flushed = 0
        self._room = 0
        self._nameless: int | None = None

    @contextlib.contextmanager
    def draft(self) -> Generator[ChangeDraft]:
        """Yield a draft for a change and its contents; it is cut off unless `commit` was called.

        The log raises only `StorageError`, so an `OSError` is the caller's own.
        """
        with self._lock, self._opened() as fd:
            with _failures():
                if self._end is None:
                    self._begin(fd)
                assert self._end is not None
                begin = self._end
                os.ftruncate(fd, begin + self._room)
            draft = ChangeDraft(fd, begin, self._flushed, self._room)
            try:
                yield draft
            finally:
                if draft.is_committed:
                    self._end, self._flushed, self._room = draft.end, draft.flushed, draft.room
                else:
                    with _failures():
                        os.ftruncate(fd, begin)
                    with contextlib.suppress(StorageError):  # then the ends may find no room
                        _write(fd, bytes(self._room), begin)

    def _begin(self, fd: int) -> None:
        flushed = self._checked(fd)
        if not flushed:
            os.ftruncate(fd, 0)
            _write_file_head(fd, _FILE_HEAD.size)
        self._flushed = flushed or _FILE_HEAD.size
        self._end, self._room = _sound_end(fd), 0

    def _checked(self, fd: int) -> int:
        """Return how far the log was flushed, 0 if never, after checking it up to there.

        Raises:
            StorageError: The log is damaged.
        """
        flushed = _flushed(fd)
        if flushed is None or (flushed and _sound_end(fd) < flushed):
            raise StorageError(
                f"{self._path or 'The log of file versions'} is damaged: what is in it can't be "
                "undone, and nothing is added to it. Put a copy of it back, or move it away: then "
                "files can be changed again, and later changes undone."
            )
        return flushed

    def end(self, change_id: str, *, is_void: bool = False) -> None:
        """Record that a change is complete. Not flushed: if lost, the change counts as cut off."""
        with self.draft() as draft:
            draft.room = max(0, draft.room - END_ROOM_BYTES)
            draft.add(ChangeEnded(change_id=change_id, is_void=is_void))
            draft.is_committed = True

    def entries(self) -> list[Change | ChangeEnded]:
        """Return all entries in order; raise `StorageError` if the file is damaged."""
        with self._read() as fd:
            if fd is None or not self._checked(fd):
                return []
            try:
                return list(_entries(fd))
            except UNDECODABLE as error:
                raise StorageError(
                    f"{self._path} was written by another version of callboard."
                ) from error

    def content(self, state: FileState) -> Iterator[bytes]:
        """Yield a kept content in pieces; raise `StorageError` at the end if its digest is wrong."""
        digest = hashlib.sha256()
        left = state.size_bytes
        with self._read() as fd:
            at = state.kept_at
            while left and fd is not None and at is not None:
                piece = os.pread(fd, min(CHUNK_BYTES, left), at)
                if not piece:
                    break
                digest.update(piece)
                at, left = at + len(piece), left - len(piece)
                yield piece
        if digest.digest() != state.digest:
            raise StorageError("A kept version is damaged and was not restored.")

    @contextlib.contextmanager
    def _opened(self) -> Generator[int]:
        if self._path is None:
            yield self._nameless_file()
            return
        with _failures():
            make_folders(self._path.parent)
            is_fresh = not self._path.exists()
            if is_fresh:
                self._end = None  # the file was removed by `VersionStore.forget`
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            fd = os.open(self._path, flags, 0o600)
        try:
            if is_fresh:
                with _failures():
                    sync_path(self._path.parent)
            yield fd
        finally:
            os.close(fd)

    @contextlib.contextmanager
    def _read(self) -> Generator[int | None]:
        if self._path is None:
            yield self._nameless_file()
            return
        try:
            fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            yield None
            return
        except OSError as error:
            raise StorageError(f"{self._path} can't be read ({error.strerror}).") from error
        try:
            yield fd
        except OSError as error:
            raise StorageError(f"{self._path} can't be read ({error.strerror}).") from error
        finally:
            os.close(fd)

    def _nameless_file(self) -> int:
        if self._nameless is None:
            import tempfile  # here: a runtime with a data folder does not need it

            with _failures(), tempfile.TemporaryFile(prefix="callboard-") as file:
                self._nameless = os.dup(file.fileno())
            finalize(self, os.close, self._nameless)
        return self._nameless


class ChangeDraft:
    """An addition to a log; made by `VersionLog.draft`."""

    def __init__(self, fd: int, begin: int, flushed: int, room: int) -> None:
        self.end = begin
        self.flushed = flushed
        self.room = room
        self.is_committed = False
        self._fd = fd

    def keep(self, pieces: Iterator[bytes], size_bytes: int) -> tuple[int, int, hashlib._Hash]:
        """Write a content of at most this size; return its position, its size and its digest."""
        head_at, digest, taken = self.end, hashlib.sha256(), 0
        at = head_at + _HEAD.size
        for piece in pieces:
            piece = piece[: size_bytes - taken]
            _write(self._fd, piece, at + taken)
            digest.update(piece)
            taken += len(piece)
            if taken >= size_bytes:
                break
        _write(self._fd, _HEAD.pack(_CONTENT, taken, 0), head_at)
        self.end = at + taken
        return at, taken, digest

    def commit(self, change: Change, *, has_happened: bool = False) -> None:
        """Make the draft durable; after that the change may happen, and its end has its room."""
        self.room += 0 if has_happened else END_ROOM_BYTES
        self.add(change)
        if has_happened:
            self.add(ChangeEnded(change_id=change.change_id))
        _write_file_head(self._fd, self.flushed)
        with _failures():
            os.fsync(self._fd)
        self.flushed = self.end
        self.is_committed = True

    def add(self, entry: Change | ChangeEnded) -> None:
        """Append an entry, with the room that is kept behind it."""
        data = msgspec.msgpack.encode(entry)
        frame = _HEAD.pack(_ENTRY, len(data), zlib.crc32(data)) + data
        _write(self._fd, frame + bytes(self.room), self.end)
        self.end += len(frame)


class VersionStore:
    """The logs of a runtime's sessions.

    Args:
        data: The data folder, or `None` for a runtime in memory, whose sessions share a nameless file.
    """

    def __init__(self, data: Path | None) -> None:
        self._folder = None if data is None else data / FOLDER
        self._shared = VersionLog(None, MAX_MEMORY_BYTES) if data is None else None
        self._logs: WeakValueDictionary[str, VersionLog] = WeakValueDictionary()

    @property
    def is_on_disk(self) -> bool:
        """Whether each session has a file."""
        return self._folder is not None

    def log(self, session_id: str) -> VersionLog:
        """Return the log of a session; all who use it at one time share the object."""
        if self._folder is None:
            assert self._shared is not None
            return self._shared
        if (known := self._logs.get(session_id)) is not None:
            return known
        folder = self._folder_of(session_id)
        assert folder is not None
        path = folder / f"{session_id}.log"
        return self._logs.setdefault(session_id, VersionLog(path, MAX_SESSION_BYTES))

    def place(self, session_id: str, workspace: str) -> None:
        """Take note where a session works that was loaded; see `shared_versions`."""

    def _folder_of(self, session_id: str) -> Path | None:
        return self._folder

    def open_aside(self) -> int:
        """Open a nameless file that other users can't read; raise `OSError` if that fails."""
        import tempfile  # here: few calls need it

        if self._folder is not None:
            make_folders(self._folder)
        with tempfile.TemporaryFile(prefix="callboard-", dir=self._folder) as file:
            return os.dup(file.fileno())

    def sessions(self) -> list[str]:
        """Return the sessions that have a log of their own; none in memory. Raises `StorageError`."""
        return [] if self._folder is None else self._listed(self._folder)

    def _listed(self, folder: Path) -> list[str]:
        with _failures():
            try:
                return [name[:-4] for name in os.listdir(folder) if name.endswith(".log")]
            except FileNotFoundError:
                return []  # nothing was changed yet

    def forget(self, session_ids: Iterable[str]) -> None:
        """Remove the logs of sessions; does nothing in memory. Raises `StorageError`."""
        if self._folder is not None:
            self._forget_in(self._folder, session_ids)

    def _forget_in(self, folder: Path, session_ids: Iterable[str]) -> None:
        with _failures():
            for session_id in session_ids:
                (folder / f"{session_id}.log").unlink(missing_ok=True)

    def changes(self, *session_ids: str) -> list[KnownChange]:
        """Return the changes of sessions, by their time. Blocks; raises `StorageError`.

        A change knows what it replaces, so a clock that went back makes a wrong order of two sessions a conflict.
        """
        each = map(self._changes, session_ids)
        return list(heapq.merge(*each, key=lambda known: known.change.at_ms))

    def _changes(self, session_id: str) -> list[KnownChange]:
        entries = self.log(session_id).entries()
        ours = {
            e.change_id for e in entries if isinstance(e, Change) and e.session_id == session_id
        }
        return known_changes([entry for entry in entries if entry.change_id in ours])


def _write_file_head(fd: int, flushed: int) -> None:
    place = flushed.to_bytes(8, "big")
    _write(fd, _FILE_HEAD.pack(_MAGIC, flushed, zlib.crc32(_MAGIC + place)), 0)


def has_whole_head(data: bytes) -> bool:
    """Whether a log begins with a consistent head, not with halves of two."""
    return _flushed_of(data[: _FILE_HEAD.size]) is not None


def _flushed(fd: int) -> int | None:
    reads = (_flushed_of(os.pread(fd, _FILE_HEAD.size, 0)) for _ in range(_HEAD_READS))
    return next((flushed for flushed in reads if flushed is not None), None)


def _flushed_of(head: bytes) -> int | None:
    """Return how far a log with this head was flushed; 0 if never, `None` if it is damaged."""
    if len(head) < _FILE_HEAD.size or not any(head):
        return 0
    magic, flushed, checksum = _FILE_HEAD.unpack(head)
    return int(flushed) if magic == _MAGIC and zlib.crc32(head[:16]) == checksum else None


def _frames(fd: int) -> Iterator[tuple[int, bytes | None]]:
    """Yield where each complete frame ends, and its data if it is an entry."""
    at, size = _FILE_HEAD.size, os.fstat(fd).st_size
    while at + _HEAD.size <= size:
        sign, length, checksum = _HEAD.unpack(os.pread(fd, _HEAD.size, at))
        at += _HEAD.size
        if sign not in {_CONTENT, _ENTRY} or at + length > size:
            return
        data = os.pread(fd, length, at) if sign == _ENTRY else None
        if checksum != (0 if data is None else zlib.crc32(data)):  # contents have a digest instead
            return  # never flushed: the change did not begin
        at += length
        yield at, data


def _entries(fd: int) -> Iterator[Change | ChangeEnded]:
    for _, data in _frames(fd):
        if data is not None:
            yield _ENTRIES.decode(data)


def _sound_end(fd: int) -> int:
    """Return where the last complete frame ends."""
    end = _FILE_HEAD.size
    for at, _ in _frames(fd):
        end = at
    return end


def _write(fd: int, data: bytes, at: int) -> None:
    rest = memoryview(data)
    with _failures():
        while rest:
            written = os.pwrite(fd, rest, at)
            rest, at = rest[written:], at + written


@contextlib.contextmanager
def _failures() -> Generator[None]:
    """Turn an `OSError` of the block into a `StorageError`."""
    try:
        yield
    except OSError as error:
        kind = StorageFull if error.errno in {errno.ENOSPC, errno.EDQUOT} else StorageError
        raise kind(f"The log of file versions can't be written ({error.strerror}).") from error


class CallVersions(msgspec.Struct, frozen=True, kw_only=True):
    """Where the versions of one call go.

    Attributes:
        log: The session's log.
        session_id, call_id: The call whose changes these are.
        is_marked: Whether a path, relative to the workspace, may hold untrusted content.
        open_aside: Opens a nameless file for copies that may not be needed; raises `OSError`.
    """

    log: VersionLog
    session_id: str
    call_id: str
    is_marked: Callable[[str], bool]
    open_aside: Callable[[], int]
