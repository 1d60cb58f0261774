"""Clients that break rules, flood, or never read: they end alone, and cost a bounded amount."""

from __future__ import annotations

import base64
import gc
import os
import tracemalloc
from contextlib import suppress

import msgspec
import pytest
import trio
from trio_websocket import ConnectionClosed

from callboard.client.client import Client
from callboard.config.sections import ServerSettings
from callboard.gateway.connection.connection import MAX_MISSED_PINGS, Connection
from callboard.gateway.connection.frame_budget import (
    CONTROL_SECONDS,
    MAX_CONTROLS,
    MAX_FRAGMENTS,
    FrameCount,
    TooManyFrames,
)
from callboard.gateway.connection.method_table import Method
from callboard.gateway.methods import runtime as runtime_methods
from callboard.providers.provider import Emit, ModelRequest
from callboard.runtime.stream import Done, StopReason, TextDelta
from callboard.runtime.wire.rpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    RpcRequest,
)
from support.gateway.daemon_scene import (
    Daemon,
    View,
    open_client,
    open_daemon,
    open_greeted,
    open_raw,
)
from support.gateway.raw_door import (
    are_left,
    close_code,
    code_of_end,
    frame,
    handshake,
    head_of,
    open_frames,
    open_stream,
    read_end,
)
from support.waits import leap

HELLO = msgspec.json.encode(
    {
        "jsonrpc": "2.0",
        "id": "hello",
        "method": "initialize",
        "params": {"protocol": {"min": 1, "max": 1}},
    }
)
SMALL = ServerSettings(port=0, max_frame_bytes=64 * 1024, max_outbox_bytes=64 * 1024)
IDLE = 5_000 if os.environ.get("CALLBOARD_SOAK") else 300
PIECES = 10_000 if os.environ.get("CALLBOARD_SOAK") else 2_000
FLOOD = 20_000

TEXT, BINARY, CLOSE, PING, PONG, CONTINUATION = 1, 2, 8, 9, 10, 0

# ── frames against the rules ─────────────────────────────────────────────────────────────────────

BAD_FRAMES: dict[str, tuple[bytes, int | None]] = {
    # The library closes without a code where bytes are no frames at all.
    "no mask": (frame(b"{}", is_masked=False), None),
    "a reserved bit": (frame(b"{}", reserved=0x20), None),
    "compressed, though nobody agreed": (frame(b"{}", reserved=0x40), None),
    "an unknown kind of frame": (frame(b"{}", 3), None),
    "an unknown control frame": (frame(b"{}", 11), None),
    "a control frame in pieces": (frame(b"", PING, is_last=False), None),
    "a large control frame": (frame(b"x" * 126, PING), None),
    "a piece of nothing": (frame(b"{}", CONTINUATION), None),
    "a message within a message": (frame(b"{", is_last=False) + frame(b"{}"), None),
    "no text": (frame(b"\xff\xfe"), None),
    "a length with its first bit": (b"\x81\xff" + b"\xff" * 8 + bytes(4), 1009),
    "a frame that is too large": (frame(b" " * (SMALL.max_frame_bytes + 1)), 1009),
    "a message that is too large": (
        frame(b" " * 40_000, is_last=False) + frame(b" " * 40_000, CONTINUATION),
        1009,
    ),
    "endless empty pieces": (
        frame(b"", is_last=False) + FLOOD * frame(b"", CONTINUATION, is_last=False),
        1008,
    ),
    "a flood of pings": (FLOOD * frame(b"", PING), 1008),
    "a flood of pongs": (FLOOD * frame(b"x", PONG), 1008),
}


@pytest.mark.parametrize("name", BAD_FRAMES)
async def test_case_41_bad_frames_end_their_own_connection(name: str) -> None:
    sent, code = BAD_FRAMES[name]
    async with (
        open_daemon(settings=SMALL) as daemon,
        open_client(daemon) as other,
        open_frames(daemon) as stream,
    ):
        await stream.send_all(frame(HELLO))
        received = b""

        async def send() -> None:
            with suppress(trio.BrokenResourceError):
                await stream.send_all(sent)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send)
            received = await read_end(stream)
            assert (await other.status()).connections >= 1
        if code is not None:
            assert close_code(received[received.index(b"\x88") :]) == code
        await are_left(other, 1)


