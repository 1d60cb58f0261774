"""Routes of the door: bodies within their bounds, answers, streams, and one request after the other."""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

import msgspec
import pytest
import trio
import trio.testing

from callboard.config.sections import ServerSettings
from callboard.gateway.asgi import answer_by
from callboard.gateway.door import comments as door_comments
from callboard.gateway.door import exchange as door_exchange
from callboard.gateway.door import server as door_server
from callboard.gateway.door.exchange import ClientLeft, Exchange, Route
from callboard.gateway.door.http import (
    MAX_SMALL_CHUNKS,
    BadHead,
    HttpAnswer,
    HttpServerConnection,
)
from callboard.runtime.errors import CallboardError, NotFoundError, OverloadedError
from callboard.runtime.wire.fields import Role
from support.gateway.daemon_scene import open_daemon
from support.gateway.door_scene import chunked, open_door, request
from support.gateway.raw_door import PATIENCE, answer_to, open_stream, read_answer, read_end
from support.waits import until

KIB = 1024
MAX_BODY = 64 * KIB


async def echo(exchange: Exchange) -> HttpAnswer:
    return HttpAnswer(200, await exchange.body(MAX_BODY), "application/octet-stream")


async def any_type(exchange: Exchange) -> HttpAnswer:
    return HttpAnswer(200, await exchange.body(MAX_BODY, None))


def below(exchange: Exchange) -> HttpAnswer:
    return HttpAnswer(200, f"{exchange.rest} {exchange.query}")


ROUTES = {
    "/echo": Route(answer=echo, methods=("POST",)),
    "/any": Route(answer=any_type, methods=("POST", "PUT")),
    "/open": Route(answer=any_type, methods=("POST",), token="none"),
    "/below/": Route(answer=below),
}


# ── bodies ───────────────────────────────────────────────────────────────────────────────────────


async def test_a_body_comes_whole_however_it_is_sent() -> None:
    body = b"".join(b"%d," % n for n in range(4000))
    parts = [body[at : at + 999] for at in range(0, len(body), 999)]
    async with open_door(ROUTES) as daemon:
        whole = request(daemon, "/echo", body)
        in_chunks = request(
            daemon, "/echo", b"", content_length=None, transfer_encoding="chunked"
        ) + chunked(*parts)
        for sent in (whole, in_chunks):
            choice = random.Random(7)
            async with open_stream(daemon) as stream:
                cuts = sorted(choice.sample(range(len(sent)), 12))
                for start, end in zip([0, *cuts], [*cuts, len(sent)], strict=True):
                    await stream.send_all(sent[start:end])
                    await trio.lowlevel.checkpoint()
                answer = await read_answer(stream)
            assert (answer.status, answer.body.encode()) == (200, body)


async def test_an_empty_body_is_none() -> None:
    async with open_door(ROUTES) as daemon, open_stream(daemon) as stream:
        head = request(daemon, "/any", b"", content_length=None)
        for sent in (
            head,
            request(daemon, "/any", b""),
            request(daemon, "/any", b"", content_length=None, transfer_encoding="chunked")
            + chunked(),
        ):
            await stream.send_all(sent)
            answer = await read_answer(stream)
            assert (answer.status, answer.body) == (200, "")


async def test_a_body_that_is_too_large_is_refused_before_it_is_read() -> None:
    async with open_door(ROUTES) as daemon:
        for size, status in ((MAX_BODY, 200), (MAX_BODY + 1, 413)):
            body = b"1" * size
            assert (await answer_to(daemon, request(daemon, "/echo", body))).status == status
            head = request(daemon, "/echo", b"", content_length=None, transfer_encoding="chunked")
            sent = head + chunked(body[:100], body[100:])
            assert (await answer_to(daemon, sent)).status == status
        huge = request(daemon, "/echo", b"", content_length=str(10 << 30))
        assert (await answer_to(daemon, huge)).status == 413
        await until(lambda: daemon.gateway.daemon.quotas.size == 0)


