"""The HTTP client: posts a request, gives the body as it comes.

No redirects, no cookies, nothing from the environment, TLS verified. Deadlines are the caller's,
but for the one of connecting. What is under it (`http_transport`, and with it httpx) is imported
with the first request: programs that never make one start without it.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import msgspec

from .errors import NetworkError, ValidationError
from .redaction import redact

if TYPE_CHECKING:
    import httpx

    from .http_connection import Connect
    from .http_transport import ShardedTransport

DEFAULT_HEADERS = {"user-agent": "callboard", "accept": "*/*", "accept-encoding": "identity"}

MAX_DECOMPRESSED_BYTES = 256 * 1024
"""Given out at once of a compressed body, so that a small one can't become gigabytes here."""

MAX_FRUITLESS_BYTES = 1024 * 1024
"""Of a compressed body, read on while it decompresses to nothing; honest ones never come near it."""

BAD_HEADER = "A header of the request is not valid: a key is one line of plain characters."

FOREIGN_LOGGERS = ("httpx", "httpcore", "httpcore2")
"""They print whole URLs and headers at INFO and DEBUG."""


class HttpStatistics(msgspec.Struct, frozen=True):
    """Connections of a client: in use, and idle for the next request."""

    active: int
    idle: int


class BodyStream:
    """The answer to one request, while its body comes.

    Attributes:
        status: The HTTP status.
        reason: The server's words for it; may be empty.
        headers: By lower-case name; several of one name are joined by commas.
        cookies: The `set-cookie` headers, which nothing here obeys.
        received_bytes: How much of the body was read, as it came: compressed, if it is.
    """

    def __init__(self, response: httpx.Response) -> None:
        self.status: int = response.status_code
        self.reason: str = response.reason_phrase
        self.headers: Mapping[str, str] = {k.lower(): v for k, v in response.headers.items()}
        self.cookies: tuple[bytes, ...] = tuple(response.extensions["set_cookie"])
        self.received_bytes = 0
        self._body: Any = response.extensions["body"]
        self._inflate = _inflater(self.headers.get("content-encoding", "identity").strip().lower())

    async def read_some(self) -> bytes:
        """All that one network read brought, at least one byte; `b""` at the clean end.

        Raises `NetworkError` when the connection breaks or ends before the body does.
        """
        if self._inflate is None:
            data: bytes = await self._body.read_some()
            self.received_bytes += len(data)
            return data
        return await self._read_inflated(self._inflate)

    async def read_all(self, max_bytes: int) -> bytes:
        """The body, or its first `max_bytes`; what came before a break counts."""
        pieces: list[bytes] = []
        room = max_bytes
        try:
            while room > 0 and (data := await self.read_some()):
                pieces.append(data[:room])
                room -= len(pieces[-1])
        except NetworkError:
            if not pieces:
                raise
        return b"".join(pieces)

    async def _read_inflated(self, inflate: zlib._Decompress) -> bytes:
        plain = _inflate(inflate, inflate.unconsumed_tail)
        fruitful = self.received_bytes
        while not plain:
            data: bytes = await self._body.read_some()
            if not data:
                break
            self.received_bytes += len(data)
            if self.received_bytes - fruitful > MAX_FRUITLESS_BYTES:
                raise NetworkError("The compressed answer is long and holds nothing.")
            plain = _inflate(inflate, data)
        # What says that it is compressed and is empty (an answer to HEAD) is just empty.
        if not plain and not inflate.eof and self.received_bytes:
            raise NetworkError("The compressed answer ended before it was complete.")
        return plain


