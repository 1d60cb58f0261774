"""Plain bytes out of a compressed body that comes in pieces.

A gzip body may be many members, one behind the other (RFC 1952, 2.2): servers that compress each
flush on its own send that. What else stands behind the end of a member is ignored, as gzip does.
"""

from __future__ import annotations

import zlib

from .errors import NetworkError

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
