"""Base URLs of providers: how they are written, and where a key may travel."""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import urlsplit

from ..runtime.http.address_guard import DEFAULT_PORTS

MAX_URL_LENGTH = 2048
"""A longer one is a mistake; browsers and proxies stop near here too."""

_HOST = re.compile(r"(?:[^\[\]:@\\%]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]*)?")
"""Host and port. Parsers disagree about anything else, like `name[::1]`, and a key must go where all of
them see it go."""


def checked_base_url(text: str) -> str:
    """Return the base URL without a slash at its end.

    Raises:
        ValueError: It is not an http(s) URL, or holds what a base URL must not: a password, a
            query or a fragment. The message never repeats a password.
    """
    url = text.strip()
    if len(url) > MAX_URL_LENGTH:
        raise ValueError(f"a base URL has at most {MAX_URL_LENGTH} characters, this has {len(url)}")
    if any(char <= " " or char == "\x7f" for char in url):
        raise ValueError("a base URL holds no spaces or control characters")
    parts = urlsplit(url)
    if parts.scheme not in DEFAULT_PORTS or not parts.hostname:
        example = "http://127.0.0.1:8080/v1"
        raise ValueError(f"a base URL begins with http:// or https:// and a host, like {example}")
    if not _HOST.fullmatch(parts.netloc.rpartition("@")[2]):
        raise ValueError("the host of a base URL is a name, an IPv4 address or [an IPv6 address]")
    if parts.username is not None or parts.password is not None:
        raise ValueError("a base URL holds no user name or password; name a key_env instead")
    if parts.query or parts.fragment or url.endswith(("?", "#")):
        raise ValueError("a base URL holds no query (?) and no fragment (#)")
    if parts.port == 0:  # looking raises ValueError("Port out of range 0-65535") and the like
        raise ValueError("a base URL has a port from 1 to 65535")
    return url.rstrip("/")


def origin(base_url: str) -> str:
    """Return scheme, host and port, all explicit: a key is sent only to the origin it belongs to."""
    parts = urlsplit(base_url)
    host = (parts.hostname or "").rstrip(".")
    if ":" in host:
        host = f"[{host}]"
    return f"{parts.scheme}://{host}:{parts.port or DEFAULT_PORTS[parts.scheme]}"


def is_loopback(base_url: str) -> bool:
    """Whether the URL names this machine: `localhost` or a loopback address."""
    if not _HOST.fullmatch(urlsplit(base_url).netloc):
        return False
    host = (urlsplit(base_url).hostname or "").rstrip(".")
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def may_carry_key(base_url: str) -> bool:
    """Whether a key may be sent there: over TLS anywhere, in clear text to this machine only."""
    return base_url.startswith("https://") or is_loopback(base_url)
