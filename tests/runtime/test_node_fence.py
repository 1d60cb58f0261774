"""The fence in each commit of a store that several nodes share."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

pytest.importorskip("psycopg", reason="the extra postgres is not installed")

from callboard.runtime.cluster.fence import NodeFence
from callboard.runtime.cluster.nodes import Joining, Term
from callboard.runtime.cluster.postgres import POSTGRES, PostgresDatabase
from callboard.runtime.cluster.registry import Registry
from callboard.runtime.errors import ConflictError, StorageError
from callboard.runtime.events import SessionCreated, SessionDeleted, TitleSet
from callboard.runtime.store.interface import Store
from callboard.runtime.store.postgres.address import address_of
from callboard.runtime.store.postgres.store import open_postgres_store
from callboard.runtime.store.rows import Append, CommitResult
from support.postgres.databases import new_database
from support.postgres.server import needs_postgres

CREATED = SessionCreated(agent="general", workspace="/work")


class Writer:
    """A node's store, and what the fence has said is its own."""

    def __init__(self, store: Store, registry: Registry, life: Term, own: set[str]) -> None:
        self.store = store
        self.registry = registry
        self.life = life
        self.own = own

    async def make(self, session_id: str, parent_id: str | None = None) -> CommitResult:
        created = SessionCreated(agent="general", workspace="/work", parent_id=parent_id)
        return (await self.store.commit([Append(session_id, (created,))]))[0]

    async def name(self, *session_ids: str) -> list[CommitResult]:
        appends = [Append(session_id, (TitleSet(title="A"),)) for session_id in session_ids]
        return await self.store.commit(appends)


@asynccontextmanager
async def writing(url: str, node: str) -> AsyncGenerator[Writer]:
    database = PostgresDatabase(address_of(url))
    own: set[str] = set()
    lives: list[Term] = []
    fence = NodeFence(node, lambda: lives[0], own.add, own.discard, POSTGRES)
    store = await open_postgres_store(url, fence=fence)
    try:
        registry = Registry(database)
        lives.append(registry.join(Joining(node_id=node, url=f"http://{node}", version="1"), "key"))
        yield Writer(store, registry, lives[0], own)
    finally:
        database.close()
        await store.aclose()


async def test_each_node_writes_to_its_own_sessions() -> None:
    needs_postgres()
    with new_database() as url:
        async with writing(url, "a") as a, writing(url, "b") as b:
            assert isinstance(await a.make("one"), tuple)
            assert isinstance(await b.make("two"), tuple)
            assert (a.own, b.own) == ({"one"}, {"two"})
            mine, others = await a.name("one", "two")
            assert isinstance(mine, tuple)
            assert isinstance(others, ConflictError)
            assert others.kind == "owner"
            assert isinstance((await b.name("two"))[0], tuple)
            titles = [await a.store.session(name) for name in ("one", "two")]
            assert [row.title if row else None for row in titles] == ["A", "A"]
            assert [row.head_seq if row else None for row in titles] == [2, 2]


async def test_what_a_session_gives_a_task_has_its_owner() -> None:
    needs_postgres()
    with new_database() as url:
        async with writing(url, "a") as a:
            await a.make("parent")
            assert isinstance(await a.make("child", "parent"), tuple)
            assert a.registry.owned(a.life, ["parent", "child"]) == {"parent", "child"}
            assert isinstance((await a.name("child"))[0], tuple)


async def test_a_fenced_node_has_everything_refused() -> None:
    needs_postgres()
    with new_database() as url:
        async with writing(url, "a") as a:
            await a.make("one")
            while not a.registry._rows(f"select {POSTGRES.is_settled}")[0][0]:
                a.registry._rows("select pg_sleep(0.1)")
            a.registry._rows("update nodes set lease_until_ms = 0")
            assert a.registry.fence(a.life)
            (refused,) = await a.name("one")
            assert isinstance(refused, ConflictError)
            assert refused.kind == "owner"
            assert isinstance(await a.make("new"), ConflictError)
            assert await a.store.session("new") is None
            row = await a.store.session("one")
            assert row is not None
            assert row.head_seq == 1


async def test_a_session_that_another_node_has_is_not_ones_own_for_trying_to_make_it() -> None:
    needs_postgres()
    with new_database() as url:
        async with writing(url, "a") as a, writing(url, "b") as b:
            await a.make("one")
            refused = await b.make("one")
            assert isinstance(refused, ConflictError)
            assert refused.kind == "owner"
            assert (a.own, b.own) == ({"one"}, set())


async def test_a_session_is_purged_by_its_owner_and_by_anybody_once_that_is_gone() -> None:
    needs_postgres()
    with new_database() as url:
        async with writing(url, "a") as a, writing(url, "b") as b:
            for name in ("one", "two"):
                await a.make(name)
                await a.store.commit([Append(name, (SessionDeleted(),))])
            with pytest.raises(ConflictError, match="removed: session one belongs to another node"):
                await b.store.purge(["one"])
            assert await a.store.session("one") is not None
            assert len(await a.store.purge(["one"])) == 1
            a.registry.leave(a.life)
            with pytest.raises(ConflictError, match="was away for longer than its lease"):
                await a.store.purge(["two"])
            assert len(await b.store.purge(["two"])) == 1
            assert b.registry._rows("select * from owners") == []


async def test_a_commit_renews_a_lease_that_ran_out_and_that_nobody_fenced() -> None:
    needs_postgres()
    with new_database() as url:
        async with writing(url, "a") as a:
            await a.make("one")
            a.registry._rows("update nodes set lease_until_ms = 0")
            assert not a.registry.holds(a.life)
            assert isinstance((await a.name("one"))[0], tuple)
            assert a.registry.holds(a.life)


async def test_a_node_that_is_stopped_in_a_commit_holds_up_its_fence_for_a_second() -> None:
    needs_postgres()
    with new_database() as url:
        async with writing(url, "a") as a:
            await a.make("one")
            writer = a.store._ledger._postgres.raw  # type: ignore[attr-defined]
            writer.execute(b"begin")
            writer.execute(b"select 1 from nodes for key share")
            assert fenced_in_time(a)
            (refused,) = await a.name("one")
            assert isinstance(refused, ConflictError)


def fenced_in_time(writer: Writer) -> bool:
    """Try to fence a node for as long as its lease and the stopped commit may take, and longer."""
    for _ in range(40):
        try:
            if writer.registry.fence(writer.life):
                return True
            writer.registry._rows("select pg_sleep(0.2)")
        except StorageError:  # a commit holds it up
            continue
    return False
