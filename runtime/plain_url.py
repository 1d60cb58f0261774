"""URLs of the kind that providers have, read without the library that reads every kind.

That library costs a program more to import than the rest of its first request.
"""

from __future__ import annotations

import re
from typing import NamedTuple

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
