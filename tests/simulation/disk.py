"""The disk: a real ledger over a database in memory, whose commits take time, fail, and outlive the daemon."""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import apsw
import trio

from callboard.runtime.errors import CallboardError, DiskBroken, StorageError, StorageFull
from callboard.runtime.events import Stored
from callboard.runtime.store.health.disk_room import DiskRoom
from callboard.runtime.store.health.store_health import StoreHealth
from callboard.runtime.store.interface import Committed, Store
from callboard.runtime.store.ledger import Ledger
from callboard.runtime.store.memory_store import _fill
from callboard.runtime.store.queries import Queries
from callboard.runtime.store.rows import Append, CommitResult
from callboard.runtime.store.tables.search import index_step

if TYPE_CHECKING:
    from simulation.world import World

Result = TypeVar("Result")
NAME = "the played store"
SECONDS = (0.0, 0.0, 0.0, 0.0002, 0.002, 0.03, 0.3)


_emptied: list[apsw.Connection] = []
"""Databases of worlds that are over, with their statements, which cost more than a small world does."""


@contextmanager
def empty_database() -> Generator[apsw.Connection]:
    """An empty store; its epoch is always the same."""
    connection = _emptied.pop() if _emptied else _new_database()
    try:
        yield connection
        _empty(connection)
    except BaseException:
        connection.close()
        raise
    _emptied.append(connection)


def _new_database() -> apsw.Connection:
    connection = apsw.Connection(":memory:", statementcachesize=STATEMENTS)
    _fill(connection)
    connection.execute("update meta set value = 'epoch' where key = 'epoch'")
    connection.pragma("foreign_keys", True)
    connection.pragma("journal_mode", "memory")
    return connection


def _empty(connection: apsw.Connection) -> None:
    """Make a database as it was when it was new, but for the statements that it knows."""
    connection.pragma("foreign_keys", False)
    with connection:
        for name, sql in connection.execute(TABLES).fetchall():
            if str(sql).startswith("CREATE VIRTUAL"):
                connection.execute(f"insert into {name} ({name}) values ('delete-all')")
            elif not str(name).startswith(WORDS):
                connection.execute(f"delete from {name}")
        connection.execute("insert into meta values ('epoch', 'epoch')")
    connection.pragma("foreign_keys", True)


STATEMENTS = 500
TABLES = "select name, sql from sqlite_master where type = 'table'"
WORDS = ("memory_words_", "message_words_")
"""Tables of the index of words, which it empties itself."""


class Disk:
    """What stays when a daemon is killed.

    Attributes:
        commits: How many there were.
        full_until: Until then nothing more can be stored.
        breaks_at: The commit whose fsync fails.
    """

    def __init__(self, world: World, random: random.Random, connection: apsw.Connection) -> None:
        self.world = world
        self.random = random
        self.connection = connection
        self.commits = 0
        self.full_until = 0.0
        self.breaks_at = 0


class PlayedStore(Store):
    """The store of one life of the daemon, as `sqlite_store` is: one writer, and readers beside it."""

    def __init__(self, disk: Disk) -> None:
        self.health = StoreHealth(DiskRoom(None))
        self._disk = disk
        self._ledger = Ledger(disk.connection, NAME, disk.world.now_ms, monotonic=trio.current_time)
        self._queries = Queries(disk.connection, NAME)
        self._writing = trio.CapacityLimiter(1)
        self._is_closed = False
        self.is_dead = False

    # ── writing ──────────────────────────────────────────────────────────────────────────────────

    async def commit(self, appends: Sequence[Append]) -> list[CommitResult]:
        return await self._write(partial(self._commit, appends))

    def commit_soon(self, appends: Sequence[Append], done: Committed) -> bool:
        if self._is_closed:
            done(StorageError("the store is closed"))
            return True
        try:
            self._writing.acquire_on_behalf_of_nowait(done)
        except trio.WouldBlock:
            return False
        self._disk.world.spawn(self._commit_later, appends, done, name="played commit")
        return True

    async def _commit_later(self, appends: Sequence[Append], done: Committed) -> None:
        ended: list[CommitResult] | BaseException
        try:
            ended = await self._work(partial(self._commit, appends))
        except CallboardError as error:
            ended = error
        self._writing.release_on_behalf_of(done)
        done(ended)

    def _commit(self, appends: Sequence[Append]) -> list[CommitResult]:
        results = self._ledger.commit(appends)
        self._disk.world.committed(results)
        return results

    async def bring_in(self, events: Sequence[Stored]) -> list[Stored]:
        return await self._write(partial(self._bring_in, events))

    def _bring_in(self, events: Sequence[Stored]) -> list[Stored]:
        stored = self._ledger.bring_in(events)
        self._disk.world.committed([tuple(stored)])
        return stored

    async def index_words(self) -> bool:
        return await self._write(partial(self._ledger.keep_up, index_step))

    async def purge(self, session_ids: Sequence[str]) -> list[Stored]:
        return await self._write(partial(self._purge, session_ids))

    def _purge(self, session_ids: Sequence[str]) -> list[Stored]:
        purged = self._ledger.purge(session_ids)
        self._disk.world.purged(purged)
        return purged

    async def _write(self, work: Callable[[], Result]) -> Result:
        with trio.CancelScope(shield=True):
            await self._writing.acquire()
        try:
            return await self._work(work)
        finally:
            self._writing.release()

    async def _work(self, work: Callable[[], Result]) -> Result:
        with trio.CancelScope(shield=True):
            await trio.sleep(self._disk.random.choice(SECONDS))
            result = self._write_now(work)
            await trio.sleep(self._disk.random.choice(SECONDS))
            self._check()
            return result
        raise AssertionError("a shield without a deadline is not left early")

    def _write_now(self, work: Callable[[], Result]) -> Result:
        disk, world = self._disk, self._disk.world
        self._check()
        disk.commits += 1
        number = disk.commits
        world.before_commit(number)
        self._check()
        if trio.current_time() < disk.full_until:
            raise StorageFull("There is no room: the disk is full.")
        if number == disk.breaks_at:
            world.broke()
            raise DiskBroken("The disk failed: fsync.")
        result = work()
        world.after_commit(number)
        return result

    def _check(self) -> None:
        if self.is_dead:
            raise StorageError("this daemon was killed")
        if self._is_closed:
            raise StorageError("the store is closed")

    # ── reading ──────────────────────────────────────────────────────────────────────────────────

    async def _run(self, query: Callable[[Queries], Result]) -> Result:
        self._check()
        return await trio.to_thread.run_sync(self._read, query)

    def _read(self, query: Callable[[Queries], Result]) -> Result:
        self._check()
        return query(self._queries)

    async def aclose(self) -> None:
        self._is_closed = True
        await trio.lowlevel.checkpoint()
