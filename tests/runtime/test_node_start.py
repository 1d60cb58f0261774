"""A node that starts while its database does."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import trio

from callboard.actors.cluster.node import JOIN_SECONDS, ClusterNode
from callboard.runtime.cluster.fence import NodeFence
from callboard.runtime.cluster.nodes import Joining
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


def node_on(database: WaitingDatabase) -> ClusterNode:
    joining = Joining(node_id="a", url="http://a", version="1")
    return ClusterNode(database, database, joining, no_store)


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
