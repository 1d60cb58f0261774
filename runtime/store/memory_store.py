"""The store in memory: for tests and for runs that keep nothing.

Most runs never read a row, and making rows costs more than all else in a commit. So events wait in a
`Backlog` and rows are made when somebody reads, when an append depends on rows (a permission, an
idempotency key), or when too many events wait. The answers are the same as if rows were made at once:
what a commit must decide without rows (the next `seq`, a second end of a call) is kept in `_Head`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from functools import cache
from typing import TYPE_CHECKING, TypeVar

import apsw

from ..errors import CallboardError, StorageError, ValidationError
from ..events import CallFinished, DurableEvent, Stored, TurnEnded
from .codec import add_check
from .health.disk_room import DiskRoom
from .health.store_health import StoreHealth
from .interface import Committed, Store
from .ledger import Done, Ledger, PreparedAppend, imported_entries, prepare, refusal, wall_clock_ms
from .migrations import NEW_EPOCH, migrate
from .queries import Queries
from .rows import Append, CommitResult
from .tables.search import index_step

if TYPE_CHECKING:
    from .tables.connection import SqlConnection

_Result = TypeVar("_Result")

MAX_WAITING_EVENTS = 1024
"""Making this many rows takes some ten milliseconds, in which nothing else runs."""

MAX_WAITING_BYTES = 1024 * 1024
"""Bounds the memory that large results use twice: as objects and encoded."""


_ENDS = frozenset({CallFinished, TurnEnded})


class _Head:
    """What decides about the next event of a session: its last `seq`, and what has ended."""

    __slots__ = ("ended_calls", "ended_turns", "seq")

    def __init__(self) -> None:
        self.seq = 0
        self.ended_calls: set[str] = set()
        self.ended_turns: set[str] = set()

    def admits(self, event: DurableEvent) -> bool:
        """Return `False` for a second end of a call or turn, as `Projection.apply` does."""
        if isinstance(event, CallFinished):
            name, ended = event.call_id, self.ended_calls
        elif isinstance(event, TurnEnded):
            name, ended = event.turn_id, self.ended_turns
        else:
            return True
        is_first = name not in ended
        ended.add(name)
        return is_first


class Backlog:
    """Events without rows, in front of the ledger of a database that was empty and is its alone."""

    def __init__(self, ledger: Ledger, now_ms: Callable[[], int]) -> None:
        self._ledger = ledger
        self._now_ms = now_ms
        self._heads: dict[str, _Head] = {}
        self._entries: list[PreparedAppend] = []
        self._stored: dict[str, list[Stored]] = {}
        self._events = 0
        self._bytes = 0

    def commit(self, appends: Sequence[Append]) -> list[CommitResult]:
        """See `Store.commit`."""
        entries = prepare(appends, self._now_ms())
        is_guarded = False
        for entry in entries:
            if isinstance(entry, PreparedAppend) and entry.is_guarded:
                is_guarded = True
        if is_guarded or self._events > MAX_WAITING_EVENTS or self._bytes > MAX_WAITING_BYTES:
            self.settle()  # first, because it may fail
        if is_guarded:
            return self._record(entries)
        return [
            self._append(entry) if isinstance(entry, PreparedAppend) else entry for entry in entries
        ]

    def settle(self) -> None:
        """Make the rows of all waiting events, or raise `StorageError` and keep them waiting."""
        if self._entries:
            self._ledger.record(self._entries)
            self._entries, self._stored, self._events, self._bytes = [], {}, 0, 0

    def keep_up(self, work: Callable[[SqlConnection], Done]) -> Done:
        """Run work that stores no event, after making all rows."""
        self.settle()
        return self._ledger.keep_up(work)

    def bring_in(self, events: Sequence[Stored]) -> list[Stored]:
        """See `Store.bring_in`."""
        self.settle()
        results = self._record(list(imported_entries(events)))
        return [stored for result in results if isinstance(result, tuple) for stored in result]

    def purge(self, session_ids: Sequence[str]) -> list[Stored]:
        """See `Store.purge`."""
        self.settle()
        purged = self._ledger.purge(session_ids)
        for session_id in session_ids:
            self._heads.pop(session_id, None)
        return purged

    def waiting(self, session_id: str) -> list[Stored]:
        """Return the events of a session that have no rows yet, in order."""
        return self._stored.get(session_id, [])

    def _record(self, entries: list[PreparedAppend | ValidationError]) -> list[CommitResult]:
        """Store appends with their rows at once."""
        results = self._ledger.record(entries)
        for result in results:
            for stored in result if isinstance(result, tuple) else ():
                head = self._heads.setdefault(stored.session_id, _Head())
                head.seq = stored.seq
                head.admits(stored.event)
        return results

    def _append(self, entry: PreparedAppend) -> CommitResult:
        head = self._heads.get(entry.session_id)
        refused = refusal(entry, exists=head is not None)
        if refused is not None:
            return refused
        if head is None:
            head = self._heads[entry.session_id] = _Head()
        session_id, at_ms = entry.session_id, entry.at_ms
        kept = [each for each in entry.events if type(each[0]) not in _ENDS or head.admits(each[0])]
        stored = [
            Stored(session_id, seq, at_ms, event)
            for seq, (event, _) in enumerate(kept, head.seq + 1)
        ]
        if kept:
            head.seq += len(kept)
            self._entries.append(PreparedAppend(session_id, at_ms, kept))
            self._stored.setdefault(session_id, []).extend(stored)
            self._events += len(kept)
            self._bytes += sum(len(data) for _, data in kept)
        return tuple(stored)


_NAME = "the store in memory"


def open_memory_store(*, now_ms: Callable[[], int] = wall_clock_ms) -> Store:
    """Open an empty store without a file or a thread.

    Its methods return at once and are no checkpoints, so tests with a mock clock don't wait for them.
    """
    return _MemoryStore(now_ms)


@cache
def _empty_store() -> bytes:
    """Return an empty store as the bytes of a file: tables are created once in a process."""
    with closing(apsw.Connection(":memory:")) as connection:
        migrate(connection, _NAME)
        return connection.serialize("main")


def _fill(connection: apsw.Connection) -> None:
    # Copied, because a deserialized database can't grow beyond the size of its buffer.
    with closing(apsw.Connection(":memory:")) as source:
        source.deserialize("main", _empty_store())
        with connection.backup("main", source, "main") as copying:
            copying.step(-1)
    add_check(connection)
    connection.execute(NEW_EPOCH)


class _MemoryStore(Store):
    # The interface is asynchronous because a disk blocks. Memory does not, so nothing awaits here.

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self.health = StoreHealth(DiskRoom(None))
        connection = apsw.Connection(":memory:")
        _fill(connection)
        connection.pragma("foreign_keys", True)
        # For rollbacks; nothing of it outlives the process.
        connection.pragma("journal_mode", "memory")
        self._connection = connection
        self._backlog = Backlog(Ledger(connection, _NAME, now_ms), now_ms)
        self._queries: Queries | None = Queries(connection, _NAME)

    async def commit(self, appends: Sequence[Append]) -> list[CommitResult]:
        return self._commit(appends)

    def commit_soon(self, appends: Sequence[Append], done: Committed) -> bool:
        try:
            ended: list[CommitResult] | BaseException = self._commit(appends)
        except CallboardError as error:
            ended = error
        done(ended)
        return True

    def _commit(self, appends: Sequence[Append]) -> list[CommitResult]:
        self._open()
        return self._backlog.commit(appends)

    async def _run(self, query: Callable[[Queries], _Result]) -> _Result:
        queries = self._open()
        self._backlog.settle()
        return query(queries)

    async def events(
        self, session_id: str, *, after_seq: int = 0, limit: int | None = None
    ) -> list[Stored]:
        # Every session reads its events when it begins, so this must not make rows.
        events = self._open().events(session_id, after_seq=after_seq, limit=limit)
        events += [s for s in self._backlog.waiting(session_id) if s.seq > after_seq]
        return events if limit is None else events[: max(limit, 0)]

    async def epoch(self) -> str:
        return self._open().epoch()

    async def bring_in(self, events: Sequence[Stored]) -> list[Stored]:
        self._open()
        return self._backlog.bring_in(events)

    async def index_words(self) -> bool:
        self._open()
        return self._backlog.keep_up(index_step)

    async def purge(self, session_ids: Sequence[str]) -> list[Stored]:
        self._open()
        return self._backlog.purge(session_ids)

    async def aclose(self) -> None:
        self._queries = None
        self._connection.close()

    def _open(self) -> Queries:
        if self._queries is None:
            raise StorageError(f"{_NAME} is closed.".capitalize())
        return self._queries
