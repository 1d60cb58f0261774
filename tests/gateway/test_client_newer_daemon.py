"""What a later daemon says is passed over; what comes from another program is one error of ours."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

import pytest
import trio

from callboard.client import link as client_link
from callboard.client.client import connect
from callboard.runtime.errors import AuthError, ConflictError, NetworkError, OverloadedError
from callboard.runtime.events import Stored, StreamBatch
from callboard.runtime.stream import TextDelta
from callboard.runtime.wire.topics import Snapshot, TopicUpdate
from support.gateway.daemon_scene import open_client, open_daemon
from support.gateway.false_daemon import FalseDaemon, open_false, open_server
from support.gateway.raw_door import PATIENCE

NOVEL = {"type": "novel_event", "colour": "blue"}
DELETED = {"type": "session_deleted", "novel": 1}


def _batch(offset: int, text: str) -> dict[str, Any]:
    pieces = [{"type": "novel_piece", "x": 1}, {"type": "text_delta", "text": text, "novel": 2}]
    return {"type": "stream_batch", "stream_id": "s", "offset": offset, "events": pieces}


async def _newer(daemon: FalseDaemon, request: dict[str, Any]) -> None:
    """A session of seven events, told in two parts: behind the first, the connection breaks."""

    async def update(**params: object) -> None:
        await daemon.tell("session/update", session_id="session_1", **params)

    if request["method"] != "session/subscribe":
        await daemon.answer(request, {})
        return
    after = request["params"]["after_seq"]
    await daemon.answer(request, {"seq": 7})
    await daemon.tell("session/novel", session_id="session_1")
    for seq in range(after + 1, 8):
        await update(seq=seq, at_ms=1, event=NOVEL if seq in (2, 4, 7) else DELETED)
        if after == 0 and seq == 4:
            await daemon.hang_up()
            return
    answer = _batch(0, "Grüß ")
    await daemon.tell("session/snapshot", session_id="session_1", seq=7, answer=answer, novel=1)
    await update(event=NOVEL)
    await update(event=_batch(7, "dich"))


async def test_unknown_events_are_passed_over_without_a_gap(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client_link, "FIRST_PAUSE_SECONDS", 0.001)
    async with open_false(_newer) as daemon, connect(daemon.url) as client:
        told: list[Any] = []
        with trio.fail_after(PATIENCE):
            async with client.events("session_1", after_seq=0) as events:
                while not told or not isinstance(told[-1], StreamBatch):
                    told.append(await anext(events))
        asked = [
            request["params"]
            for request in daemon.asked
            if request["method"] == "session/subscribe"
        ]
        assert [params["after_seq"] for params in asked] == [0, 4]
        assert asked[1]["epoch"] == "epoch_1", "another store would refuse it"
    *stored, snapshot, batch = told
    assert [each.seq for each in stored if isinstance(each, Stored)] == [1, 3, 5, 6]
    assert isinstance(snapshot, Snapshot)
    assert snapshot.answer is not None
    assert (snapshot.answer.events, batch.events) == ([TextDelta("Grüß ")], [TextDelta("dich")])


async def test_unknown_events_and_topics_of_topics_are_passed_over() -> None:
    async def tell(daemon: FalseDaemon, request: dict[str, Any]) -> None:
        await daemon.answer(request, {"seq": 0})
        if request["method"] != "topic/subscribe":
            return
        update = {"session_id": "session_1", "seq": 1, "at_ms": 1}
        await daemon.tell("topic/update", topic="novel", seq=1, update={**update, "event": NOVEL})
        for seq, event in ((2, NOVEL), (3, DELETED)):
            params = {"topic": "sessions", "seq": seq, "update": {**update, "event": event}}
            await daemon.tell("topic/update", **params)

    async with open_false(tell) as daemon, connect(daemon.url) as client:
        with trio.fail_after(PATIENCE):
            async with client.topic("sessions") as topic:
                event = await anext(topic)
    assert isinstance(event, TopicUpdate)
    assert event.seq == 3


ENDED = {"type": "turn_ended", "turn_id": "turn_1", "outcome": "answered"}
BEGUN = (
    {"type": "input_accepted", "input_id": "input_1", "text": "Hello"},
    {
        "type": "turn_started",
        "turn_id": "turn_1",
        "input_ids": ["input_1"],
        "provider": "p",
        "model": "m",
    },
)


def _ending(end: dict[str, Any], snapshot: dict[str, Any] | None = None) -> Any:
    """A daemon whose one turn ends so."""

    async def tell(daemon: FalseDaemon, request: dict[str, Any]) -> None:
        if request["method"] == "session/prompt":
            ticket = {"input_id": "input_1", "seq": 2, "turn_id": "turn_1"}
            await daemon.answer(request, ticket)
            return
        await daemon.answer(request, {"seq": 1})
        if request["method"] == "session/subscribe":
            place = {"session_id": "session_1"}
            await daemon.tell("session/snapshot", **place, seq=1, **(snapshot or {}))
            for seq, event in enumerate((*BEGUN, end), 2):
                await daemon.tell("session/update", **place, seq=seq, at_ms=1, event=event)
                await daemon.tell("session/update", **place, event=_batch(0, "piece"))

    return tell


async def test_what_is_known_in_another_form_is_an_error_and_no_endless_wait() -> None:
    async with open_false(_ending(ENDED)) as daemon, connect(daemon.url) as client:
        with trio.fail_after(PATIENCE):
            assert await client.ask("session_1", "Hello") == ""
    for tell, what in (
        (_ending({**ENDED, "duration_ms": 1.5}), "the event turn_ended of session_1"),
        (_ending({**ENDED, "unreaped": [{"name": "x"}]}), "the event turn_ended of session_1"),
        (_ending(ENDED, {"answer": "later"}), "session/snapshot of session_1"),
        (_ending(ENDED, {"outputs": 1}), "session/snapshot of session_1"),
    ):
        async with open_false(tell) as daemon, connect(daemon.url) as client:
            with trio.fail_after(PATIENCE):
                with pytest.raises(ConflictError, match=f"{what} in a form .* upgrade the older"):
                    await client.ask("session_1", "Hello")
            assert (client.is_connected, daemon.connections) == (True, 1)


async def test_what_is_known_of_a_topic_in_another_form_is_an_error() -> None:
    async def tell(daemon: FalseDaemon, request: dict[str, Any]) -> None:
        await daemon.answer(request, {"seq": 0})
        if request["method"] == "topic/subscribe":
            update = {"session_id": "session_1", "seq": 1, "at_ms": 1, "event": DELETED}
            await daemon.tell("topic/update", topic="sessions", seq=1, update=update)
            ended = {**update, "seq": 2, "event": {**ENDED, "turn_id": 1}}
            await daemon.tell("topic/update", topic="sessions", seq=2, update=ended)
            await daemon.tell("topic/update", topic="sessions", seq=3, update={**update, "seq": 3})

    async with open_false(tell) as daemon, connect(daemon.url) as client:
        with trio.fail_after(PATIENCE):
            async with client.topic("sessions") as topic:
                assert (await anext(topic)).seq == 1
                with pytest.raises(ConflictError, match="turn_ended of sessions in a form"):
                    await anext(topic)


async def test_an_answer_of_another_form_says_what_to_do() -> None:
    async def answer(daemon: FalseDaemon, request: dict[str, Any]) -> None:
        await daemon.answer(request, {"sessions": "none"})

    async with open_false(answer) as daemon, connect(daemon.url) as client:
        with pytest.raises(ConflictError, match=r"session/list in a form .* upgrade the older"):
            await client.sessions()


async def test_garbage_in_the_midst_is_a_broken_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_link, "FIRST_PAUSE_SECONDS", 0.001)

    async def answer(daemon: FalseDaemon, request: dict[str, Any]) -> None:
        if daemon.connections == 1:
            await daemon.send("no JSON")
        else:
            await daemon.answer(request, {"input_id": "input_1", "seq": 2})

    async with open_false(answer) as daemon, connect(daemon.url) as client:
        with trio.fail_after(PATIENCE):
            assert (await client.prompt("session_1", "Hello")).seq == 2
        assert daemon.connections == 2


async def test_a_request_that_breaks_every_connection_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client_link, "FIRST_PAUSE_SECONDS", 0.001)
    monkeypatch.setattr(
        client_link, "AWAY_SECONDS", 1.5
    )  # for a second connection, also on a busy machine

    async def break_off(daemon: FalseDaemon, request: dict[str, Any]) -> None:
        await daemon.hang_up()

    async with open_false(break_off) as daemon, connect(daemon.url) as client:
        with trio.fail_after(PATIENCE), pytest.raises(NetworkError):
            await client.prompt("session_1", "Hello")
        assert daemon.connections > 1, "it was asked again"


def _page(status: str, body: str) -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()


@pytest.mark.parametrize(
    ("reply", "kind", "why"),
    [
        (b"", NetworkError, "hangs up"),
        (b"SSH-2.0-Server\r\n", NetworkError, "hangs up"),
        (b"\x15\x03\x01\x00\x02\x02F", NetworkError, "not as a websocket"),
        (b"\x00" * 100, NetworkError, "not as a websocket"),
        (b"A" * 70_000, NetworkError, "not as a websocket"),
        (
            b"HTTP/1.1 101 Yes\r\nUpgrade: \xff\r\nConnection: \xff\r\n\r\n",
            NetworkError,
            "not as a websocket",
        ),
        (_page("200 OK", "<html>\x1b[2J" + "x" * 5000), NetworkError, "status 200: <html>"),
        (_page("301 Moved", ""), NetworkError, "status 301"),
        (b"HTTP/1.1 404 No\r\n\r\n" + b"x" * 500_000, NetworkError, "hangs up"),
        (_page("401 No", "no token"), AuthError, "no token"),
        (_page("503 No", "starting"), OverloadedError, "starting"),
    ],
)
async def test_another_program_at_the_address_is_one_error(
    reply: bytes, kind: type[Exception], why: str
) -> None:
    async def serve(stream: trio.SocketStream) -> None:
        async with stream:
            await stream.receive_some()
            with suppress(trio.BrokenResourceError):  # it had enough
                await stream.send_all(reply)

    async with open_server(serve) as url:
        with trio.fail_after(PATIENCE), pytest.raises(kind, match=re.escape(why)) as refused:
            async with connect(url, "cb_token"):
                pass
    said = str(refused.value)
    assert url in said
    assert len(said) < 500
    assert said.isprintable()


async def test_another_websocket_at_the_address_is_one_error() -> None:
    for said in ("no JSON", "[" * 5000, "{}", '{"id":"hello","error":{"code":1,"message":"no"}}'):

        async def talk(stream: trio.SocketStream, said: str = said) -> None:
            daemon = FalseDaemon(_newer)
            daemon.answer = lambda *_: daemon.send(said)  # type: ignore[method-assign]
            await daemon.serve(stream)

        async with open_server(talk) as url:
            with trio.fail_after(PATIENCE), pytest.raises(NetworkError, match="does not speak as"):
                async with connect(url):
                    pass


async def test_tls_to_a_port_without_it_and_nothing_at_all_are_told() -> None:
    async with open_daemon() as daemon:
        with pytest.raises(NetworkError, match="without TLS has a URL with ws://") as refused:
            async with connect(daemon.url.replace("ws://", "wss://"), daemon.token):
                pass
        assert refused.value.stage == "tls"
        gone = daemon.url
    with pytest.raises(NetworkError, match="callboard serve") as refused:
        async with connect(gone, daemon.token):
            pass
    assert refused.value.stage == "connect"


async def test_what_the_application_raises_comes_out_as_it_is() -> None:
    async def fail(error: Exception, scope: trio.CancelScope | None = None) -> None:
        async with open_client(daemon) as client:
            await client.status()
            if scope is not None:
                scope.cancel()
            raise error

    async with open_daemon() as daemon:
        whole = ExceptionGroup("of the application", [KeyError("a"), NetworkError("b")])
        for error in (KeyError("a"), NetworkError("the application's own"), whole):
            with pytest.raises(type(error)) as raised:
                await fail(error)
            assert raised.value is error
        with trio.CancelScope() as scope:
            with pytest.raises(KeyError):
                await fail(KeyError("while it is cancelled"), scope)
            await trio.lowlevel.checkpoint()
        assert scope.cancelled_caught
