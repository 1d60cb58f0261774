"""Heads of requests to the sandbox's proxy, and of answers through it. Pure.

The parser is strict: whatever servers could read in two ways is refused, so that the host that was checked
is the host that is reached. A tunnel is named by host and port and nothing else; a plain request by a URL,
and the server gets the host of that URL, whatever the `Host` header said.
"""

from __future__ import annotations

import re
from urllib.parse import urlsplit

import msgspec

from ....runtime.definitions import ToolFailure
from ....runtime.http.url import HttpUrl, parse_url

MAX_HEAD_BYTES = 16 * 1024
"""The largest head of a request or an answer; servers commonly take 8 to 16 KiB."""
MAX_HEADERS = 100
"""Browsers send some twenty."""

_REQUEST = re.compile(rb"([A-Z]{1,32}) ([\x21-\x7e]{1,8192}) HTTP/1\.[01]")
_STATUS = re.compile(rb"HTTP/1\.[01] ([1-5][0-9][0-9])( [\t\x20-\x7e\x80-\xff]*)?")
_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}")
_VALUE = re.compile(rb"[\t\x20-\x7e\x80-\xff]*")
_ADDRESS = re.compile(rb"(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9._-]{1,253}):[0-9]{1,5}")

_OF_ONE_CONNECTION = frozenset(
    {b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization"}
    | {b"proxy-connection", b"te", b"upgrade"}
)
"""RFC 9110 7.6.1, without the headers that say how long the body is, which are passed on."""

Headers = list[tuple[bytes, bytes]]


class HeadRefused(Exception):
    """The proxy refuses what a program asked for: the reason, and the status of its answer."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class ProxyRequest(msgspec.Struct, frozen=True):
    """A program's request to the proxy; `head` is what to send to the server first, `None` for a tunnel."""

    url: HttpUrl
    head: bytes | None

    @property
    def is_tunnel(self) -> bool:
        """Whether all that follows is between the program and the server."""
        return self.head is None


def parse_request(head: bytes) -> ProxyRequest:
    """Parse a head, given without its empty last line; raise `HeadRefused`."""
    first, *lines = head.split(b"\r\n")
    found = _REQUEST.fullmatch(first)
    if found is None:
        raise HeadRefused(400, "this is not a request to a proxy")
    method, target = found.groups()
    headers = _headers(lines)
    if method == b"CONNECT":
        if not _ADDRESS.fullmatch(target):
            raise HeadRefused(400, "CONNECT takes HOST:PORT, and nothing else")
        return ProxyRequest(_url(b"https://" + target + b"/"), None)
    if target[:7].lower() != b"http://":
        raise HeadRefused(400, "a proxy takes CONNECT HOST:PORT, or a whole http:// URL")
    url = _url(target)
    parts = urlsplit(url.text)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    start = method + b" " + path.encode("ascii") + b" HTTP/1.1"
    kept = [(name, value) for name, value in _kept(headers) if name.lower() != b"host"]
    return ProxyRequest(url, _text(start, [(b"Host", url.authority.encode("ascii")), *kept]))


def closing_answer(head: bytes) -> tuple[bytes, bool]:
    """An answer's head that says that nothing follows on its connection; whether it is the last.

    Answers like `100 Continue` come before the last one. Raises `HeadRefused`.
    """
    first, *lines = head.split(b"\r\n")
    found = _STATUS.fullmatch(first)
    if found is None:
        raise HeadRefused(502, "the server's answer is not HTTP")
    headers = _headers(lines, status=502)
    if found[1].startswith(b"1"):
        return _text(first, _kept(headers), is_closing=False), False
    return _text(first, _kept(headers)), True


def _headers(lines: list[bytes], status: int = 400) -> Headers:
    if len(lines) > MAX_HEADERS:
        raise HeadRefused(431 if status == 400 else status, f"there are over {MAX_HEADERS} headers")
    found: Headers = []
    for line in lines:
        name, colon, value = line.partition(b":")
        if not colon or not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
            raise HeadRefused(status, "a header is not NAME: VALUE on one line")
        found.append((name, value.strip(b" \t")))
    return found


def _kept(headers: Headers) -> Headers:
    """Without those of one connection, and those that it names as such."""
    named = {
        token.strip().lower()
        for name, value in headers
        if name.lower() == b"connection"
        for token in value.split(b",")
    } - {b"content-length", b"transfer-encoding"}
    return [pair for pair in headers if pair[0].lower() not in _OF_ONE_CONNECTION | named]


def _text(first: bytes, headers: Headers, *, is_closing: bool = True) -> bytes:
    closing = [(b"Connection", b"close")] if is_closing else []
    lines = [first, *(name + b": " + value for name, value in [*headers, *closing])]
    return b"\r\n".join(lines) + b"\r\n\r\n"


def _url(text: bytes) -> HttpUrl:
    try:
        return parse_url(text.decode("ascii"))
    except ToolFailure as failure:
        raise HeadRefused(400, str(failure)) from None
