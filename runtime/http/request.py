"""The head of a request: where its URL leads, and what every request of ours says.

Plain URLs are read by a regular expression; all others by httpx, which takes longer to import than the
rest of the client.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from ..errors import ValidationError
from ..redaction import redact
from .address_guard import DEFAULT_PORTS

if TYPE_CHECKING:
    import httpx

    from .connection import Destination, OutgoingHead

DEFAULT_HEADERS = {"user-agent": "callboard", "accept": "*/*", "accept-encoding": "identity"}

MAX_KEPT_TARGETS = 256
"""Parsed URLs to cache: one for each model endpoint in use. httpx needs 60 us to parse one."""

CREDENTIAL_WORDS = ("auth", "api-key", "apikey", "token", "secret", "cookie")
"""A header with one of these words in its name identifies the account that a request is made for."""
METHODS_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})
"""These send `content-length: 0` for an empty body; other methods send no length without a body."""


BAD_HEADER = (
    "A header of the request is not valid. Check the key: it must be one line of ASCII characters."
)

_TOKENS = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110 5.6.2: names and methods

_TARGET = re.compile(rb"[\x21-\x7e]+")

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


class Target(NamedTuple):
    """What a URL contributes to a request."""

    destination: Destination
    host_header: bytes
    target: bytes


@lru_cache(MAX_KEPT_TARGETS)
def read_url(url: str) -> Target:
    """Return where a request of this URL goes; raise `ValidationError` for what is not a URL."""
    from .connection import Destination

    if plain := read_plain_url(url):
        destination = Destination(plain.scheme, plain.host, plain.port)
        return Target(destination, plain.netloc, plain.target)
    return target_of(parsed_url(url))


def parsed_url(url: str) -> httpx.URL:
    """Parse a URL; raise `ValidationError` for what is not an http:// or https:// URL."""
    import httpx  # here: most programs request plain URLs alone

    try:
        parsed = httpx.URL(url)
        scheme, host = parsed.scheme, parsed.raw_host.decode("ascii")
    except (httpx.InvalidURL, UnicodeError) as fault:
        raise ValidationError(f"{redact(url)!r} is not a URL: {fault}.", field="url") from None
    if scheme not in DEFAULT_PORTS or not host:
        raise ValidationError(f"{redact(url)!r} is not an http:// or https:// URL.", field="url")
    return parsed


def target_of(url: httpx.URL) -> Target:
    """Return where a request of this URL goes, and what it says there."""
    from .connection import Destination

    port = DEFAULT_PORTS[url.scheme] if url.port is None else url.port
    if not _TARGET.fullmatch(url.raw_path):
        raise ValidationError("The path of the URL is not plain ASCII.", field="url")
    return Target(
        Destination(url.scheme, url.raw_host.decode("ascii"), port), url.netloc, url.raw_path
    )


def outgoing(
    method: str, target: Target, headers: Mapping[str, str], body: bytes | None
) -> tuple[Destination, OutgoingHead]:
    """Return where a request goes, and its head with what every request of ours says.

    The body is sent whole, so its length is what is said of it, whatever the headers say.

    Raises `ValidationError` for a header that is not one line of ASCII; its text never holds the header.
    """
    from .connection import OutgoingHead

    said = {"host": target.host_header.decode("ascii")} | DEFAULT_HEADERS
    said |= {name.lower(): value for name, value in headers.items()}
    said.pop("transfer-encoding", None)
    said.pop("content-length", None)
    if body is not None or method in METHODS_WITH_BODY:
        said["content-length"] = f"{len(body or b'')}"
    _check_headers(method, said)
    lines = "".join([f"{name}: {value}\r\n" for name, value in said.items()])
    data = b"%b %b HTTP/1.1\r\n%b\r\n" % (method.encode(), target.target, lines.encode("ascii"))
    # RFC 9112 9.6: whoever sends `close` sends no further request on the connection.
    closes = "close" in re.split(r"[\s,]+", said.get("connection", "").lower())
    return target.destination._replace(account=_account(said)), OutgoingHead(method, data, closes)


def _check_headers(method: str, headers: Mapping[str, str]) -> None:
    """Raise for what would not be one line each: that would be a way to send other headers."""
    values = "".join(headers.values()).replace("\t", " ")
    is_valid = (
        _TOKENS.fullmatch(method)
        and all(headers)
        and _TOKENS.fullmatch("".join(headers))
        and values.isascii()
        and values.isprintable()
        and list(map(str.strip, headers.values())) == list(headers.values())
    )
    if not is_valid:
        raise ValidationError(BAD_HEADER, field="headers")


def _account(headers: Mapping[str, str]) -> bytes:
    """Return a digest of the headers with credentials; the keys themselves are not kept."""
    said = [f"{name}:{value}" for name, value in sorted(headers.items()) if _is_credential(name)]
    return hashlib.blake2b("\n".join(said).encode(), digest_size=16).digest() if said else b""


@lru_cache(MAX_KEPT_TARGETS)
def _is_credential(name: str) -> bool:
    return any(word in name for word in CREDENTIAL_WORDS)
