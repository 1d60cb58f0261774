"""Rescue of a damaged store: what is whole goes into a new one, and what is not is listed.

A session is taken up to its first event that is missing or can't be read. What came after it is unknown,
so nothing of such a session acts: calls that were open may have had their effects, remembered answers may
have been revoked, and it may have read what strangers wrote. If the end of the log is lost, that holds for
all sessions. The new store has an epoch of its own, so clients start over.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import apsw
import msgspec

from ..disk.data_lock import DataLock
from ..errors import ConflictError, StorageError
from ..events import DurableEvent, GrantRevoked, SessionCreated, SessionTainted
from ..identity import now_ms
from ..store.codec import decode_event, has_checksums, is_sound
from ..store.file import DATABASE_NAME, check_partial_indexes, examine, stored_path
from ..store.health.last_commit import has_last
from ..store.ledger import Ledger, PreparedAppend, storage_error
from ..store.migrations import check_version, migrate
from ..store.queries import Queries
from ..store.recovery import closing_events
from ..store.restore import finish_restore
from ..store.rows import Append, CallRow
from ..text import UNDECODABLE
from .backup import put_in_place
from .salvage import UNREADABLE, copy_with_log, readable_rows

COPY_NAME = "callboard.damaged.db"
"""The copy of the store that is read, with its log in it."""
EVENTS_IN_A_COMMIT = 500
"""More at once save little, and take memory."""

_EVENTS = "select id, event, session, seq, at_ms, {} from events where id > ? order by id"
_SESSIONS = "select id, session_id, head_seq from sessions where id > ? order by id"
_NAMES = "select id, session_id from sessions indexed by sqlite_autoindex_sessions_1"


class Rescued(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a damaged store.

    Attributes:
        problem: What was wrong with it.
        kept: Where it is now, with its log beside it.
        whole: How many sessions the new store has with all their events.
        cut: The sessions that it has in part: id, events that are there, and events on record if known.
        lost: The sessions of which nothing could be read.
    """

    problem: str
    kept: str
    whole: int
    cut: tuple[tuple[str, int, int | None], ...]
    lost: tuple[str, ...]


def rescue(folder: Path) -> Rescued:
    """Replace a damaged store by a new one with all that is whole; the damaged one is kept beside it.

    Needs room on the disk for two copies.

    Raises:
        NotFoundError: There is no store.
        DataInUse: A process works with the data folder.
        ConflictError: Nothing is wrong with the store; it was not changed.
        StorageError: Nothing can be read of it, or there is no room; it was not changed.
    """
    path, copy = folder / DATABASE_NAME, folder / COPY_NAME
    stored_path(folder)
    lock = DataLock(folder)
    try:
        finish_restore(folder, path)
        problem = _problem(folder)
        os.close(os.open(copy, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600))
        copy_with_log(path, copy)
        with closing(_open(copy)) as damaged:
            check_version(damaged, str(path))
            problem = problem or _hidden_problem(damaged, path)
            found = _Rescue(damaged, problem, has_end=has_last(damaged, path))
            kept = put_in_place(folder, found.fill)
        return found.report(kept)
    except apsw.Error as error:
        raise storage_error(str(path), error) from error
    except OSError as error:
        raise StorageError(
            f"{path} can't be rescued: {error.strerror or error}. It was not changed."
        ) from error
    finally:
        copy.unlink(missing_ok=True)
        lock.release()


def _problem(folder: Path) -> str:
    try:
        examine(folder, is_in_use=False)
    except StorageError as error:
        return str(error)
    return ""


def _hidden_problem(damaged: apsw.Connection, path: Path) -> str:
    """Return what only a check of all indexes and references finds, which takes too long for a start."""
    try:
        finding = damaged.execute("pragma integrity_check(1)").get
        if finding == "ok" and (orphan := damaged.execute("pragma foreign_key_check").fetchone()):
            finding = f"a row of {orphan[0]} belongs to nothing"
        check_partial_indexes(damaged)
    except UNREADABLE as error:
        finding = error
    return "" if finding == "ok" else f"{path} is damaged ({finding})"


