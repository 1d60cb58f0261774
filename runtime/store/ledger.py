"""One database of events and rows: its transaction, without a thread and without a file's name.

Both stores run this; they differ in where it runs and in what they open.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import NamedTuple, TypeVar

import apsw
import msgspec

from ..errors import (
    ConflictError,
    DiskBroken,
    NotFoundError,
    StorageError,
    StorageFull,
    ValidationError,
)
from ..events import (
    CallStarted,
    DurableEvent,
    InputAccepted,
    MemoryForgotten,
    MemoryStored,
    SessionCreated,
    Stored,
    TitleSet,
    TurnSetAside,
)
from .codec import encode_event
from .projection import Projection
from .rows import Append, CommitResult
from .tables.memories import memory_problem
from .tables.permissions import GUARDED, PermissionCheck
from .tables.purge import purge_sessions
from .tables.requests import duplicate

SEEN_AT_MS = """
select max(seen) from (
  select max(asked_at_ms) as seen from approvals where state in ('waiting', 'allowed')
  union all
  select max(at_ms) from events where id >= (
    select min(e.id) from approvals a join events e on e.session = a.session and e.seq = a.asked_seq
    where a.state in ('waiting', 'allowed')))
"""
"""The latest time on record since the first question that is open was asked; null without one."""


class LedgerClock:
    """The time that expiries are held against: it never goes back, whatever the wall clock does.

    It goes on with the wall clock, and by itself where that stands still or jumps back; from one
    process to the next too, as far as what is stored since a question was asked tells.
    """

    def __init__(self, connection: apsw.Connection, monotonic: Callable[[], float]) -> None:
        self._connection = connection
        self._monotonic = monotonic
        self._read_at = 0.0
        self._latest_ms: int | None = None

    def read(self, wall_ms: int) -> int:
        """The time, given what the wall clock says."""
        now = self._monotonic()
        if self._latest_ms is None:
            latest = int(self._connection.execute(SEEN_AT_MS).get or 0)
        else:
            latest = self._latest_ms + int((now - self._read_at) * 1000)
        self._read_at = now
        self._latest_ms = max(latest, wall_ms)
        return self._latest_ms


Done = TypeVar("Done")

_NOT_KEPT = (apsw.SQLITE_IOERR_FSYNC, apsw.SQLITE_IOERR_DIR_FSYNC)
"""After a failed fsync the system may hold what the disk never got: trying again shows nothing."""

Projections = dict[str, Projection]
"""Of the sessions that a transaction has touched, by id."""


class PreparedAppend(NamedTuple):
    """The events of one append, with the bytes that are kept of them.

    `is_guarded` says that the permission tables decide whether it may be stored.
    """

    session_id: str
    at_ms: int
    events: list[tuple[DurableEvent, bytes]]
    is_guarded: bool = False


def wall_clock_ms() -> int:
    """Now, in Unix milliseconds."""
    return time.time_ns() // 1_000_000


def storage_error(name: str, error: apsw.Error | msgspec.MsgspecError) -> StorageError:
    """What a failure of SQLite means for whoever reads it; `name` is the database's."""
    match error:
        case apsw.FullError():
            return StorageFull(
                f"There is no room for {name}: the disk is full. Nothing of this was stored. Free "
                "some space and try again."
            )
        case apsw.NotADBError() | apsw.CorruptError() | msgspec.MsgspecError():
            return StorageError(
                f"{name} is damaged ({error}); it was left as it is. Restore it from a backup, or "
                "move it away to start with an empty one."
            )
        case apsw.ReadOnlyError() | apsw.PermissionsError() | apsw.CantOpenError():
            return StorageError(
                f"{name} can't be opened or written ({error}). Check the permissions of the file "
                "and of its folder."
            )
        case apsw.IOError():
            is_lost = getattr(error, "extendedresult", 0) in _NOT_KEPT
            return (DiskBroken if is_lost else StorageError)(
                f"The disk failed under {name} ({error}). Nothing of this was stored. Check the "
                "disk before you go on."
            )
        case apsw.BusyError() | apsw.LockedError():
            return StorageError(
                f"Another program holds {name} locked ({error}). Close it and try again."
            )
    return StorageError(f"{name} failed: {error}")


def too_large(error: OverflowError) -> ValidationError:
    """What the refusal of a number by SQLite means for whoever gave it."""
    return ValidationError(f"A number is beyond 64 bits, which is all that can be stored: {error}.")


def _write_version(connection: apsw.Connection) -> None:
    connection.pragma("user_version", connection.pragma("user_version"))


