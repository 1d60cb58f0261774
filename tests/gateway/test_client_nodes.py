"""A client that knows the addresses of several nodes goes on with another one when its node is gone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
import trio

import callboard
from callboard.client.address import MAX_LEARNED_NODES, NodeAddresses
from callboard.client.client import Client, connect
from callboard.config.keys.tokens import Credentials
from callboard.config.sections import ClusterSettings
from callboard.config.settings import StoreSettings
from callboard.embedding.runtime import host_of
from callboard.providers.testing.script import reply
from callboard.runtime.errors import AuthError, NetworkError, ValidationError
from callboard.runtime.events import Stored, TurnEnded
from callboard.runtime.wire.fields import Role
from callboard.runtime.wire.hello import WireNode
from support.cluster.served_node import node_of, open_served
from support.gateway.daemon_scene import Daemon, open_daemon
from support.gateway.kept_daemon import open_kept
from support.postgres.databases import new_database
from support.postgres.server import needs_postgres
from support.waits import until

WAIT_SECONDS = 60.0
NOBODY = "ws://127.0.0.1:9/ws"


@pytest.fixture
def url() -> Iterator[str]:
    pytest.importorskip("psycopg", reason="the extra postgres is not installed")
    needs_postgres()
    with new_database() as made:
        yield made


def open_node(url: str, node: str, folder: Path) -> AbstractAsyncContextManager[Daemon]:
    settings = callboard.Settings(store=StoreSettings(url=url), cluster=ClusterSettings(node=node))
    model = callboard.ScriptedModel([reply(f"By {node}.")] * 5)
    return open_kept(folder, model, data=node, settings=settings, policy="auto")


async def serve_until(
    stop: trio.Event,
    gone: trio.Event,
    opening: AbstractAsyncContextManager[Daemon],
    *,
    task_status: trio.TaskStatus[Daemon],
) -> None:
    async with opening as daemon:
        task_status.started(daemon)
        await stop.wait()
        node = host_of(daemon.runtime).plan.node
        assert node is not None
        await node.begin_leaving()  # as `callboard serve` does before it drains
    gone.set()


async def hear_turns(client: Client, session_id: str, seqs: list[int], ends: list[int]) -> None:
    async with client.events(session_id, after_seq=0) as events:
        async for event in events:
            if isinstance(event, Stored):
                seqs.append(event.seq)
                if isinstance(event.event, TurnEnded):
                    ends.append(event.seq)


async def test_a_client_goes_on_with_another_node_when_its_own_is_gone(
    url: str, tmp_path: Path
) -> None:
    async with open_node(url, "b", tmp_path) as b, trio.open_nursery() as nursery:
        stop, gone = trio.Event(), trio.Event()
        a: Daemon = await nursery.start(serve_until, stop, gone, open_node(url, "a", tmp_path))
        known, seqs, ends = Credentials(tmp_path / "b"), list[int](), list[int]()
        with trio.fail_after(WAIT_SECONDS):
            await until(lambda: known.find(a.token) is not None)
            async with (
                connect(urls=[a.url, b.url], token=a.token) as client,
                trio.open_nursery() as hearing,
            ):
                session = await client.create_session()
                hearing.start_soon(hear_turns, client, session.session_id, seqs, ends)
                await client.prompt(session.session_id, "One?")
                await until(lambda: len(ends) == 1)
                stop.set()
                await client.prompt(session.session_id, "Two?")
                await until(lambda: len(ends) == 2)
                await gone.wait()
                await client.prompt(session.session_id, "Three?")
                await until(lambda: len(ends) == 3)
                said = [row.content for row in await client.messages(session.session_id)]
                # The one that was ending may have answered, or have cut the turn off, or not have begun it.
                assert said[:3] == ["One?", "By a.", "Two?"]
                assert said[-2:] == ["Three?", "By b."]
                assert [each for each in said[3:-2] if not each.startswith("By ")] == []
                assert seqs == list(range(1, len(seqs) + 1))  # nothing missed, nothing twice
                hearing.cancel_scope.cancel()
        nursery.cancel_scope.cancel()


async def test_a_node_that_is_not_there_is_passed_over() -> None:
    async with open_daemon() as daemon:
        async with connect(urls=[NOBODY, daemon.url], token=daemon.token) as client:
            assert await client.sessions() == []
        with pytest.raises(AuthError):
            async with connect(urls=[daemon.url, daemon.url], token="cb_wrong"):
                pass
    with pytest.raises(NetworkError):
        async with connect(urls=[NOBODY, NOBODY], token="cb_any"):
            pass


def nodes_of(*urls: str) -> list[WireNode]:
    return [WireNode(f"n{number}", url) for number, url in enumerate(urls)]


def test_nodes_that_a_node_tells_of_are_tried_behind_those_that_were_given() -> None:
    places = NodeAddresses(["ws://a.example:1/ws", "ws://b.example:1/ws"], "t")
    assert places()[0] == "ws://a.example:1/ws"
    this = WireNode("a", "http://inside:1", is_this=True)
    places.learn(
        [this, *nodes_of("http://b.example:1", "https://c.example/x/", "ftp://d", "http://[")]
    )
    assert places.urls[2:] == ["wss://c.example/x/ws"]
    assert [places()[0] for _ in range(3)] == [*places.urls[1:], places.urls[0]]
    places.learn([this])
    assert len(places.urls) == 2  # it is gone
    assert places()[0] == "ws://b.example:1/ws"


@pytest.mark.parametrize(
    ("here", "there", "is_tried"),
    [
        ("wss://a.example/ws", "http://b.example:1", False),
        ("wss://a.example/ws", "https://b.example", True),
        ("ws://a.example:1/ws", "http://b.example:1", True),
        ("ws://a.example:1/ws", "http://127.0.0.1:1", False),
        ("ws://a.example:1/ws", "http://localhost:1", False),
        ("ws://a.example:1/ws", "http://[::1]:1", False),
        ("ws://127.0.0.1:1/ws", "http://[::1]:1", True),
        ("ws://127.0.0.1:1/ws", "http://b.example:1", True),
    ],
)
def test_a_token_goes_to_no_place_that_is_worse_kept(
    here: str, there: str, *, is_tried: bool
) -> None:
    places = NodeAddresses([here], "t")
    places()
    places.learn(nodes_of(there))
    assert (len(places.urls) == 2) is is_tried


def test_of_many_nodes_a_client_remembers_some() -> None:
    places = NodeAddresses(["ws://a.example:1/ws"], "t")
    places()
    places.learn(nodes_of(*(f"http://n{number}.example:1" for number in range(1000))))
    assert len(set(places.urls)) == 1 + MAX_LEARNED_NODES


async def test_a_client_that_was_given_one_node_goes_on_with_another(
    url: str, tmp_path: Path
) -> None:
    async with open_served(url, "b", tmp_path) as b, trio.open_nursery() as nursery:
        stop, gone = trio.Event(), trio.Event()
        a: Daemon = await nursery.start(serve_until, stop, gone, open_served(url, "a", tmp_path))
        with trio.fail_after(WAIT_SECONDS):
            await until(lambda: b.credentials.find(a.token) is not None)
            await until(lambda: len(node_of(a).members.live) == 2)
            async with connect(urls=[a.url], token=a.token) as client:
                session = await client.create_session()
                stop.set()
                await gone.wait()
                await client.prompt(session.session_id, "Still there?")
                assert [n.node_id for n in client.welcome.nodes if n.is_this] == ["b"]
        nursery.cancel_scope.cancel()


async def ask_on(client: Client) -> None:
    while True:
        await client.sessions()
        await trio.sleep(0.01)


async def test_a_token_that_all_nodes_refuse_ends_the_client() -> None:
    async with open_daemon() as daemon:
        token = daemon.new_token("guest", Role.ADMIN)
        async with connect(urls=[daemon.url, daemon.url], token=token) as client:
            assert await client.sessions() == []
            daemon.credentials.revoke("guest")
            with trio.fail_after(WAIT_SECONDS), pytest.raises(AuthError):
                await ask_on(client)


async def test_what_can_be_no_addresses_is_refused() -> None:
    for urls, match in ((["http://x"], "ws://"), ("ws://x/ws", "list")):
        with pytest.raises(ValidationError, match=match):
            async with connect(urls=urls, token="t"):
                pass
    with pytest.raises(ValidationError, match="not both"):
        async with connect("ws://x/ws", "t", urls=["ws://y/ws"]):
            pass
