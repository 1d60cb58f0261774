"""The HTTP client: sends a request and streams the body of the response.

It follows no redirects, keeps no cookies, reads nothing from the environment and verifies TLS. It
has one deadline, for connecting; all others are the caller's.

There are two ways through the same connections. `stream_post` and `stream_get` are the short one, for model calls and
lists of models, where the cost of a request is felt, or that of importing httpx: no object of it is made (decision 0005). `request` is for
everything else (web tools, webhooks): it goes through an `httpx.AsyncClient`. A program can give a
client of its own, with a proxy or a company's certificates; then both ways go through that one
(`transport` says how).

The pool is imported with the first request, so that programs that make none start
without it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import msgspec

from .address_guard import Check
from .request import outgoing, read_url
from .response import BodyStream

if TYPE_CHECKING:
    import httpx

    from .connection import Connect
    from .pool import ConnectionPool

    AsyncClient = httpx.AsyncClient
    GivenHttp = httpx.AsyncClient | httpx.AsyncBaseTransport
    """What a program may pass to have its requests made its own way."""


class HttpStatistics(msgspec.Struct, frozen=True):
    """How many connections a client has: in use, and idle for the next request."""

    active: int
    idle: int


class HttpClient:
    """Makes any number of requests at once; `open_http_client` opens one.

    Attributes:
        given: The program's own httpx client, which makes all requests in place of our connections.
    """

    def __init__(
        self,
        connect: Connect | None = None,
        connect_seconds: float | None = None,
        *,
        given: httpx.AsyncClient | None = None,
        check: Check | None = None,
    ) -> None:
        self.given = given
        self._connect = connect
        self._connect_seconds = connect_seconds
        self._check = check
        self._pool: ConnectionPool | None = None
        self._httpx: httpx.AsyncClient | None = given

    @asynccontextmanager
    async def stream_post(
        self, url: str, headers: Mapping[str, str], body: bytes
    ) -> AsyncGenerator[BodyStream]:
        """Send a POST request the short way and yield the response, whatever its status.

        Where its server had closed a kept connection before it answered a byte, the request goes out once more, over a new one.
        Leaving the block ends the response; its connection is used again if all of it was read.

        Raises:
            NetworkError: There is no connection, or it broke; retryable.
            DeadlineError: There was no connection in time.
            ValidationError: The URL or a header is not valid.
        """
        async with self._stream("POST", url, headers, body) as answer:
            yield answer

    @asynccontextmanager
    async def stream_get(self, url: str, headers: Mapping[str, str]) -> AsyncGenerator[BodyStream]:
        """Send a GET request the short way; see `stream_post`."""
        async with self._stream("GET", url, headers, None) as answer:
            yield answer

    @asynccontextmanager
    async def _stream(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None
    ) -> AsyncGenerator[BodyStream]:
        if self.given is not None:
            async with self.request(method, url, headers, body) as answer:
                yield answer
            return
        destination, head = outgoing(method, read_url(url), headers, body)
        pool = self._open()
        connection, response = await pool.send(destination, head, body, may_repeat=True)
        try:
            yield BodyStream(response.status, response.reason, response.headers, connection)
        finally:
            pool.give_back(connection)

    @asynccontextmanager
    async def request(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None = None
    ) -> AsyncGenerator[BodyStream]:
        """Send a request of any method through httpx and yield the response; see `stream_post`.

        Raises:
            AddressRefused: The guard of this client's connections refuses the host.
        """
        from .transport import PooledTransport, client_over, exchange

        if self._httpx is None:
            self._httpx = client_over(PooledTransport(self._open()))
        check = self._check if self.given is not None else None
        async with exchange(self._httpx, method, url, headers, body, check) as answer:
            yield answer

    def with_own_connections(self, connect_seconds: float) -> HttpClient:
        """Return a client that shares no connection with this one; the caller closes it.

        It takes the program's own httpx client, where there is one.
        """
        return HttpClient(self._connect, connect_seconds, given=self.given, check=self._check)

    def statistics(self) -> HttpStatistics:
        """Return how many connections there are."""
        return HttpStatistics(0, 0) if self._pool is None else HttpStatistics(*self._pool.count())

    def close(self) -> None:
        """Close all connections; running requests fail with `NetworkError`."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()

    def _open(self) -> ConnectionPool:
        if self._pool is None:
            from .pool import ConnectionPool

            self._pool = ConnectionPool(self._connect, self._connect_seconds)
        return self._pool


@asynccontextmanager
async def open_http_client(
    *,
    connect: Connect | None = None,
    connect_seconds: float | None = None,
    given: httpx.AsyncClient | None = None,
    check: Check | None = None,
) -> AsyncGenerator[HttpClient]:
    """Open a client for the duration of the block.

    Args:
        connect: Makes the TCP connections, from host and port. An `OSError` becomes a
            `NetworkError`; any other exception passes through the request. The default connects
            anywhere; `AddressGuard.connect` decides where.
        connect_seconds: How long a connection may take, TLS included; 30 by default.
        given: The program's own httpx client. It makes all requests, and is not closed here.
        check: Judges each request ahead of a given client, whose connections no guard makes.
    """
    client = HttpClient(connect, connect_seconds, given=given, check=check)
    try:
        yield client
    finally:
        client.close()
