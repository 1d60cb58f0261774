"""The HTTP client: posts a request, gives the body as it comes.

No redirects, no cookies, nothing from the environment, TLS verified. Deadlines are the caller's,
but for the one of connecting. URLs are read by httpx; what is under the client (`http_pool`) is
imported with the first request: programs that never make one start without it.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from ..errors import NetworkError, ValidationError
from ..redaction import redact
from .address_guard import DEFAULT_PORTS

_BYTE = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
_LABEL = r"[a-z0-9]+(?:-[a-z0-9]+)*"  # none of "xn--", which is to be looked into
_NAME = rf"(?:{_LABEL}\.)*[a-z][a-z0-9]*(?:-[a-z0-9]+)*"
_PLAIN = re.compile(
    rf"(?P<scheme>https?)://(?P<host>{_NAME}|{_BYTE}(?:\.{_BYTE}){{3}})(?::(?P<port>[1-9]\d{{0,4}}))?"
    r"(?P<path>(?:/[A-Za-z0-9_~:-][A-Za-z0-9_~:.-]*)*/?)(?P<query>\?[A-Za-z0-9_~=&.-]+)?",
    re.ASCII,
)
LAST_PORT = 65535


class PlainUrl(NamedTuple):
    """The parts of a URL, as a request needs them."""

    scheme: str
    host: str
    port: int
    netloc: bytes
    target: bytes


def read_plain_url(url: str) -> PlainUrl | None:
    """The parts of a URL in which nothing is quoted or to be put right; `None` for all others."""
    found = _PLAIN.fullmatch(url)
    if found is None:
        return None
    scheme, host = found["scheme"], found["host"]
    usual = DEFAULT_PORTS[scheme]
    port = int(found["port"] or usual)
    if port > LAST_PORT:
        return None
    netloc = host if port == usual else f"{host}:{port}"
    target = (found["path"] or "/") + (found["query"] or "")
    return PlainUrl(scheme, host, port, netloc.encode(), target.encode())


MAX_DECOMPRESSED_BYTES = 256 * 1024
"""Given out at once of a compressed body, so that a small one can't become gigabytes here."""

_GZIP_MAGIC = b"\x1f\x8b"
_GZIP = frozenset({"gzip", "x-gzip"})


class Inflation:
    """Decompresses one body."""

    def __init__(self, encoding: str) -> None:
        self._has_members = encoding in _GZIP
        self._member = zlib.decompressobj(zlib.MAX_WBITS | 32)
        self._rest = b""
        self._is_over = False

    @property
    def is_complete(self) -> bool:
        """Whether the body may end here."""
        return self._member.eof

    def feed(self, data: bytes = b"") -> bytes:
        """What these bytes and those held back become, at most `MAX_DECOMPRESSED_BYTES`.

        Nothing means that more is needed; while there was something, more may be held back.

        Raises `NetworkError` when the bytes are not compressed as the head of the answer said.
        """
        rest, self._rest = self._rest + data, b""
        plain = b""
        while rest and not plain and not self._is_over:
            if self._member.eof and not self._begins_member(rest):
                break
            rest, plain = self._decompress(rest)
        if not self._is_over:
            self._rest = rest
        return plain

    def _begins_member(self, rest: bytes) -> bool:
        """Whether another member is here; with less than its first bytes, that is not known yet."""
        if self._has_members and rest.startswith(_GZIP_MAGIC):
            self._member = zlib.decompressobj(zlib.MAX_WBITS | 16)
            return True
        self._is_over = not (self._has_members and _GZIP_MAGIC.startswith(rest))
        return False

    def _decompress(self, data: bytes) -> tuple[bytes, bytes]:
        """What is left of the data, and what came of the rest of it."""
        member = self._member
        try:
            plain = member.decompress(data, MAX_DECOMPRESSED_BYTES)
        except zlib.error as fault:
            raise NetworkError(f"The answer is not compressed as it says: {fault}.") from fault
        return (member.unused_data if member.eof else member.unconsumed_tail), plain


def inflation_of(encoding: str) -> Inflation | None:
    """For a server that compresses although it was asked not to; `None` for a plain body."""
    if encoding in {"", "identity"}:
        return None
    if encoding in _GZIP or encoding == "deflate":
        return Inflation(encoding)
    raise NetworkError(f"The server compressed its answer as {encoding!r}, which nobody asked for.")


if TYPE_CHECKING:
    import h11

    from .connection import Connect, Destination, HttpConnection, RequestHead
    from .pool import ConnectionPool

DEFAULT_HEADERS = {"user-agent": "callboard", "accept": "*/*", "accept-encoding": "identity"}

MAX_FRUITLESS_BYTES = 1024 * 1024
"""Of a compressed body, read on while it decompresses to nothing; honest ones never come near it."""

MAX_KEPT_TARGETS = 256
"""URLs that stay read: one for each model endpoint in use; httpx reads one in 60 us."""

