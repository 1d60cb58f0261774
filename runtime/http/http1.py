"""HTTP/1.1 responses as bytes: what a server sent in, heads and bodies out; no I/O.

A head is read strictly, since two readers that disagree about where a response ends are how one
request gets the response to another. Whatever RFC 9112 calls an error, or lets a recipient refuse, is
refused: a length beside a transfer coding, two lengths, any coding but `chunked`, lines that end with LF
alone, control characters. Lines that are folded are read, as the RFC wants it; after such a head the
connection is not used again. `tests/runtime/test_http1.py` has h11 as its judge: the same result, or
an error.

A body comes out in one piece for all the bytes that are here. Gateways put each event of a model's
stream into a chunk of its own, and one network read may hold hundreds, of some dozens of lengths. So a
connection remembers what it found between two payloads (CRLF, the size, CRLF): where the same bytes come
again, they mean the same, and the next payload is cut out without reading them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

MAX_HEAD_BYTES = 64 * 1024
"""The largest response head, and the largest trailers: eight times what common servers send at most."""
MAX_INFORMATIONAL = 16
"""Informational responses before the final one; Go's client allows five."""
MAX_CHUNK_LINE_BYTES = 4096
"""The size of a chunk with its extensions, of which nobody makes use."""
MAX_QUOTED_CHARS = 80
"""An error quotes this much of what a server sent in place of HTTP."""

_MAX_KNOWN_CHUNKS = 256
"""Beginnings of chunks that a connection remembers; the events of a model's stream have some dozens of
lengths."""
_KNOWN_BYTES = 7
"""The length of such a beginning: CRLF, up to three digits, CRLF. Chunks of 4 KiB and more are rare."""
_LONE_BYTES = 4096
"""Longer reads are not taken for a single chunk, which costs a copy of them."""

_CRLF = b"\r\n"
_START = b"HTTP/1."
_STATUS_LINE = re.compile(rb"HTTP/1\.([01]) ([1-9][0-9]{2})(?: ([\t\x20-\x7e\x80-\xff]*))?")
# Some servers fill the line up with spaces.
_CHUNK_LINE = re.compile(rb"([0-9A-Fa-f]{1,16})(?:[ \t]*|;[\t\x20-\x7e\x80-\xff]*)")
_FOLD = re.compile(rb"\r\n[ \t]+")
_LENGTH = re.compile(rb"[0-9]{1,18}")
_MAX_HEX_DIGITS = 16
_TOKEN = b"!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_TEXT = bytes(byte for byte in range(256) if byte == 9 or (byte >= 32 and byte != 127))
_FRAMING = frozenset({b"content-length", b"transfer-encoding", b"connection"})

_X = (b"x", b"X")  # `int` reads 0x as well

_BODILESS = frozenset({204, 304})


class ProtocolError(Exception):
    """What the server sent is not HTTP/1.1, or is of a form that is not safe to read."""


class UnexpectedEnd(ProtocolError):
    """The server closed the connection before the response was complete."""


class ResponseHead(NamedTuple):
    """The head of a final response; names of headers are in lower case."""

    status: int
    reason: bytes
    headers: list[tuple[bytes, bytes]]


