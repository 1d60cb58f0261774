"""A server that sends what a test writes, byte by byte if it likes, and counts what it got rid of."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import trio

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n%b\r\n"
"""Of a stream; the place is for more headers, each with its line end."""


class Wire:
    """One connection, as an answer uses it."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self.sent_bytes = 0

    async def send(self, data: bytes) -> None:
        """Sends bytes as they are."""
        await self._stream.send_all(data)
        self.sent_bytes += len(data)

    async def wait_gone(self) -> None:
        """Waits until the client leaves."""
        await _more(self._stream)


Answer = Callable[[Wire], Awaitable[None]]
"""Sends the whole of an answer, head included; the connection is closed behind it."""


class RawServer:
    """A running server.

    Attributes:
        base_url: What a provider is configured with.
        sent_bytes: Of all answers so far.
    """

    def __init__(self, port: int, answers: list[Answer]) -> None:
        self.base_url = f"http://127.0.0.1:{port}/v1"
        self.sent_bytes = 0
        self._open = 0
        self._idle = trio.Event()
        self._answers = answers

    async def wait_idle(self) -> None:
        """Waits until every connection is gone."""
        await self._idle.wait()

    async def serve(self, stream: trio.SocketStream) -> None:
        """One request and its answer."""
        wire = Wire(stream)
        self._open += 1
        self._idle = trio.Event()
        try:
            async with stream:
                await _receive_request(stream)
                await self._answers.pop(0)(wire)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # the client left, as it should
        finally:
            self._open -= 1
            if not self._open:
                self._idle.set()
            self.sent_bytes += wire.sent_bytes


@asynccontextmanager
async def open_raw_server(*answers: Answer) -> AsyncGenerator[RawServer]:
    """A server whose n-th connection gets the n-th answer."""
    async with trio.open_nursery() as nursery:
        [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
        server = RawServer(listener.socket.getsockname()[1], list(answers))
        await nursery.start(trio.serve_listeners, server.serve, [listener])
        yield server  # ruff: ignore[fallible-context-manager] a failing test cancels it all the same
        nursery.cancel_scope.cancel("the test is over")


async def _receive_request(stream: trio.SocketStream) -> None:
    data = b""
    while b"\r\n\r\n" not in data:
        data += await _more(stream)
    head, _, body = data.partition(b"\r\n\r\n")
    [size] = [
        int(line[15:]) for line in head.lower().split(b"\r\n") if line[:15] == b"content-length:"
    ]
    while len(body) < size:
        body += await _more(stream)


async def _more(stream: trio.SocketStream) -> bytes:
    data = await stream.receive_some(65536)
    if not data:
        raise trio.BrokenResourceError
    return bytes(data)
