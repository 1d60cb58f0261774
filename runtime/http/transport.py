"""httpx over our connections, and our errors over httpx.

`PooledTransport` offers the connections of a pool, with its guard and its TLS, to
any `httpx.AsyncClient`. `exchange` is the one place where callboard uses such a client, whether the
transport under it is this one or a program's own (a proxy, a company's certificates, or
`httpx.MockTransport` in its tests): there httpx's errors become ours, and back. Importing this module
imports httpx, so nothing imports it before the first request.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from http.cookiejar import CookieJar, DefaultCookiePolicy

import httpx
import trio

from ..errors import CallboardError, DeadlineError, NetworkError, ValidationError
from .address_guard import DEFAULT_PORTS, AddressRefused, Check
from .connection import HttpConnection
from .pool import ConnectionPool
from .request import BAD_HEADER, DEFAULT_HEADERS, outgoing, parsed_url, target_of
from .response import BodyStream

CLOSE_SECONDS = 2.0
"""How long a program's own transport may take to close a response; ours never waits."""

MAX_PIECES_LEFT = 64
"""Pieces of a body in memory that are passed over; a stream of more is left to the garbage collector."""

_is_ours: ContextVar[bool] = ContextVar("callboard_http", default=False)


def _is_not_ours(_: logging.LogRecord) -> bool:
    """Drop httpx's INFO record of each request of ours: it holds the URL, perhaps with a secret."""
    return not _is_ours.get()


logging.getLogger("httpx").addFilter(_is_not_ours)