async def test_frames_within_the_rules_are_heard() -> None:
    pieces = [HELLO[n : n + 1] for n in range(len(HELLO))]
    sent = frame(pieces[0], is_last=False)
    for piece in pieces[1:-1]:
        sent += frame(piece, CONTINUATION, is_last=False) + frame(b"in between", PONG)
    sent += frame(pieces[-1], CONTINUATION)
    async with open_daemon(settings=SMALL) as daemon, open_frames(daemon) as stream:
        for n in range(0, len(sent), 7):
            await stream.send_all(sent[n : n + 7])
        answer = bytes(await stream.receive_some())
        assert b'"id":"hello"' in answer
        assert b'"result"' in answer
        await stream.send_all(frame(b"are you there", PING))
        assert bytes(await stream.receive_some()) == b"\x8a\x0dare you there"


def test_frames_are_counted_alike_in_any_pieces() -> None:
    sent = frame(b"x" * 300, is_last=False) + frame(b"", PING) + frame(b"y" * 70_000, CONTINUATION)
    for size in (1, 2, 3, 5, 14, 1000, len(sent)):
        count = FrameCount(80_000)
        for _ in range(3):
            _count_all(count, sent, size)
        more = frame(b"z" * 20_000, is_last=False) + sent
        with pytest.raises(TooManyFrames, match="80000"):
            _count_all(count, more, size)


def _count_all(count: FrameCount, sent: bytes, size: int) -> None:
    for at in range(0, len(sent), size):
        count.count(sent[at : at + size], 0.0)


def test_pings_are_forgiven_after_a_minute() -> None:
    count = FrameCount(1000)
    for n in range(5):
        count.count(frame(b"", PING) * MAX_CONTROLS, n * (CONTROL_SECONDS + 1))
    with pytest.raises(TooManyFrames, match="pings"):
        count.count(frame(b"", PING), 4 * (CONTROL_SECONDS + 1))
    other = FrameCount(1000)
    for _ in range(10):
        other.count(frame(b"", is_last=False) * (MAX_FRAGMENTS - 1) + frame(b""), 0.0)
    with pytest.raises(TooManyFrames, match="one message"):
        other.count(frame(b"", is_last=False) * (MAX_FRAGMENTS + 1), 0.0)


# ── messages that are no requests ────────────────────────────────────────────────────────────────


def request(**fields: object) -> str:
    return msgspec.json.encode(
        {"jsonrpc": "2.0", "id": 1, "method": "runtime/status", **fields}
    ).decode()


BAD_MESSAGES: dict[str, tuple[str | bytes, int]] = {
    "no JSON": ("hello", PARSE_ERROR),
    "nothing": ("", PARSE_ERROR),
    "half of it": ('{"jsonrpc":"2.0",', PARSE_ERROR),
    "two": (request() + request(), PARSE_ERROR),
    "a number that is none": (request().replace("1", "NaN"), PARSE_ERROR),
    "bytes": (request().encode(), PARSE_ERROR),
    "a batch": (f"[{request()}]", INVALID_REQUEST),
    "an empty batch": ("[]", INVALID_REQUEST),
    "a text": ('"runtime/status"', INVALID_REQUEST),
    "a notification": ('{"jsonrpc":"2.0","method":"runtime/shutdown"}', INVALID_REQUEST),
    "another version": (request(jsonrpc="1.0"), INVALID_REQUEST),
    "no version": ('{"id":1,"method":"runtime/status"}', INVALID_REQUEST),
    "an id that is null": (request(id=None), INVALID_REQUEST),
    "an id that is an object": (request(id={}), INVALID_REQUEST),
    "a huge id": (request(id="x" * 60_000), INVALID_REQUEST),
    "a huge number as id": (request(id=1).replace('"id":1', f'"id":{"9" * 4000}'), INVALID_REQUEST),
    "a method that is a number": (request(method=1), INVALID_REQUEST),
    "an unknown method": (request(method="runtime/explode"), METHOD_NOT_FOUND),
    "a method with a huge name": (request(method="x" * 60_000), METHOD_NOT_FOUND),
    "a method of Python": (request(method="__class__"), METHOD_NOT_FOUND),
    "parameters in a list": (request(params=[1]), INVALID_PARAMS),
    "parameters that are null": (request(params=None), INVALID_PARAMS),
    "an unknown parameter": (request(params={"x": 1}), INVALID_PARAMS),
    "half a surrogate": (
        request(method="session/get", params={"session_id": "X"}).replace("X", "\\ud800"),
        PARSE_ERROR,
    ),
    "deep brackets": (
        request(params=1).replace('"params":1', f'"params":{"[" * 30_000}{"]" * 30_000}'),
        PARSE_ERROR,
    ),
    "deep braces": (
        request(params=1).replace('"params":1', '"params":' + '{"a":' * 9_000 + "1" + "}" * 9_000),
        PARSE_ERROR,
    ),
    "many brackets": (
        request(params=1).replace('"params":1', f'"params":[{"[]," * 20_000}0]'),
        INVALID_PARAMS,
    ),
}