async def test_a_body_is_welcome_only_with_a_token() -> None:
    async with open_door(ROUTES) as daemon:
        for token, status in ((daemon.token, 200), ("cb_wrong", 401)):
            async with open_stream(daemon) as stream:
                head = request(
                    daemon,
                    "/echo",
                    b"",
                    content_length="2",
                    expect="100-continue",
                    authorization=f"Bearer {token}",
                )
                await stream.send_all(head)
                if status == 200:
                    assert (await stream.receive_some()).startswith(b"HTTP/1.1 100")
                    await stream.send_all(b"{}")
                assert (await read_answer(stream)).status == status
        other = request(daemon, "/echo", b"{}", expect="a surprise")
        assert (await answer_to(daemon, other)).status == 417


MEDIA_TYPES: tuple[tuple[dict[str, Any], int], ...] = (
    ({}, 200),
    ({"content_type": "application/json; charset=utf-8"}, 200),
    ({"content_type": "Application/JSON;charset=UTF-8"}, 200),
    ({"content_encoding": "identity"}, 200),
    ({"content_encoding": "gzip"}, 415),
    ({"content_type": None}, 415),
    ({"content_type": ""}, 415),
    ({"content_type": "text/plain"}, 415),
    ({"content_type": "application/x-www-form-urlencoded"}, 415),
    ({"content_type": "application/json; charset=utf-16"}, 415),
    ({"content_type": "application/json; x=1"}, 415),
    ({"content_type": "text/plain; application/json"}, 415),
    ({"content_type": "application/jsonx"}, 415),
)


async def test_a_body_is_json_and_nothing_a_form_can_send() -> None:
    async with open_door(ROUTES) as daemon:
        for changes, status in MEDIA_TYPES:
            sent = request(daemon, "/echo", b"{}", **changes)
            assert (await answer_to(daemon, sent)).status == status, changes
            is_encoded = changes.get("content_encoding") == "gzip"
            signed = request(daemon, "/any", b"{}", **changes)
            assert (await answer_to(daemon, signed)).status == (415 if is_encoded else 200)


async def test_a_body_that_does_not_come_has_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door_exchange, "BODY_SECONDS", 0.05)
    async with open_door(ROUTES) as daemon:
        for head in (
            request(daemon, "/echo", b"", content_length="100"),
            request(daemon, "/echo", b"", content_length=None, transfer_encoding="chunked"),
        ):
            assert (await answer_to(daemon, head + b"5\r\n")).status == 408
        assert (await answer_to(daemon, request(daemon, "/echo", b"{}"))).status == 200


async def test_chunks_are_not_a_way_to_make_much_work() -> None:
    async with open_door(ROUTES) as daemon:
        for count, status in ((MAX_SMALL_CHUNKS, 200), (MAX_SMALL_CHUNKS + 100, 400)):
            head = request(daemon, "/echo", b"", content_length=None, transfer_encoding="chunked")
            answer = await answer_to(daemon, head + chunked(*[b"1"] * count))
            assert answer.status == status
        head = request(daemon, "/echo", b"", content_length=None, transfer_encoding="chunked")
        for extension, status in ((b"x=1", 200), (b"x" * 200_000, 431)):
            sent = head + b"2;" + extension + b"\r\n{}\r\n0\r\n\r\n"
            assert (await answer_to(daemon, sent)).status == status