class Ledger:
    """The one writer of a migrated database.

    Not safe to call from two threads at once. Every method raises `StorageError` when the
    database fails, and can be called again after that.
    """

    def __init__(
        self,
        connection: apsw.Connection,
        name: str,
        now_ms: Callable[[], int] = wall_clock_ms,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connection = connection
        self._name = name
        self._now_ms = now_ms
        self._clock = LedgerClock(connection, monotonic)

    def commit(self, appends: Sequence[Append]) -> list[CommitResult]:
        """See `Store.commit`."""
        # Encoded before the transaction, so that the lock is not held for it.
        return self.record(prepare(appends, self._now_ms()))

    def record(self, entries: Sequence[PreparedAppend | ValidationError]) -> list[CommitResult]:
        """Stores what was prepared in one transaction; what was refused passes through.

        Raises `ValidationError` for a number that no column takes; nothing is stored then.
        """
        try:
            return self._transact(entries)
        except apsw.Error as error:
            raise storage_error(self._name, error) from error
        except OverflowError as error:
            raise too_large(error) from error

    def bring_in(self, events: Sequence[Stored]) -> list[Stored]:
        """See `RecordUpkeep.bring_in`."""
        results = self.record(imported_entries(events))
        return [stored for result in results if isinstance(result, tuple) for stored in result]

    def keep_up(self, work: Callable[[apsw.Connection], Done]) -> Done:
        """Has work done on the database that is no event: a transaction of its own."""
        try:
            return work(self._connection)
        except apsw.Error as error:
            raise storage_error(self._name, error) from error

    def touch(self) -> None:
        """Writes something that changes nothing: a commit that reaches the disk."""
        self.keep_up(_write_version)

    def purge(self, session_ids: Sequence[str]) -> list[Stored]:
        """See `RecordUpkeep.purge`."""
        at_ms = self._now_ms()
        return self.keep_up(lambda connection: purge_sessions(connection, session_ids, at_ms))

    def _transact(self, entries: Sequence[PreparedAppend | ValidationError]) -> list[CommitResult]:
        execute = self._connection.execute
        execute("begin immediate")
        try:
            projections: Projections = {}
            results = [
                self._append(entry, projections) if isinstance(entry, PreparedAppend) else entry
                for entry in entries
            ]
            for projection in projections.values():
                projection.save()
            execute("commit")
        finally:
            # SQLite has already rolled back on some errors (a full disk), not on others.
            if self._connection.in_transaction:
                execute("rollback")
        return results

    def _append(self, entry: PreparedAppend, projections: Projections) -> CommitResult:
        """Appends of one session share its projection, which is saved once, behind the last."""
        session_id, at_ms, events, is_guarded = entry
        projection = projections.get(session_id)
        if projection is None:
            projection = Projection.load(self._connection, session_id, at_ms)
        # A refusal comes before the first write, so that there is nothing to take back.
        refused = refusal(entry, exists=projection is not None)
        if refused is None and is_guarded:
            refused = self._guard(entry, projection)
        if refused is not None:
            return refused
        if projection is None:
            created = events[0][0]
            assert isinstance(created, SessionCreated)
            projection = Projection.create(self._connection, session_id, created, at_ms)
        projection.now_ms = at_ms
        projection.clock_ms = self._clock.read(at_ms) if is_guarded else at_ms
        projections[session_id] = projection
        return tuple(
            Stored(session_id, projection.head_seq, at_ms, event)
            for event, data in events
            if projection.apply(event) and projection.keep(event, data)
        )

    def _guard(self, entry: PreparedAppend, projection: Projection | None) -> ConflictError | None:
        """What answers, starts and grants may not do: see `PermissionCheck`."""
        key, is_tainted = (projection.key, projection.is_tainted) if projection else (None, 0)
        now_ms = self._clock.read(entry.at_ms)
        check = PermissionCheck(self._connection, key, now_ms, is_tainted=bool(is_tainted))
        refused = check.problem(event for event, _ in entry.events) or duplicate(
            (event for event, _ in entry.events), self._connection
        )
        if refused is not None:
            return refused
        problem = memory_problem(self._connection, (event for event, _ in entry.events))
        return ConflictError(problem) if problem is not None else None


def prepare(appends: Sequence[Append], at_ms: int) -> list[PreparedAppend | ValidationError]:
    """What can be stored of each append, or why it can't be; touches no database."""
    return [_prepare(append, at_ms) for append in appends]


def imported_entries(events: Sequence[Stored]) -> list[PreparedAppend]:
    """Events at their own times, with nothing that the permission tables would decide about."""
    entries: list[PreparedAppend] = []
    for (session_id, at_ms), group in groupby(events, lambda each: (each.session_id, each.at_ms)):
        (entry,) = prepare([Append(session_id, tuple(each.event for each in group))], at_ms)
        if not isinstance(entry, PreparedAppend):
            raise entry
        entries.append(entry._replace(is_guarded=False))
    return entries


def refusal(entry: PreparedAppend, *, exists: bool) -> NotFoundError | ConflictError | None:
    """Why an append to a session that exists, or does not, is left out."""
    creations = [type(event) is SessionCreated for event, _ in entry.events]
    if not exists and not any(creations[:1]):
        return NotFoundError(f"There is no session {entry.session_id}.")
    if any(creations if exists else creations[1:]):
        return ConflictError(f"Session {entry.session_id} exists already.")
    return None


def _prepare(append: Append, at_ms: int) -> PreparedAppend | ValidationError:
    session_id = append.session_id
    try:
        session_id.encode()
        events = [encode_event(event) for event in append.events]
    except UnicodeEncodeError:
        return ValidationError("A session id must be valid Unicode.", field="session_id")
    except ValidationError as error:
        return error
    is_guarded = any(type(event) in GUARDED or _depends_on_rows(event) for event in append.events)
    return PreparedAppend(session_id, at_ms, events, is_guarded)


def _depends_on_rows(event: DurableEvent) -> bool:
    """Whether rows decide what becomes of an event, so that they must be up to date first.

    That is an allowed start, a late answer, a memory, a request with an idempotency key.
    """
    match event:
        case CallStarted():
            return bool(event.approval_id)
        case InputAccepted():
            return bool(event.approval_id or event.child_id or event.request)
        case SessionCreated() | TurnSetAside():
            return event.request is not None
        case MemoryStored() | MemoryForgotten():
            return True
        case TitleSet():
            return event.is_by_model
    return False
