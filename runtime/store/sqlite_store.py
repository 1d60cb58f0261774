"""The store on disk: SQLite in a file of the data folder. See `threaded` for its threads."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import trio

from ..disk.data_lock import DataLock
from ..errors import StorageError, StorageFull
from .file import (
    DATABASE_NAME,
    DamageCheck,
    LogRoom,
    address_in,
    check_local,
    make_folder,
    open_reading,
    open_writer,
)
from .health.disk_room import DiskRoom
from .health.last_commit import LastCommit
from .health.store_health import StoreHealth
from .interface import Store, StoreReader
from .ledger import Ledger, storage_error, wall_clock_ms
from .migrations import check_whole
from .queries import Queries
from .threaded import ThreadedReader, ThreadedStore

MAX_READERS = 2
"""Two, so that one long read does not hold up all others; each connection takes memory."""

_CANCEL_STEPS = 20_000
"""Steps of SQLite's virtual machine between checks for a cancellation: about a millisecond."""


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


async def open_kept_store(folder: Path | None, url: str | None = None) -> Store:
    """Open the store of a data folder for writing, wherever its record is: in a file there, or in a database.

    Args:
        folder: The data folder; `None` only with a URL.
        url: The database; by default that which the folder names, if it names one.
    """
    if url is None and folder is not None:
        url = await trio.to_thread.run_sync(address_in, folder)
    if url is None:
        assert folder is not None
        return await open_disk_store(folder)
    from .postgres.address import check_driver  # here: few have a database

    check_driver()
    from .postgres.store import open_postgres_store

    return await open_postgres_store(url, folder=folder)


async def open_reader(
    folder: Path, make_queries: Callable[[Any, str], Queries] | None = None
) -> StoreReader:
    """Open the store of a data folder for reading, also while another process writes.

    That is a database where the folder says so (`file.ADDRESS_NAME`).

    The caller closes it. Raises `NotFoundError` if there is no store yet, and `StorageError` if its
    file can't be read.

    Args:
        folder: The data folder.
        make_queries: Makes the reads of a connection of the database; see `open_postgres_store`.
    """
    if (address := await trio.to_thread.run_sync(address_in, folder)) is not None:
        from .postgres.address import check_driver  # here: few have a database

        check_driver()
        from .postgres.store import open_postgres_reader

        return await open_postgres_reader(address, make_queries or Queries)
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


class _DiskReader(ThreadedReader[apsw.Connection]):
    """Read-only connections, each used by one read at a time."""

    def __init__(self, folder: Path, health: StoreHealth | None = None) -> None:
        self._folder = folder
        super().__init__(
            str(folder / DATABASE_NAME), health or StoreHealth(DiskRoom(None)), MAX_READERS
        )
        connection = self._idle[0]
        try:
            check_whole(connection, self._name)
        except BaseException:
            connection.close()
            raise

    def _open(self) -> apsw.Connection:
        return _open_reading(self._folder)


class _DiskStore(ThreadedStore[apsw.Connection]):
    """The readers, and the one connection that writes."""

    def __init__(
        self,
        folder: Path,
        lock: DataLock,
        connection: apsw.Connection,
        now_ms: Callable[[], int],
        health: StoreHealth,
    ) -> None:
        self._folder = folder
        super().__init__(str(folder / DATABASE_NAME), health, MAX_READERS)
        self._lock = lock
        self._connection = connection
        self._log = LogRoom(folder, connection)
        self._last = LastCommit(Path(self._name), connection, self._log.place)
        self._ledger = Ledger(connection, self._name, now_ms, last=self._last)
        self._check: DamageCheck | None = None
        if (check := DamageCheck(folder)).is_due:
            self._check = check
            health.damage = lambda: check.finding
            trio.lowlevel.start_thread_soon(check.run, lambda outcome: outcome.unwrap())

    def _open(self) -> apsw.Connection:
        return _open_reading(self._folder)

    def _check_sound(self) -> None:
        self._check_open()
        if self._check is not None and self._check.finding:
            raise StorageError(self._check.finding)

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


def _open_reading(folder: Path) -> apsw.Connection:
    connection = open_reading(folder)
    connection.set_progress_handler(_check_cancelled, _CANCEL_STEPS)
    return connection


def _check_cancelled() -> bool:
    """End a read that was cancelled: the exception passes through SQLite."""
    trio.from_thread.check_cancelled()
    return False
