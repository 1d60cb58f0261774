"""How a question that waits makes itself heard where nobody sits: the settings of notices."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

import msgspec

from ..runtime.address_guard import HERE

MAX_URL_CHARS = 2048
"""Longer ones are no addresses of services."""


class NotifySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the daemon says that something waits for a person.

    Attributes:
        webhook: A URL that is posted to; `https`, or `http` on this machine. A name that leads to an
            address which is not public has to stand in `[network] allow`, too. Whoever has the URL
            may be able to post there: it is shown nowhere but by its host.
    """

    webhook: str | None = None

    def __post_init__(self) -> None:
        if self.webhook is not None and (problem := _problem(self.webhook)):
            raise ValueError(f"webhook: {problem}")

    @property
    def endpoint(self) -> tuple[str, int] | None:
        """The one host and port that a notice may be sent to."""
        if self.webhook is None:
            return None
        where = urlsplit(self.webhook)
        return where.hostname or "", where.port or (443 if where.scheme == "https" else 80)


def _problem(url: str) -> str:
    """Why nothing is posted there, if something is wrong; never the URL, which may be a secret."""
    try:
        where = urlsplit(url)
        port = where.port
    except ValueError:
        return "it is no URL"
    if len(url) > MAX_URL_CHARS or not url.isascii() or not url.isprintable() or " " in url:
        return "it is no URL: longer than one, or with characters that none has"
    if where.scheme not in {"https", "http"} or not where.hostname or port == 0:
        return "it is no URL like https://hooks.example/callboard"
    if where.username is not None or where.fragment:
        return "it has a user's name or a fragment: leave them out"
    if where.scheme == "http" and not _is_here(where.hostname):
        return "http is for this machine alone: say https"
    return ""


def is_address(host: str) -> bool:
    """Whether it says by itself where it is, and is no name."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _is_here(host: str) -> bool:
    return ipaddress.ip_address(host).is_loopback if is_address(host) else host == HERE