@pytest.mark.parametrize("tokens", [0, 1, 3])
async def test_unfinished_bodies_hold_a_bounded_part_of_memory(tokens: int) -> None:
    """Those without a token, of routes that find out by themselves who asks, have one part together."""
    large = 256 * KIB
    settings = ServerSettings(
        port=0, max_frame_bytes=large, max_buffered_bytes=4 * large, send_seconds=600
    )

    async def read(exchange: Exchange) -> HttpAnswer:
        return HttpAnswer(200, str(len(await exchange.body(large))))

    routes = {
        "/large": Route(answer=read, methods=("POST",), token="required" if tokens else "none")
    }
    async with open_door(routes, settings) as daemon, AsyncExitStack() as stack:
        quotas = daemon.gateway.daemon.quotas
        names = [daemon.new_token(f"observer{n}", Role.OBSERVER) for n in range(tokens)] or [""]
        bound = 2 * large if tokens < 2 else 4 * large
        held: list[trio.SocketStream] = []
        for n in range(24):
            bearer = f"Bearer {names[n % len(names)]}"
            whole = request(daemon, "/large", b"1" * large, authorization=bearer)
            stream = await stack.enter_async_context(open_stream(daemon))
            await stream.send_all(whole[:-KIB])
            held.append(stream)
            assert quotas.size <= bound + 64 * KIB
        await until(lambda: 0 < quotas.size <= bound)
        statuses: list[int] = []

        async def end(stream: trio.SocketStream) -> None:
            statuses.append((await read_answer(stream)).status)
            nursery.cancel_scope.cancel()

        async with trio.open_nursery() as nursery:
            for stream in held:
                nursery.start_soon(end, stream)
        assert statuses[0] == 503  # who gave way was told so
        bearer = f"Bearer {daemon.token}"
        fresh = request(daemon, "/large", b"1" * 1000, authorization=bearer)
        assert (await answer_to(daemon, fresh)).status == 200


# ── heads with two meanings ──────────────────────────────────────────────────────────────────────

SMUGGLED = b"GET /below/ HTTP/1.1\r\nhost: x\r\n\r\n"


SHAPES: tuple[tuple[Sequence[str], int], ...] = (
    (["content-length: 2"], 200),
    (["transfer-encoding: chunked"], 200),
    (["content-length: 2", "transfer-encoding: chunked"], 400),
    (["transfer-encoding: chunked", "content-length: 2"], 400),
    (["content-length: 2", "content-length: 2"], 400),
    (["content-length: 2", "Content-Length: 3"], 400),
    (["content-length: 2, 2"], 400),
    (["content-length: +2"], 400),
    (["content-length: 0x2"], 400),
    (["content-length: 2 2"], 400),
    (["content-length : 2"], 400),
    (["content-length: -1"], 400),
    (["transfer-encoding: xchunked"], 501),
    (["transfer-encoding: gzip, chunked"], 501),
    (["transfer-encoding: chunked, chunked"], 501),
    (["transfer-encoding: chunked", "transfer-encoding: identity"], 501),
    (["transfer-encoding:\x0bchunked"], 400),
    (["content-length: 2", "x: 1", " folded: 1"], 400),
    (["content-length: 2\nx: 1"], 400),
    (["content-length: 2\rx: 1"], 400),
    (["x: 1\0"], 400),
)


async def test_a_request_that_others_could_read_in_another_way_is_refused() -> None:
    async with open_door(ROUTES) as daemon:
        head = request(daemon, "/echo", b"", content_length=None)[:-2]
        for lines, status in SHAPES:
            body = chunked(b"{}") if "transfer" in lines[0] else b"{}"
            sent = head + "\r\n".join([*lines, "", ""]).encode() + body
            async with open_stream(daemon) as stream:
                await stream.send_all(sent + (SMUGGLED if status != 200 else b""))
                assert (await read_answer(stream)).status == status, lines
                if status != 200:
                    assert await read_end(stream) == b""  # nothing behind it was answered


async def test_other_versions_and_lines_are_refused() -> None:
    async with open_door(ROUTES) as daemon:
        right = request(daemon, "/below/x", method="GET")
        assert (await answer_to(daemon, right)).status == 200
        bare = right.replace(b"\r\n", b"\n")
        assert (await answer_to(daemon, bare)).status == 400
        assert (await answer_to(daemon, right[:-2] + b"\n" + SMUGGLED)).status == 400
        for version in ("2.0", "1.2", "0.9"):
            other = request(daemon, "/below/x", method="GET", version=version)
            assert (await answer_to(daemon, other)).status in {400, 505}
        old = request(
            daemon,
            "/echo",
            b"",
            version="1.0",
            content_length=None,
            transfer_encoding="chunked",
        )
        assert (await answer_to(daemon, old + chunked(b"{}"))).status == 400


