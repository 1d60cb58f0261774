"""The ledger: the one writer of a database, and what a commit does in its transaction.

Both stores use it; they differ in the thread that runs it and in the database that they open.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple, TypeVar

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
    MessagesDeleted,
    SessionCreated,
    Stored,
    TitleSet,
    TurnSetAside,
)
from .codec import encode_event
from .projection import LateRows, Projection
from .rows import Append, CommitResult, Refusal
from .tables.memories import memory_problem
from .tables.permissions import GUARDED, PermissionCheck
from .tables.purge import purge_sessions
from .tables.requests import duplicate

if TYPE_CHECKING:
    from .health.last_commit import LastCommit
    from .tables.connection import SqlConnection

SEEN_AT_MS = """
select max(seen) from (
  select max(asked_at_ms) as seen from approvals where state in ('waiting', 'allowed')
  union all
  select max(at_ms) from events where id >= (
    select min(e.id) from approvals a join events e on e.session = a.session and e.seq = a.asked_seq
    where a.state in ('waiting', 'allowed'))) as times
"""
"""The latest recorded time since the first open question was asked; null without an open question."""


class LedgerClock:
    """The clock for expiries. It never goes back, so setting the wall clock back extends no approval.

    It follows the wall clock, and advances by the monotonic clock while the wall clock stands still or
    jumps back. A new process begins at the latest time on record since an open question was asked.
    """

    def __init__(self, connection: SqlConnection, monotonic: Callable[[], float]) -> None:
        self._connection = connection
        self._monotonic = monotonic
        self._read_at = 0.0
        self._latest_ms: int | None = None

    def read(self, wall_ms: int) -> int:
        """Return the time, given the wall clock's."""
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
"""After a failed fsync the kernel may drop the unwritten pages and report success the next time, so
a retry proves nothing ("fsyncgate", PostgreSQL 2018)."""

Projections = dict[str, Projection]
"""The projections of one transaction, by session id."""


class PreparedAppend(NamedTuple):
    """An append whose events are encoded.

    `is_guarded` says that rows decide whether it may be stored.
    """

    session_id: str
    at_ms: int
    events: list[tuple[DurableEvent, bytes]]
    is_guarded: bool = False


def wall_clock_ms() -> int:
    """Return the time in Unix milliseconds."""
    return time.time_ns() // 1_000_000


DAMAGE_ADVICE = (
    "`callboard doctor` looks at it, `callboard store rescue` writes what is whole into a new store, "
    "`callboard restore` puts a backup in its place, and `callboard store set-aside` lets you start "
    "with an empty one. Each keeps what is there now."
)
"""What to do about a damaged store."""


NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})
"""The disk is full, or the user's share of it. SQLite calls only the first one full."""


def storage_error(
    name: str,
    error: apsw.Error | msgspec.MsgspecError | UnicodeDecodeError,
    advice: str = DAMAGE_ADVICE,
    *,
    connection: SqlConnection | None = None,
) -> StorageError:
    """Return our error for one of SQLite.

    Args:
        name: The database's name.
        error: What SQLite raised.
        advice: What to do about a damaged database.
        connection: Knows what the system said of a failed write.
    """
    has_no_room = getattr(connection, "system_errno", 0) in NO_ROOM
    if has_no_room and isinstance(error, apsw.IOError | apsw.CantOpenError):
        error = apsw.FullError(str(error))
    match error:
        case apsw.FullError():
            return StorageFull(
                f"There is no room for {name}: the disk is full. Nothing of this was stored. Free "
                "some space and try again."
            )
        case apsw.NotADBError() | apsw.CorruptError() | msgspec.MsgspecError():
            return StorageError(f"{name} is damaged ({error}); it was left as it is. {advice}")
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


@contextmanager
def full_disk_named(name: str, connection: apsw.Connection) -> Generator[None]:
    """Raise `StorageFull` when the disk, or the user's share of it, is full; other errors pass."""
    try:
        yield
    except apsw.Error as error:
        named = storage_error(name, error, connection=connection)
        if isinstance(named, StorageFull):
            raise named from error
        raise


