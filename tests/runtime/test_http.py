"""The HTTP client over real sockets: connections, cancelling, what is refused, and errors."""

from __future__ import annotations

import gzip
import logging
import random
import socket
import ssl
import subprocess
import sys
import zlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from callboard.providers.testing.script import (
    Step,
    close_before_head,
    cut_after,
    drip,
    garbage,
    reply,
    reset,
    stall,
    status,
)
from callboard.providers.testing.scripted_server import (
    ScriptedRequest,
    ScriptedServer,
    open_scripted_server,
)
from callboard.runtime.errors import DeadlineError, NetworkError, ValidationError
from callboard.runtime.http import connection as http_connection
from callboard.runtime.http import pool as http_pool
from callboard.runtime.http.client import HttpClient, HttpStatistics, open_http_client
from callboard.runtime.http.connection import CONNECT_SECONDS
from callboard.runtime.http.http1 import MAX_HEAD_BYTES
from callboard.runtime.http.pool import ConnectionPool
from callboard.runtime.http.response import (
    MAX_DECOMPRESSED_BYTES,
    MAX_FRUITLESS_BYTES,
    Decompressor,
)

# Self-signed for 127.0.0.1 and localhost, valid until 2120; used by these tests alone.
CERTIFICATE = """\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg/9VSiupuwNESQKfo
qdfGHAE/IwGljz3N6l2Zne8l206hRANCAARp12M7bgQpGAp8yilOvt1aG/fUgBqP
LzvYpld9winqHIHt/3O4ej1WQsOWAjYd8MhEG/3nb8t6iF07UU8lKya6
-----END PRIVATE KEY-----
-----BEGIN CERTIFICATE-----
MIIBcTCCARegAwIBAgIBATAKBggqhkjOPQQDAjAZMRcwFQYDVQQDDA5jYWxsYm9h
cmQgdGVzdDAgFw0yMDAxMDEwMDAwMDBaGA8yMTIwMDEwMTAwMDAwMFowGTEXMBUG
A1UEAwwOY2FsbGJvYXJkIHRlc3QwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAARp
12M7bgQpGAp8yilOvt1aG/fUgBqPLzvYpld9winqHIHt/3O4ej1WQsOWAjYd8MhE
G/3nb8t6iF07UU8lKya6o04wTDAPBgNVHRMBAf8EBTADAQH/MBoGA1UdEQQTMBGH
BH8AAAGCCWxvY2FsaG9zdDAdBgNVHQ4EFgQUocNO0I8d0auxo+BAATaGLU3jtFww
CgYIKoZIzj0EAwIDSAAwRQIgbC7EgJTflo43TlLx59ILnJDQt1PhY/GzhH5zVEPt
ALsCIQDFj72pukxygnruVincGMPF2iohqMK9SSsTkiMkadjRiA==
-----END CERTIFICATE-----
"""


async def post(client: HttpClient, url: str, body: bytes = b"{}", **headers: str) -> bytes:
    """The whole body of an answer."""
    async with client.stream_post(url, headers, body) as answer:
        return await answer.read_all(10_000_000)


async def read_to_the_end(client: HttpClient, url: str) -> None:
    """Reads as the model stream does: a break is an error, wherever it comes."""
    async with client.stream_post(url, {}, b"{}") as answer:
        while await answer.read_some():
            pass


def chat(server: ScriptedServer) -> str:
    return server.base_url + "/chat/completions"


