"""What is under the HTTP client: httpx's API over many small pools of httpcore2.

Why not httpx's own transport: its pool loses slots when requests are cancelled. Why many pools:
each assignment scans the pool's requests and connections, which at 500 streams is most of the
work; in a pool of sixteen it is nothing.
"""

from __future__ import annotations

import os
import ssl
import time
from pathlib import Path

import httpcore2
import httpx
import trio

from .http_connection import CONNECT_SECONDS, Connect, HttpBody, HttpConnection

MAX_STREAMS_PER_SHARD = 16
"""Requests at once in one pool: few enough that a scan costs microseconds."""
SHARD_IDLE_SECONDS = 60.0
"""After it, a pool without requests is closed with its idle connections."""

_Where = tuple[bytes, bytes, int | None]
"""Scheme, host and port: connections to one can serve any request to the same."""

_SKIPPED = frozenset({b"set-cookie"})


class ShardedTransport(httpx.AsyncBaseTransport):
    """Spreads requests over pools, warm ones first; no limit on their number.

    A response's `extensions["body"]` is its `HttpBody`, for reading without httpx's layers, and
    `extensions["set_cookie"]` the cookies that it would set. Close the response as usual.

    Args:
        connect: Makes the TCP connections.
        connect_seconds: How long one may take, TLS included.
    """

    def __init__(
        self, connect: Connect = trio.open_tcp_stream, connect_seconds: float = CONNECT_SECONDS
    ) -> None:
        self.connect = connect
        self.connect_seconds = connect_seconds
        self._tls: ssl.SSLContext | None = None
        self._shards: list[_Shard] = []
        # Where connections were given back, the latest last. A hint only: the pool knows.
        self._warm: dict[_Where, list[_Shard]] = {}
        self._swept_at = time.monotonic()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Sends a request. Errors are those of `HttpConnection`, and httpcore2's for bad URLs."""
        await self._close_unused()
        url = httpcore2.URL(
            scheme=request.url.raw_scheme,
            host=request.url.raw_host,
            port=request.url.port,
            target=request.url.raw_path,
        )
        where = (url.scheme, url.host, url.port)
        shard = self._choose(where)
        shard.active += 1
        try:
            response = await shard.handle_async_request(
                httpcore2.Request(
                    request.method, url, headers=request.headers.raw, content=request.stream
                )
            )
        except BaseException:
            shard.active -= 1
            raise
        return httpx.Response(
            response.status,
            # No cookies: nothing here may remember a server's words.
            headers=[(k, v) for k, v in response.headers if k.lower() not in _SKIPPED],
            stream=_ResponseStream(self, shard, where, response),
            extensions={
                **response.extensions,
                "set_cookie": [v for k, v in response.headers if k.lower() in _SKIPPED],
            },
        )

    async def aclose(self) -> None:
        """Closes all connections."""
        shards, self._shards = self._shards, []
        self._warm.clear()
        for shard in shards:
            await shard.aclose()

    def count_connections(self) -> tuple[int, int]:
        """How many are in use, and how many idle."""
        connections = [c for shard in self._shards for c in shard.connections if not c.is_closed()]
        idle = sum(connection.is_idle() for connection in connections)
        return len(connections) - idle, idle

    def give_back(self, shard: _Shard, where: _Where) -> None:
        """A response of this shard was closed."""
        shard.active -= 1
        shard.used_at = time.monotonic()
        self._warm.setdefault(where, []).append(shard)

    def tls_context(self) -> ssl.SSLContext:
        """The one context, made when the first https URL is used."""
        if self._tls is None:
            self._tls = _make_tls_context()
        return self._tls

    def _choose(self, where: _Where) -> _Shard:
        warm = self._warm.get(where, [])
        while warm:
            shard = warm.pop()
            if shard.active < MAX_STREAMS_PER_SHARD and not shard.is_closed:
                return shard
        for shard in self._shards:
            if shard.active < MAX_STREAMS_PER_SHARD:
                return shard
        self._shards.append(_Shard(self))
        return self._shards[-1]

    async def _close_unused(self) -> None:
        now = time.monotonic()
        if now - self._swept_at < SHARD_IDLE_SECONDS:
            return
        self._swept_at = now
        unused = [s for s in self._shards if not s.active and now - s.used_at > SHARD_IDLE_SECONDS]
        self._shards = [shard for shard in self._shards if shard not in unused]
        for shard in unused:
            shard.is_closed = True
        for shard in unused:
            await shard.aclose()


class _Shard(httpcore2.AsyncConnectionPool):
    """One small pool, of our connections."""

    def __init__(self, transport: ShardedTransport) -> None:
        super().__init__(max_connections=None, keepalive_expiry=None)
        self._transport = transport
        self.active = 0
        self.used_at = time.monotonic()
        self.is_closed = False

    def create_connection(self, origin: httpcore2.Origin) -> HttpConnection:
        """What the pool calls for a new connection."""
        its = self._transport
        return HttpConnection(origin, its.tls_context, its.connect, its.connect_seconds)


class _ResponseStream(httpx.AsyncByteStream):
    """Gives the shard's place back when the response is closed."""

    def __init__(
        self,
        transport: ShardedTransport,
        shard: _Shard,
        where: _Where,
        response: httpcore2.Response,
    ) -> None:
        self._transport = transport
        self._shard = shard
        self._where = where
        self._response = response
        self._closed = False

    def __aiter__(self) -> HttpBody:
        body: HttpBody = self._response.extensions["body"]
        return body

    async def aclose(self) -> None:
        """Closes the response; not interrupted by a cancellation."""
        if self._closed:
            return
        self._closed = True
        try:
            await self._response.aclose()
        finally:
            self._transport.give_back(self._shard, self._where)


def _make_tls_context() -> ssl.SSLContext:
    """Verifies against the system's authorities (or `SSL_CERT_FILE`), else against certifi's.

    Not `ssl.create_default_context`: that writes every session's keys to `SSLKEYLOGFILE`.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    paths = ssl.get_default_verify_paths()
    folder = Path(paths.capath) if paths.capath else None
    if paths.cafile or (folder is not None and any(folder.glob("*.0"))):
        context.load_default_certs()
    else:
        import certifi  # comes with httpx; reading it takes longer than the system's

        context.load_verify_locations(cafile=os.fspath(certifi.where()))
    context.set_alpn_protocols(["http/1.1"])
    return context
