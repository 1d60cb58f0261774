"""The store on disk: one writer in a worker thread, and readers that never wait for it.

Threads are borrowed from Trio for one call at a time, so a store that was not closed can't keep a
process alive; docs/decisions/0002-one-sql-layer.md has the figures. A commit uses
`start_thread_soon` and not `to_thread`: the latter also names the thread and carries context variables
and cancellation, which takes as long as the SQL of a commit, and a commit needs none of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import apsw
import trio

from ..disk.data_lock import DataLock
from ..errors import StorageError, StorageFull
from ..events import Stored
from .disk_room import DiskRoom
from .file import (
    DATABASE_NAME,
    DamageCheck,
    LogRoom,
    check_local,
    make_folder,
    open_reading,
    open_writer,
)
from .health.last_commit import LastCommit
from .health.store_health import StoreHealth
from .interface import Committed, Store, StoreReader
from .ledger import Ledger, storage_error, wall_clock_ms
from .queries import Queries
from .rows import Append, CommitResult
from .tables.search import index_step

if TYPE_CHECKING:
    from outcome import Outcome

MAX_READERS = 2
"""Two, so that one long read does not hold up all others; each connection takes memory."""

_CANCEL_STEPS = 20_000
"""Steps of SQLite's virtual machine between checks for a cancellation: about a millisecond."""

_Result = TypeVar("_Result")


async def open_disk_store(
    folder: Path,
    *,
    now_ms: Callable[[], int] = wall_clock_ms,
    clock: Callable[[], float] = time.monotonic,
) -> Store:
    """Open the store of a data folder for writing; create both if they are missing.

    The caller closes it. Raises `ConflictError` if another process writes there, and `StorageError` if
    the folder can't be used or lies on a network file system, or if its file is damaged, foreign or
    newer; that file is left untouched.

    A large file is looked through for damage while it is used; once some was found, nothing is written.
    """
    return await trio.to_thread.run_sync(_open_disk_store, folder, now_ms, clock)


async def open_reader(folder: Path) -> StoreReader:
    """Open the store of a data folder for reading, also while another process writes.

    The caller closes it. Raises `NotFoundError` if there is no store yet, and `StorageError` if its
    file can't be read.
    """
    return await trio.to_thread.run_sync(_DiskReader, folder)


def _open_disk_store(
    folder: Path, now_ms: Callable[[], int], clock: Callable[[], float]
) -> _DiskStore:
    make_folder(folder)
    check_local(folder)
    lock = DataLock(folder)
    try:
        room = DiskRoom(folder)
        room.make_room()
        try:
            connection = open_writer(folder, checks_later=True)
        except StorageFull:  # as a quota has it, which the free space does not show
            if not room.give_up_ballast():
                raise
            connection = open_writer(folder, checks_later=True)
        try:
            health = StoreHealth(room, folder / DATABASE_NAME, clock)
            return _DiskStore(folder, lock, connection, now_ms, health)
        except BaseException:
            connection.close()
            raise
    except BaseException:
        lock.release()
        raise


class _DiskReader(StoreReader):
    """Read-only connections, each used by one read at a time."""

    def __init__(self, folder: Path, health: StoreHealth | None = None) -> None:
        self.health = health or StoreHealth(DiskRoom(None))
        self._folder = folder
        self._name = str(folder / DATABASE_NAME)
        self._is_closed = False
        self._limiter = trio.CapacityLimiter(MAX_READERS)
        # A stack. The second connection is opened when two reads overlap for the first time.
        self._idle = [self._open()]

    def _open(self) -> apsw.Connection:
        connection = open_reading(self._folder)
        connection.set_progress_handler(_check_cancelled, _CANCEL_STEPS)
        return connection

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
            return query(Queries(connection, self._name))
        finally:
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
            for _ in range(MAX_READERS):
                await self._limiter.acquire_on_behalf_of(object())
            # Never Trio's shared limiter: hanging tools may hold all of it.
            await trio.to_thread.run_sync(self._close_idle, limiter=trio.CapacityLimiter(1))

    def _close_idle(self) -> None:
        while self._idle:
            self._idle.pop().close()


class _DiskStore(_DiskReader, Store):
    """The readers, and the one connection that writes."""

    is_slow = True

    def __init__(
        self,
        folder: Path,
        lock: DataLock,
        connection: apsw.Connection,
        now_ms: Callable[[], int],
        health: StoreHealth,
    ) -> None:
        super().__init__(folder, health)
        self._lock = lock
        self._connection = connection
        self._log = LogRoom(folder, connection)
        self._last = LastCommit(Path(self._name), connection, self._log.place)
        self._ledger = Ledger(connection, self._name, now_ms, last=self._last)
        self._writing = trio.CapacityLimiter(1)
        self._check: DamageCheck | None = None
        if (check := DamageCheck(folder)).is_due:
            self._check = check
            health.damage = lambda: check.finding
            trio.lowlevel.start_thread_soon(check.run, lambda outcome: outcome.unwrap())

    async def commit(self, appends: Sequence[Append]) -> list[CommitResult]:
        return await self._write(partial(self._commit, appends))

    def _commit(self, appends: Sequence[Append]) -> list[CommitResult]:
        room = self.health.room_to_write()
        return room.commit(self._ledger.commit, appends, self._ledger.touch)

    def commit_soon(self, appends: Sequence[Append], done: Committed) -> bool:
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
        self.health.check()
        return await self._write(partial(self._ledger.bring_in, events))

    async def index_words(self) -> bool:
        return await self._write(partial(self._ledger.keep_up, index_step))

    async def purge(self, session_ids: Sequence[str]) -> list[Stored]:
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
        self._check_open()
        if self._check is not None and self._check.finding:
            raise StorageError(self._check.finding)

    async def aclose(self) -> None:
        if self._is_closed:
            return
        try:
            # The writer last: closing the last connection writes the log back into the file.
            await super().aclose()
        finally:
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(self._close_writer, limiter=self._writing)

    def _close_writer(self) -> None:
        if self._check is not None:
            self._check.stop()
        self._last.close()
        self._log.close()
        try:
            self._connection.close()
        except apsw.Error as error:
            raise storage_error(self._name, error) from error
        finally:
            self._lock.release()


def _check_cancelled() -> bool:
    """End a read that was cancelled: the exception passes through SQLite."""
    trio.from_thread.check_cancelled()
    return False


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
