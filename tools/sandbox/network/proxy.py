"""The proxy of one sandbox: the only way out, under the address guard and the policy of its call.

It runs in the runtime; programs find it on a port of their own loopback (`sockets`). It takes CONNECT for
whatever is encrypted, and plain http:// requests, one per connection. Each connection asks the call's
`Connector`. A refusal goes to the program with its reason, and to the model with the result.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Protocol

import trio

from ....runtime.definitions import ToolFailure
from ....runtime.http.url import HttpUrl
from .proxy_head import MAX_HEAD_BYTES, HeadRefused, ProxyRequest, closing_answer, parse_request

HEAD_SECONDS = 10.0
"""The time for a request's head, which comes from this machine."""
CONNECT_SECONDS = 15.0
"""The time to resolve the name and to connect."""
IDLE_SECONDS = 120.0
"""Without a byte either way; what waits for longer has lost its peer."""
SAY_SECONDS = 5.0
"""The time to send a refusal, which the program need not read."""
CHUNK_BYTES = 64 * 1024
MAX_HOSTS = 256
"""Different hosts of one program. An installation needs some ten; each is recorded."""
MAX_REFUSED = 32
"""Refused hosts that a result names."""

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
    """Makes the connections of one call."""

    async def connect(self, url: HttpUrl) -> trio.SocketStream:
        """Connect to a host that the guard and the policy let pass.

        Raises:
            ToolFailure: They don't; it says why.
            OSError: Nothing answers there.
        """
        ...


class EgressProxy:
    """The proxy of one sandbox, through which so many bytes may pass, both ways together."""

    def __init__(self, connector: Connector, max_bytes: int) -> None:
        self._connector = connector
        self._max_bytes = max_bytes
        self._passed = 0
        self._hosts: dict[str, None] = {}
        self._refused: dict[str, str] = {}

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts that it has connected to, in order."""
        return tuple(self._hosts)

    @property
    def refused(self) -> Mapping[str, str]:
        """Why connections were refused, by host and port."""
        return dict(self._refused)

    async def serve(self, client: trio.SocketStream) -> None:
        """Serve one connection of a program to its end, and close it."""
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
        """Move bytes both ways until both sides have ended, or nothing moves any more."""
        refused: HeadRefused | None = None
        with trio.move_on_after(IDLE_SECONDS) as idle:
            if request.is_tunnel:
                await client.send_all(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await server.send_all((request.head or b"") + rest)
            async with trio.open_nursery() as nursery:
                scopes = nursery.cancel_scope, idle
                nursery.start_soon(self._copy, client, server, *scopes)
                refused = None if request.is_tunnel else await self._answer(client, server)
                if refused is None:
                    await self._copy(server, client, *scopes)
                else:
                    nursery.cancel_scope.cancel(reason="the answer is refused")
        if refused is not None:
            raise refused
        if self._passed >= self._max_bytes:
            self._refusal(request.url, self._too_much())

    async def _answer(
        self, client: trio.SocketStream, server: trio.SocketStream
    ) -> HeadRefused | None:
        """Pass the head of a plain answer on, changed to say that the connection ends with it.

        Returns what was wrong with it, in which case nothing was passed on.
        """
        rest, is_last = b"", False
        try:
            while not is_last:
                head, rest = await _read_head(server, 504, "the answer", rest)
                if head is None:
                    return HeadRefused(502, "the server closed the connection without an answer")
                passed_on, is_last = closing_answer(head)
                await client.send_all(passed_on)
            await client.send_all(rest)
        except HeadRefused as refused:
            return refused
        except _GONE:
            return HeadRefused(502, "the connection broke")
        self._passed += len(rest)
        return None

    async def _copy(
        self,
        source: trio.SocketStream,
        target: trio.SocketStream,
        both: trio.CancelScope,
        idle: trio.CancelScope,
    ) -> None:
        try:
            while chunk := await source.receive_some(CHUNK_BYTES):
                idle.deadline = trio.current_time() + IDLE_SECONDS
                self._passed += len(chunk)
                if self._passed >= self._max_bytes:
                    both.cancel(reason="as much has passed as may")
                await target.send_all(chunk)
            await target.send_eof()
        except _GONE:
            both.cancel(reason="one end is gone")


async def _read_head(
    stream: trio.SocketStream, status: int, what: str, begun: bytes = b""
) -> tuple[bytes | None, bytes]:
    """Return a head without its empty line, and what came behind it; `None` when nothing came at all."""
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
        # Unread bytes would turn the close into a reset, which could discard the refusal.
        while await client.receive_some(CHUNK_BYTES):
            pass