class PooledTransport(httpx.AsyncBaseTransport):
    """The connections of a pool as a transport of httpx.

    It speaks HTTP/1.1, reads the body of a request whole before it connects, and has no timeouts but
    the connection's: set deadlines with Trio's cancel scopes. Errors are httpx's, each with ours as its
    cause. Closing the pool closes the connections; closing this closes nothing.
    """

    def __init__(self, pool: ConnectionPool) -> None:
        self._pool = pool

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request; httpx calls this."""
        body = await request.aread()
        headers = dict(request.headers.items())
        try:
            destination, head = outgoing(
                request.method, target_of(request.url), headers, body or None
            )
            connection, response = await self._pool.send(destination, head, body)
        except DeadlineError as error:
            raise httpx.ConnectTimeout(str(error), request=request) from error
        except NetworkError as error:
            raise httpx.ConnectError(str(error), request=request) from error
        except AddressRefused as error:
            raise httpx.ConnectError(str(error), request=request) from error
        except ValidationError as error:
            raise httpx.LocalProtocolError(str(error), request=request) from error
        return httpx.Response(
            response.status,
            headers=response.headers,
            stream=_PooledBody(self._pool, connection),
            extensions={"http_version": b"HTTP/1.1", "reason_phrase": response.reason},
        )


class _PooledBody(httpx.AsyncByteStream):
    """The body of a response: one piece for each network read."""

    def __init__(self, pool: ConnectionPool, connection: HttpConnection) -> None:
        self._pool = pool
        self._connection: HttpConnection | None = connection

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if self._connection is None:
            raise StopAsyncIteration
        try:
            data = await self._connection.read_some()
        except NetworkError as error:
            raise httpx.ReadError(str(error)) from error
        if not data:
            raise StopAsyncIteration
        return data

    async def aclose(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            self._pool.give_back(connection)


def client_over(transport: httpx.AsyncBaseTransport) -> httpx.AsyncClient:
    """Return a client that keeps no cookies and reads no proxy or password from the environment."""
    no_cookies = CookieJar(DefaultCookiePolicy(allowed_domains=[]))
    return httpx.AsyncClient(transport=transport, trust_env=False, cookies=no_cookies)


def given_client(http: object) -> httpx.AsyncClient:
    """Return the client that a program gave, or one over the transport that it gave.

    Raises `ValidationError` for anything else.
    """
    if isinstance(http, httpx.AsyncClient):
        return http
    if isinstance(http, httpx.AsyncBaseTransport):
        return client_over(http)
    raise ValidationError(
        f"http is {http!r:.80}: pass an httpx.AsyncClient or an httpx.AsyncBaseTransport",
        field="http",
    )


@asynccontextmanager
async def exchange(
    client: httpx.AsyncClient,
    method: str,
    url: str,
    headers: Mapping[str, str],
    body: bytes | None,
    check: Check | None = None,
) -> AsyncGenerator[BodyStream]:
    """Send one request and yield its response; no redirect is followed, and no login of the client used.

    Args:
        check: Judges the host and port before anything is sent.

    Raises:
        NetworkError, DeadlineError: There is no connection, or it broke or took too long.
        ValidationError: The URL or a header is not valid.
        AddressRefused: From `check`, or from the guard of our connections.
    """
    parsed = parsed_url(url)
    if check is not None:
        port = DEFAULT_PORTS[parsed.scheme] if parsed.port is None else parsed.port
        await check(parsed.raw_host.decode("ascii"), port)
    response = await _send(client, method, parsed, headers, body)
    pieces: AsyncIterator[bytes] | None = None
    try:
        assert isinstance(response.stream, httpx.AsyncByteStream)  # an AsyncClient gives no other
        pieces = aiter(response.stream)
        raw = _RawBody(pieces)
        reason = response.reason_phrase.encode("ascii", "replace")
        yield BodyStream(response.status_code, reason, response.headers.raw, raw)
    finally:
        with trio.move_on_after(CLOSE_SECONDS, shield=True):
            if pieces is not None:
                await _exhaust(pieces)
            await response.aclose()


async def _exhaust(pieces: AsyncIterator[bytes]) -> None:
    """End the iteration of a body that may not have been read to its end.

    httpx nests generators, and leaves the inner ones to the garbage collector, of which Trio warns.
    Pieces that are there are passed over; what would wait for more is cancelled, and cleans up itself.
    """
    with trio.CancelScope() as scope, suppress(httpx.HTTPError, StopAsyncIteration):  # noqa: ASYNC912
        scope.cancel("the response is over")
        for _ in range(MAX_PIECES_LEFT):
            await anext(pieces)


async def _send(
    client: httpx.AsyncClient,
    method: str,
    url: httpx.URL,
    headers: Mapping[str, str],
    body: bytes | None,
) -> httpx.Response:
    try:
        # Not `client.request`: that would add the client's own headers, cookies and parameters.
        said = DEFAULT_HEADERS | {name.lower(): value for name, value in headers.items()}
        request = httpx.Request(method, url, headers=said, content=body)
    except UnicodeError:
        request = None
    if request is None:
        # Raised here and not in the handler: the original's text holds the header, perhaps the key.
        raise ValidationError(BAD_HEADER, field="headers")
    token = _is_ours.set(True)
    try:
        return await client.send(request, stream=True, follow_redirects=False, auth=None)
    except httpx.HTTPError as fault:
        error = _error_of(fault, url)
        raise error from error.__cause__ or fault
    finally:
        _is_ours.reset(token)


class _RawBody:
    """The body of an httpx response, undecoded, under our errors."""

    def __init__(self, pieces: AsyncIterator[bytes]) -> None:
        self._pieces: AsyncIterator[bytes] | None = pieces

    async def read_some(self) -> bytes:
        """Return the next bytes that are not empty, or `b""` at the end."""
        if self._pieces is None:
            return b""
        try:
            async for piece in self._pieces:
                if piece:
                    return piece
        except httpx.HTTPError as fault:
            error = _error_of(fault, None)
            raise error from error.__cause__ or fault
        self._pieces = None
        return b""


def _error_of(fault: httpx.HTTPError, url: httpx.URL | None) -> CallboardError:
    """Return our error for one of httpx's: the one that it was made of, where it is our own."""
    if isinstance(fault.__cause__, CallboardError):
        return fault.__cause__
    where = "" if url is None else f" to {url.host}"
    if isinstance(fault, httpx.TimeoutException):
        return DeadlineError(f"The request{where} took too long: {type(fault).__name__}.")
    return NetworkError(f"The request{where} failed: {str(fault) or type(fault).__name__}.")
