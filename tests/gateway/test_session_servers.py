"""`mcp/use`: servers that a client brings for one session, which end with the session or with the client."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from callboard.client.client import Client
from callboard.config.keys.tokens import Role
from callboard.config.mcp.wire import SessionServer
from callboard.embedding.runtime import host_of
from callboard.runtime.definitions import SessionKind
from callboard.runtime.errors import AuthError, NotFoundError, OverloadedError
from callboard.tools.mcp import session_servers
from support.gateway.configured_daemon import served
from support.gateway.daemon_scene import Daemon, open_client
from support.mcp.stage import FOLDER, PYTHON
from support.sandbox.sandbox_users import needs_sandbox
from support.waits import until

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the sandbox is Linux's")
SHOWN = f'[sandbox]\nread_only = ["{FOLDER}"]\n'


@pytest.fixture(autouse=True)
def _sandbox() -> None:
    needs_sandbox()


def brought(*options: str, name: str = "fake") -> SessionServer:
    return SessionServer(name=name, command=(PYTHON, "-I", "-S", f"{FOLDER}/server.py", *options))


async def session_of(client: Client) -> str:
    return (await client.create_session()).session_id


def names(daemon: Daemon, session_id: str) -> set[str]:
    """The tools of servers that a session is offered."""
    registry = host_of(daemon.runtime).plan.registry.of(session_id)
    offered = registry.definitions(None, SessionKind.MAIN)
    assert offered is registry.definitions(None, SessionKind.MAIN)  # its encoded form is kept
    return {each.name for each in offered if each.source.startswith("mcp ")}


async def test_servers_are_of_one_session_and_end_with_the_client(tmp_path: Path) -> None:
    async with served(tmp_path, SHOWN) as (daemon, _):
        async with open_client(daemon) as client:
            one, other = await session_of(client), await session_of(client)
            [row] = await client.mcp.use(one, [brought()], wait_seconds=20)
            assert (row.name, row.state, row.problem) == ("fake", "running", "")
            assert "session_fake__say" in row.tools
            assert names(daemon, one) == set(row.tools)
            assert not names(daemon, other)
            unallowed = await client.call_tool("session_fake__say", {"text": "a"})
            assert unallowed.error["error_type"] == "tool_not_found"  # of no session
            process = host_of(daemon.runtime).session_servers._sessions[one]
            await client.mcp.use(one, [brought()])  # the same again
            assert host_of(daemon.runtime).session_servers._sessions[one] is process
            twice = await client.mcp.use(one, [brought(), brought()], wait_seconds=20)
            assert [row.tools[0].partition("__")[0] for row in twice] == [
                "session_fake",
                "session_fake_2",
            ]
            assert await client.mcp.use(one, []) == []
            assert not names(daemon, one)
            await client.mcp.use(one, [brought()], wait_seconds=20)
            assert names(daemon, one)
        await until(lambda: not names(daemon, one))
        await until(lambda: not host_of(daemon.runtime).session_servers._sessions)


async def test_only_who_may_administer_brings_servers_and_not_for_everybody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_servers, "MAX_SESSIONS", 1)
    async with served(tmp_path, SHOWN) as (daemon, _):
        async with open_client(daemon) as client:
            session = await session_of(client)
            with pytest.raises(NotFoundError):
                await client.mcp.use("session_nobody", [brought()])
            await client.mcp.use(session, [brought()])
            with pytest.raises(OverloadedError):
                await client.mcp.use(await session_of(client), [brought()])
            token = daemon.credentials.create("yes", Role.APPROVER).reveal()
            async with open_client(daemon, token) as approver:
                with pytest.raises(AuthError):
                    await approver.mcp.use(session, [brought()])


async def test_one_that_fails_does_not_hold_up_the_others(tmp_path: Path) -> None:
    async with served(tmp_path, SHOWN) as (daemon, _), open_client(daemon) as client:
        session = await session_of(client)
        rows = await client.mcp.use(
            session, [brought("--fault=exit", name="bad"), brought()], wait_seconds=20
        )
        assert [(row.name, row.state) for row in rows] == [("bad", "failed"), ("fake", "running")]
        assert rows[0].problem
        assert not rows[0].tools
        assert names(daemon, session) == set(rows[1].tools)
