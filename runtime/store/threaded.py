"""A store that blocks: its writer in a worker thread, and readers that never wait for it.

Both stores that keep something are of this kind. Threads are borrowed from Trio for one call at a time, so a
store that was not closed can't keep a process alive; docs/decisions/0002-one-sql-layer.md has the figures. A
commit uses `start_thread_soon` and not `to_thread`: the latter also names the thread and carries context
variables and cancellation, which takes as long as the SQL of a commit, and a commit needs none of it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

import trio

from ..errors import StorageError
from ..events import Stored
from .health.store_health import StoreHealth
from .interface import Committed, Store, StoreReader
from .ledger import Ledger
from .migrations import note_copy
from .queries import Queries
from .rows import Append, CommitResult
from .tables.search import index_step

if TYPE_CHECKING:
    from outcome import Outcome

    from .tables.connection import SqlConnection

    class Closable(SqlConnection, Protocol):
        """A connection that is closed in the end."""

        def close(self) -> None:
            """Close it."""


_Result = TypeVar("_Result")


_Connection = TypeVar("_Connection", bound="Closable")


class ThreadedReader(StoreReader, Generic[_Connection]):
    """Read-only connections, each used by one read at a time.

    Args:
        name: What errors call the database.
        health: Counts reads, and learns how they end.
        max_readers: How many connections read at once.
    """

    def __init__(self, name: str, health: StoreHealth, max_readers: int) -> None:
        self.health = health
        self._name = name
        self._is_closed = False
        self._max_readers = max_readers
        self._limiter = trio.CapacityLimiter(max_readers)
        # A stack. The second connection is opened when two reads overlap for the first time.
        self._idle = [self._open()]

    def _make_queries(self, connection: _Connection, name: str) -> Queries:
        return Queries(connection, name)

    @abstractmethod
    def _open(self) -> _Connection:
        """Open a connection that can only read."""

    async def _run(self, query: Callable[[Queries], _Result]) -> _Result:
        self._check_open()
        begun = self.health.begin()
        try:
            answer = await trio.to_thread.run_sync(self._read_sync, query, limiter=self._limiter)
        except StorageError as error:
            self.health.read(error)
            raise
        finally:
            self.health.end(begun)
        self.health.read(None)
        return answer

    def _read_sync(self, query: Callable[[Queries], _Result]) -> _Result:
        self._check_open()
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = self._open()
        try:
            return query(self._make_queries(connection, self._name))
        finally:
            self._keep(connection)

    def _keep(self, connection: _Connection) -> None:
        """Keep a connection for the next read."""
        self._idle.append(connection)

    def _check_open(self) -> None:
        if self._is_closed:
            raise StorageError(f"The store {self._name} is closed.")

    async def aclose(self) -> None:
        """Wait for running reads and refuse later ones. Idempotent."""
        if self._is_closed:
            return
        self._is_closed = True
        with trio.CancelScope(shield=True):
            for _ in range(self._max_readers):
                await self._limiter.acquire_on_behalf_of(object())
            # Never Trio's shared limiter: hanging tools may hold all of it.
            await trio.to_thread.run_sync(self._close_idle, limiter=trio.CapacityLimiter(1))

    def _close_idle(self) -> None:
        with suppress(IndexError):  # another thread has taken the last one
            while True:
                self._idle.pop().close()


class ThreadedStore(ThreadedReader[_Connection], Store):
    """The readers, and the one connection that writes.

    `_ledger` is made by the store itself, before anything is written.
    """

    is_slow = True

    def __init__(self, name: str, health: StoreHealth, max_readers: int) -> None:
        super().__init__(name, health, max_readers)
        self._ledger: Ledger
        self._writing = trio.CapacityLimiter(1)

    async def commit(self, appends: Sequence[Append]) -> list[CommitResult]:
        """See `Store.commit`."""
        return await self._write(partial(self._commit, appends))

    def _commit(self, appends: Sequence[Append]) -> list[CommitResult]:
        room = self.health.room_to_write()
        return room.commit(self._ledger.commit, appends, self._ledger.touch)

    def commit_soon(self, appends: Sequence[Append], done: Committed) -> bool:
        """See `Store.commit_soon`."""
        try:
            self._check_sound()
        except StorageError as error:
            done(error)
            return True
        try:
            self._writing.acquire_on_behalf_of_nowait(done)
        except trio.WouldBlock:
            return False
        health, begun = self.health, self.health.begin()
        work = partial(self._commit, appends)
        token = trio.lowlevel.current_trio_token()

        def end(results: Outcome[list[CommitResult]]) -> None:
            health.end(begun)
            self._writing.release_on_behalf_of(done)
            error = getattr(results, "error", None)  # of `outcome.Error`
            done(results.unwrap() if error is None else error)

        def deliver(results: Outcome[list[CommitResult]]) -> None:
            token.run_sync_soon(end, results)

        trio.lowlevel.start_thread_soon(work, deliver)
        return True

    async def bring_in(self, events: Sequence[Stored]) -> list[Stored]:
        """See `Store.bring_in`."""
        self.health.check()
        return await self._write(partial(self._ledger.bring_in, events))

    async def index_words(self) -> bool:
        """See `Store.index_words`."""
        return await self._write(partial(self._ledger.keep_up, index_step))

    async def note_copy(self, source: str | None) -> None:
        """Mark the store as a copy of a source that has begun; `None` says that it is whole."""
        await self._write(partial(self._ledger.keep_up, partial(note_copy, source)))

    async def purge(self, session_ids: Sequence[str]) -> list[Stored]:
        """See `Store.purge`."""
        purge = partial(self._ledger.purge, session_ids)
        return await self._write(lambda: self.health.room_to_write().removing(purge))

    async def _write(self, work: Callable[[], _Result]) -> _Result:
        self._check_sound()
        begun = self.health.begin()
        try:
            try:
                self._writing.acquire_nowait()
            except trio.WouldBlock:
                with trio.CancelScope(shield=True):
                    await self._writing.acquire()
            try:
                return await _uninterrupted(work)
            finally:
                self._writing.release()
        finally:
            self.health.end(begun)

    def _check_sound(self) -> None:
        """Raise `StorageError` if nothing can be written."""
        self._check_open()

    async def aclose(self) -> None:
        """Wait for what runs, and close all connections. Idempotent."""
        if self._is_closed:
            return
        try:
            # The writer last: closing SQLite's last connection writes the log back into the file.
            await super().aclose()
        finally:
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(self._close_writer, limiter=self._writing)

    @abstractmethod
    def _close_writer(self) -> None:
        """Close the connection that writes."""


async def _uninterrupted(work: Callable[[], _Result]) -> _Result:
    """Run `work` in a worker thread; neither cancellable nor a checkpoint. Bounded by the disk.

    So the last events of a cancelled turn are stored too, and the turn learns whether they were.
    """
    token = trio.lowlevel.current_trio_token()
    task = trio.lowlevel.current_task()

    def deliver(outcome: Outcome[_Result]) -> None:
        token.run_sync_soon(trio.lowlevel.reschedule, task, outcome)

    trio.lowlevel.start_thread_soon(work, deliver)
    answer: _Result = await trio.lowlevel.wait_task_rescheduled(_go_on)
    return answer


def _go_on(_: object) -> trio.lowlevel.Abort:
    return trio.lowlevel.Abort.FAILED