# ── methods, paths, errors ───────────────────────────────────────────────────────────────────────


async def test_a_route_names_its_methods() -> None:
    async with open_door(ROUTES) as daemon:
        for target, method, status, allowed in (
            ("/echo", "GET", 405, "POST"),
            ("/echo", "OPTIONS", 405, "POST"),
            ("/any", "DELETE", 405, "POST, PUT"),
            ("/below/", "POST", 405, "GET, HEAD"),
            ("/below/a/b?c=d", "GET", 200, None),
            ("/below", "GET", 404, None),
            ("/echo/", "POST", 404, None),
            ("/", "GET", 404, None),
            ("/belowx/", "GET", 404, None),
        ):
            answer = await answer_to(daemon, request(daemon, target, method=method))
            assert (answer.status, answer.headers.get("allow")) == (status, allowed), target
        answer = await answer_to(daemon, request(daemon, "/below/a/b?c=d", method="GET"))
        assert answer.body == "a/b c=d\n"


async def test_an_answer_to_head_has_no_body() -> None:
    async with open_door(ROUTES) as daemon, open_stream(daemon) as stream:
        for method in ("HEAD", "GET"):
            await stream.send_all(request(daemon, "/below/x", method=method))
        received = b""
        while not received.endswith(b"x \n"):
            received += await stream.receive_some()
        assert received.count(b"content-length: 3") == 2
        assert received.count(b"x \n") == 1


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (NotFoundError("no such thing"), 404),
        (OverloadedError("later"), 503),
        (BadHead(418, "a teapot"), 418),
        (ValueError("a secret"), 500),
    ],
)
async def test_what_a_route_raises_is_an_answer(
    error: CallboardError | BadHead | ValueError, status: int
) -> None:
    def fail(exchange: Exchange) -> HttpAnswer:
        raise error

    def refuse(refused: BadHead) -> HttpAnswer:
        text = f"{{{refused}}}"
        return HttpAnswer(refused.status, text, "application/json", refused.headers)

    routes = {"/fail": Route(answer=fail), "/json": Route(answer=fail, refuse=refuse)}
    async with open_door(routes) as daemon, open_stream(daemon) as stream:
        for target in ("/fail", "/json"):  # over the same connection
            await stream.send_all(request(daemon, target, method="GET"))
            answer = await read_answer(stream)
            assert (answer.status, "secret" in answer.body) == (status, False)
            assert answer.headers.get("retry-after") == ("1" if status == 503 else None)
            assert answer.body.startswith("{") == (target == "/json")
        wrong = request(daemon, "/json", method="GET", authorization="Bearer cb_x")
        await stream.send_all(wrong)
        assert (await read_answer(stream)).body.startswith("{")


async def test_a_key_header_of_another_kind_of_client_is_a_token() -> None:
    async with open_door(ROUTES) as daemon:
        for key, bearer, status in (
            (daemon.token, None, 200),
            ("cb_wrong", None, 401),
            (daemon.token, f"Bearer {daemon.token}", 401),
        ):
            sent = request(daemon, "/below/x", method="GET", authorization=bearer, x_api_key=key)
            assert (await answer_to(daemon, sent)).status == status


# ── one request after the other ──────────────────────────────────────────────────────────────────


async def test_a_connection_is_kept_for_more_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door_server, "MAX_REQUESTS", 4)
    async with open_door(ROUTES) as daemon:
        async with open_stream(daemon) as stream:
            for n in range(4):
                await stream.send_all(request(daemon, "/echo", b"%d" % n))
                answer = await read_answer(stream)
                assert (answer.status, answer.body) == (200, f"{n}")
                assert answer.headers.get("connection") == ("close" if n == 3 else None)
            assert await read_end(stream) == b""
        for changes in ({"connection": "close"}, {"version": "1.0"}):
            async with open_stream(daemon) as stream:
                await stream.send_all(request(daemon, "/echo", b"{}", **changes))
                assert (await read_answer(stream)).headers["connection"] == "close"
                assert await read_end(stream) == b""