class ResponseReader:
    """Reads the responses of one connection, one after another.

    `begin` for each request, then `receive` and `read_head` until it returns a head, then `receive` and
    `read_body` until `is_done`.

    Attributes:
        is_done: The response was read to its end.
        keeps_alive: Another request may follow on the connection, once this response is done.
    """

    __slots__ = (
        "_buffer",
        "_informational",
        "_is_closed",
        "_known",
        "_left",
        "_may_have_body",
        "_take",
        "is_done",
        "keeps_alive",
    )

    def __init__(self) -> None:
        self._buffer = b""
        self._is_closed = False
        # What stands between two payloads, with the first bytes of the second if there is room: where
        # the second begins and ends. It lives as long as the connection.
        self._known: dict[bytes, tuple[int, int]] = {}
        self.begin("")

    def begin(self, method: str) -> None:
        """Expect the response to a request of this method."""
        self._may_have_body = method != "HEAD"
        self._take: Callable[[ResponseReader, bytes], bytes] = ResponseReader._take_nothing
        # Of the body, or of a chunk with the CRLF behind it.
        self._left = 0
        self._informational = 0
        self.is_done = False
        self.keeps_alive = False

    @property
    def has_surplus(self) -> bool:
        """Whether bytes are here that belong to no response."""
        return bool(self._buffer)

    def receive(self, data: bytes) -> None:
        """Take what a network read brought; `b""` says that the server closed the connection."""
        if data:
            self._buffer = self._buffer + data if self._buffer else data
        else:
            self._is_closed = True

    def read_head(self) -> ResponseHead | None:
        """Return the head of the final response, or `None` when it needs more bytes.

        Informational responses (RFC 9110 15.2: 100, 103) precede it and are passed over.

        Raises:
            ProtocolError: It is not a head, or not one that is safe to read.
        """
        while self._informational <= MAX_INFORMATIONAL:
            data = self._buffer
            end = data.find(b"\r\n\r\n")
            if end < 0:
                self._check_incomplete(data)
                return None
            head = self._parse_head(data[:end])
            self._buffer = data[end + 4 :]
            if head.status >= 200:
                return head
            self._informational += 1
        raise ProtocolError(f"it sent more than {MAX_INFORMATIONAL} informational responses")

    def read_body(self) -> bytes:
        """Return all of the body that is here; empty when it needs more bytes, or `is_done`.

        Raises:
            ProtocolError: The body is not framed as its head says.
        """
        data = self._buffer
        if self.is_done or not (data or self._is_closed):
            return b""
        self._buffer = b""
        body = self._take(self, data)
        if self._is_closed and not self.is_done:
            if self._take is not ResponseReader._take_all:
                raise UnexpectedEnd("the connection was closed in the middle of the body")
            self.is_done = True
            self.keeps_alive = False
        return body

    def _check_incomplete(self, data: bytes) -> None:
        """Raise if what is here can't become a head, or is too long for one."""
        if not (data.startswith(_START) or _START.startswith(data)):
            raise ProtocolError(f"illegal status line: {_quoted(data)}")
        _check_lines(data)
        if self._is_closed:
            raise UnexpectedEnd("the connection was closed before the response was complete")

    def _parse_head(self, data: bytes) -> ResponseHead:
        if len(data) > MAX_HEAD_BYTES:
            raise ProtocolError("its head is too long")
        line, _, lines = data.partition(_CRLF)
        found = _STATUS_LINE.fullmatch(line)
        if found is None:
            raise ProtocolError(f"illegal status line: {_quoted(line)}")
        is_folded = False
        try:
            headers, framing = _parse_fields(lines) if lines else ([], {})
        except ProtocolError:
            # RFC 9112 5.2: "A user agent … MUST replace each received obs-fold with one or more SP".
            unfolded = _FOLD.sub(b" ", lines)
            is_folded = unfolded != lines
            if not is_folded:
                raise
            headers, framing = _parse_fields(unfolded)
        status = int(found[2])
        coding, length = framing.get(b"transfer-encoding"), framing.get(b"content-length")
        if status < 200:
            if status == 101:
                raise ProtocolError("it switched to another protocol unasked")
            if not (coding is length is None):
                raise ProtocolError("an informational response says how long its body is")
            return ResponseHead(status, b"", headers)
        # Folded lines are obsolete, and not all readers agree on them.
        self.keeps_alive = found[1] == b"1" and not is_folded
        if options := framing.get(b"connection"):
            words = options.lower().replace(b"\t", b" ").split(b",")
            self.keeps_alive = self.keeps_alive and b"close" not in map(bytes.strip, words)
        self._frame(coding, length)
        if not self._may_have_body or status in _BODILESS:
            self.is_done = True
        return ResponseHead(status, found[3] or b"", headers)

    def _frame(self, coding: bytes | None, length: bytes | None) -> None:
        """Choose how the body is read (RFC 9112 6.3)."""
        if coding is not None:
            if length is not None:
                # "Such a message might indicate an attempt to perform request smuggling or response
                # splitting and ought to be handled as an error."
                raise ProtocolError("it sent both Content-Length and Transfer-Encoding")
            if coding.lower() != b"chunked":
                raise ProtocolError(f"unknown Transfer-Encoding: {_quoted(coding)}")
            self._take = ResponseReader._take_chunks
        elif length is not None:
            if _LENGTH.fullmatch(length) is None:
                raise ProtocolError(f"bad Content-Length: {_quoted(length)}")
            self._take = ResponseReader._take_counted
            self._left = int(length)
            self.is_done = not self._left
        else:
            self._take = ResponseReader._take_all

    def _take_nothing(self, data: bytes) -> bytes:
        raise ProtocolError("it sent a body without a head")

    def _take_all(self, data: bytes) -> bytes:
        return data

    def _take_counted(self, data: bytes) -> bytes:
        left = self._left
        self._left = left - len(data)
        if self._left > 0:
            return data
        self.is_done = True
        self._buffer = data[left:]
        return data[:left]

    def _take_chunks(self, data: bytes) -> bytes:
        left, size = self._left, len(data)
        if not left and size < _LONE_BYTES and (whole := _whole_chunk(data)):
            return whole
        pieces: list[bytes] = []
        at = 0
        while True:
            if left:
                end = at + left - 2
                if end + 2 > size:
                    end = min(end, size)
                    pieces.append(data[at:end])
                    self._left = left - (end - at)
                    self._buffer = data[end:]  # a CR whose LF is not here yet
                    break
                pieces.append(data[at:end])
                at = self._take_known_chunks(data, end, pieces)
                if data[at : at + 2] != _CRLF:
                    raise ProtocolError("a chunk is longer or shorter than its size says")
                at += 2
            end = data.find(_CRLF, at)
            if end < 0:
                if size - at > MAX_CHUNK_LINE_BYTES:
                    raise ProtocolError("the size of a chunk is too long")
                self._left = 0
                self._buffer = data[at:]
                break
            line = data[at:end]
            left = _plain_size(line) or _odd_size(line)
            if not left:
                self._take = ResponseReader._take_trailers
                self._take_trailers(data[end + 2 :])
                break
            start = at - 2  # of the CRLF behind the payload before, if there is one
            skip = end + 2 - start
            if at and skip <= _KNOWN_BYTES and len(self._known) < _MAX_KNOWN_CHUNKS:
                self._known[data[start : start + _KNOWN_BYTES]] = (skip, skip + left)
            left += 2
            at = end + 2
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _take_known_chunks(self, data: bytes, at: int, pieces: list[bytes]) -> int:
        """Take whole chunks whose first bytes are known, from the end of a payload; return that of the last."""
        known, size = self._known.get, len(data) - 2
        while found := known(data[at : at + _KNOWN_BYTES]):
            skip, length = found
            end = at + length
            if end > size:
                break
            pieces.append(data[at + skip : end])
            at = end
        return at

    def _take_trailers(self, data: bytes) -> bytes:
        """Read the trailers, of which only the end counts."""
        if data.startswith(_CRLF):
            self._buffer = data[2:]
            self.is_done = True
            return b""
        end = data.find(b"\r\n\r\n")
        if end < 0:
            _check_lines(data)
            self._buffer = data
            return b""
        if end > MAX_HEAD_BYTES:
            raise ProtocolError("its trailers are too long")
        _, framing = _parse_fields(data[:end])
        if framing.keys() - {b"connection"}:
            raise ProtocolError("its trailers say how long the body is")
        self._buffer = data[end + 4 :]
        self.is_done = True
        return b""