def too_large(error: OverflowError) -> ValidationError:
    """Return our error for a number that SQLite refused."""
    return ValidationError(f"A number is beyond 64 bits, which is all that can be stored: {error}.")


def _write_version(connection: SqlConnection) -> None:
    version = connection.execute("pragma user_version").get
    connection.execute(f"pragma user_version = {version}")


class Ledger:
    """The one writer of a migrated database; not safe to call from two threads at once.

    Every method raises `StorageError` if the database fails, and can be called again after that.
    """

    def __init__(
        self,
        connection: SqlConnection,
        name: str,
        now_ms: Callable[[], int] = wall_clock_ms,
        monotonic: Callable[[], float] = time.monotonic,
        last: LastCommit | None = None,
    ) -> None:
        self._connection = connection
        self._last = last
        self._name = name
        self._now_ms = now_ms
        self._clock = LedgerClock(connection, monotonic)

    def commit(self, appends: Sequence[Append]) -> list[CommitResult]:
        """See `Store.commit`."""
        # Encoded before the transaction, so that the lock is not held for it.
        return self.record(prepare(appends, self._now_ms()))

    def record(self, entries: Sequence[PreparedAppend | ValidationError]) -> list[CommitResult]:
        """Store prepared appends in one transaction; refusals among them are returned as they are.

        Raises `ValidationError`, having stored nothing, for a number that no column takes.
        """
        try:
            return self._transact(entries)
        except apsw.Error as error:
            raise storage_error(self._name, error, connection=self._connection) from error
        except OverflowError as error:
            raise too_large(error) from error

    def bring_in(self, events: Sequence[Stored]) -> list[Stored]:
        """See `Store.bring_in`."""
        results = self.record(imported_entries(events))
        return [stored for result in results if isinstance(result, tuple) for stored in result]

    def keep_up(self, work: Callable[[SqlConnection], Done]) -> Done:
        """Run work that stores no event, in a transaction of its own."""
        try:
            return work(self._connection)
        except apsw.Error as error:
            raise storage_error(self._name, error, connection=self._connection) from error

    def touch(self) -> None:
        """Commit a write that changes nothing, to find out whether the disk takes it."""
        self.keep_up(_write_version)

    def purge(self, session_ids: Sequence[str]) -> list[Stored]:
        """See `Store.purge`."""
        at_ms = self._now_ms()
        if self._last is not None:
            self._last.forget()
        purged = self.keep_up(lambda connection: purge_sessions(connection, session_ids, at_ms))
        if self._last is not None:
            self.keep_up(self._last.note_purge)
        return purged

    def _transact(self, entries: Sequence[PreparedAppend | ValidationError]) -> list[CommitResult]:
        execute = self._connection.execute
        execute("begin immediate")
        try:
            projections = Projections()
            results = self._store(entries, projections)
            execute("commit")
        finally:
            # SQLite rolls back by itself after some errors (a full disk), not after others.
            if self._connection.in_transaction:
                execute("rollback")
        if self._last is not None:
            self._note(self._last, projections)
        return results

    def _store(
        self, entries: Sequence[PreparedAppend | Refusal], projections: Projections
    ) -> list[CommitResult]:
        """Write all rows of a commit, inside its transaction."""
        late = LateRows(self._connection)
        results: list[CommitResult] = [
            self._append(entry, late, projections) if isinstance(entry, PreparedAppend) else entry
            for entry in entries
        ]
        late.flush()
        for projection in projections.values():
            projection.save()
        return results

    @staticmethod
    def _note(last: LastCommit, projections: Projections) -> None:
        """Note the last event that was stored, if there is one."""
        newest, session_id = max(
            ((each.last_event or 0, name) for name, each in projections.items()), default=(0, "")
        )
        if newest:
            projection = projections[session_id]
            last.note(newest, projection.now_ms, session_id, projection.last_data)

    def _append(
        self, entry: PreparedAppend, late: LateRows, projections: Projections
    ) -> CommitResult:
        """Store one append. Appends of one session share a projection, which is saved at the end."""
        session_id, at_ms, events, is_guarded = entry
        projection = projections.get(session_id)
        if projection is None:
            projection = Projection.load(late, session_id, at_ms)
        # Refused before the first write, so that there is nothing to roll back.
        refused = refusal(entry, exists=projection is not None)
        if refused is None and is_guarded:
            late.flush()
            refused = self._guard(entry, projection)
        if refused is not None:
            return refused
        if projection is None:
            created = events[0][0]
            assert isinstance(created, SessionCreated)
            projection = Projection.create(late, session_id, created, at_ms)
        projection.now_ms = at_ms
        projection.clock_ms = self._clock.read(at_ms) if is_guarded else at_ms
        projection.starting = frozenset(
            event.call_id for event, _ in events if type(event) is CallStarted
        )
        projections[session_id] = projection
        return tuple(
            Stored(session_id, projection.head_seq, at_ms, event)
            for event, data in events
            if projection.apply(event) and projection.keep(event, data)
        )

    def _guard(
        self, entry: PreparedAppend, projection: Projection | None
    ) -> ConflictError | NotFoundError | None:
        """Return why rows forbid an append: permissions, a repeated request, too many memories, open turns"""
        key, is_tainted = (projection.key, projection.is_tainted) if projection else (None, 0)
        now_ms = self._clock.read(entry.at_ms)
        check = PermissionCheck(self._connection, key, now_ms, is_tainted=bool(is_tainted))
        refused: ConflictError | NotFoundError | None = check.problem(
            event for event, _ in entry.events
        ) or duplicate((event for event, _ in entry.events), self._connection)
        if refused is None and any(type(event) is MessagesDeleted for event, _ in entry.events):
            from .tables.messages import undeletable  # rare, and a start imports it not

            refused = undeletable((event for event, _ in entry.events), self._connection, key)
        if refused is not None:
            return refused
        problem = memory_problem(self._connection, (event for event, _ in entry.events))
        return ConflictError(problem) if problem is not None else None


