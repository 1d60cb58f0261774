"""One database of events and rows: its transaction, without a thread and without a file's name.

Both stores run this; they differ in where it runs and in what they open.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import apsw
import msgspec

from .errors import ConflictError, NotFoundError, StorageError, StorageFull, ValidationError
from .event_codec import encode_event
from .events import DurableEvent, SessionCreated, Stored
from .projection import Projection
from .store import Append, CommitResult

UNSTORABLE = (OverflowError, TypeError, apsw.ConstraintError)
"""What SQLite says to a value that no column takes: the append's fault, not the disk's."""

Prepared = list[tuple[DurableEvent, bytes]] | ValidationError
Projections = dict[str, Projection]
"""Of the sessions that a transaction has touched, by id."""


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
            return StorageError(
                f"The disk failed under {name} ({error}). Nothing of this was stored. Check the "
                "disk before you go on."
            )
        case apsw.BusyError() | apsw.LockedError():
            return StorageError(
                f"Another program holds {name} locked ({error}). Close it and try again."
            )
    return StorageError(f"{name} failed: {error}")


class Ledger:
    """The one writer of a migrated database.

    Not safe to call from two threads at once. Every method raises `StorageError` when the
    database fails, and can be called again after that.
    """

    def __init__(
        self, connection: apsw.Connection, name: str, now_ms: Callable[[], int] = wall_clock_ms
    ) -> None:
        self._connection = connection
        self._name = name
        self._now_ms = now_ms

    def commit(self, appends: Sequence[Append]) -> list[CommitResult]:
        """See `Store.commit`."""
        prepared = [_prepare(append) for append in appends]
        try:
            try:
                return self._transact(appends, prepared, self._append)
            except UNSTORABLE:
                # Which append it was is only known by storing each under a savepoint.
                return self._transact(appends, prepared, self._append_apart)
        except apsw.Error as error:
            raise storage_error(self._name, error) from error

    def _transact(
        self,
        appends: Sequence[Append],
        prepared: Sequence[Prepared],
        store: Callable[[str, Sequence[tuple[DurableEvent, bytes]], Projections], CommitResult],
    ) -> list[CommitResult]:
        execute = self._connection.execute
        execute("begin immediate")
        try:
            projections: Projections = {}
            results = [
                events
                if isinstance(events, ValidationError)
                else store(append.session_id, events, projections)
                for append, events in zip(appends, prepared, strict=True)
            ]
            for projection in projections.values():
                projection.save()
            execute("commit")
        finally:
            # SQLite has already rolled back on some errors (a full disk), not on others.
            if self._connection.in_transaction:
                execute("rollback")
        return results

    def _append_apart(
        self,
        session_id: str,
        events: Sequence[tuple[DurableEvent, bytes]],
        projections: Projections,
    ) -> CommitResult:
        self._connection.execute("savepoint append")
        own: Projections = {}
        try:
            result = self._append(session_id, events, own)
            for projection in own.values():
                projection.save()
        except UNSTORABLE as error:
            self._connection.execute("rollback to append")
            what = "an integer beyond 64 bits" if isinstance(error, OverflowError) else error
            result = ValidationError(
                f"An event of session {session_id} can't be stored: it holds {what}."
            )
        self._connection.execute("release append")
        return result

    def _append(
        self,
        session_id: str,
        events: Sequence[tuple[DurableEvent, bytes]],
        projections: Projections,
    ) -> CommitResult:
        """Appends of one session share its projection, which is saved once, behind the last."""
        now_ms = self._now_ms()
        projection = projections.get(session_id)
        if projection is None:
            projection = Projection.load(self._connection, session_id, now_ms)
        # A refusal comes before the first write, so that there is nothing to take back.
        creations = [type(event) is SessionCreated for event, _ in events]
        if projection is None and not any(creations[:1]):
            return NotFoundError(f"There is no session {session_id}.")
        if any(creations if projection is not None else creations[1:]):
            return ConflictError(f"Session {session_id} exists already.")
        if projection is None:
            created = events[0][0]
            assert isinstance(created, SessionCreated)
            projection = Projection.create(self._connection, session_id, created, now_ms)
        projection.now_ms = now_ms
        projections[session_id] = projection
        return tuple(
            Stored(session_id, projection.head_seq, now_ms, event)
            for event, data in events
            if projection.apply(event) and projection.keep(data)
        )


def _prepare(append: Append) -> Prepared:
    """Encodes before the transaction, so that the lock is not held for it."""
    try:
        append.session_id.encode()
        return [encode_event(event) for event in append.events]
    except UnicodeEncodeError:
        return ValidationError("A session id must be valid Unicode.", field="session_id")
    except ValidationError as error:
        return error
