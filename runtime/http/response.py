"""The response to a request, and the decompression of its body under a bound."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Protocol

from ..errors import NetworkError

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


MAX_FRUITLESS_BYTES = 1024 * 1024
"""Compressed input that may decompress to nothing before the request fails. Honest servers send a few
bytes of that kind (headers of empty gzip members)."""


class RawBody(Protocol):
    """The body of a response as it was sent: a connection's, or that of an httpx response."""

    async def read_some(self) -> bytes:
        """Return the next bytes, or `b""` at the end; raise `NetworkError` when it breaks."""
        ...


class BodyStream:
    """The response to one request, whose body is read as it arrives.

    Attributes:
        status: The HTTP status.
        reason: The server's reason phrase; may be empty.
        headers: By lower-case name; several of one name are joined by commas.
        cookies: The `set-cookie` headers. The client never sends them back.
        received_bytes: How much of the body was read, before decompression.
    """

    def __init__(
        self, status: int, reason: bytes, headers: Iterable[tuple[bytes, bytes]], body: RawBody
    ) -> None:
        self.status = status
        self.reason = reason.decode("ascii", "replace")
        self.headers, self.cookies = _read_headers(headers)
        self.received_bytes = 0
        self._body = body
        encoding = self.headers.get("content-encoding", "identity")
        self._decompressor = decompressor_for(encoding.strip().lower())

    async def read_some(self) -> bytes:
        """Return all that one network read brought, at least one byte, or `b""` at the end.

        Raises `NetworkError` when the connection breaks or ends before the body does.
        """
        if self._decompressor is None:
            data = await self._body.read_some()
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
            data = await self._body.read_some()
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


def _read_headers(raw: Iterable[tuple[bytes, bytes]]) -> tuple[dict[str, str], tuple[bytes, ...]]:
    """Return the headers by name, and the `set-cookie` headers apart: they can't be joined by commas."""
    headers: dict[str, str] = {}
    cookies: list[bytes] = []
    for raw_name, raw_value in raw:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        if name == "set-cookie":
            cookies.append(raw_value)
        else:
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers, tuple(cookies)