class HttpClient:
    """Makes requests; any number at once. Opened by `open_http_client`."""

    def __init__(
        self, connect: Connect | None = None, connect_seconds: float | None = None
    ) -> None:
        self._options: dict[str, Any] = {}
        if connect is not None:
            self._options["connect"] = connect
        if connect_seconds is not None:
            self._options["connect_seconds"] = connect_seconds
        self._transport: ShardedTransport | None = None

    @asynccontextmanager
    async def stream_post(
        self, url: str, headers: Mapping[str, str], body: bytes
    ) -> AsyncGenerator[BodyStream]:
        """Posts and gives the answer, whatever its status.

        Leaving the block closes the answer; its connection is used again when all was read.

        Raises:
            NetworkError: No connection, or it broke; retryable.
            DeadlineError: No connection in time.
            ValidationError: The URL is none.
        """
        async with self.stream("POST", url, headers, body) as answer:
            yield answer

    @asynccontextmanager
    async def stream_get(self, url: str, headers: Mapping[str, str]) -> AsyncGenerator[BodyStream]:
        """Gets and gives the answer, whatever its status; see `stream_post`."""
        async with self.stream("GET", url, headers, None) as answer:
            yield answer

    @asynccontextmanager
    async def stream(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None
    ) -> AsyncGenerator[BodyStream]:
        """Sends a request of any method and gives the answer; see `stream_post`."""
        # The transport itself: what httpx's client adds (redirects, cookies, authentication, hooks)
        # is switched off here, and costs a tenth of a request.
        response = await self._open().handle_async_request(_request(method, url, headers, body))
        try:
            yield BodyStream(response)
        finally:
            # Does not wait: the pool shields what it does here, and a socket closes at once.
            await response.aclose()

    def statistics(self) -> HttpStatistics:
        """How many connections there are."""
        if self._transport is None:
            return HttpStatistics(0, 0)
        return HttpStatistics(*self._transport.count_connections())

    async def aclose(self) -> None:
        """Closes all connections; requests that run break."""
        transport, self._transport = self._transport, None
        if transport is not None:
            await transport.aclose()

    def _open(self) -> ShardedTransport:
        if self._transport is None:
            from .http_transport import ShardedTransport

            _quiet_foreign_logs()
            self._transport = ShardedTransport(**self._options)
        return self._transport


@asynccontextmanager
async def open_http_client(
    *, connect: Connect | None = None, connect_seconds: float | None = None
) -> AsyncGenerator[HttpClient]:
    """A client for as long as the block lasts.

    Args:
        connect: Makes its TCP connections, of host and port; raises `OSError` when there is none,
            and what else it raises comes out of the request. By default it connects anywhere.
        connect_seconds: How long a connection may take, TLS included; 30 by default.
    """
    client = HttpClient(connect, connect_seconds)
    try:
        yield client
    finally:
        await client.aclose()


def _request(
    method: str, url: str, headers: Mapping[str, str], body: bytes | None
) -> httpx.Request:
    import httpx

    fields = None
    with suppress(UnicodeError):
        fields = httpx.Headers(DEFAULT_HEADERS | {k.lower(): v for k, v in headers.items()})
    if fields is None:
        # Raised here: the original holds the header, which may be the key.
        raise ValidationError(BAD_HEADER, field="headers")
    try:
        request = httpx.Request(method, url, headers=fields, content=body)
    except (httpx.InvalidURL, UnicodeError) as fault:
        raise ValidationError(f"{redact(url)!r} is no URL: {fault}.", field="url") from None
    if request.url.scheme not in {"http", "https"} or not request.url.host:
        raise ValidationError(f"{redact(url)!r} is no http:// or https:// URL.", field="url")
    return request


def _inflate(inflate: zlib._Decompress, data: bytes) -> bytes:
    if inflate.eof or not data:
        return b""
    try:
        return inflate.decompress(data, MAX_DECOMPRESSED_BYTES)
    except zlib.error as fault:
        raise NetworkError(f"The answer is not compressed as it says: {fault}.") from fault


def _inflater(encoding: str) -> zlib._Decompress | None:
    """For a server that compresses although it was asked not to."""
    if encoding in {"", "identity"}:
        return None
    if encoding in {"gzip", "x-gzip", "deflate"}:
        return zlib.decompressobj(zlib.MAX_WBITS | 32)
    raise NetworkError(f"The server compressed its answer as {encoding!r}, which nobody asked for.")


def _quiet_foreign_logs() -> None:
    for name in FOREIGN_LOGGERS:
        logger = logging.getLogger(name)
        if logger.level == logging.NOTSET:
            logger.setLevel(logging.WARNING)