def _check_lines(data: bytes) -> None:
    """Raise if lines whose end is not here are too long, or end with LF alone."""
    if data.count(b"\n") != data.count(_CRLF):
        raise ProtocolError(f"a line ends without CR: {_quoted(data)}")
    if len(data) > MAX_HEAD_BYTES:
        raise ProtocolError("its head is too long")


def _parse_fields(data: bytes) -> tuple[list[tuple[bytes, bytes]], dict[bytes, bytes]]:
    """Return all fields, and apart from them those that say where the response ends."""
    lines = data.split(_CRLF)
    fields: list[tuple[bytes, bytes]] = []
    framing: dict[bytes, bytes] = {}
    for line in lines:
        name, colon, value = line.partition(b":")
        if not colon:
            raise ProtocolError(f"illegal header line: {_quoted(line)}")
        name, value = name.lower(), value.strip(b" \t")
        fields.append((name, value))
        if name in _FRAMING:
            framing[name] = b"%b,%b" % (framing[name], value) if name in framing else value
    names = [name for name, _ in fields]
    # RFC 9112 5.1: "No whitespace is allowed between the field name and colon."
    if not all(names) or b"".join(names).translate(None, _TOKEN):
        raise ProtocolError(f"illegal header name: {_quoted(data)}")
    if b"".join(lines).translate(None, _TEXT):
        raise ProtocolError(f"illegal control characters in its head: {_quoted(data)}")
    return fields, framing


def _whole_chunk(data: bytes) -> bytes:
    """Return the payload if this is one chunk in its plain form and nothing else, else `b""`."""
    line, _, rest = data.partition(b"\r")
    size = _plain_size(line)
    if size and len(rest) == size + 3 and rest[0] == 10 and rest[-2:] == _CRLF:
        return rest[1:-2]
    return b""


def _plain_size(line: bytes) -> int:
    """Return the size of a chunk if it is nothing but digits, else 0."""
    if not line.isalnum() or len(line) > _MAX_HEX_DIGITS or line[1:2] in _X:
        return 0
    try:
        return int(line, 16)
    except ValueError:
        return 0


def _odd_size(line: bytes) -> int:
    found = _CHUNK_LINE.fullmatch(line)
    if found is None:
        raise ProtocolError(f"illegal size of a chunk: {_quoted(line)}")
    return int(found[1], 16)


def _quoted(data: bytes) -> str:
    return ascii(data[:MAX_QUOTED_CHARS].decode("latin-1"))