async def test_requests_sent_ahead_are_answered_in_order() -> None:
    async with open_door(ROUTES) as daemon, open_stream(daemon) as stream:
        sent = b"".join(request(daemon, "/echo", b"%d" % n * 10) for n in range(5))
        await stream.send_all(sent)
        received = b""
        while not received.endswith(b"4" * 10):
            received += await stream.receive_some()
        found = [received.index(b"\r\n\r\n" + b"%d" % n * 10) for n in range(5)]
        assert found == sorted(found)


async def test_who_waits_between_two_requests_gives_its_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = ServerSettings(port=0, max_connections=3, max_peer_connections=3)
    async with open_door(ROUTES, settings) as daemon, AsyncExitStack() as stack:
        idle = []
        for _ in range(3):
            stream = await stack.enter_async_context(open_stream(daemon))
            await stream.send_all(request(daemon, "/echo", b"{}"))
            assert (await read_answer(stream)).status == 200
            idle.append(stream)
        for _ in range(2):
            assert (await answer_to(daemon, request(daemon, "/echo", b"{}"))).status == 200
        assert await read_end(idle[0]) == b""


async def test_who_waits_too_long_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door_server, "IDLE_SECONDS", 0.01)
    async with open_door(ROUTES) as daemon, open_stream(daemon) as stream:
        await stream.send_all(request(daemon, "/echo", b"{}"))
        assert (await read_answer(stream)).status == 200
        assert await read_end(stream) == b""


async def test_who_waits_does_not_delay_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("callboard.gateway.gateway.FAREWELL_SECONDS", 10 * PATIENCE)
    with trio.fail_after(PATIENCE):
        async with open_daemon() as daemon:
            stream = await trio.open_tcp_stream("127.0.0.1", daemon.gateway.port)
            await stream.send_all(request(daemon, "/healthz", method="GET"))
            assert (await read_answer(stream)).status == 200
        assert await read_end(stream) == b""
        await stream.aclose()


# ── streams ──────────────────────────────────────────────────────────────────────────────────────


class Ticker:
    """A route that streams what the test puts in."""

    def __init__(self) -> None:
        self.put, self._parts = trio.open_memory_channel[bytes](100)
        self.ended: list[bool] = []

    async def answer(self, exchange: Exchange) -> None:
        async with exchange.stream() as stream:
            async for part in self._parts:
                await stream.send(part)
        self.ended.append(exchange.has_left)

    @property
    def routes(self) -> dict[str, Route]:
        return {**ROUTES, "/ticks": Route(answer=self.answer, methods=("GET",))}


async def receive(stream: trio.SocketStream, end: bytes) -> bytes:
    received = b""
    while not received.endswith(end):
        data = await stream.receive_some()
        assert data, received
        received += data
    return received


@pytest.mark.parametrize("version", ["1.1", "1.0"])
async def test_a_stream_comes_as_it_is_sent_and_ends_whole(version: str) -> None:
    ticker = Ticker()
    async with open_door(ticker.routes) as daemon, open_stream(daemon) as stream:
        await stream.send_all(request(daemon, "/ticks", method="GET", version=version))
        head = await receive(stream, b"\r\n\r\n")
        assert b"content-type: text/event-stream" in head
        assert b"x-accel-buffering: no" in head
        is_chunked = version == "1.1"
        for part in (b"data: 1\n\n", b"data: two\n\n"):
            await ticker.put.send(part)
            expected = b"%x\r\n%b\r\n" % (len(part), part) if is_chunked else part
            assert await receive(stream, expected) == expected
        ticker.put.close()
        if is_chunked:
            assert await receive(stream, b"0\r\n\r\n") == b"0\r\n\r\n"
            await stream.send_all(request(daemon, "/echo", b"{}"))
            assert (await read_answer(stream)).body == "{}"
        else:
            assert await read_end(stream) == b""
        assert ticker.ended == [False]