@pytest.mark.parametrize("name", BAD_MESSAGES)
async def test_case_41_a_message_that_is_no_request_is_answered_and_does_nothing(name: str) -> None:
    message, code = BAD_MESSAGES[name]
    async with open_daemon(settings=SMALL) as daemon, open_greeted(daemon) as raw:
        for _ in range(3):
            await raw.send(message)
            answer = await raw.receive()
            assert answer["error"]["code"] == code
            assert answer["error"]["data"]["type"] == "validation"
            assert len(answer["error"]["message"]) < 1000
        assert "result" in await raw.call("runtime/status")
        assert not daemon.gateway.stopped.is_set()


async def test_requests_with_the_same_id_are_each_answered() -> None:
    async with open_daemon() as daemon, open_greeted(daemon) as raw:
        for _ in range(500):
            await raw.send(request(id="again"))
        for _ in range(500):
            assert "result" in await raw.receive()


async def test_a_large_message_is_read_while_others_are_served() -> None:
    async with open_daemon() as daemon, open_greeted(daemon) as raw, open_client(daemon) as other:
        session = (await raw.call("session/new"))["result"]["session_id"]
        flat = f"[{'[],' * 2_000_000}0]"
        await raw.send(request(id=7).replace("}", f',"params":{flat}}}'))
        assert (await other.status()).connections == 2
        assert (await raw.receive())["error"]["code"] == INVALID_PARAMS
        picture = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(3_000_000)).decode()
        attachment = {"media_type": "image/png", "data": picture, "name": "a.png"}
        answer = await raw.call(
            "session/prompt", session_id=session, content="See.", attachments=[attachment]
        )
        assert "result" in answer, answer


# ── what goes wrong on the server's side ─────────────────────────────────────────────────────────


async def test_case_41_a_method_that_fails_ends_one_request(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    method = runtime_methods.methods.get("tool/list")
    assert method is not None

    def fail(*_: object) -> object:
        raise RuntimeError("secret detail")

    async def fail_in_a_group(*_: object) -> object:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_fail)
        return None

    for handler in (fail, fail_in_a_group):
        broken = msgspec.structs.replace(method, handler=handler)
        monkeypatch.setitem(runtime_methods.methods._methods, "tool/list", broken)
        async with (
            open_daemon() as daemon,
            open_greeted(daemon) as raw,
            open_client(daemon) as other,
        ):
            error = (await raw.call("tool/list"))["error"]
            assert error["code"] == INTERNAL_ERROR
            assert "secret detail" not in str(error)
            assert "result" in await raw.call("runtime/status")
            assert (await other.status()).connections == 2
    assert "tool/list failed" in caplog.text


async def _fail() -> None:
    raise ValueError("in a task")


async def test_case_41_a_connection_that_fails_ends_alone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    find = Connection._method

    def fail(connection: Connection, asked: RpcRequest) -> Method:
        if asked.method == "bug":
            raise RuntimeError("a bug in the reader")
        return find(connection, asked)

    monkeypatch.setattr(Connection, "_method", fail)
    async with open_daemon() as daemon, open_client(daemon) as other:
        async with open_greeted(daemon) as raw:
            await raw.send(request(method="bug"))
            with pytest.raises(ConnectionClosed, match="1011"):
                await raw.receive()
        assert (await other.status()).connections == 1
        async with open_client(daemon) as third:
            assert (await third.status()).connections == 2
    assert "a connection failed; others go on" in caplog.text


