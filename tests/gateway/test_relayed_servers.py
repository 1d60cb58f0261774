"""A client brings servers of MCP for a session of another node: they run there, and end with the client all the same."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

pytest.importorskip("psycopg", reason="the extra postgres is not installed")

import callboard
from callboard.client.client import Client, connect
from callboard.config.mcp.wire import SessionServer
from callboard.config.sections import SandboxSettings
from callboard.embedding.runtime import host_of
from callboard.gateway.relays import accepted as accepted_module
from callboard.gateway.relays import peer as peer_module
from callboard.gateway.relays.accepted import NodeConnection
from callboard.providers.testing.script import reply
from callboard.runtime.definitions import SessionKind
from callboard.runtime.errors import (
    AuthError,
    ConflictError,
    NotFoundError,
    OverloadedError,
    ValidationError,
)
from callboard.runtime.wire.fields import Role
from support.cluster.served_node import node_of, open_served, relays_of
from support.gateway.daemon_scene import Daemon
from support.mcp.stage import FOLDER, PYTHON
from support.postgres.databases import new_database
from support.postgres.server import needs_postgres
from support.sandbox.sandbox_users import needs_sandbox
from support.waits import some, until

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the sandbox is Linux's")
WAIT_SECONDS = 60.0


@pytest.fixture
def url() -> Iterator[str]:
    needs_postgres()
    needs_sandbox()
    with new_database() as made:
        yield made


@asynccontextmanager
async def two_nodes(
    url: str, folder: Path, steps: Sequence[Any] = ()
) -> AsyncGenerator[tuple[Daemon, Daemon]]:
    sandbox = SandboxSettings(read_only=(str(FOLDER),))
    async with (
        open_served(url, "a", folder) as a,
        open_served(url, "b", folder, sandbox=sandbox, steps=steps) as b,
    ):
        with trio.fail_after(WAIT_SECONDS):
            await until(lambda: all(len(node_of(each).members.live) == 2 for each in (a, b)))
            yield a, b


def brought() -> SessionServer:
    return SessionServer(name="fake", command=(PYTHON, "-I", "-S", f"{FOLDER}/server.py"))


def names(daemon: Daemon, session_id: str) -> set[str]:
    """The tools of servers that a session is offered."""
    registry = host_of(daemon.runtime).plan.registry.of(session_id)
    offered = registry.definitions(None, SessionKind.MAIN)
    return {each.name for each in offered if each.source.startswith("mcp ")}


async def session_at(daemon: Daemon) -> str:
    async with connect(daemon.url, daemon.token) as client:
        return (await client.create_session()).session_id


async def test_servers_for_a_session_of_another_node_run_there_and_end_with_the_client(
    url: str, tmp_path: Path
) -> None:
    async with two_nodes(url, tmp_path) as (a, b):
        session, other = await session_at(b), await session_at(b)
        async with connect(a.url, a.token) as stays, connect(a.url, a.token) as client:
            await stays.mcp.use(other, [brought()], wait_seconds=20)
            [row] = await client.mcp.use(session, [brought()], wait_seconds=20)
            assert (row.name, row.state, row.problem) == ("fake", "running", "")
            assert names(b, session) == set(row.tools)
            assert not names(a, session)
            process = host_of(b.runtime).session_servers._sessions[session]
            await client.mcp.use(session, [brought()])  # the same again
            assert host_of(b.runtime).session_servers._sessions[session] is process
            assert await client.mcp.use(session, []) == []
            assert not names(b, session)
            await client.mcp.use(session, [brought()], wait_seconds=20)
            assert names(b, session)
        await until(lambda: not names(b, session))
        await until(lambda: not names(b, other))
        (accepted,) = relays_of(b).accepted
        assert isinstance(accepted, NodeConnection)
        assert not accepted._clients


async def test_of_two_clients_the_one_that_stays_keeps_its_servers(
    url: str, tmp_path: Path
) -> None:
    async with two_nodes(url, tmp_path) as (a, b):
        session, other = await session_at(b), await session_at(b)
        async with connect(a.url, a.token) as stays:
            await stays.mcp.use(other, [brought()], wait_seconds=20)
            async with connect(a.url, a.token) as client:
                await client.mcp.use(session, [brought()], wait_seconds=20)
            await until(lambda: not names(b, session))
            assert names(b, other)


async def test_servers_end_with_the_connection_of_the_nodes_and_can_be_brought_again(
    url: str, tmp_path: Path
) -> None:
    async with two_nodes(url, tmp_path) as (a, b):
        session = await session_at(b)
        async with connect(a.url, a.token) as client:
            await client.mcp.use(session, [brought()], wait_seconds=20)
            peer = relays_of(a)._peers["b"]
            peer.close()
            await until(lambda: not names(b, session))
            await client.mcp.use(session, [brought()], wait_seconds=20)
            assert names(b, session)
            assert relays_of(a)._peers["b"] is not peer
        await until(lambda: not names(b, session))


async def test_only_an_administrator_brings_servers_to_another_node(
    url: str, tmp_path: Path
) -> None:
    async with two_nodes(url, tmp_path) as (a, b):
        session = await session_at(b)
        token = a.new_token("operator", Role.OPERATOR)
        await until(lambda: b.credentials.find(token) is not None)

        async def bring(client: Client) -> None:
            await client.mcp.use(session, [brought()])

        async with connect(a.url, token) as client:
            with pytest.raises(AuthError):
                await bring(client)
        async with connect(a.url, a.token) as client:
            await bring(client)


@pytest.mark.parametrize("module", [peer_module, accepted_module], ids=["here", "there"])
async def test_clients_that_have_something_at_another_node_are_bounded_at_both(
    url: str, tmp_path: Path, module: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_KEPT_CLIENTS", 1)
    async with two_nodes(url, tmp_path) as (a, b):
        session, other = await session_at(b), await session_at(b)
        async with connect(a.url, a.token) as second:
            async with connect(a.url, a.token) as first:
                await first.mcp.use(session, [brought()])
                await first.mcp.use(other, [brought()])  # it is one client
                with pytest.raises(OverloadedError, match="1 clients"):
                    await second.mcp.use(session, [brought()])
            (accepted,) = relays_of(b).accepted
            assert isinstance(accepted, NodeConnection)
            await until(lambda: not accepted._clients)
            await second.mcp.use(session, [brought()])


async def test_what_a_server_asks_at_another_node_is_listed_and_answered_here(
    url: str, tmp_path: Path
) -> None:
    steps = [reply(calls=[("session_fake__ask", {"how": "", "times": 2})]), reply("Told.")]
    async with two_nodes(url, tmp_path, steps) as (a, b):
        session = await session_at(b)
        async with connect(a.url, a.token) as client, connect(b.url, b.token) as at_b:
            await client.mcp.use(session, [brought()], wait_seconds=20)
            await client.prompt(session, "Ask me.")
            [call] = await some(client.approvals)
            await client.answer(call.approval_id, "allow")
            earlier: set[str] = set()

            async def new() -> list[callboard.UserQuestion]:
                return [q for q in await client.questions() if q.question_id not in earlier]

            for _ in range(2):  # one call asks twice, and what has its answer is not listed again
                [question] = await some(new)
                name = question.question_id
                for found in (client.questions(session_id=session), at_b.questions()):
                    assert [each.question_id for each in await found] == [name]
                assert question.form is not None
                assert [field.name for field in question.form.fields][:2] == ["name", "age"]
                with pytest.raises(ValidationError, match="name: it must be said"):
                    await client.answer_question(name, '{"age": 3}')
                await client.answer_question(name, '{"name": "Ada", "age": 36}')
                with pytest.raises((ConflictError, NotFoundError)):
                    await client.answer_question(name, '{"name": "Eve"}')
                earlier.add(name)
            await until(lambda: not host_of(b.runtime).activity.turns())
            assert await client.questions() == []
            [row] = await client.calls()
            assert (row.result or "").count("Ada") == 2
