"""A node that starts while its database does."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import trio

from callboard.actors.cluster.node import JOIN_SECONDS, ClusterNode
from callboard.runtime.cluster.fence import NodeFence
from callboard.runtime.cluster.nodes import Joining
from callboard.runtime.cluster.registry import Registry
from callboard.runtime.cluster.roots import NamedRoot, NamedRoots
from callboard.runtime.definitions import Resource
from callboard.runtime.errors import StorageError
from callboard.runtime.store.interface import Store
from support.cluster.played_database import PlayedDatabase


class WaitingDatabase(PlayedDatabase):
    """A database that does not answer the first statements."""

    def __init__(self, failures: int) -> None:
        super().__init__()
        self.failures = failures

    def rows(self, sql: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        if self.failures:
            self.failures -= 1
            raise StorageError("it is starting")
        return super().rows(sql, values)

    def notified(self, seconds: float) -> frozenset[str]:
        return frozenset()

    def close(self) -> None:
        pass


async def no_store(fence: NodeFence, folder: Path | None) -> Store:
    raise AssertionError("nothing is stored here")


def node_on(
    database: WaitingDatabase, paths: WaitingDatabase | None = None, roots: NamedRoots | None = None
) -> ClusterNode:
    joining = Joining(node_id="a", url="http://a", version="1")
    return ClusterNode(database, database, paths or database, joining, no_store, roots=roots)


async def test_a_database_that_starts_is_waited_for() -> None:
    database = WaitingDatabase(failures=2)
    node = node_on(database)
    await node.join()
    assert node.life is not None
    assert database.failures == 0


async def test_one_that_does_not_come_is_waited_for_no_longer_than_for_a_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("callboard.actors.cluster.node.JOIN_SECONDS", 0.3)
    assert JOIN_SECONDS > 0.3
    node = node_on(WaitingDatabase(failures=10_000))
    with trio.fail_after(30), pytest.raises(StorageError, match="starting"):
        await node.join()
    assert node.life is None


class HeldDatabase(WaitingDatabase):
    """A database where a statement about held paths waits, as behind another node that looks at the same ones."""

    def __init__(self) -> None:
        super().__init__(failures=0)
        self.is_held = threading.Event()
        self.let_go = threading.Event()

    def rows(self, sql: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        self.is_held.set()
        assert self.let_go.wait(60)
        return super().rows(sql, values)


async def test_who_waits_for_a_path_holds_up_no_claim(tmp_path: Path) -> None:
    database, paths = WaitingDatabase(failures=0), HeldDatabase()
    root = NamedRoot("projects", str(tmp_path), is_shared=True)
    node = node_on(database, paths, NamedRoots("a", [root]))
    life = Registry(database).join(Joining(node_id="b", url="http://b", version="1"), "key")
    database.add_session("s")
    Registry(database).own_new(life, "s", None)
    await node.join()
    taken = trio.Event()

    async def take() -> None:
        async with node.locks.holding(f"{tmp_path}/tea", (Resource("docs", write=True),)):
            taken.set()

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(take)
            await trio.to_thread.run_sync(paths.is_held.wait)
            owner = await node.other_owner("s")  # by the other connection
            assert owner is not None
            assert owner.life == life
            assert not taken.is_set()
            nursery.cancel_scope.cancel(reason="it was seen")
            paths.let_go.set()