CREDENTIAL_WORDS = ("auth", "api-key", "apikey", "token", "secret", "cookie")
"""A header with one of these in its name says who asks, and who pays."""
METHODS_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})
"""Where an empty body is said to be empty; other methods have none unless it is given."""


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

    def __init__(self, connection: HttpConnection, head: h11.Response) -> None:
        self.status: int = head.status_code
        self.reason = bytes(head.reason).decode("ascii", "replace")
        self.headers, self.cookies = _read_headers(head)
        self.received_bytes = 0
        self._connection = connection
        encoding = self.headers.get("content-encoding", "identity")
        self._inflate = inflation_of(encoding.strip().lower())

    async def read_some(self) -> bytes:
        """All that one network read brought, at least one byte; `b""` at the clean end.

        Raises `NetworkError` when the connection breaks or ends before the body does.
        """
        if self._inflate is None:
            data = await self._connection.read_some()
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

    async def _read_inflated(self, inflate: Inflation) -> bytes:
        plain = inflate.feed()
        fruitful = self.received_bytes
        while not plain:
            data = await self._connection.read_some()
            if not data:
                break
            self.received_bytes += len(data)
            if self.received_bytes - fruitful > MAX_FRUITLESS_BYTES:
                raise NetworkError("The compressed answer is long and holds nothing.")
            plain = inflate.feed(data)
        # What says that it is compressed and is empty (an answer to HEAD) is just empty.
        if not plain and not inflate.is_complete and self.received_bytes:
            raise NetworkError("The compressed answer ended before it was complete.")
        return plain


class HttpClient:
    """Makes requests; any number at once. Opened by `open_http_client`."""

    def __init__(
        self, connect: Connect | None = None, connect_seconds: float | None = None
    ) -> None:
        self._connect = connect
        self._connect_seconds = connect_seconds
        self._pool: ConnectionPool | None = None

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
        destination, head = _request(method, url, headers, body)
        pool = self._open()
        connection = pool.take(destination)
        try:
            yield BodyStream(connection, await connection.request(head, body or b""))
        finally:
            pool.give_back(connection)

    def statistics(self) -> HttpStatistics:
        """How many connections there are."""
        return HttpStatistics(0, 0) if self._pool is None else HttpStatistics(*self._pool.count())

    def close(self) -> None:
        """Closes all connections; requests that run break."""
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
        client.close()


class _Target(NamedTuple):
    """What a URL says about a request."""

    destination: Destination
    host_header: bytes
    target: bytes


@lru_cache(MAX_KEPT_TARGETS)
def _read_url(url: str) -> _Target:
    from .connection import Destination

    if plain := read_plain_url(url):
        destination = Destination(plain.scheme, plain.host, plain.port)
        return _Target(destination, plain.netloc, plain.target)
    import httpx  # here: most programs ask none but plain URLs

    try:
        parsed = httpx.URL(url)
        scheme, host, port = parsed.scheme, parsed.raw_host.decode("ascii"), parsed.port
    except (httpx.InvalidURL, UnicodeError) as fault:
        raise ValidationError(f"{redact(url)!r} is no URL: {fault}.", field="url") from None
    if scheme not in DEFAULT_PORTS or not host:
        raise ValidationError(f"{redact(url)!r} is no http:// or https:// URL.", field="url")
    destination = Destination(scheme, host, DEFAULT_PORTS[scheme] if port is None else port)
    return _Target(destination, parsed.netloc, parsed.raw_path)


def _request(
    method: str, url: str, headers: Mapping[str, str], body: bytes | None
) -> tuple[Destination, RequestHead]:
    from .connection import BAD_HEADER, RequestHead

    destination, host, target = _read_url(url)
    said = DEFAULT_HEADERS | {name.lower(): value for name, value in headers.items()}
    try:
        fields = [(name.encode("ascii"), value.encode("ascii")) for name, value in said.items()]
    except UnicodeError:
        fields = []
    if not fields:
        # Raised here: the original holds the header, which may be the key.
        raise ValidationError(BAD_HEADER, field="headers")
    if "host" not in said:
        fields.insert(0, (b"host", host))
    if (body is not None or method in METHODS_WITH_BODY) and "content-length" not in said:
        fields.append((b"content-length", b"%d" % len(body or b"")))
    return destination._replace(payer=_payer(said)), RequestHead(method, target, fields)


def _payer(headers: Mapping[str, str]) -> bytes:
    """Who asks: a digest of what the headers say about that, and not the keys themselves."""
    said = [f"{name}:{value}" for name, value in sorted(headers.items()) if _is_credential(name)]
    return hashlib.blake2b("\n".join(said).encode(), digest_size=16).digest() if said else b""


@lru_cache(MAX_KEPT_TARGETS)
def _is_credential(name: str) -> bool:
    return any(word in name for word in CREDENTIAL_WORDS)


def _read_headers(head: h11.Response) -> tuple[dict[str, str], tuple[bytes, ...]]:
    """The headers by name, and apart from them the cookies, which nothing here remembers."""
    headers: dict[str, str] = {}
    cookies: list[bytes] = []
    for raw_name, raw_value in head.headers:
        name, value = raw_name.decode("ascii"), raw_value.decode("latin-1")
        if name == "set-cookie":
            cookies.append(raw_value)
        else:
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers, tuple(cookies)
