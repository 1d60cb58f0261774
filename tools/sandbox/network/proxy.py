"""The way out of one sandbox: a proxy in the runtime, under the guard and the policy of its call.

Programs find it on a port of their own loopback (`sockets`). It takes CONNECT for whatever is
encrypted, and plain http:// requests, one a connection. Each connection asks the call's way out
anew; what is refused is told to the program with its reason, and to the model with the result.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Protocol

import trio

from ....runtime.definitions import ToolFailure
from ....runtime.http.url import HttpUrl
from .proxy_head import (
    MAX_HEAD_BYTES,
    HeadRefused,
    ProxyRequest,
    closing_answer,
    parse_request,
)

HEAD_SECONDS = 10.0
"""For a request's head, which comes from this machine."""
CONNECT_SECONDS = 15.0
"""For the name and the connection."""
IDLE_SECONDS = 120.0
"""Without a byte either way: what waits for longer has lost its other end."""
SAY_SECONDS = 5.0
"""For a refusal, which its program need not read."""
CHUNK_BYTES = 64 * 1024
MAX_HOSTS = 256
"""Different hosts of one program: an installation needs some ten; each is on record."""
MAX_REFUSED = 32
"""Refused hosts that a result names; more say nothing new."""

_GONE = (OSError, trio.BrokenResourceError, trio.ClosedResourceError)

_REASONS = {
    400: "Bad Request",
    403: "Forbidden",
    408: "Request Timeout",
    431: "Request Header Fields Too Large",
    502: "Bad Gateway",
    504: "Gateway Timeout",
}


class Connector(Protocol):
    """What makes a call's connections."""

    async def connect(self, url: HttpUrl) -> trio.SocketStream:
        """A connection that the guard and the policy let pass.

        Raises:
            ToolFailure: They don't; it says why.
            OSError: There is nobody.
        """
        ...


