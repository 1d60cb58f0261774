"""A client hangs on nothing: not on a silent link, a daemon that does not answer, or one that is away."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

import callboard
from callboard.client import link as client_link
from callboard.client.client import Client, connect
from callboard.config.sections import ServerSettings
from callboard.gateway.methods.all import all_methods
from callboard.providers.testing.script import reply
from callboard.runtime.errors import (
    ConflictError,
    DeadlineError,
    NetworkError,
    OverloadedError,
    ValidationError,
)
from callboard.runtime.events import InputAccepted, Stored
from callboard.runtime.wire.fields import Nothing
from callboard.runtime.wire.sessions import Prompt, Ticket
from support.gateway.daemon_scene import open_client, open_daemon
from support.gateway.false_daemon import FalseDaemon, open_false, open_server
from support.gateway.kept_daemon import open_kept
from support.gateway.raw_door import PATIENCE
from support.waits import until

TICKET = {"input_id": "input_1", "seq": 2}


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_link, "FIRST_PAUSE_SECONDS", 0.001)
    monkeypatch.setattr(client_link, "LAST_PAUSE_SECONDS", 0.02)


class Tunnel:
    """Passes bytes to a port of this machine, and swallows those of some connections.

    Attributes:
        connections: How many there were.
        swallowed: Of which nothing passes any more, by number.
    """

    def __init__(self) -> None:
        self.target = 0
        self.connections = 0
        self.swallowed = 0

    async def serve(self, near: trio.SocketStream) -> None:
        self.connections += 1
        number = self.connections
        far = await trio.open_tcp_stream("127.0.0.1", self.target)
        async with near, far, trio.open_nursery() as nursery:
            nursery.start_soon(self._pass, number, near, far, nursery.cancel_scope)
            nursery.start_soon(self._pass, number, far, near, nursery.cancel_scope)

    async def _pass(
        self, number: int, source: trio.SocketStream, sink: trio.SocketStream, end: trio.CancelScope
    ) -> None:
        try:
            while data := await source.receive_some():
                if number > self.swallowed:
                    await sink.send_all(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        end.cancel()


async def test_a_link_that_swallows_everything_is_left_and_nothing_is_missed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client_link, "QUIET_SECONDS", 0.02)
    monkeypatch.setattr(client_link, "SILENT_SECONDS", 0.2)
    tunnel = Tunnel()
    model = callboard.ScriptedModel([reply("One."), reply("Two.")])
    async with open_server(tunnel.serve) as url:
        settings = ServerSettings(port=0, allowed_hosts=(url[5:-3],))
        async with open_daemon(model, settings=settings) as daemon:
            tunnel.target = daemon.gateway.port
            with trio.fail_after(PATIENCE):
                async with connect(url, daemon.token) as client:
                    session = await client.create_session()
                    async with client.events(session.session_id, after_seq=0) as events:
                        await client.prompt(session.session_id, "1?")
                        stored = [await _next_stored(events)]
                        for _ in range(3):  # quiet is not silent: its pings are answered
                            await trio.sleep(client_link.QUIET_SECONDS * 2)
                        assert (client.is_connected, tunnel.connections) == (True, 1)
                        tunnel.swallowed = 1
                        await client.prompt(session.session_id, "2?")
                        assert tunnel.connections > 1
                        while sum(isinstance(x.event, callboard.TurnEnded) for x in stored) < 2:
                            stored.append(await _next_stored(events))
            assert stored == await daemon.runtime.store.events(session.session_id)


async def _next_stored(events: Any) -> Stored:
    while True:
        event = await anext(events)
        if isinstance(event, Stored):
            return event


async def test_a_request_that_is_swallowed_fails_when_the_link_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client_link, "QUIET_SECONDS", 0.02)
    monkeypatch.setattr(client_link, "SILENT_SECONDS", 0.05)
    tunnel = Tunnel()
    async with open_server(tunnel.serve) as url:
        settings = ServerSettings(port=0, allowed_hosts=(url[5:-3],))
        async with open_daemon(settings=settings) as daemon:
            tunnel.target = daemon.gateway.port
            with trio.fail_after(PATIENCE):
                async with connect(url, daemon.token) as client:
                    tunnel.swallowed = 1
                    with pytest.raises(NetworkError, match="whether the request was done"):
                        await client.upkeep.backup()  # what acts is not done twice
                    tunnel.swallowed = 2
                    assert await client.sessions() == []


async def test_a_silent_port_is_no_daemon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_link, "CONNECT_SECONDS", 0.05)

    async def swallow(stream: trio.SocketStream) -> None:
        async with stream:
            async for _ in stream:
                pass

    async with open_server(swallow) as url:
        for each in (url, url.replace("ws:", "wss:")):
            with trio.fail_after(PATIENCE), pytest.raises(NetworkError, match="says nothing"):
                async with connect(each, "cb_token"):
                    pass


async def _ignore(daemon: FalseDaemon, request: dict[str, Any]) -> None:
    await trio.lowlevel.checkpoint()


async def test_a_request_that_is_not_answered_has_a_deadline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client_link, "ANSWER_SECONDS", 0.03)
    async with open_false(_ignore) as daemon, connect(daemon.url) as client:
        with trio.fail_after(PATIENCE):
            with pytest.raises(DeadlineError, match=r"^session/list: .* has not answered"):
                await client.sessions()
            with pytest.raises(DeadlineError, match=r"^session/prompt: "):
                await client.prompt("session_1", "Hello")
            with pytest.raises(DeadlineError, match=r"^session/subscribe: "):
                await client.events("session_1").__aenter__()
        assert (client.is_connected, daemon.connections) == (True, 1)


async def test_what_may_take_long_has_more_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_link, "ANSWER_SECONDS", 0.01)

    async def answer_late(daemon: FalseDaemon, request: dict[str, Any]) -> None:
        await trio.sleep(0.05)
        await daemon.answer(request, {"was_running": True})

    async with open_false(answer_late) as daemon, connect(daemon.url) as client:
        assert await client.cancel("session_1")
        with pytest.raises(DeadlineError):
            await client.request("session/list", Nothing(), Nothing)


def test_long_methods_are_those_that_hold_up_nobody_behind_them() -> None:
    slow = {method.name for method in all_methods() if method.is_slow}
    assert slow | {"relay/request"} == client_link.LONG_METHODS  # which may carry any of them


async def test_a_request_too_large_for_the_daemon_is_refused_here() -> None:
    async with open_false(_answer_ticket) as daemon, connect(daemon.url) as client:
        with pytest.raises(ValidationError, match="takes 10000 at most"):
            await client.prompt("session_1", "x" * 10_000)
        assert (await client.prompt("session_1", "x" * 9_000)).seq == 2
        assert daemon.connections == 1


async def _answer_ticket(daemon: FalseDaemon, request: dict[str, Any]) -> None:
    await daemon.answer(request, TICKET)


async def test_what_waits_for_a_daemon_that_stays_away_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client_link, "AWAY_SECONDS", 0.05)
    async with trio.open_nursery() as nursery:
        async with open_daemon() as daemon:
            client = await nursery.start(_keep, daemon.url, daemon.token)  # noqa: ASYNC111
        await until(lambda: not client.is_connected)
        with trio.fail_after(PATIENCE):
            with pytest.raises(NetworkError, match=r"^session/prompt: .* has been away"):
                await client.prompt("session_1", "Hello")
            with pytest.raises(NetworkError, match=r"^session/list: .* has been away"):
                await client.sessions()
        nursery.cancel_scope.cancel()


async def _keep(url: str, token: str, *, task_status: trio.TaskStatus[Client]) -> None:
    async with connect(url, token) as client:
        task_status.started(client)
        await trio.sleep_forever()


async def test_a_client_that_has_ended_says_so() -> None:
    async with open_daemon() as daemon:
        async with open_client(daemon) as client:
            session = await client.create_session()
        with trio.fail_after(PATIENCE):
            with pytest.raises(ConflictError, match="has ended"):
                await client.sessions()
            with pytest.raises(ConflictError, match="has ended"):
                await client.events(session.session_id).__aenter__()


async def test_a_prompt_to_a_daemon_that_stops_waits_for_its_restart(tmp_path: Path) -> None:
    tickets: list[Ticket] = []
    async with trio.open_nursery() as nursery:

        async def prompt(client: Client, session_id: str) -> None:
            tickets.append(await client.prompt(session_id, "Are you back?"))

        async with open_kept(tmp_path, "rehearsal") as daemon:
            port, token = daemon.gateway.port, daemon.token
            client = await nursery.start(_keep, daemon.url, token)  # noqa: ASYNC111
            session_id = (await client.create_session()).session_id
            daemon.gateway.announce_end()
            params = Prompt(session_id=session_id, content="Hello")
            with pytest.raises(OverloadedError) as refused:  # nobody could ask again for it
                await client.request("session/prompt", params, Ticket)
            assert refused.value.kind == "stopping"
            nursery.start_soon(prompt, client, session_id)
            await trio.testing.wait_all_tasks_blocked(0.02)
            assert not tickets
        async with open_kept(tmp_path, "rehearsal", port=port, token=token) as daemon:
            with trio.fail_after(PATIENCE):
                await until(lambda: tickets)
            events = await daemon.runtime.store.events(session_id)
            assert [x.event.input_id for x in events if isinstance(x.event, InputAccepted)] == [
                tickets[0].input_id
            ]
            nursery.cancel_scope.cancel()


async def test_a_prompt_is_refused_when_a_daemon_stops_for_good(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client_link, "AWAY_SECONDS", 0.05)
    async with trio.open_nursery() as nursery:
        async with open_daemon() as daemon:
            client = await nursery.start(_keep, daemon.url, daemon.token)  # noqa: ASYNC111
            session_id = (await client.create_session()).session_id
            daemon.gateway.announce_end()
            with trio.fail_after(PATIENCE), pytest.raises(OverloadedError, match="Ask again when"):
                await client.prompt(session_id, "Hello")
        nursery.cancel_scope.cancel()
