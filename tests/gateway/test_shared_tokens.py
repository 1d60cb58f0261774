"""Tokens of a cluster: what is made or revoked at one node holds at all."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import pytest
import trio

pytest.importorskip("psycopg", reason="the extra postgres is not installed")

import callboard
from callboard.client.client import connect
from callboard.config.keys.tokens import Credentials
from callboard.config.sections import ClusterSettings
from callboard.config.settings import StoreSettings
from callboard.gateway.door.authentication import state_of
from callboard.gateway.door.monitoring import metrics_text
from callboard.gateway.door.shared_tokens import KNOWN_NAME, SharedTokens
from callboard.runtime.errors import AuthError, CallboardError, StorageError
from callboard.runtime.wire.fields import Role
from support.gateway.daemon_scene import open_client, open_daemon
from support.postgres.databases import new_database
from support.postgres.server import needs_postgres
from support.waits import until

WAIT_SECONDS = 60.0


@pytest.fixture
def url() -> Iterator[str]:
    needs_postgres()
    with new_database() as made:
        yield made


def settings_of(url: str, node: str) -> callboard.Settings:
    return callboard.Settings(store=StoreSettings(url=url), cluster=ClusterSettings(node=node))


async def test_a_token_of_one_node_is_good_at_all_and_revoked_at_all(url: str) -> None:
    async with (
        open_daemon(configured=settings_of(url, "a")) as a,
        open_daemon(configured=settings_of(url, "b")) as b,
    ):
        token = a.new_token("guest", Role.ADMIN)
        with trio.fail_after(WAIT_SECONDS):
            await until(lambda: "guest" in [each.name for each in b.credentials.list()])
            async with open_client(b, token) as client:
                assert await client.sessions() == []
                a.credentials.revoke("guest")
                connections = b.gateway.daemon.connections
                await until(lambda: "guest" not in [each.credential.name for each in connections])
            with pytest.raises(AuthError):
                async with connect(b.url, token):
                    pass
        text = await metrics_text(b.gateway.daemon)
        assert 'callboard_cluster_nodes{state="live"} 2' in text
        assert "callboard_cluster_lease_held 1" in text
        async with open_client(b) as client:  # its own goes on
            assert await client.sessions() == []


class Database:
    """The tokens of a cluster, in memory; `is_down` makes each look fail."""

    def __init__(self) -> None:
        self.rows: dict[str, str] = {}
        self.is_down = False

    async def tokens(self) -> dict[str, str]:
        await trio.lowlevel.checkpoint()
        if self.is_down:
            raise StorageError("the database is down")
        return dict(self.rows)

    async def change_tokens(self, new: Mapping[str, str], revoked: Collection[str]) -> None:
        await trio.lowlevel.checkpoint()
        self.rows = {**new, **self.rows, **dict.fromkeys(revoked, "")}


class Connection:
    """The connection of one node, which the database tells of changes by itself."""

    def __init__(self, database: Database) -> None:
        self.tokens_changed = trio.Event()
        self.tokens, self.change_tokens = database.tokens, database.change_tokens


class Node:
    def __init__(self, folder: Path, database: Database) -> None:
        self.connection = Connection(database)
        self.credentials = Credentials(folder)
        self.changes = 0
        self.shared = SharedTokens(self.connection, self.credentials, state_of, self._changed)

    def _changed(self) -> None:
        self.changes += 1

    @property
    def names(self) -> list[str]:
        return [each.name for each in self.credentials.list()]


@pytest.fixture
def nodes(tmp_path: Path) -> tuple[Node, Node, Database]:
    database = Database()
    return Node(tmp_path / "a", database), Node(tmp_path / "b", database), database


async def brought_over(*nodes: Node) -> None:
    for node in nodes:
        await node.shared.bring_over()


async def test_a_token_that_was_revoked_while_no_daemon_ran_stays_so(
    nodes: tuple[Node, Node, Database], tmp_path: Path
) -> None:
    a, b, database = nodes
    a.credentials.create("one", Role.ADMIN)
    a.credentials.create("two", Role.OBSERVER)
    await brought_over(a, b)
    assert b.names == ["one", "two"]
    assert (a.changes, b.changes) == (0, 1)
    a.credentials.revoke("one")
    again = Node(tmp_path / "a", database)  # the next daemon of that folder
    await brought_over(again, b)
    assert again.names == b.names == ["two"]
    assert "" in database.rows.values()


async def test_a_token_that_was_revoked_once_comes_back_from_no_file(
    nodes: tuple[Node, Node, Database],
) -> None:
    a, b, _ = nodes
    token = a.credentials.create("one", Role.ADMIN)
    await brought_over(a, b)
    b.credentials.revoke("one")
    await brought_over(b)
    a.credentials.path.with_name(KNOWN_NAME).write_text("no JSON", encoding="ascii")
    await brought_over(a)
    assert a.names == []
    assert a.credentials.find(token.reveal()) is None


async def test_a_rotated_token_is_another_one_everywhere(
    nodes: tuple[Node, Node, Database],
) -> None:
    a, b, _ = nodes
    old = a.credentials.create("one", Role.ADMIN)
    await brought_over(a, b)
    new = b.credentials.rotate("one")
    await brought_over(b, a)
    found = a.credentials.find(new.reveal())
    assert found is not None
    assert a.credentials.find(old.reveal()) is None
    assert found.name == "one"


async def test_two_tokens_of_one_name_are_both_good(nodes: tuple[Node, Node, Database]) -> None:
    a, b, _ = nodes
    ours, theirs = (
        a.credentials.create("owner", Role.ADMIN),
        b.credentials.create("owner", Role.OPERATOR),
    )
    await brought_over(a, b, a)
    for node in (a, b):
        assert len(node.names) == 2
        assert len(set(node.names)) == 2
        mine, other = (node.credentials.find(each.reveal()) for each in (ours, theirs))
        assert mine is not None
        assert other is not None
        assert (mine.role, other.role) == (Role.ADMIN, Role.OPERATOR)


async def test_what_the_database_does_not_take_is_brought_over_when_it_is_back(
    nodes: tuple[Node, Node, Database],
) -> None:
    a, b, database = nodes
    database.is_down = True
    a.credentials.create("one", Role.ADMIN)
    with pytest.raises(CallboardError):
        await brought_over(a)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(a.shared.run)
        nursery.start_soon(b.shared.run)
        await trio.testing.wait_all_tasks_blocked()
        assert b.names == []
        database.is_down = False
        with trio.fail_after(WAIT_SECONDS):
            await until(lambda: bool(database.rows))
            b.connection.tokens_changed.set()
            await until(lambda: b.names == ["one"])
        nursery.cancel_scope.cancel()
