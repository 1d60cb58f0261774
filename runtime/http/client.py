"""The HTTP client: sends a request and streams the body of the response.

It follows no redirects, keeps no cookies, reads nothing from the environment and verifies TLS. It
has one deadline, for connecting; all others are the caller's. The pool, and with it h11, is imported
with the first request, so that programs that make none start without it. Plain URLs are read by a
regular expression; all others by httpx, which takes longer to import than the rest of the client.
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
_LABEL = r"[a-z0-9]+(?:-[a-z0-9]+)*"  # not "xn--…", whose encoding httpx must check
_NAME = rf"(?:{_LABEL}\.)*[a-z][a-z0-9]*(?:-[a-z0-9]+)*"
_PLAIN = re.compile(
    rf"(?P<scheme>https?)://(?P<host>{_NAME}|{_BYTE}(?:\.{_BYTE}){{3}})(?::(?P<port>[1-9]\d{{0,4}}))?"
    r"(?P<path>(?:/[A-Za-z0-9_~:-][A-Za-z0-9_~:.-]*)*/?)(?P<query>\?[A-Za-z0-9_~=&.-]+)?",
    re.ASCII,
)
LAST_PORT = 65535


class PlainUrl(NamedTuple):
    """The parts of a URL that a request needs."""

    scheme: str
    host: str
    port: int
    netloc: bytes
    target: bytes


def read_plain_url(url: str) -> PlainUrl | None:
    """Split a URL that needs no quoting and no normalising; return `None` for all others."""
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
"""One piece of a compressed body is at most this long: a small body can't become gigabytes in memory."""

_GZIP_MAGIC = b"\x1f\x8b"
_GZIP = frozenset({"gzip", "x-gzip"})


