"""A line between two nodes, or between a client and its node, that swallows everything: noticed soon, and nothing is lost."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

pytest.importorskip("psycopg", reason="the extra postgres is not installed")

import callboard
from callboard.client import link as client_link
from callboard.client.client import Client, connect
from callboard.config.sections import ServerSettings
from callboard.gateway.relays import peer as peer_module
from callboard.gateway.relays import relays as relays_module
from callboard.gateway.relays.peer import Peer
from callboard.providers.testing.script import reply
from callboard.runtime.errors import CallboardError, NetworkError, OverloadedError
from callboard.runtime.events import InputAccepted, Stored, TurnEnded
from support.cluster.line import BOTH, Line, Way, open_line
from support.cluster.served_node import node_of, open_served, relays_of
from support.gateway.daemon_scene import Daemon
from support.postgres.databases import new_database
from support.postgres.server import needs_postgres
from support.waits import until

WAIT_SECONDS = 60.0
WAYS: list[tuple[Way, ...]] = [("there",), ("back",), BOTH]
NAMES = ["there", "back", "both"]


@pytest.fixture
def url() -> Iterator[str]:
    needs_postgres()
    with new_database() as made:
        yield made


@asynccontextmanager
async def nodes_with_a_line(
    url: str, folder: Path, **of_b: Any
) -> AsyncGenerator[tuple[Daemon, Daemon, Line]]:
    """Nodes a and b; what goes to b from elsewhere goes over a line."""
    async with open_line() as line:
        at = f"http://127.0.0.1:{line.port}"
        server = ServerSettings(port=0, allowed_hosts=(f"127.0.0.1:{line.port}",))
        async with (
            open_served(url, "a", folder) as a,
            open_served(url, "b", folder, reached_at=at, server=server, **of_b) as b,
        ):
            line.target = b.gateway.port
            with trio.fail_after(WAIT_SECONDS):
                await until(lambda: all(len(node_of(each).members.live) == 2 for each in (a, b)))
                yield a, b, line


async def hear(client: Client, session_id: str, heard: list[Stored]) -> None:
    async with client.events(session_id, after_seq=0) as events:
        async for event in events:
            heard += [event] if isinstance(event, Stored) else []


def ended(heard: list[Stored]) -> int:
    return sum(isinstance(each.event, TurnEnded) for each in heard)


def check(heard: list[Stored], texts: list[str]) -> None:
    """Nothing was missed, nothing came twice, and each prompt is on record once."""
    assert [each.seq for each in heard] == list(range(1, len(heard) + 1))
    said = [each.event.text for each in heard if isinstance(each.event, InputAccepted)]
    assert said == texts


def peer_of(daemon: Daemon, node: str) -> Peer | None:
    return relays_of(daemon)._peers.get(node)


def test_a_silent_node_is_noticed_before_a_request_has_waited_long_enough() -> None:
    silent = peer_module.QUIET_SECONDS + peer_module.SILENT_SECONDS
    assert silent < relays_module.PATIENCE_SECONDS < client_link.QUIET_SECONDS


@pytest.mark.parametrize("ways", WAYS, ids=NAMES)
async def test_a_line_between_nodes_that_swallows_everything_is_left_and_nothing_is_lost(
    url: str, tmp_path: Path, ways: tuple[Way, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peer_module, "QUIET_SECONDS", 0.1)
    monkeypatch.setattr(peer_module, "SILENT_SECONDS", 1.0)
    monkeypatch.setattr(relays_module, "PATIENCE_SECONDS", 2.0)
    heard, errors = list[Stored](), list[CallboardError]()
    begun, gate = trio.Event(), trio.Event()

    @callboard.tool
    async def hold() -> str:
        """Ends when it is let."""
        begun.set()
        with trio.CancelScope(shield=True):
            await gate.wait()
        return "held"

    steps = [reply(calls=[("hold", {})]), *[reply("By b.")] * 5]
    async with (
        nodes_with_a_line(url, tmp_path, steps=steps, tools=[hold]) as (a, b, line),
        connect(a.url, a.token) as at_a,
        connect(b.url, b.token) as at_b,
        trio.open_nursery() as nursery,
    ):
        held, session = [(await at_b.create_session()).session_id for _ in range(2)]
        nursery.start_soon(hear, at_a, session, heard)
        await at_b.prompt(held, "Hold.")
        await begun.wait()
        await at_a.prompt(session, "One?")
        await until(lambda: ended(heard) == 1)

        def is_asking() -> bool:
            peer = peer_of(a, "b")
            return peer is not None and peer._running == 1

        async def cancel() -> None:
            try:
                await at_a.cancel(held)  # which waits for the end of the call
            except CallboardError as error:
                errors.append(error)

        nursery.start_soon(cancel)
        await until(is_asking)
        before = peer_of(a, "b")
        line.cut(*ways)
        nursery.start_soon(at_a.prompt, session, "Two?")  # asked again until it is done
        await until(lambda: peer_of(a, "b") is not before)
        with pytest.raises(OverloadedError) as refused:
            await at_a.rename(session, "Never sent")
        assert refused.value.kind == "owner"
        assert [type(error) for error in errors] == [NetworkError]  # done or not: not known
        gate.set()
        assert (await at_a.session(session)).title != "Never sent"
        assert node_of(b).owns(session)  # the database is no part of it: nobody was fenced
        line.mend()
        await until(lambda: ended(heard) == 2)
        await at_a.prompt(session, "Three?")
        await until(lambda: ended(heard) == 3)
        check(heard, ["One?", "Two?", "Three?"])
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("ways", WAYS, ids=NAMES)
async def test_a_client_whose_line_swallows_everything_goes_on_with_the_next_node(
    url: str, tmp_path: Path, ways: tuple[Way, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_link, "QUIET_SECONDS", 0.1)
    monkeypatch.setattr(client_link, "SILENT_SECONDS", 0.6)
    monkeypatch.setattr(client_link, "CONNECT_SECONDS", 2.0)
    heard: list[Stored] = []
    async with nodes_with_a_line(url, tmp_path) as (a, b, line):
        await until(lambda: a.credentials.find(b.token) is not None)
        there = f"ws://127.0.0.1:{line.port}/ws"
        async with (
            connect(urls=[there, a.url], token=b.token) as client,
            trio.open_nursery() as nursery,
        ):
            session = (await client.create_session()).session_id
            assert node_of(b).owns(session)
            nursery.start_soon(hear, client, session, heard)
            await client.prompt(session, "One?")
            await until(lambda: ended(heard) == 1)
            line.cut(*ways)
            async with connect(b.url, b.token) as beside:  # not cut off
                await beside.prompt(session, "Two?")
            await until(lambda: [n.node_id for n in client.welcome.nodes if n.is_this] == ["a"])
            assert node_of(b).owns(session)
            line.mend()  # else a does not reach b either
            await client.prompt(session, "Three?")
            await until(lambda: ended(heard) == 3)
            check(heard, ["One?", "Two?", "Three?"])
            nursery.cancel_scope.cancel()