async def test_a_silent_stream_gets_comments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door_comments, "COMMENT_SECONDS", 0.01)
    ticker = Ticker()
    async with open_door(ticker.routes) as daemon, open_stream(daemon) as stream:
        await stream.send_all(request(daemon, "/ticks", method="GET"))
        await receive(stream, b"3\r\n:\n\n\r\n3\r\n:\n\n\r\n")


class _Quiet:
    """A stream that takes comments slowly."""

    def __init__(self) -> None:
        self.comment = b":\n\n"
        self.sent_at = trio.current_time()
        self.heard: list[float] = []
        self.seconds = 0.0

    async def send(self, data: bytes) -> None:
        assert data == self.comment
        self.heard.append(trio.current_time())
        await trio.sleep(self.seconds)
        self.sent_at = trio.current_time()


async def test_one_task_sends_the_comments_of_all_streams(
    autojump_clock: trio.testing.MockClock,
) -> None:
    begun = trio.current_time()
    comments = door_comments.Comments()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(comments.run)
        await trio.sleep(3)
        first, later, slow = _Quiet(), _Quiet(), _Quiet()
        slow.seconds = 20.0  # its client takes nothing for so long: there is one comment at a time
        for each in (first, slow):
            comments.add(each, nursery)
        await trio.sleep(7)
        later.sent_at = trio.current_time()
        comments.add(later, nursery)
        await trio.sleep(25.1)
        comments.forget(first)
        comments.forget(first)  # again is harmless
        await trio.sleep(20)
        nursery.cancel_scope.cancel()
    assert [round(each - begun) for each in first.heard] == [18, 33]
    assert [round(each - begun) for each in later.heard] == [25, 40, 55]
    assert [round(each - begun) for each in slow.heard] == [18, 53]