class Decompressor:
    """Decompresses one body."""

    def __init__(self, encoding: str) -> None:
        self._has_members = encoding in _GZIP
        self._member = zlib.decompressobj(zlib.MAX_WBITS | 32)
        self._rest = b""
        self._is_over = False

    @property
    def is_complete(self) -> bool:
        """Whether the compressed data is complete, so that the body may end."""
        return self._member.eof

    def feed(self, data: bytes = b"") -> bytes:
        """Return at most `MAX_DECOMPRESSED_BYTES` of decompressed data; the rest is held back.

        An empty result means that more input is needed. After any other result, call again without
        input for what was held back.

        Raises `NetworkError` when the data is not in the announced encoding.
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
        """Whether another gzip member begins; undecided until its first two bytes are here."""
        if self._has_members and rest.startswith(_GZIP_MAGIC):
            self._member = zlib.decompressobj(zlib.MAX_WBITS | 16)
            return True
        self._is_over = not (self._has_members and _GZIP_MAGIC.startswith(rest))
        return False

    def _decompress(self, data: bytes) -> tuple[bytes, bytes]:
        """Return the unused input and the decompressed output."""
        member = self._member
        try:
            plain = member.decompress(data, MAX_DECOMPRESSED_BYTES)
        except zlib.error as fault:
            raise NetworkError(
                f"The response is not compressed as its header says: {fault}."
            ) from fault
        return (member.unused_data if member.eof else member.unconsumed_tail), plain


def decompressor_for(encoding: str) -> Decompressor | None:
    """Return a decompressor for a server that compresses unasked, or `None` for a plain body."""
    if encoding in {"", "identity"}:
        return None
    if encoding in _GZIP or encoding == "deflate":
        return Decompressor(encoding)
    raise NetworkError(
        f"The server compressed its response as {encoding!r}, although the request asked for none."
    )


if TYPE_CHECKING:
    import h11

    from .connection import Connect, Destination, HttpConnection, OutgoingHead
    from .pool import ConnectionPool

DEFAULT_HEADERS = {"user-agent": "callboard", "accept": "*/*", "accept-encoding": "identity"}

MAX_FRUITLESS_BYTES = 1024 * 1024
"""Compressed input that may decompress to nothing before the request fails. Honest servers send a few
bytes of that kind (headers of empty gzip members)."""

MAX_KEPT_TARGETS = 256
"""Parsed URLs to cache: one for each model endpoint in use. httpx needs 60 us to parse one."""

CREDENTIAL_WORDS = ("auth", "api-key", "apikey", "token", "secret", "cookie")
"""A header with one of these words in its name identifies the account that a request is made for."""
METHODS_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})
"""These send `content-length: 0` for an empty body; other methods send no length without a body."""


class HttpStatistics(msgspec.Struct, frozen=True):
    """How many connections a client has: in use, and idle for the next request."""

    active: int
    idle: int


class BodyStream:
    """The response to one request, whose body is read as it arrives.

    Attributes:
        status: The HTTP status.
        reason: The server's reason phrase; may be empty.
        headers: By lower-case name; several of one name are joined by commas.
        cookies: The `set-cookie` headers. The client never sends them back.
        received_bytes: How much of the body was read, before decompression.
    """

    def __init__(self, connection: HttpConnection, head: h11.Response) -> None:
        self.status: int = head.status_code
        self.reason = bytes(head.reason).decode("ascii", "replace")
        self.headers, self.cookies = _read_headers(head)
        self.received_bytes = 0
        self._connection = connection
        encoding = self.headers.get("content-encoding", "identity")
        self._decompressor = decompressor_for(encoding.strip().lower())

    async def read_some(self) -> bytes:
        """Return all that one network read brought, at least one byte, or `b""` at the end.

        Raises `NetworkError` when the connection breaks or ends before the body does.
        """
        if self._decompressor is None:
            data = await self._connection.read_some()
            self.received_bytes += len(data)
            return data
        return await self._read_decompressed(self._decompressor)

    async def read_all(self, max_bytes: int) -> bytes:
        """Return the body, or its first `max_bytes`; a broken connection ends it early.

        Raises `NetworkError` when the connection breaks before the first byte.
        """
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

    async def _read_decompressed(self, decompressor: Decompressor) -> bytes:
        plain = decompressor.feed()
        fruitful = self.received_bytes
        while not plain:
            data = await self._connection.read_some()
            if not data:
                break
            self.received_bytes += len(data)
            if self.received_bytes - fruitful > MAX_FRUITLESS_BYTES:
                raise NetworkError("The compressed response is long and decompresses to nothing.")
            plain = decompressor.feed(data)
        # An empty body with a content-encoding (the response to HEAD) is just empty.
        if not plain and not decompressor.is_complete and self.received_bytes:
            raise NetworkError("The compressed response ended before it was complete.")
        return plain


class HttpClient:
    """Makes any number of requests at once; `open_http_client` opens one."""

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
        """Send a POST request and yield the response, whatever its status.

        Leaving the block ends the response; its connection is used again if all of it was read.

        Raises:
            NetworkError: There is no connection, or it broke; retryable.
            DeadlineError: There was no connection in time.
            ValidationError: The URL or a header is not valid.
        """
        async with self.stream("POST", url, headers, body) as answer:
            yield answer

    @asynccontextmanager
    async def stream_get(self, url: str, headers: Mapping[str, str]) -> AsyncGenerator[BodyStream]:
        """Send a GET request and yield the response; see `stream_post`."""
        async with self.stream("GET", url, headers, None) as answer:
            yield answer

    @asynccontextmanager
    async def stream(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None
    ) -> AsyncGenerator[BodyStream]:
        """Send a request of any method and yield the response; see `stream_post`."""
        destination, head = _request(method, url, headers, body)
        pool = self._open()
        connection = pool.take(destination)
        try:
            yield BodyStream(connection, await connection.request(head, body or b""))
        finally:
            pool.give_back(connection)

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
    *, connect: Connect | None = None, connect_seconds: float | None = None
) -> AsyncGenerator[HttpClient]:
    """Open a client for the duration of the block.

    Args:
        connect: Makes the TCP connections, from host and port. An `OSError` becomes a
            `NetworkError`; any other exception passes through the request. The default connects
            anywhere; `AddressGuard.connect` decides where.
        connect_seconds: How long a connection may take, TLS included; 30 by default.
    """
    client = HttpClient(connect, connect_seconds)
    try:
        yield client
    finally:
        client.close()


class _Target(NamedTuple):
    """What a URL contributes to a request."""

    destination: Destination
    host_header: bytes
    target: bytes


@lru_cache(MAX_KEPT_TARGETS)
def _read_url(url: str) -> _Target:
    from .connection import Destination

    if plain := read_plain_url(url):
        destination = Destination(plain.scheme, plain.host, plain.port)
        return _Target(destination, plain.netloc, plain.target)
    import httpx  # here: most programs request plain URLs alone

    try:
        parsed = httpx.URL(url)
        scheme, host, port = parsed.scheme, parsed.raw_host.decode("ascii"), parsed.port
    except (httpx.InvalidURL, UnicodeError) as fault:
        raise ValidationError(f"{redact(url)!r} is not a URL: {fault}.", field="url") from None
    if scheme not in DEFAULT_PORTS or not host:
        raise ValidationError(f"{redact(url)!r} is not an http:// or https:// URL.", field="url")
    destination = Destination(scheme, host, DEFAULT_PORTS[scheme] if port is None else port)
    return _Target(destination, parsed.netloc, parsed.raw_path)


def _request(
    method: str, url: str, headers: Mapping[str, str], body: bytes | None
) -> tuple[Destination, OutgoingHead]:
    from .connection import BAD_HEADER, OutgoingHead

    destination, host, target = _read_url(url)
    said = DEFAULT_HEADERS | {name.lower(): value for name, value in headers.items()}
    try:
        fields = [(name.encode("ascii"), value.encode("ascii")) for name, value in said.items()]
    except UnicodeError:
        fields = []
    if not fields:
        # Raised here and not in the handler: the original's text holds the header, perhaps the key.
        raise ValidationError(BAD_HEADER, field="headers")
    if "host" not in said:
        fields.insert(0, (b"host", host))
    if (body is not None or method in METHODS_WITH_BODY) and "content-length" not in said:
        fields.append((b"content-length", b"%d" % len(body or b"")))
    return destination._replace(account=_account(said)), OutgoingHead(method, target, fields)


def _account(headers: Mapping[str, str]) -> bytes:
    """Return a digest of the headers with credentials; the keys themselves are not kept."""
    said = [f"{name}:{value}" for name, value in sorted(headers.items()) if _is_credential(name)]
    return hashlib.blake2b("\n".join(said).encode(), digest_size=16).digest() if said else b""


@lru_cache(MAX_KEPT_TARGETS)
def _is_credential(name: str) -> bool:
    return any(word in name for word in CREDENTIAL_WORDS)


def _read_headers(head: h11.Response) -> tuple[dict[str, str], tuple[bytes, ...]]:
    """Return the headers by name, and the `set-cookie` headers apart: they can't be joined by commas."""
    headers: dict[str, str] = {}
    cookies: list[bytes] = []
    for raw_name, raw_value in head.headers:
        name, value = raw_name.decode("ascii"), raw_value.decode("latin-1")
        if name == "set-cookie":
            cookies.append(raw_value)
        else:
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers, tuple(cookies)
