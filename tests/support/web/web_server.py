"""A web server by hand: each path has its answer as bytes, and every request is kept.

A path with its query may have an answer of its own.
"""

from __future__ import annotations

import gzip
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio

CERTIFICATE = Path(__file__).with_name("good_test.pem")
"""Of `good.test`, with its key; it is its own authority."""

Answer = bytes | Callable[[Any], Awaitable[None]]
"""What is sent, or what writes it by itself; the connection is closed after that."""


def page(
    body: bytes | str = b"hello",
    *,
    status: str = "200 OK",
    content_type: str | None = "text/plain",
    **headers: str,
) -> bytes:
    """A whole answer; `content_length="9"` overrides what the body says."""
    content = body.encode() if isinstance(body, str) else body
    named = {"content-length": str(len(content))}
    if content_type is not None:
        named["content-type"] = content_type
    named.update({name.replace("_", "-"): value for name, value in headers.items()})
    head = "".join(f"{name}: {value}\r\n" for name, value in named.items())
    return f"HTTP/1.1 {status}\r\n{head}\r\n".encode() + content


NOTHING = page(status="404 No")


def redirect(target: str, status: int = 302) -> bytes:
    return page(b"", status=f"{status} Found", location=target)


def zipped(body: bytes, **headers: str) -> bytes:
    return page(gzip.compress(body), content_encoding="gzip", **headers)


class Request:
    """A request as it came; `headers` have lower-case names."""

    def __init__(self, data: bytes, body: bytes) -> None:
        line, *lines = data.decode("latin-1").split("\r\n")
        self.method, self.target, _ = line.split(" ")
        pairs = [each.split(": ", 1) for each in lines if each]
        self.names = [name.lower() for name, _ in pairs]
        self.headers = {name.lower(): value for name, value in pairs}
        self.body = body


class WebServer:
    """Made by `open_web_server`.

    Attributes:
        port: Where it listens, on 127.0.0.1.
        requests: All of them, in order.
    """

    def __init__(self, answers: Mapping[str, Answer], port: int = 0) -> None:
        self.answers = dict(answers)
        self.port = port
        self.requests: list[Request] = []

    def url(self, path: str = "/") -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    async def serve(self, stream: trio.abc.Stream) -> None:
        try:
            while request := await self._receive(stream):
                self.requests.append(request)
                path = request.target.partition("?")[0]
                answer = self.answers.get(request.target) or self.answers.get(path, NOTHING)
                if not isinstance(answer, bytes):
                    await answer(stream)
                    break
                await stream.send_all(answer)
            await stream.aclose()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            await trio.aclose_forcefully(stream)

    async def _receive(self, stream: trio.abc.Stream) -> Request | None:
        data = bytearray()
        while b"\r\n\r\n" not in data:
            piece = await stream.receive_some(65536)
            if not piece or piece.startswith(b"\x16\x03"):  # TLS is not spoken here
                return None
            data += piece
        head, _, body = bytes(data).partition(b"\r\n\r\n")
        request = Request(head, body)
        while len(request.body) < int(request.headers.get("content-length", "0")):
            request.body += await stream.receive_some(65536)
        return request


@asynccontextmanager
async def open_web_server(answers: Mapping[str, Answer]) -> AsyncGenerator[WebServer]:
    """A server for as long as the block lasts."""
    [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    server = WebServer(answers, listener.socket.getsockname()[1])
    async with trio.open_nursery() as nursery:
        await nursery.start(trio.serve_listeners, server.serve, [listener])
        try:
            yield server
        finally:
            nursery.cancel_scope.cancel()
