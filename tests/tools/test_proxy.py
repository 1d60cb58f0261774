"""One connection of the sandbox's proxy: its deadlines, its bounds, and what it does to both ends."""

from __future__ import annotations

import socket
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from callboard.runtime.definitions import ErrorType, ToolFailure
from callboard.runtime.http.url import HttpUrl
from callboard.tools.sandbox.network.proxy import (
    CONNECT_SECONDS,
    HEAD_SECONDS,
    IDLE_SECONDS,
    MAX_HOSTS,
    MAX_REFUSED,
    EgressProxy,
)

HELLO = b"CONNECT good.test:443 HTTP/1.1\r\n\r\n"
GET = b"GET http://good.test/ HTTP/1.1\r\n\r\n"
ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"


opened: list[socket.socket] = []
"""By a test; closed behind it."""


@pytest.fixture(autouse=True)
def _all_closed() -> Iterator[None]:
    yield
    while opened:
        opened.pop().close()


def pair() -> tuple[trio.SocketStream, trio.SocketStream]:
    ends = socket.socketpair()
    opened.extend(ends)
    one, other = (trio.SocketStream(trio.socket.from_stdlib_socket(end)) for end in ends)
    return one, other


class Way:
    """A way out whose servers the test plays; `fault` is raised in their place, `None` hangs."""

    def __init__(self, fault: Exception | None = None, *, hangs: bool = False) -> None:
        self.servers: list[trio.SocketStream] = []
        self.urls: list[HttpUrl] = []
        self._fault = fault
        self._hangs = hangs

    async def connect(self, url: HttpUrl) -> trio.SocketStream:
        self.urls.append(url)
        await trio.lowlevel.checkpoint()
        if self._hangs:
            await trio.sleep_forever()
        if self._fault is not None:
            raise self._fault
        ours, theirs = pair()
        self.servers.append(theirs)
        return ours


@asynccontextmanager
async def talking(proxy: EgressProxy) -> AsyncGenerator[trio.SocketStream]:
    """A program's end of a connection; behind the block the proxy is done with it."""
    client, theirs = pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(proxy.serve, theirs)
        yield client
    client.socket.close()
    assert theirs.socket.fileno() == -1


async def rest_of(stream: trio.SocketStream) -> bytes:
    data = b""
    while chunk := await stream.receive_some():
        data += chunk
    return data


async def asked(proxy: EgressProxy, text: bytes) -> bytes:
    async with talking(proxy) as client:
        await client.send_all(text)
        await client.send_eof()
        return await rest_of(client)


@pytest.mark.parametrize("said", [b"", b"CONNECT good.test:443", HELLO[:-2], b"A: b\r\n"])
async def test_a_head_that_does_not_come_ends_its_connection(
    autojump_clock: MockClock, said: bytes
) -> None:
    async with talking(EgressProxy(Way(), 1000)) as client:
        began = trio.current_time()
        await client.send_all(said)
        assert (await rest_of(client)).startswith(b"HTTP/1.1 408 ")
        assert trio.current_time() - began == pytest.approx(HEAD_SECONDS)


async def test_a_drip_does_not_stretch_it(autojump_clock: MockClock) -> None:
    async with talking(EgressProxy(Way(), 1000)) as client, trio.open_nursery() as nursery:

        async def drip() -> None:
            while True:
                await client.send_all(b"x")
                await trio.sleep(1)

        nursery.start_soon(drip)
        began = trio.current_time()
        assert (await client.receive_some()).startswith(b"HTTP/1.1 408 ")
        assert trio.current_time() - began == pytest.approx(HEAD_SECONDS)
        nursery.cancel_scope.cancel()
        client.socket.close()


async def test_a_server_that_does_not_answer_is_not_waited_for(autojump_clock: MockClock) -> None:
    proxy = EgressProxy(Way(hangs=True), 1000)
    began = trio.current_time()
    assert b"504 Gateway Timeout" in await asked(proxy, HELLO)
    assert trio.current_time() - began == pytest.approx(CONNECT_SECONDS)
    assert proxy.hosts == ()


async def test_a_connection_over_which_nothing_moves_ends(autojump_clock: MockClock) -> None:
    way = Way()
    async with talking(EgressProxy(way, 1000)) as client:
        await client.send_all(HELLO)
        assert await client.receive_some() == ESTABLISHED
        began = trio.current_time()
        for _ in range(3):  # what moves keeps it
            await trio.sleep(IDLE_SECONDS - 1)
            await way.servers[0].send_all(b"x")
            assert await client.receive_some() == b"x"
        assert await client.receive_some() == b""
        assert trio.current_time() - began == pytest.approx(4 * IDLE_SECONDS - 3)
        assert await way.servers[0].receive_some() == b""