async def test_a_stream_that_was_begun_by_hand_gets_no_comments_behind_its_block(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As applications of ASGI begin theirs."""
    monkeypatch.setattr(door_comments, "COMMENT_SECONDS", 0.01)

    async def by_hand(exchange: Exchange) -> None:
        async with exchange.until_left() as nursery:
            stream = await exchange.begin_stream(nursery, 200, (), "text/event-stream")
            await stream.send(b"data: 1\n\n")
            await trio.sleep_forever()

    ticker = Ticker()
    routes = {**ticker.routes, "/hand": Route(answer=by_hand, methods=("GET",))}
    async with open_door(routes) as daemon, open_stream(daemon) as other:
        async with open_stream(daemon) as stream:
            await stream.send_all(request(daemon, "/hand", method="GET"))
            await receive(stream, b"3\r\n:\n\n\r\n3\r\n:\n\n\r\n")
        await until(lambda: not daemon.gateway.daemon.exchanges)
        await other.send_all(request(daemon, "/ticks", method="GET"))
        await receive(other, b"3\r\n:\n\n\r\n3\r\n:\n\n\r\n")  # those of others go on


async def test_an_application_may_end_its_stream_when_its_client_has_what_it_wanted() -> None:
    """A client of MCP closes as it has its answer, and the session that this opened must be there."""
    said: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        kind = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": kind})
        await send({"type": "http.response.body", "body": b"data: 1\n\n", "more_body": True})
        try:
            if scope["path"] == "/ends":
                await left.wait()
                await trio.testing.wait_all_tasks_blocked()
                await send({"type": "http.response.body", "body": b"", "more_body": False})
            else:
                await trio.sleep_forever()
            said.append("ended")
        except trio.Cancelled:
            said.append("cancelled")
            raise

    async def answer(exchange: Exchange) -> HttpAnswer | None:
        return await answer_by(app, exchange, MAX_BODY, 100)

    routes = {path: Route(answer=answer, methods=("POST",)) for path in ("/ends", "/stays")}
    async with open_door(routes) as daemon:
        for path, wanted in (("/ends", "ended"), ("/stays", "cancelled")):
            left = trio.Event()
            async with open_stream(daemon) as stream:
                await stream.send_all(request(daemon, path, b"{}"))
                await receive(stream, b"data: 1\n\n\r\n")
            left.set()
            await until(lambda: bool(said))
            assert said.pop() == wanted


async def test_a_client_that_leaves_before_its_stream_begins_is_no_fault(
    caplog: pytest.LogCaptureFixture,
) -> None:
    left: list[bool] = []

    async def late(exchange: Exchange) -> None:
        try:
            async with exchange.stream() as stream:
                await stream.send(b"never")
        finally:
            left.append(exchange.has_left)

    def gone(connection: HttpServerConnection, *args: Any) -> bytes:
        raise ClientLeft("it left in this moment")

    routes = {**ROUTES, "/late": Route(answer=late, methods=("GET",))}
    async with open_door(routes) as daemon:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(HttpServerConnection, "begin_stream", gone)
            async with open_stream(daemon) as stream:
                await stream.send_all(request(daemon, "/late", method="GET"))
                assert await read_end(stream) == b""
        assert left == [True]
        assert (await answer_to(daemon, request(daemon, "/echo", b"{}"))).status == 200
    assert not caplog.records


async def test_pieces_that_hold_are_sent_together(autojump_clock: trio.testing.MockClock) -> None:
    """The first text goes out at once; what comes in the 8 ms behind a piece goes out with the next one."""
    begun = trio.current_time()
    sent: list[tuple[int, bytes]] = []
    waiting: list[bytes] = []
    some = trio.Event()

    async def send(data: bytes) -> None:
        await trio.lowlevel.checkpoint()
        sent.append((int((trio.current_time() - begun) * 1000), data))

    async def speak() -> None:
        for at in range(20):  # a letter at 0.5 ms, and at 1.2, 2.2, 3.2 …
            await trio.sleep_until(begun + (at * 1.0 + (0.2 if at else 0.5)) / 1000)
            waiting.append(b"x")
            some.set()

    stream = door_exchange.ResponseStream(send, lambda data: data)
    async with trio.open_nursery() as nursery:
        await stream.send(b"begin")
        nursery.start_soon(speak)
        await some.wait()
        while waiting:
            data = b"".join(waiting)
            waiting.clear()
            await stream.send(data, holds=True)
    assert sent == [(0, b"begin"), (0, b"x"), (8, b"x" * 8), (16, b"x" * 8), (24, b"xxx")]
    for data, holds in ((b"end", False), (b"", True), (b"end", False)):
        await stream.send(data, holds=holds)  # nothing holds up what is behind it
    assert sent[-1] == (sent[-2][0], b"end")


async def test_a_stream_ends_with_its_client() -> None:
    ticker = Ticker()
    async with open_door(ticker.routes) as daemon:
        async with open_stream(daemon) as stream:
            await stream.send_all(request(daemon, "/ticks", method="GET"))
            await receive(stream, b"\r\n\r\n")
        await until(lambda: ticker.ended == [True])
        async with open_stream(daemon) as stream:
            await stream.send_all(request(daemon, "/ticks", method="GET"))
            await receive(stream, b"\r\n\r\n")
            await stream.send_eof()  # which is leaving, too
            await until(lambda: ticker.ended == [True, True])


async def test_a_client_that_takes_nothing_is_dropped() -> None:
    settings = ServerSettings(port=0, send_seconds=0.05)
    ended = trio.Event()

    async def flood(exchange: Exchange) -> None:
        async with exchange.stream() as stream:
            while True:
                await stream.send(b"x" * KIB * KIB)
        assert exchange.has_left
        ended.set()

    routes = {"/flood": Route(answer=flood, methods=("GET",))}
    async with open_door(routes, settings) as daemon, open_stream(daemon) as stream:
        await stream.send_all(request(daemon, "/flood", method="GET"))
        await ended.wait()
        await until(lambda: daemon.gateway.daemon.quotas.size == 0)


def _has_length(given: list[bool], length: int) -> bool:
    return len(given) == length


async def test_answers_that_nobody_takes_hold_a_bounded_part_of_memory() -> None:
    mib = KIB * KIB
    settings = ServerSettings(port=0, max_buffered_bytes=32 * mib, send_seconds=600)
    left: list[bool] = []

    async def flood(exchange: Exchange) -> None:
        async with exchange.stream() as stream:
            while True:
                await stream.send(b"x" * 6 * mib)  # more than a socket takes
        left.append(exchange.has_left)

    settings = msgspec.structs.replace(settings, max_frame_bytes=mib)
    routes = {**ROUTES, "/flood": Route(answer=flood, methods=("GET",))}
    async with open_door(routes, settings) as daemon, AsyncExitStack() as stack:
        quotas = daemon.gateway.daemon.quotas
        for count in range(1, 6):
            stream = await stack.enter_async_context(open_stream(daemon))
            await stream.send_all(request(daemon, "/flood", method="GET"))
            await until(partial(_has_length, left, max(0, count - 2)))
            assert quotas.size <= 16 * mib
        assert (await answer_to(daemon, request(daemon, "/echo", b"{}"))).status == 200


async def test_a_stream_ends_with_its_token() -> None:
    ticker = Ticker()
    async with open_door(ticker.routes) as daemon, open_stream(daemon) as stream:
        token = daemon.new_token("phone", Role.OBSERVER)
        bearer = f"Bearer {token}"
        await stream.send_all(request(daemon, "/ticks", method="GET", authorization=bearer))
        await receive(stream, b"\r\n\r\n")
        await trio.to_thread.run_sync(daemon.credentials.revoke, "phone")
        assert not (await read_end(stream)).endswith(b"0\r\n\r\n")  # it is cut off, not whole
        assert ticker.ended == []
        assert not daemon.gateway.daemon.exchanges


async def test_a_stream_that_fails_is_cut_off_and_others_go_on() -> None:
    async def fail(exchange: Exchange) -> None:
        async with exchange.stream() as stream:
            await stream.send(b"data: 1\n\n")
            raise KeyError("a fault")

    routes = {**ROUTES, "/fail": Route(answer=fail, methods=("GET",))}
    async with open_door(routes) as daemon:
        async with open_stream(daemon) as stream:
            await stream.send_all(request(daemon, "/fail", method="GET"))
            assert (await read_end(stream)).endswith(b"data: 1\n\n\r\n")
        assert (await answer_to(daemon, request(daemon, "/echo", b"{}"))).status == 200


async def test_what_takes_long_is_cancelled_when_its_client_leaves() -> None:
    begun, ended = trio.Event(), trio.Event()

    async def wait(exchange: Exchange) -> HttpAnswer | None:
        await exchange.body(MAX_BODY)
        async with exchange.until_left():
            begun.set()
            await trio.sleep_forever()
        assert exchange.has_left
        ended.set()
        return None

    async def at_once(exchange: Exchange) -> HttpAnswer:
        async with exchange.until_left():
            await trio.lowlevel.checkpoint()
        assert not exchange.has_left
        return HttpAnswer(200, "done")

    routes = {
        "/wait": Route(answer=wait, methods=("POST",)),
        "/once": Route(answer=at_once),
    }
    async with open_door(routes) as daemon:
        async with open_stream(daemon) as stream:
            await stream.send_all(request(daemon, "/wait", b"{}"))
            await begun.wait()
        with trio.fail_after(PATIENCE):
            await ended.wait()
        answer = await answer_to(daemon, request(daemon, "/once", method="GET"))
        assert answer.body == "done\n"