async def test_clients_that_leave_in_any_way_are_nothing_to_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with open_daemon() as daemon:
        whole = head_of(handshake(daemon))
        for size in (0, 1, len(whole) // 2, len(whole)):
            async with open_stream(daemon) as stream:
                await stream.send_all(whole[:size])
        for sent in (b"", frame(HELLO)[:10], frame(HELLO), frame(b"", CLOSE), frame(HELLO) * 2):
            async with open_frames(daemon) as stream:
                await stream.send_all(sent)
        async with open_client(daemon) as client:
            await are_left(client, 1)
    assert [record for record in caplog.records if record.levelname in {"ERROR", "WARNING"}] == []


# ── many, and slow ───────────────────────────────────────────────────────────────────────────────


async def test_case_41_many_idle_connections_cost_little_and_nobody_else_anything() -> None:
    many = IDLE + 100
    settings = ServerSettings(
        port=0, max_connections=many, max_peer_connections=many, max_token_connections=many
    )
    async with open_daemon(settings=settings) as daemon, open_client(daemon) as client:
        async with trio.open_nursery() as nursery:
            limiter = trio.CapacityLimiter(50)
            opened = 0
            everybody = trio.Event()

            async def idle() -> None:
                nonlocal opened
                async with limiter:
                    stream = await trio.open_tcp_stream("127.0.0.1", daemon.gateway.port)
                    await stream.send_all(head_of(handshake(daemon)))
                    await stream.receive_some()
                    await stream.send_all(frame(HELLO))
                    await stream.receive_some()
                opened += 1
                if opened == IDLE:
                    everybody.set()
                try:
                    await trio.sleep_forever()
                finally:
                    await trio.aclose_forcefully(stream)

            for _ in range(IDLE):
                nursery.start_soon(idle)
            await everybody.wait()
            assert (await client.status()).connections == IDLE + 1
            session = await client.create_session()
            await client.prompt(session.session_id, "Hello.")
            nursery.cancel_scope.cancel()
        await are_left(client, 1)


class Chatty:
    """A model that says much, a letter at a time, in each answer."""

    def __init__(self, pieces: int) -> None:
        self.pieces = pieces

    async def run(self, model_request: ModelRequest, emit: Emit) -> None:
        for _ in range(self.pieces):
            await emit([TextDelta("x" * 500)])
            await trio.lowlevel.checkpoint()
        await emit([Done(StopReason.END)])


async def test_case_62_who_never_reads_is_dropped_and_the_others_hear_all() -> None:
    settings = msgspec.structs.replace(SMALL, send_seconds=0.3, ping_seconds=60)
    model = Chatty(PIECES)
    async with open_daemon(model, settings=settings) as daemon, open_client(daemon) as reader:
        session = (await reader.create_session()).session_id
        view = View()
        async with open_frames(daemon) as deaf, reader.events(session, after_seq=0) as events:
            await deaf.send_all(frame(HELLO))
            subscribe = request(method="session/subscribe", params={"session_id": session})
            await deaf.send_all(frame(subscribe.encode()))
            first = await reader.prompt(session, "Speak.")
            await view.read(events)
            for _ in range(3):  # its own buffers, and the kernel's, are full some time
                await reader.prompt(session, "Speak again.")
                await view.read(events)
            await are_left(reader, 1)
        assert view.stored == await daemon.runtime.store.events(session)
        async with open_client(daemon) as again:
            late = View()
            async with again.events(
                session, after_seq=first.seq, epoch=again.welcome.epoch
            ) as rest:
                while len(late.stored) < len(view.stored) - first.seq:
                    late.take(await rest.__anext__())
            assert late.stored == view.stored[first.seq :]


async def test_case_62_what_waits_for_a_slow_reader_is_bounded_and_its_view_is_right() -> None:
    settings = msgspec.structs.replace(SMALL, send_seconds=20)
    async with open_daemon(Chatty(PIECES), settings=settings) as daemon:
        async with open_greeted(daemon) as raw:
            session = (await raw.call("session/new"))["result"]["session_id"]
            await raw.call("session/subscribe", session_id=session, after_seq=0)
            own = next(iter(daemon.gateway.daemon.connections))
            assert isinstance(own, Connection)
            largest = 0
            ended = 0
            for _ in range(2):
                await raw.call("session/prompt", session_id=session, content="Speak.")
            seqs, text, whole = [], "", []
            while ended < 2:
                heard = raw.heard.pop(0) if raw.heard else await raw.receive()
                largest = max(largest, own._outbox._size)
                params = heard.get("params", {})
                if "seq" in params and heard["method"] == "session/update":
                    seqs.append(params["seq"])
                    kind = params["event"]["type"]
                    ended += kind == "turn_ended"
                    if kind == "message_completed":
                        whole.append(text)
                        text = ""
                elif heard["method"] == "session/snapshot":
                    answer = params.get("answer")
                    text = "" if answer is None else _text(answer)
                elif params["event"]["type"] == "stream_batch":
                    text += _text(params["event"])
                await trio.sleep(0.0005)
            assert seqs == list(range(1, len(seqs) + 1))
            snapshot = 1.1 * 500 * PIECES
            assert largest <= settings.max_outbox_bytes + snapshot


def _text(batch: dict[str, object]) -> str:
    return "".join(str(each.get("text", "")) for each in batch["events"])  # type: ignore[attr-defined]


async def test_who_asks_and_never_reads_the_answers_is_closed() -> None:
    settings = msgspec.structs.replace(SMALL, send_seconds=60)
    async with open_daemon(settings=settings) as daemon, open_client(daemon) as other:
        async with open_frames(daemon) as deaf:
            await deaf.send_all(frame(HELLO))
            asked = frame(request(method="tool/list").encode())

            async def ask() -> None:
                with suppress(trio.BrokenResourceError):
                    while True:
                        await deaf.send_all(asked)

            async with trio.open_nursery() as nursery:
                nursery.start_soon(ask)
                await are_left(other, 1)
                nursery.cancel_scope.cancel()


async def test_a_peer_that_is_dead_is_found_out(leaping_clock: trio.testing.MockClock) -> None:
    settings = ServerSettings(port=0, ping_seconds=2)

    async def ping(alive: Client) -> None:
        leap(2)
        for _ in range(2):  # a pong is ahead of the second question
            await alive.status()
        leap(2 * MAX_MISSED_PINGS)

    async with open_daemon(settings=settings) as daemon, open_client(daemon) as alive:
        async with open_frames(daemon) as dead:
            await dead.send_all(frame(HELLO))  # and no pong, whatever comes
            while (await alive.status()).connections < 2:  # noqa: ASYNC110  nothing tells of it
                await trio.sleep(0.003)
            await ping(alive)
            received = await read_end(dead)
            assert received.count(b"\x89") >= 1
            assert close_code(received) == 1001
        await ping(alive)
        assert (await alive.status()).connections == 1  # its pongs came


async def test_who_is_sending_a_large_frame_answers_no_ping_and_is_not_dead(
    leaping_clock: trio.testing.MockClock,
) -> None:
    settings = ServerSettings(port=0, ping_seconds=2)
    asked = b'{"jsonrpc":"2.0","id":"late","method":"runtime/status"}'
    large = frame(b" " * (1 << 19) + asked)  # in the middle of which no pong is sent
    async with open_daemon(settings=settings) as daemon, open_frames(daemon) as busy:
        await busy.send_all(frame(HELLO))
        received = await busy.receive_some()
        [own] = daemon.gateway.daemon.connections
        assert isinstance(own, Connection)
        for at in range(0, len(large), 1 << 16):
            part = large[at : at + (1 << 16)]
            read = own._stream.bytes_read + len(part)
            await busy.send_all(part)
            while own._stream.bytes_read < read:  # noqa: ASYNC110  nothing tells of it
                await trio.sleep(0.003)
            leap(2)
            await trio.testing.wait_all_tasks_blocked()
        while b'"id":"late"' not in received:
            received += await busy.receive_some()
        for _ in range(2):  # now nothing more comes
            leap(2 * MAX_MISSED_PINGS)
            await trio.testing.wait_all_tasks_blocked()
        assert close_code(received + await read_end(busy)) == 1001


async def test_a_client_that_says_nothing_is_asked_to_begin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("callboard.gateway.connection.connection.HELLO_SECONDS", 0.1)
    async with open_daemon() as daemon, open_raw(daemon) as mute, open_client(daemon) as other:
        with pytest.raises(ConnectionClosed, match="initialize"):
            await mute.receive()
        assert (await other.status()).connections == 1


async def test_clients_are_told_when_a_daemon_stops() -> None:
    heard: list[str] = []
    code = None

    async with trio.open_nursery() as nursery:
        async with open_daemon() as daemon:
            opened = trio.Event()

            async def client() -> None:
                nonlocal code
                async with open_greeted(daemon) as raw:
                    opened.set()
                    code = await code_of_end(raw)
                    heard.extend(each["method"] for each in raw.heard)

            nursery.start_soon(client)
            await opened.wait()
            daemon.gateway.announce_end()
            async with open_stream(daemon) as late:
                await late.send_all(head_of(handshake(daemon)))
                assert b" 503 " in bytes(await late.receive_some())
    assert heard == ["runtime/stopping"]
    assert code == 1001


async def test_floods_leave_nothing_behind() -> None:
    async def flood(daemon: Daemon, sent: bytes) -> None:
        async with open_frames(daemon) as stream:
            try:
                await stream.send_all(frame(HELLO) + sent)
            except trio.BrokenResourceError:
                return
            await read_end(stream)

    async with open_daemon(settings=SMALL) as daemon, open_client(daemon) as other:
        floods = [sent for sent, _ in BAD_FRAMES.values()]

        async def rounds(number: int) -> int:
            for _ in range(number):
                for sent in floods:
                    await flood(daemon, sent)
            await are_left(other, 1)
            gc.collect()
            return tracemalloc.get_traced_memory()[0]

        await rounds(1)
        tracemalloc.start()
        try:
            first = await rounds(1)
            assert await rounds(3) - first < 200_000
        finally:
            tracemalloc.stop()
