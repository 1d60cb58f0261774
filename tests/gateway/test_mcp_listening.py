"""Clients of MCP that listen to sessions, and the share of a token in what all tokens share."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
import trio
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import ResourceUpdated
from mcp_types import ResourceUpdatedNotification

from callboard.config.sections import McpServerSettings
from callboard.config.settings import Settings
from callboard.gateway.mcp import http_app, listening, server
from callboard.gateway.mcp.desk import ChangedSessions
from callboard.gateway.mcp.listening import UPDATE_SECONDS, ChangeListener
from callboard.gateway.mcp.shares import Shares
from callboard.runtime.errors import NotFoundError, OverloadedError
from callboard.runtime.stream import TextDelta
from callboard.runtime.wire.fields import Role
from support.gateway.daemon_scene import Daemon, open_daemon
from support.gateway.door_scene import request
from support.gateway.gated_model import GatedModel
from support.gateway.raw_door import answer_to
from support.mcp.client import open_mcp

# The official client leaves its readers of streams to the garbage collector.
pytestmark = [
    pytest.mark.filterwarnings("ignore:resources/:mcp.shared.exceptions.MCPDeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Async generator 'http:ResourceWarning"),
    pytest.mark.filterwarnings(
        "ignore:Exception ignored in. <async_generator object:pytest.PytestUnraisableExceptionWarning"
    ),
]
PATIENCE = 30.0
SCHEME = "callboard://session/"


@asynccontextmanager
async def serving(model: Any = "rehearsal", **fields: Any) -> AsyncGenerator[Daemon]:
    its = McpServerSettings(enabled=True, **fields)
    async with open_daemon(model, configured=Settings(mcp_server=its)) as daemon:
        yield daemon


class Told:
    """What a client of an earlier revision is told."""

    def __init__(self) -> None:
        self.uris: list[str] = []
        self._more = trio.Event()

    async def __call__(self, message: object) -> None:
        await trio.lowlevel.checkpoint()
        if isinstance(message, ResourceUpdatedNotification):
            self.uris.append(str(message.params.uri))
            self._more.set()
            self._more = trio.Event()

    async def one(self) -> str:
        while not self.uris:
            await self._more.wait()
        return self.uris.pop(0)


async def test_a_stream_tells_when_a_session_goes_on() -> None:
    async with serving() as daemon:
        heard, other = [await daemon.runtime.create_session() for _ in range(2)]
        uri, unknown = f"{SCHEME}{heard.session_id}", f"{SCHEME}session_none"
        observer = daemon.new_token("reads", Role.OBSERVER)
        async with open_mcp(daemon, observer) as client:
            offered = client.server_capabilities
            assert (offered.resources.subscribe, offered.tools.list_changed) == (True, False)
            wanted = {"resource_subscriptions": [uri, unknown, "file:///x"]}
            with trio.fail_after(PATIENCE):
                async with client.listen(tools_list_changed=True, **wanted) as stream:
                    assert stream.honored.resource_subscriptions == [uri]
                    assert not stream.honored.tools_list_changed
                    await other.run("What time is it in Oslo?")
                    await heard.run("What time is it in Tokyo?")
                    assert await anext(aiter(stream)) == ResourceUpdated(uri)
            [content] = (await client.read_resource(uri)).contents
            assert "Tokyo" in content.text


async def test_a_client_of_an_earlier_revision_subscribes() -> None:
    told = Told()
    async with serving() as daemon:
        heard, other = [await daemon.runtime.create_session() for _ in range(2)]
        first, second = f"{SCHEME}{heard.session_id}", f"{SCHEME}{other.session_id}"
        async with open_mcp(daemon, mode="legacy", message_handler=told) as client:
            assert client.server_capabilities.resources.subscribe
            with pytest.raises(MCPError, match="no such resource"):
                await client.session.subscribe_resource(f"{SCHEME}session_none")
            await client.session.subscribe_resource(first)
            await client.session.subscribe_resource(second)
            await client.session.unsubscribe_resource(second)
            await client.session.unsubscribe_resource(second)  # as often as it likes
            await other.run("What time is it in Oslo?")
            await heard.run("What time is it in Tokyo?")
            with trio.fail_after(PATIENCE):
                assert await told.one() == first
            assert not told.uris


@pytest.mark.parametrize("era", ["2026-07-28", "legacy"])
@pytest.mark.parametrize("ends", ["token", "client", "daemon"])
async def test_listening_ends(era: str, ends: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[ChangedSessions] = []

    class Noted(ChangedSessions):
        def __init__(self) -> None:
            super().__init__()
            made.append(self)

    monkeypatch.setattr(http_app, "ChangedSessions", Noted)
    over = trio.Event()

    async def listen(daemon: Daemon, token: str, uri: str) -> None:
        # The client finds its stream, or its whole session, cut off in one way or another.
        with suppress(Exception):
            async with open_mcp(daemon, token, mode=era) as client:
                if era == "legacy":
                    await client.session.subscribe_resource(uri)
                    await over.wait()
                else:
                    async with client.listen(resource_subscriptions=[uri]) as stream:
                        async for _ in stream:
                            pass

    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:
            async with serving() as daemon:
                session = await daemon.runtime.create_session()
                token = daemon.new_token("reads", Role.OBSERVER)
                uri = f"{SCHEME}{session.session_id}"
                nursery.start_soon(listen, daemon, token, uri)  # noqa: ASYNC111  it outlives its daemon
                while not (made and made[0].wanted.is_set()):  # noqa: ASYNC110  nothing tells of it
                    await trio.sleep(0.003)
                match ends:
                    case "token":
                        daemon.credentials.revoke("reads")
                    case "client":
                        nursery.cancel_scope.cancel()
                        over.set()
                if ends != "daemon":
                    while made[0]._listeners:  # noqa: ASYNC110
                        with trio.CancelScope(shield=True):
                            await trio.sleep(0.003)
            over.set()
            nursery.cancel_scope.cancel()
    assert not made[0]._listeners


async def test_a_stream_is_for_so_many_sessions() -> None:
    async with serving() as daemon, open_mcp(daemon, mode="2026-07-28") as client:
        many = [f"{SCHEME}session_{number}" for number in range(listening.MAX_LISTENED + 1)]
        with pytest.raises(MCPError, match=r"at most 64 resources"):
            async with client.listen(resource_subscriptions=many):
                pass
        async with client.listen(resource_subscriptions=many[1:]) as stream:
            assert stream.honored.resource_subscriptions is None


# ── a listener alone ─────────────────────────────────────────────────────────────────────────────


class Seen:
    """A desk that sees some sessions."""

    def __init__(self, *session_ids: str) -> None:
        self.changes = ChangedSessions()
        self.sees = {*session_ids}
        self.fails = False

    async def request(self, method: str, params: Any, result: object) -> Any:
        await trio.lowlevel.checkpoint()
        if self.fails:
            raise OverloadedError("not now")
        if params.session_id not in self.sees:
            raise NotFoundError("there is no such session")
        return SimpleNamespace(session_id=params.session_id)


async def test_a_busy_session_is_told_of_once_a_second(autojump_clock: object) -> None:
    desk: Any = Seen("one", "two")
    listener, told = ChangeListener(desk), list[tuple[float, str]]()
    for name in ("one", "two"):
        assert await listener.add(f"{SCHEME}{name}")
    assert not await listener.add(f"{SCHEME}three")

    async def tell(uri: str) -> None:
        await trio.lowlevel.checkpoint()
        told.append((trio.current_time() - began, uri.removeprefix(SCHEME)))

    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(listener.run, tell)
        for step in range(5 * 4):  # for two seconds and a half
            await trio.sleep(0.125)
            desk.changes.note("one")
            if step == 9:
                desk.changes.note("two")
        await trio.sleep(5)
        nursery.cancel_scope.cancel()
    assert [name for _, name in told] == ["one", "one", "one", "two", "one"]
    times = [at for at, name in told if name == "one"]
    assert [round(b - a, 3) for a, b in pairwise(times)] == [UPDATE_SECONDS] * 3
    listener.close()
    assert not desk.changes._listeners


async def test_what_a_client_may_see_no_more_it_hears_no_more_of(autojump_clock: object) -> None:
    desk: Any = Seen("one", "two")
    listener, told = ChangeListener(desk), list[str]()
    for name in ("one", "two"):
        await listener.add(f"{SCHEME}{name}")

    async def tell(uri: str) -> None:
        await trio.lowlevel.checkpoint()
        told.append(uri.removeprefix(SCHEME))

    async def change() -> None:
        for name in ("one", "two"):
            desk.changes.note(name)
        await trio.sleep(2 * UPDATE_SECONDS)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(listener.run, tell)
        desk.sees = {"two"}
        await change()
        assert told == ["two"]
        assert [*desk.changes._listeners] == ["two"]
        desk.fails = True  # for a moment, it can't be said
        await change()
        desk.fails = False
        await change()
        assert told == ["two", "two"]
        nursery.cancel_scope.cancel()


# ── shares ───────────────────────────────────────────────────────────────────────────────────────


def test_no_token_takes_the_room_of_the_others() -> None:
    shares = Shares(8, "calls")
    held = []

    def take(owner: str) -> bool:
        place = shares.place(owner)
        try:
            place.__enter__()
        except OverloadedError:
            return False
        held.append(place)
        return True

    assert [take("a") for _ in range(6)] == [True] * 4 + [False] * 2
    assert [take("b") for _ in range(4)] == [True] * 2 + [False] * 2
    assert take("c")
    assert not take("a")
    for place in held:
        place.__exit__(None, None, None)
    assert not shares._held
    assert take("a")


async def test_calls_listeners_and_sessions_are_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MAX_CALLS", 2)
    monkeypatch.setattr(listening, "MAX_LISTENERS", 2)
    monkeypatch.setattr(http_app, "MAX_SESSIONS", 2)
    async with serving(GatedModel([TextDelta("Once ")], [TextDelta("Once ")])) as daemon:
        greedy, other = (daemon.new_token(name, Role.OPERATOR) for name in ("greedy", "other"))

        async with (
            open_mcp(daemon, greedy, mode="2026-07-28") as first,
            open_mcp(daemon, other, mode="2026-07-28") as second,
            first.listen(resource_subscriptions=[]),
            trio.open_nursery() as nursery,
        ):
            with pytest.raises(MCPError, match="of this token run already"):
                async with first.listen(resource_subscriptions=[]):
                    pass
            async with second.listen(resource_subscriptions=[]):
                pass
            nursery.start_soon(first.call_tool, "ask_general", {"prompt": "Tell me."})
            while not (await daemon.runtime.status()).turns:  # noqa: ASYNC110  nothing tells of it
                await trio.sleep(0.003)
            refused = await first.call_tool("session_status", {"session_id": "x"})
            assert "of this token run already" in refused.content[0].text
            answered = await second.call_tool("session_status", {"session_id": "x"})
            assert "no session" in answered.content[0].text
            nursery.cancel_scope.cancel()
        assert [await greets(daemon, token) for token in (greedy, greedy, other)] == [200, 503, 200]


async def greets(daemon: Daemon, token: str) -> int:
    """Begin a session of an earlier revision; return the status."""
    params = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "probe", "version": "1"},
    }
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    accept = "application/json, text/event-stream"
    body = msgspec.json.encode(hello)
    its = {"authorization": f"Bearer {token}", "accept": accept, "connection": "close"}
    return (await answer_to(daemon, request(daemon, "/mcp", body, **its))).status