def prepare(appends: Sequence[Append], at_ms: int) -> list[PreparedAppend | ValidationError]:
    """Encode appends; return for each the prepared one, or why it can't be stored."""
    return [_prepare(append, at_ms) for append in appends]


def imported_entries(events: Sequence[Stored]) -> list[PreparedAppend]:
    """Prepare imported events with their own times; permissions are not checked for them.

    A session that a request with an idempotency key makes is made once, and refused with all that follows.
    """
    entries: list[PreparedAppend] = []
    for (session_id, at_ms, _), group in groupby(events, _commit_of):
        (entry,) = prepare([Append(session_id, tuple(each.event for each in group))], at_ms)
        if not isinstance(entry, PreparedAppend):
            raise entry
        first = entry.events[0][0]
        is_keyed = isinstance(first, SessionCreated) and first.request is not None
        entries.append(entry._replace(is_guarded=is_keyed))
    return entries


def _commit_of(stored: Stored) -> tuple[str, int, bool]:
    """Return what imported events of one commit have in common; a creation stands alone."""
    return stored.session_id, stored.at_ms, isinstance(stored.event, SessionCreated)


def refusal(entry: PreparedAppend, *, exists: bool) -> NotFoundError | ConflictError | None:
    """Return why an append must be refused, given whether its session exists."""
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
        events = list(append.encoded) or [encode_event(event) for event in append.events]
    except UnicodeEncodeError:
        return ValidationError("A session id must be valid Unicode.", field="session_id")
    except ValidationError as error:
        return error
    is_guarded = False
    for event in append.events:
        if type(event) in GUARDED or (type(event) in _DEPENDING and _depends_on_rows(event)):
            is_guarded = True
    return PreparedAppend(session_id, at_ms, events, is_guarded)


_DEPENDING = frozenset(
    {
        *(CallStarted, InputAccepted, SessionCreated, TurnSetAside),
        *(MemoryStored, MemoryForgotten, MessagesDeleted, TitleSet),
    }
)


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
        case MemoryStored() | MemoryForgotten() | MessagesDeleted():
            return True
        case TitleSet():
            return event.is_by_model
    return False
