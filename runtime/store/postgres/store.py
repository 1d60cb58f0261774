"""The store in PostgreSQL: one connection that writes, and some that read."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec
import trio

from ...disk.data_lock import DataLock
from ...errors import StorageError
from ...events import Stored
from ...redaction import Secret, redactor
from ..file import check_address, keep_address, make_folder
from ..health.disk_room import DiskRoom
from ..health.store_health import StoreHealth
from ..interface import Store, StoreReader
from ..ledger import wall_clock_ms
from ..lists import StoreSize
from ..migrations import check_whole
from ..queries import Queries
from ..rows import SessionRow
from ..tables.lists import names
from ..threaded import ThreadedReader, ThreadedStore
from .address import DatabaseAddress, address_of
from .connection import PostgresConnection
from .ledger import Fence, PostgresLedger, take_writers_lock
from .schema import check_version
from .size import HeldSize
from .trouble import DatabaseLost

MAX_READERS = 3
"""Three, so that one long read does not hold up all others; a database serves some hundred connections."""

OLDEST_SERVER = 150_000
"""PostgreSQL 15."""


_Result = TypeVar("_Result")

MakeQueries = Callable[[PostgresConnection, str], Queries]
"""Makes the reads of a connection, given the name of the database for errors."""


async def open_postgres_store(
    url: str,
    *,
    now_ms: Callable[[], int] = wall_clock_ms,
    clock: Callable[[], float] = time.monotonic,
    fence: Fence | None = None,
    folder: Path | None = None,
    make_queries: MakeQueries = Queries,
) -> Store:
    """Open the store of a database for writing; make or migrate its tables.

    The caller closes it. Raises `ValidationError` for a wrong URL, `ConflictError` if another callboard writes
    there, and `StorageError` if it can't be reached or used, or was migrated by a newer release.

    Args:
        url: The address; see `address`.
        now_ms: The wall clock.
        clock: Monotonic seconds.
        fence: Checks in each commit whether this node may write, where several do. Without it, this is the
            only one.
        folder: The data folder, which is locked, and notes where its record is.
        make_queries: Makes the reads of a connection.
    """
    address = address_of(url)
    if address.password:
        redactor.add(Secret(address.password))
    return await trio.to_thread.run_sync(_open, address, folder, now_ms, clock, fence, make_queries)


async def open_postgres_reader(url: str, make_queries: MakeQueries = Queries) -> StoreReader:
    """Open the store of a database for reading, also while others write.

    The caller closes it. Raises `NotFoundError` if there is no store yet, and `StorageError` if it can't be read.
    """
    return await trio.to_thread.run_sync(_PostgresReader, address_of(url), make_queries)


def database_size(url: str) -> StoreSize:
    """Look whether the store of a database can be read; return how large it is. Blocks.

    Raises:
        CallboardError: It can't be reached or read, or has no store that this callboard can read.
    """
    connection = open_reading_connection(url)
    try:
        return HeldSize().look(Queries(connection, address_of(url).name))
    finally:
        connection.close()


def open_reading_connection(url: str, *, is_alone: bool = False) -> PostgresConnection:
    """Return a connection that can only read the store of a database; see `database_size`.

    `is_alone` raises `ConflictError` if somebody writes there, and lets nobody begin to.
    """
    address = address_of(url)
    connection = PostgresConnection(address, writes=False)
    try:
        _check_server(connection, address)
        check_version(connection.version(), address.name)
        check_whole(connection, address.name)
        if is_alone:
            take_writers_lock(connection, address.name)
    except BaseException:
        connection.close()
        raise
    return connection


def _open(
    address: DatabaseAddress,
    folder: Path | None,
    now_ms: Callable[[], int],
    clock: Callable[[], float],
    fence: Fence | None,
    make_queries: MakeQueries,
) -> Store:
    if folder is None:
        return _open_database(address, None, now_ms, clock, fence, make_queries)
    make_folder(folder)
    lock = DataLock(folder)
    try:
        check_address(folder, address.public_url, address.name)
        store = _open_database(address, lock, now_ms, clock, fence, make_queries)
        keep_address(folder, address.public_url)
    except BaseException:
        lock.release()
        raise
    return store


def _open_database(
    address: DatabaseAddress,
    lock: DataLock | None,
    now_ms: Callable[[], int],
    clock: Callable[[], float],
    fence: Fence | None,
    make_queries: MakeQueries,
) -> Store:
    connection = PostgresConnection(address, writes=True)
    try:
        _check_server(connection, address)
        connection.migrate()
        check_whole(connection, address.name)
        ledger = PostgresLedger(connection, address, now_ms, fence)
        health = StoreHealth(DiskRoom(None), None, clock, name=address.name)
        size = HeldSize(clock)
        return _PostgresStore(address, connection, ledger, health, lock, make_queries, size)
    except BaseException:
        connection.close()
        raise


def _check_server(connection: PostgresConnection, address: DatabaseAddress) -> None:
    found = connection.raw.info.server_version
    if found < OLDEST_SERVER:
        raise StorageError(
            f"{address.name} is PostgreSQL {found // 10_000}; callboard needs {OLDEST_SERVER // 10_000} or "
            "later."
        )


_WAITING = (
    "select o.session_id, o.root from owners o where o.session_id in (select value from json_each(?)) and o.root <> ''"
    " and not exists (select 1 from nodes n where n.node_id = o.node_id and n.term = o.term"
    " and n.state in ('live', 'draining')) and not exists (select 1 from nodes n where n.state = 'live'"
    " and (o.root = '@' || n.node_id or instr(n.roots, '\"' || o.root || '\"') > 0))"
)
"""Of some sessions those whose owner is gone, and whose root no node has that is up; see `runtime.cluster.roots`."""


class _Reading(ThreadedReader[PostgresConnection]):
    """Readers that make a new connection once, where one was lost."""

    _address: DatabaseAddress
    _make: MakeQueries
    _size: HeldSize

    def _make_queries(self, connection: PostgresConnection, name: str) -> Queries:
        return self._make(connection, name)

    def _open(self) -> PostgresConnection:
        return PostgresConnection(self._address, writes=False)

    async def size(self) -> StoreSize:
        """See `StoreReader`."""
        return await self._run(self._size.look)

    async def with_waiting(self, rows: Sequence[SessionRow]) -> list[SessionRow]:
        """See `StoreReader`."""
        if not rows:
            return await super().with_waiting(rows)
        listed = names([row.session_id for row in rows])
        found = dict(await self._run(lambda queries: queries._rows(_WAITING, (listed,))))
        return [
            msgspec.structs.replace(row, waiting_for=found[row.session_id])
            if row.session_id in found
            else row
            for row in rows
        ]

    def _read_sync(self, query: Callable[[Queries], _Result]) -> _Result:
        try:
            return super()._read_sync(query)
        except DatabaseLost:
            # A server that ended has ended all of them, and only who uses one learns that.
            self._close_idle()
            return super()._read_sync(query)

    def _keep(self, connection: PostgresConnection) -> None:
        if not connection.is_lost:
            super()._keep(connection)


class _PostgresReader(_Reading):
    def __init__(self, address: DatabaseAddress, make_queries: MakeQueries) -> None:
        self._address = address
        self._make = make_queries
        self._size = HeldSize()
        super().__init__(
            address.name, StoreHealth(DiskRoom(None), None, name=address.name), MAX_READERS
        )
        connection = self._idle[0]
        try:
            _check_server(connection, address)
            check_version(connection.version(), address.name)
            check_whole(connection, address.name)
        except BaseException:
            connection.close()
            raise


class _PostgresStore(_Reading, ThreadedStore[PostgresConnection]):
    def __init__(
        self,
        address: DatabaseAddress,
        connection: PostgresConnection,
        ledger: PostgresLedger,
        health: StoreHealth,
        lock: DataLock | None,
        make_queries: MakeQueries,
        size: HeldSize,
    ) -> None:
        self._address = address
        self._make = make_queries
        self._size = size
        self._lock = lock
        super().__init__(address.name, health, MAX_READERS)
        self._connection = connection
        self._ledger = self._postgres = ledger

    async def purge(self, session_ids: Sequence[str]) -> list[Stored]:
        """See `Store`."""
        try:
            return await super().purge(session_ids)
        finally:
            self._size.forget()

    async def check_record(self) -> None:
        """See `Store`."""
        await self._write(self._postgres.touch)

    async def aclose(self) -> None:
        self._postgres.stops.set()  # a commit that waits for the database waits no longer
        await super().aclose()

    def _close_writer(self) -> None:
        self._connection.close()
        if self._lock is not None:
            self._lock.release()