@asynccontextmanager
async def open_raw_server(
    answer: bytes, *, tls: ssl.SSLContext | None = None
) -> AsyncGenerator[str]:
    """Answers the first bytes of every connection with these, in one write, and closes it."""

    async def serve(stream: trio.abc.Stream) -> None:
        if tls is not None:
            stream = trio.SSLStream(stream, tls, server_side=True, https_compatible=True)
        try:
            await stream.receive_some(65536)
            await stream.send_all(answer)
            await stream.aclose()
        except trio.BrokenResourceError:
            await trio.aclose_forcefully(stream)  # a client that does not trust us, or has enough

    [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener.socket.getsockname()[1]
    async with trio.open_nursery() as nursery:
        await nursery.start(trio.serve_listeners, serve, [listener])
        try:
            yield f"{'https' if tls else 'http'}://127.0.0.1:{port}/"
        finally:
            nursery.cancel_scope.cancel()


class Resolver(trio.abc.HostnameResolver):
    """Names that don't exist, or whose answer never comes."""

    def __init__(self, *, answers: bool) -> None:
        self._answers = answers

    async def getaddrinfo(self, *_: Any, **__: Any) -> Any:
        if not self._answers:
            await trio.sleep_forever()
        await trio.lowlevel.checkpoint()
        raise socket.gaierror(socket.EAI_NONAME, "no such name")

    async def getnameinfo(self, sockaddr: Any, flags: int) -> Any:
        raise NotImplementedError


async def test_requests_one_after_another_share_a_connection() -> None:
    async with open_scripted_server([reply("x")] * 20) as server, open_http_client() as client:
        for _ in range(20):
            assert b"[DONE]" in await post(client, chat(server))
            assert client.statistics() == HttpStatistics(active=0, idle=1)
        assert server.connections == 1


async def test_a_connection_that_the_request_closes_is_not_used_again() -> None:
    # The server may close it without saying so once more in its answer.
    async with open_scripted_server([reply("x")] * 2) as server, open_http_client() as client:
        for value in ("Keep-Alive, Close", "close"):
            await post(client, chat(server), connection=value)
            assert client.statistics() == HttpStatistics(active=0, idle=0)
        assert server.connections == 2


async def test_bytes_behind_an_answer_never_pass_for_the_next_one() -> None:
    answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
    async with open_raw_server(answer + answer) as url, open_http_client() as client:
        assert await post(client, url) == b"ok"
        assert client.statistics() == HttpStatistics(active=0, idle=0)


class Cork(trio.abc.Stream):
    """Holds what TLS sends until it is flushed: several records in one segment."""

    def __init__(self, tcp: trio.abc.Stream) -> None:
        self._tcp = tcp
        self._held: bytearray | None = None

    def hold(self) -> None:
        self._held = bytearray()

    async def flush(self) -> None:
        held, self._held = self._held, None
        await self._tcp.send_all(bytes(held or b""))

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        if self._held is None:
            await self._tcp.send_all(data)
        else:
            await trio.lowlevel.checkpoint()
            self._held += data

    async def wait_send_all_might_not_block(self) -> None:
        await self._tcp.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        return bytes(await self._tcp.receive_some(max_bytes))

    async def aclose(self) -> None:
        await self._tcp.aclose()


def answer_of(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body


@asynccontextmanager
async def open_tls_server(
    tls: ssl.SSLContext, first: list[bytes]
) -> AsyncGenerator[tuple[str, list[int]]]:
    """Answers the first request with these records in one segment, others with their number."""
    served: list[int] = []

    async def serve(tcp: trio.SocketStream) -> None:
        served.append(0)
        number = len(served) - 1
        cork = Cork(tcp)
        stream = trio.SSLStream(cork, tls, server_side=True, https_compatible=True)
        with suppress(trio.BrokenResourceError):
            while await stream.receive_some(65536):
                served[number] += 1
                cork.hold()
                for record in first if sum(served) == 1 else [answer_of(b"%d" % sum(served))]:
                    await stream.send_all(record)
                await cork.flush()
        await trio.aclose_forcefully(stream)

    [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener.socket.getsockname()[1]
    async with trio.open_nursery() as nursery:
        await nursery.start(trio.serve_listeners, serve, [listener])
        try:
            yield f"https://127.0.0.1:{port}/", served
        finally:
            nursery.cancel_scope.cancel()


@pytest.fixture
def trusted_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ssl.SSLContext:
    pem = tmp_path / "trusted.pem"
    pem.write_text(CERTIFICATE, encoding="ascii")
    monkeypatch.setenv("SSL_CERT_FILE", str(pem))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    return context


async def test_a_tls_record_behind_an_answer_never_passes_for_the_next_one(
    trusted_tls: ssl.SSLContext,
) -> None:
    records = [answer_of(b"real"), answer_of(b"smuggled")]
    async with open_tls_server(trusted_tls, records) as (url, served):
        async with open_http_client() as client:
            assert await post(client, url) == b"real"
            assert client.statistics() == HttpStatistics(active=0, idle=0)
            assert await post(client, url) == b"2"
            # The control: where nothing is behind the answer, the connection is used again.
            assert await post(client, url) == b"3"
    assert served == [1, 2]


async def test_a_tls_stream_whose_buffer_is_not_to_be_seen_is_not_used_again(
    trusted_tls: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_tls_server(trusted_tls, [answer_of(b"1")]) as (url, served):
        async with open_http_client() as client:
            async with client.stream_post(url, {}, b"{}") as answer:
                assert await answer.read_all(100) == b"1"
                monkeypatch.setattr(ssl, "MemoryBIO", type("Other", (), {}))
            monkeypatch.undo()
            assert client.statistics() == HttpStatistics(active=0, idle=0)
    assert served == [1]


@pytest.mark.parametrize("header", ["authorization", "x-api-key", "x-goog-api-key"])
async def test_two_accounts_never_share_a_connection(header: str) -> None:
    async with open_scripted_server([reply("x")] * 4) as server, open_http_client() as client:
        for key, connections in (("one", 1), ("two", 2), ("one", 2), ("two", 2)):
            await post(client, chat(server), b"{}", **{header: key})
            assert server.connections == connections


async def test_an_answer_that_was_not_read_to_its_end_costs_its_connection() -> None:
    steps = [reply("x" * 1000), reply("y")]
    async with open_scripted_server(steps) as server, open_http_client() as client:
        async with client.stream_post(chat(server), {}, b"{}") as answer:
            assert answer.status == 200
        assert client.statistics() == HttpStatistics(active=0, idle=0)
        await post(client, chat(server))
        assert server.connections == 2


async def hold_all(client: HttpClient, server: ScriptedServer, count: int) -> None:
    """So many answers at once, all of them begun before the first is read."""
    all_begun = trio.Event()
    begun = 0

    async def hold() -> None:
        nonlocal begun
        async with client.stream_post(chat(server), {}, b"{}") as answer:
            begun += 1
            if begun == count:
                assert client.statistics().active == count
                all_begun.set()
            await all_begun.wait()
            assert b"[DONE]" in await answer.read_all(100_000)

    async with trio.open_nursery() as nursery:
        for _ in range(count):
            nursery.start_soon(hold)


async def test_many_streams_at_once_come_back_to_their_connections() -> None:
    count = 50
    async with open_scripted_server([reply("x")] * 2 * count) as server:
        async with open_http_client() as client:
            for _ in range(2):
                await hold_all(client, server, count)
                assert client.statistics() == HttpStatistics(active=0, idle=count)
            # The second round found the connections of the first.
            assert server.connections == count


async def test_connections_that_nobody_comes_back_for_are_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    count = 30
    async with open_scripted_server([reply("x")] * (count + 1)) as server:
        async with open_http_client() as client:
            await hold_all(client, server, count)
            assert client.statistics().idle == count
            monkeypatch.setattr(http_pool, "SWEEP_SECONDS", -1.0)
            monkeypatch.setattr(http_connection, "KEEPALIVE_SECONDS", -1.0)
            await post(client, chat(server))
            assert client.statistics() == HttpStatistics(active=0, idle=1)


async def test_they_are_closed_by_a_request_that_ends_too(monkeypatch: pytest.MonkeyPatch) -> None:
    count = 5
    async with open_scripted_server([reply("x")] * (count + 1)) as server:
        async with open_http_client() as client:
            await hold_all(client, server, count)
            async with client.stream_post(chat(server), {}, b"{}") as answer:
                assert client.statistics() == HttpStatistics(active=1, idle=count - 1)
                await answer.read_all(100_000)
                monkeypatch.setattr(http_pool, "SWEEP_SECONDS", -1.0)
                monkeypatch.setattr(http_connection, "KEEPALIVE_SECONDS", -1.0)
            assert client.statistics() == HttpStatistics(active=0, idle=1)


async def test_only_so_many_idle_connections_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_pool, "MAX_IDLE_CONNECTIONS", 3)
    async with open_scripted_server([reply("x")] * 6) as server, open_http_client() as client:
        await hold_all(client, server, 5)
        assert client.statistics() == HttpStatistics(active=0, idle=3)
        await post(client, chat(server))
        assert server.connections == 5


async def test_after_300_requests_cancelled_at_random_moments_the_next_one_is_served() -> None:
    chance = random.Random(300)
    slow: list[Step] = [
        reply(["piece "] * 20, piece_seconds=0.0005),
        reply("x" * 200_000, chunk="bytes:1000"),
        reply("late", delay_seconds=0.005),
        reply("whole"),
        stall("and then"),
        drip(0.0005),
    ]
    is_over = False

    def step(_: ScriptedRequest) -> Step:
        return reply("fine") if is_over else chance.choice(slow)

    bodies = [b"{}", b'{"a":"%b"}' % (b"x" * 200_000)]
    outcomes = {"cancelled": 0, "answered": 0}

    async with open_scripted_server([step] * 301) as server, open_http_client() as client:

        async def request(seconds: float) -> None:
            with trio.move_on_after(seconds) as scope:
                await post(client, chat(server), chance.choice(bodies))
            outcomes["cancelled" if scope.cancelled_caught else "answered"] += 1

        for _ in range(10):
            async with trio.open_nursery() as nursery:
                for _ in range(30):
                    nursery.start_soon(request, chance.random() * 0.06)
            assert client.statistics().active == 0
        assert outcomes["cancelled"] > 50
        is_over = True
        assert b"fine" in await post(client, chat(server))
        assert client.statistics().active == 0


async def test_a_read_gives_all_that_the_network_brought() -> None:
    chunks = b"".join(b"5\r\n%05d\r\n" % n for n in range(500))
    head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    async with open_raw_server(head + chunks + b"0\r\n\r\n") as url, open_http_client() as client:
        async with client.stream_post(url, {}, b"{}") as answer:
            pieces = []
            while data := await answer.read_some():
                pieces.append(data)
            assert await answer.read_some() == b""
    assert b"".join(pieces) == b"".join(b"%05d" % n for n in range(500))
    assert len(pieces) < 50


async def test_the_answer_has_its_status_and_headers() -> None:
    step = status(429, "slow down", retry_after="7", X_Thing="a")
    async with open_scripted_server([step]) as server, open_http_client() as client:
        async with client.stream_post(chat(server), {"authorization": "Bearer k"}, b"{}") as answer:
            assert answer.status == 429
            assert answer.headers["retry-after"] == "7"
            assert answer.headers["x-thing"] == "a"
            assert await answer.read_all(4) == b"slow"
    [request] = server.requests
    assert request.headers["authorization"] == "Bearer k"
    assert request.headers["accept-encoding"] == "identity"


async def test_models_are_listed_with_get() -> None:
    async with open_scripted_server([], models=["a"]) as server, open_http_client() as client:
        async with client.request("GET", server.base_url + "/models", {}) as answer:
            assert b'"id":"a"' in await answer.read_all(1000)


async def test_no_cookies_no_redirects_and_nothing_from_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    steps = [
        status(200, "a", set_cookie="id=1"),
        status(302, "b", location="/v1/models"),
        status(200, "c"),
    ]
    async with open_scripted_server(steps) as server, open_http_client() as client:
        assert [await post(client, chat(server)) for _ in steps] == [b"a", b"b", b"c"]
    assert not any("cookie" in request.headers for request in server.requests)
    assert all(request.path.endswith("completions") for request in server.requests)
    server.assert_complete()


@pytest.mark.parametrize("encoding", ["gzip", "x-gzip", "deflate"])
async def test_a_compressed_body_is_given_plain(encoding: str) -> None:
    plain = b"data: x\n\n" * 1000
    packed = zlib.compress(plain) if encoding == "deflate" else gzip.compress(plain, mtime=0)
    async with open_scripted_server([status(200, packed, content_encoding=encoding)]) as server:
        async with open_http_client() as client:
            assert await post(client, chat(server)) == plain


@pytest.mark.parametrize("size", [1, 7, 1_000_000])
async def test_a_body_of_several_gzip_members_is_given_whole(size: int) -> None:
    parts = [b"one" * 1000, b"", b"two", b"three" * 100_000]
    packed = b"".join(gzip.compress(part, mtime=0) for part in parts)
    for behind in (b"", b"\0" * 50, b"\x1f", b"garbage" + gzip.compress(b"no", mtime=0)):
        decompressor = Decompressor("gzip")
        data = packed + behind
        plain = b""
        for at in range(0, len(data), size):
            piece = decompressor.feed(data[at : at + size])
            while piece:
                assert len(piece) <= MAX_DECOMPRESSED_BYTES
                plain += piece
                piece = decompressor.feed()
        assert plain == b"".join(parts)
        assert decompressor.is_complete
    step = status(200, packed, content_encoding="gzip")
    async with open_scripted_server([step]) as server, open_http_client() as client:
        assert await post(client, chat(server)) == b"".join(parts)


async def test_a_compressed_bomb_comes_in_small_pieces_and_is_cut_by_the_reader() -> None:
    bomb = gzip.compress(b"\0" * 50_000_000, mtime=0)
    steps = [status(200, bomb, content_encoding="gzip")] * 2
    async with open_scripted_server(steps) as server, open_http_client() as client:
        async with client.stream_post(chat(server), {}, b"{}") as answer:
            assert 0 < len(await answer.read_some()) <= MAX_DECOMPRESSED_BYTES
        async with client.stream_post(chat(server), {}, b"{}") as answer:
            assert len(await answer.read_all(1_000_000)) == 1_000_000


@pytest.mark.parametrize(
    ("body", "encoding", "words"),
    [
        (gzip.compress(b"x" * 1000, mtime=0)[:-12], "gzip", "before it was complete"),
        (
            gzip.compress(b"x", mtime=0) + gzip.compress(b"y" * 99, mtime=0)[:-12],
            "gzip",
            "before it was complete",
        ),
        (
            gzip.compress(b"x", mtime=0) + b"\x1f\x8bnot",
            "gzip",
            "not compressed as its header says",
        ),
        (b"not gzip at all", "gzip", "not compressed as its header says"),
        (b"x", "br", "'br'"),
    ],
)
async def test_a_broken_compression_is_a_network_error(
    body: bytes, encoding: str, words: str
) -> None:
    step = status(200, body, content_encoding=encoding)
    async with open_scripted_server([step]) as server, open_http_client() as client:
        with pytest.raises(NetworkError, match=words):
            await read_to_the_end(client, chat(server))
        assert client.statistics().active == 0


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (reset(), "broke|without a response"),
        (close_before_head(), "without a response"),
        (garbage(), "does not speak HTTP"),
        (cut_after(120, reply("x" * 500)), "in the middle of its response"),
    ],
)
async def test_a_connection_that_breaks_is_a_network_error(step: Step, words: str) -> None:
    async with open_scripted_server([step, reply("fine")]) as server:
        async with open_http_client() as client:
            with pytest.raises(NetworkError, match=words) as caught:
                await read_to_the_end(client, chat(server))
            assert "127.0.0.1" in str(caught.value)
            assert caught.value.retryable
            assert client.statistics() == HttpStatistics(active=0, idle=0)
            for leak in ("bytearray", "b'", "Errno", "_ssl.c"):
                assert leak not in str(caught.value)
            assert b"fine" in await post(client, chat(server))


async def test_a_body_without_a_length_ends_cleanly_with_its_connection() -> None:
    step = cut_after(60, reply("x" * 500), clean=True)
    async with open_scripted_server([step]) as server, open_http_client() as client:
        assert len(await post(client, chat(server))) == 60


async def test_a_head_without_end_is_refused() -> None:
    head = b"HTTP/1.1 200 OK\r\nx: " + b"y" * 2 * MAX_HEAD_BYTES
    async with open_raw_server(head) as url, open_http_client() as client:
        with pytest.raises(NetworkError, match="does not speak HTTP"):
            await post(client, url)


async def test_informational_responses_are_passed_over() -> None:
    answer = (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\n"
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
    )
    async with open_raw_server(answer) as url, open_http_client() as client:
        assert await post(client, url) == b"ok"


async def test_a_refused_port_says_so() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        async with open_http_client() as client:
            with pytest.raises(NetworkError, match=f"127.0.0.1:{port} refused the connection"):
                await post(client, f"http://127.0.0.1:{port}/v1")
            assert client.statistics() == HttpStatistics(active=0, idle=0)


async def test_an_unknown_name_says_so() -> None:
    trio.socket.set_custom_hostname_resolver(Resolver(answers=True))
    async with open_http_client() as client:
        with pytest.raises(NetworkError, match=r"nowhere\.example:80 can't be resolved"):
            await post(client, "http://nowhere.example/v1")


async def test_connecting_has_a_deadline(autojump_clock: trio.testing.MockClock) -> None:
    trio.socket.set_custom_hostname_resolver(Resolver(answers=False))
    async with open_http_client() as client:
        begun = trio.current_time()
        with pytest.raises(DeadlineError, match="within 30 s"):
            await post(client, "http://nowhere.example/v1")
        assert trio.current_time() - begun == CONNECT_SECONDS
        assert client.statistics() == HttpStatistics(active=0, idle=0)


async def test_tls_to_a_plain_port_is_a_network_error() -> None:
    async with open_raw_server(b"HTTP/1.1 400 Bad Request\r\n\r\n") as url:
        async with open_http_client() as client:
            with pytest.raises(NetworkError, match="No secure connection"):
                await post(client, url.replace("http:", "https:"))
            assert client.statistics() == HttpStatistics(active=0, idle=0)


async def test_tls_is_verified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pem = tmp_path / "server.pem"
    pem.write_text(CERTIFICATE, encoding="ascii")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
    async with open_raw_server(answer, tls=context) as url:
        async with open_http_client() as client:
            with pytest.raises(NetworkError, match=r"No secure connection.*certificate"):
                await post(client, url)
        # The control: the same server, trusted.
        monkeypatch.setenv("SSL_CERT_FILE", str(pem))
        async with open_http_client() as client:
            assert await post(client, url) == b"ok"


async def test_whoever_connects_the_certificate_is_for_the_host_of_the_url(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pem = tmp_path / "certificate.pem"
    pem.write_text(CERTIFICATE, encoding="ascii")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    monkeypatch.setenv("SSL_CERT_FILE", str(pem))
    answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
    asked: list[tuple[str, int]] = []
    async with open_raw_server(answer, tls=context) as url:
        port = int(url.rstrip("/").rpartition(":")[2])

        async def connect(host: str, wanted_port: int) -> trio.SocketStream:
            asked.append((host, wanted_port))
            return await trio.open_tcp_stream("127.0.0.1", port)

        async with open_http_client(connect=connect) as client:
            with pytest.raises(NetworkError, match=r"other\.test"):
                await post(client, "https://other.test/")
            assert await post(client, "https://localhost/") == b"ok"
    assert asked == [("other.test", 443), ("localhost", 443)]


async def test_what_a_connect_of_ones_own_raises_comes_out_and_costs_nothing() -> None:
    class Refused(Exception):
        pass

    async def connect(host: str, port: int) -> trio.SocketStream:
        await trio.lowlevel.checkpoint()
        raise Refused(host)

    async with open_http_client(connect=connect) as client:
        with pytest.raises(Refused, match=r"a\.test"):
            await post(client, "http://a.test/")
        assert client.statistics() == HttpStatistics(0, 0)


async def test_a_compressed_body_that_never_says_anything_is_given_up() -> None:
    packer = zlib.compressobj(wbits=zlib.MAX_WBITS | 16)
    empty = packer.compress(b"x") + packer.flush(zlib.Z_FULL_FLUSH)
    blocks = b"\0\0\0\xff\xff" * (MAX_FRUITLESS_BYTES // 5 + 20_000)
    step = status(200, empty + blocks, content_encoding="gzip")
    async with open_scripted_server([step]) as server, open_http_client() as client:
        async with client.stream_post(chat(server), {}, b"{}") as answer:
            assert await answer.read_some() == b"x"
            with pytest.raises(NetworkError, match="decompresses to nothing"):
                await answer.read_some()
            assert answer.received_bytes > MAX_FRUITLESS_BYTES


async def test_an_empty_body_that_says_it_is_compressed_is_empty() -> None:
    step = status(200, b"", content_encoding="gzip")
    async with open_scripted_server([step]) as server, open_http_client() as client:
        assert await post(client, chat(server)) == b""


@pytest.mark.parametrize(
    "url", ["", "nonsense", "ftp://x/", "http://", "file:///etc", "http://a:b/"]
)
async def test_what_is_no_url_is_refused(url: str) -> None:
    async with open_http_client() as client:
        with pytest.raises(ValidationError, match="is no"):
            await post(client, url)
        assert client.statistics() == HttpStatistics(0, 0)


@pytest.mark.parametrize("key", ["sesame\nopen", "sésame-open", "sesame\0open", "sesame 😀"])
async def test_a_key_that_is_no_header_is_refused_and_not_shown(key: str) -> None:
    async with open_scripted_server([reply("x")]) as server, open_http_client() as client:
        with pytest.raises(ValidationError, match="header") as caught:
            await post(client, chat(server), authorization=f"Bearer {key}")
        text = f"{caught.value!r} {caught.value.__cause__!r} {caught.value.__context__!r}"
        assert "same" not in text
        assert client.statistics().active == 0
        assert b"[DONE]" in await post(client, chat(server), authorization="Bearer fine")


async def test_a_password_in_a_url_is_not_shown() -> None:
    async with open_http_client() as client:
        with pytest.raises(ValidationError) as caught:
            await post(client, "ftp://me:sesame@host/")
    assert "sesame" not in str(caught.value)


async def test_nothing_is_logged_of_a_request(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with open_scripted_server([reply("x")]) as server, open_http_client() as client:
        await post(client, chat(server))
    assert caplog.records == []


async def test_closing_the_client_closes_its_connections() -> None:
    async with open_scripted_server([reply("x")] * 3) as server:
        async with open_http_client() as client:
            await post(client, chat(server))
            assert client.statistics().idle == 1
        assert client.statistics() == HttpStatistics(0, 0)


def test_httpx_is_imported_with_the_first_request_only() -> None:
    code = "import callboard.runtime.http.client, sys; sys.exit('httpx' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0


async def test_two_servers_do_not_share_connections() -> None:
    async with open_http_client() as client:
        for _ in range(2):
            async with open_scripted_server([reply("x")] * 2) as server:
                await post(client, chat(server))
                await post(client, chat(server))
                assert server.connections == 1


async def test_a_server_that_closed_an_idle_connection_is_connected_again() -> None:
    answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
    async with open_raw_server(answer) as url, open_http_client() as client:
        for _ in range(5):
            assert await post(client, url) == b"ok"
            await trio.testing.wait_all_tasks_blocked()


@pytest.mark.parametrize("gone", [reset(), close_before_head()], ids=["reset", "closed"])
async def test_a_kept_connection_that_is_gone_costs_no_request(gone: Step) -> None:
    """The server closes it in the moment in which the next request goes out."""
    async with open_scripted_server([reply("one"), gone, reply("two"), gone]) as server:
        async with open_http_client() as client:
            assert b"one" in await post(client, chat(server))
            assert b"two" in await post(client, chat(server))
            assert (server.connections, client.statistics().active) == (2, 0)
        async with (
            open_http_client() as client
        ):  # a new one is not: the server wants no more of this request
            with pytest.raises(NetworkError):
                await post(client, chat(server))
        server.assert_complete()


async def test_a_request_is_repeated_once_alone() -> None:
    async with (
        open_scripted_server([reply("one"), reset(), reset()]) as server,
        open_http_client() as client,
    ):
        await post(client, chat(server))
        with pytest.raises(NetworkError):
            await post(client, chat(server))
        server.assert_complete()
        assert client.statistics() == HttpStatistics(active=0, idle=0)


@pytest.mark.parametrize(
    "step", [garbage(), cut_after(10, reply("x"))], ids=["garbage", "half a body"]
)
async def test_an_answer_that_began_is_not_asked_for_once_more(step: Step) -> None:
    async with open_scripted_server([reply("one"), step]) as server, open_http_client() as client:
        await post(client, chat(server))
        with pytest.raises(NetworkError):
            await read_to_the_end(client, chat(server))
        server.assert_complete()


async def test_a_request_that_the_server_worked_on_is_not_repeated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_connection, "GONE_SECONDS", 0.0)
    async with (
        open_scripted_server([reply("one"), reset()]) as server,
        open_http_client() as client,
    ):
        await post(client, chat(server))
        with pytest.raises(NetworkError):
            await post(client, chat(server))
        server.assert_complete()


async def test_no_session_keys_are_written_for_whoever_set_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "keys.log"
    monkeypatch.setenv("SSLKEYLOGFILE", str(log))
    assert ssl.create_default_context().keylog_filename == str(log)
    assert ConnectionPool().tls_context().keylog_filename is None