@pytest.mark.parametrize(
    ("fault", "status"),
    [
        (ToolFailure(ErrorType.URL_NOT_ALLOWED, "It is new."), b"403 Forbidden"),
        (OSError("nobody"), b"502 Bad Gateway"),
    ],
)
async def test_what_is_refused_is_told_to_the_program(fault: Exception, status: bytes) -> None:
    proxy = EgressProxy(Way(fault), 1000)
    answer = await asked(proxy, HELLO)
    assert status in answer
    assert str(fault).encode() in answer
    assert proxy.hosts == ()
    is_refusal = isinstance(fault, ToolFailure)
    assert proxy.refused == ({"good.test:443": "It is new."} if is_refusal else {})


async def test_each_end_may_end_first() -> None:
    way = Way()
    async with talking(EgressProxy(way, 1000)) as client:
        await client.send_all(HELLO + b"early")
        assert await client.receive_some() == ESTABLISHED
        await client.send_eof()
        assert await rest_of(way.servers[0]) == b"early"
        await way.servers[0].send_all(b"late")
        await way.servers[0].send_eof()
        assert await rest_of(client) == b"late"
    assert len(way.servers) == 1


async def test_a_program_that_is_gone_takes_its_connection_along() -> None:
    way = Way()
    async with talking(EgressProxy(way, 10**9)) as client:
        await client.send_all(HELLO)
        assert await client.receive_some() == ESTABLISHED
        client.socket.close()
        assert await way.servers[0].receive_some() == b""
        await way.servers[0].send_all(b"nobody reads it")
    with pytest.raises(trio.BrokenResourceError):
        await way.servers[0].send_all(b"and this end is closed")


async def test_a_cancel_closes_both_ends() -> None:
    way = Way()
    client, theirs = pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(EgressProxy(way, 1000).serve, theirs)
        await client.send_all(HELLO)
        assert await client.receive_some() == ESTABLISHED
        nursery.cancel_scope.cancel()
    assert await client.receive_some() == await way.servers[0].receive_some() == b""


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (b"", b"502 Bad Gateway"),
        (b"SSH-2.0-x\r\n\r\n", b"502 Bad Gateway"),
        (b"HTTP/1.1 200 OK\r\nA: " + b"x" * 20_000, b"502 Bad Gateway"),
        (b"HTTP/1.1 200 OK\r\nA: b", b"502 Bad Gateway"),
        (b"HTTP/1.1 200 OK\r\n\r\nbody", b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nbody"),
        (
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No\r\n\r\n",
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No\r\nConnection: close\r\n\r\n",
        ),
    ],
)
async def test_an_answer_to_a_plain_request(answer: bytes, told: bytes) -> None:
    way = Way()
    async with talking(EgressProxy(way, 10**6)) as client:
        await client.send_all(GET)
        await trio.testing.wait_all_tasks_blocked()
        sent = await way.servers[0].receive_some()
        assert sent == b"GET / HTTP/1.1\r\nHost: good.test\r\nConnection: close\r\n\r\n"
        await way.servers[0].send_all(answer)
        way.servers[0].socket.close()
        await client.send_eof()
        assert told in await rest_of(client)


async def test_bytes_are_counted_both_ways_and_over_all_connections() -> None:
    way = Way()
    proxy = EgressProxy(way, 1000)
    for _ in range(2):
        async with talking(proxy) as client:
            await client.send_all(HELLO)
            assert await client.receive_some() == ESTABLISHED
            await client.send_all(b"x" * 300)
            assert await way.servers[-1].receive_some() == b"x" * 300
            await way.servers[-1].send_all(b"y" * 300)
            await client.send_eof()
            way.servers[-1].socket.close()
            await rest_of(client)
    assert b"403 Forbidden" in await asked(proxy, HELLO)
    assert len(way.servers) == 2
    assert "network_bytes" in proxy.refused["good.test:443"]


async def test_hosts_are_counted() -> None:
    way = Way()
    proxy = EgressProxy(way, 10**6)
    for number in range(MAX_HOSTS + MAX_REFUSED + 2):
        async with talking(proxy) as client:
            await client.send_all(f"CONNECT h{number}.test:443 HTTP/1.1\r\n\r\n".encode())
            await client.send_eof()
            for server in way.servers:
                server.socket.close()
            way.servers.clear()
            client.socket.close()
    assert len(proxy.hosts) == MAX_HOSTS == len(way.urls)
    assert len(proxy.refused) == MAX_REFUSED
    assert b" 200 " in await asked_for_known(proxy, way)


async def asked_for_known(proxy: EgressProxy, way: Way) -> bytes:
    """A host that was reached before is no further one."""
    async with talking(proxy) as client:
        await client.send_all(b"CONNECT h0.test:443 HTTP/1.1\r\n\r\n")
        answer = bytes(await client.receive_some())
        way.servers[-1].socket.close()
        client.socket.close()
        return answer