def _open(path: Path) -> apsw.Connection:
    uri = f"{path.absolute().as_uri()}?immutable=1"
    connection = apsw.Connection(uri, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
    connection.pragma("writable_schema", True)  # of a damaged schema, what can be read is read
    return connection


def _decoded(data: object) -> DurableEvent | None:
    if not isinstance(data, bytes):  # a damaged row may have anything anywhere
        return None
    try:
        return decode_event(data)
    except UNDECODABLE:
        return None


def _started(call: CallRow) -> CallRow:
    """Return a call of which nobody knows whether it has had its effect."""
    return msgspec.structs.replace(call, started_at_ms=call.started_at_ms or call.proposed_at_ms)


class _Rescue:
    """Takes what is whole from one database into another."""

    def __init__(self, damaged: apsw.Connection, problem: str, *, has_end: bool) -> None:
        self._damaged = damaged
        self._problem = problem
        self._has_end = has_end
        self._names: dict[int, str] = {}
        self._heads: dict[str, int | None] = {}
        self._taken: dict[str, int] = {}
        self._cut: set[str] = set()

    def fill(self, new: Path) -> bool:
        """Fill the new store; the file versions stay with it."""
        for key, name, head in readable_rows(self._damaged, _SESSIONS):
            if isinstance(name, str):
                self._names[key] = name
                self._heads[name] = head if isinstance(head, int) else None
        self._find_names()
        connection = apsw.Connection(os.fspath(new), flags=apsw.SQLITE_OPEN_READWRITE)
        with closing(connection):
            connection.pragma("synchronous", "off")  # the whole file is synced at the end
            migrate(connection, str(new))
            ledger = Ledger(connection, str(new))
            batch: list[PreparedAppend] = []
            for entry in self._whole_events():
                batch.append(entry)
                if len(batch) == EVENTS_IN_A_COMMIT:
                    ledger.record(batch)
                    batch = []
            ledger.record(batch)
            for name, head in self._heads.items():
                if self._taken.get(name, 0) != head:
                    self._cut.add(name)
            if not self._problem and not self._cut:
                raise ConflictError(
                    "Nothing is wrong with the store: all its sessions are whole. It was not changed."
                )
            self._make_harmless(ledger, Queries(connection, str(new)))
        return True

    def _find_names(self) -> None:
        """Find sessions whose rows can't be read by the index of their names."""
        try:
            for key, name in self._damaged.execute(_NAMES):
                if key not in self._names and isinstance(name, str):
                    self._names[key], self._heads[name] = name, None
        except UNREADABLE:
            return  # those that were found before have their names

    def _whole_events(self) -> Iterator[PreparedAppend]:
        select = _EVENTS.format("checksum" if has_checksums(self._damaged) else "null")
        for _, *row in readable_rows(self._damaged, select):
            data, key, seq, at_ms, _ = row
            name = self._names.get(key, f"session_{key}")
            self._heads.setdefault(name, None)
            if name in self._cut:
                continue
            event = _decoded(data) if is_sound(row) else None
            is_next = seq == self._taken.get(name, 0) + 1 and isinstance(at_ms, int)
            if event is None or not is_next or isinstance(event, SessionCreated) != (seq == 1):
                self._cut.add(name)
                continue
            self._taken[name] = seq
            yield PreparedAppend(name, at_ms, [(event, data)])

    def _make_harmless(self, ledger: Ledger, queries: Queries) -> None:
        """End what is open in sessions that are not whole, and count them as tainted."""
        suspects = self._cut & set(self._taken) if self._has_end else set(self._taken)
        at_ms = now_ms()
        appends: list[Append] = [
            Append(grant.session_id, (GrantRevoked(grant_id=grant.grant_id, revoked_by="rescue"),))
            for grant in queries.grants()
            if grant.session_id in suspects
        ]
        for turn in queries.open_turns():
            if turn.session_id in suspects:
                calls = tuple(_started(each) for each in turn.calls)
                bare = msgspec.structs.replace(turn, calls=calls, approvals=(), delegated=())
                appends.append(Append(turn.session_id, closing_events(bare, at_ms)))
        tainted: DurableEvent = SessionTainted(source="rescue")
        ledger.commit([*appends, *(Append(name, (tainted,)) for name in sorted(suspects))])

    def report(self, kept: Path | None) -> Rescued:
        """Return what came of it."""
        return Rescued(
            problem=self._problem,
            kept="" if kept is None else str(kept),
            whole=len(set(self._taken) - self._cut),
            cut=tuple(
                (name, self._taken[name], self._heads[name])
                for name in sorted(self._cut & set(self._taken))
            ),
            lost=tuple(sorted(set(self._heads) - set(self._taken))),
        )