class EgressProxy:
    """The proxy of one sandbox.

    Args:
        connector: Makes the connections.
        max_bytes: How much may pass, both ways together.
    """

    def __init__(self, connector: Connector, max_bytes: int) -> None:
        self._connector = connector
        self._max_bytes = max_bytes
        self._passed = 0
        self._hosts: dict[str, None] = {}
        self._refused: dict[str, str] = {}

    @property
    def hosts(self) -> tuple[str, ...]:
        """Where it has connected, in order."""
        return tuple(self._hosts)

    @property
    def refused(self) -> Mapping[str, str]:
        """What was refused, by host and port, with the reason."""
        return dict(self._refused)

    async def serve(self, client: trio.SocketStream) -> None:
        """Serves one connection of a program to its end, and closes it."""
        server: trio.SocketStream | None = None
        try:
            with suppress(*_GONE):
                try:
                    head, rest = await _read_head(client, 408, "the request")
                    if head is None:
                        return
                    request = parse_request(head)
                    server = await self._connect(request.url)
                    await self._pass_on(request, rest, client, server)
                except HeadRefused as refused:
                    await _say(client, refused)
        finally:
            client.socket.close()
            if server is not None:
                server.socket.close()

    async def _connect(self, url: HttpUrl) -> trio.SocketStream:
        if url.host not in self._hosts and len(self._hosts) >= MAX_HOSTS:
            raise self._refusal(url, f"one program may reach {MAX_HOSTS} hosts")
        if self._passed >= self._max_bytes:
            raise self._refusal(url, self._too_much())
        try:
            with trio.fail_after(CONNECT_SECONDS):
                stream = await self._connector.connect(url)
        except ToolFailure as failure:
            raise self._refusal(url, str(failure)) from None
        except trio.TooSlowError:
            raise HeadRefused(504, f"{url.authority} did not answer in time") from None
        except OSError as fault:
            raise HeadRefused(502, f"{url.authority} can't be reached ({fault})") from None
        self._hosts[url.host] = None
        return stream

    def _refusal(self, url: HttpUrl, why: str) -> HeadRefused:
        place = f"[{url.host}]:{url.port}" if ":" in url.host else f"{url.host}:{url.port}"
        if place in self._refused or len(self._refused) < MAX_REFUSED:
            self._refused[place] = why
        return HeadRefused(403, why)

    def _too_much(self) -> str:
        return (
            f"more than {self._max_bytes} bytes have passed; that is as much as one program may "
            "move ([sandbox] network_bytes)"
        )

    async def _pass_on(
        self,
        request: ProxyRequest,
        rest: bytes,
        client: trio.SocketStream,
        server: trio.SocketStream,
    ) -> None:
        """Moves bytes both ways until both sides have ended, or nothing moves any more."""
        refused: HeadRefused | None = None
        with trio.move_on_after(IDLE_SECONDS) as idle:
            if request.is_tunnel:
                await client.send_all(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await server.send_all((request.head or b"") + rest)
            async with trio.open_nursery() as nursery:
                scopes = _Scopes(nursery.cancel_scope, idle)
                nursery.start_soon(self._copy, client, server, scopes)
                refused = None if request.is_tunnel else await self._answer(client, server)
                if refused is None:
                    await self._copy(server, client, scopes)
                else:
                    scopes.end()
        if refused is not None:
            raise refused
        if self._passed >= self._max_bytes:
            self._refusal(request.url, self._too_much())

    async def _answer(
        self, client: trio.SocketStream, server: trio.SocketStream
    ) -> HeadRefused | None:
        """Passes the head of a plain answer on, which says that its connection ends with it.

        Says what was wrong with it, when nothing of it was passed on.
        """
        rest, is_last = b"", False
        try:
            while not is_last:
                head, rest = await _read_head(server, 504, "the answer", rest)
                if head is None:
                    return HeadRefused(502, "the server closed the connection without an answer")
                told, is_last = closing_answer(head)
                await client.send_all(told)
            await client.send_all(rest)
        except HeadRefused as refused:
            return refused
        except _GONE:
            return HeadRefused(502, "the connection broke")
        self._passed += len(rest)
        return None

    async def _copy(
        self, source: trio.SocketStream, target: trio.SocketStream, scopes: _Scopes
    ) -> None:
        try:
            while chunk := await source.receive_some(CHUNK_BYTES):
                scopes.idle.deadline = trio.current_time() + IDLE_SECONDS
                self._passed += len(chunk)
                if self._passed >= self._max_bytes:
                    scopes.end()
                await target.send_all(chunk)
            await target.send_eof()
        except _GONE:
            scopes.end()  # one end is gone: so is the other


class _Scopes:
    """What ends the two directions of one connection."""

    def __init__(self, both: trio.CancelScope, idle: trio.CancelScope) -> None:
        self.idle = idle
        self._both = both

    def end(self) -> None:
        self._both.cancel(reason="the connection has ended")


async def _read_head(
    stream: trio.SocketStream, status: int, what: str, begun: bytes = b""
) -> tuple[bytes | None, bytes]:
    """A head without its end, and what came behind it; no head when there was nothing at all."""
    data = bytearray(begun)
    with trio.move_on_after(HEAD_SECONDS if status == 408 else IDLE_SECONDS):
        await trio.lowlevel.checkpoint()
        while (end := data.find(b"\r\n\r\n")) < 0:
            if len(data) > MAX_HEAD_BYTES:
                raise HeadRefused(431 if status == 408 else 502, f"the head of {what} is too long")
            chunk = await stream.receive_some(MAX_HEAD_BYTES)
            if not chunk:
                if data:
                    raise HeadRefused(400 if status == 408 else 502, f"{what} ended in its head")
                return None, b""
            data += chunk
        if end > MAX_HEAD_BYTES:
            raise HeadRefused(431 if status == 408 else 502, f"the head of {what} is too long")
        return bytes(data[:end]), bytes(data[end + 4 :])
    raise HeadRefused(status, f"the head of {what} did not come in time")


async def _say(client: trio.SocketStream, refused: HeadRefused) -> None:
    text = f"callboard: {refused}\n".encode()
    head = (
        f"HTTP/1.1 {refused.status} {_REASONS[refused.status]}\r\n"
        "Content-Type: text/plain; charset=utf-8\r\n"
        f"Content-Length: {len(text)}\r\nConnection: close\r\n\r\n"
    )
    with trio.move_on_after(SAY_SECONDS):
        await client.send_all(head.encode("ascii") + text)
        await client.send_eof()
        # What the program has still sent is read: a close would take the refusal back with it.
        while await client.receive_some(CHUNK_BYTES):
            pass
