"""The URLs that tools request: parsed once, so that policy judges the very URL that is requested.

Two parsers that read one text differently are a classic hole: the check sees one host, the request
goes to another. So tools, policy and proxy pass an `HttpUrl`, never a text.
"""

from __future__ import annotations

import re

import msgspec

from ..definitions import ErrorType, ToolFailure
from ..redaction import redact
from ..text import normalize_host
from .address_guard import DEFAULT_PORTS

MAX_URL_CHARS = 8192
"""The request line that common servers accept; a longer URL is data in the wrong place."""
MAX_SHOWN_CHARS = 200
"""A URL in a one-line message is cut to this length."""

_HOST = re.compile(r"(?=.{1,253}\Z)[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*|[0-9a-f:.]*:[0-9a-f:.]*")


class HttpUrl(msgspec.Struct, frozen=True):
    """An absolute http or https URL.

    Attributes:
        scheme: `http` or `https`.
        host: Normalised: ASCII, lower case, no dot at the end, no brackets.
        port: The scheme's own port if the URL names none.
        text: The whole URL as it is requested, without the fragment, which servers never see.
    """

    scheme: str
    host: str
    port: int
    text: str

    @property
    def origin(self) -> tuple[str, str, int]:
        """Scheme, host and port. Secrets go to URLs of the same origin alone."""
        return self.scheme, self.host, self.port

    @property
    def authority(self) -> str:
        """The host, with the port if it is not the scheme's own."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def shown(self) -> str:
        """The URL for a message: redacted, on one line, cut to `MAX_SHOWN_CHARS`."""
        return _shown(self.text)


def parse_url(text: str, base: HttpUrl | None = None) -> HttpUrl:
    """Parse a URL, relative to `base` if there is one.

    Raises:
        ToolFailure: `validation_error` (field `url`) when it is not a URL or holds a password,
            `url_not_allowed` when its scheme is not http or https.
    """
    import httpx  # here: a program that requests nothing starts without it

    text = text.strip()
    if len(text) > MAX_URL_CHARS:
        raise _invalid(f"it has {len(text)} characters; at most {MAX_URL_CHARS} are allowed")
    try:
        url = httpx.URL(text) if base is None else httpx.URL(base.text).join(text)
        host = normalize_host(url.raw_host.decode("ascii"))
    except (httpx.InvalidURL, ValueError) as fault:
        raise _invalid(f"{_shown(text)!r} is not a URL ({fault})") from None
    if url.scheme and url.scheme not in DEFAULT_PORTS:
        raise not_allowed(_shown(text))
    if url.userinfo:
        raise _invalid(
            "a URL must not hold a user name or password; http_request can send an Authorization "
            "header"
        )
    if not url.scheme or not _HOST.fullmatch(host):
        raise _invalid(f"{_shown(text)!r} is not a URL with http:// or https:// and a host")
    port = DEFAULT_PORTS[url.scheme] if url.port is None else url.port
    if not 0 < port < 65536:
        raise _invalid(f"{port} is not a port (1 to 65535)")
    made = url.copy_with(host=host, fragment=None)
    return HttpUrl(url.scheme, host, port, str(made))


class NotSent(ToolFailure):
    """A request, or a redirect of it, was refused before a connection was made for it."""


def not_allowed(shown: str, failure: type[ToolFailure] = ToolFailure) -> ToolFailure:
    """Return the one failure for all forbidden addresses; it never reveals what is there."""
    return failure(
        ErrorType.URL_NOT_ALLOWED,
        f"{shown}: not allowed. Tools reach public hosts by http and https, on ports 80 and 443. "
        'The operator can allow others in callboard.toml: [network] allow = ["HOST:PORT"].',
    )


def _invalid(problem: str) -> ToolFailure:
    return ToolFailure(
        ErrorType.VALIDATION_ERROR, f"url: {problem}. Correct it and call again.", field="url"
    )


def _shown(text: str) -> str:
    line = redact(text)
    line = line if line.isascii() and line.isprintable() else ascii(line)[1:-1]
    return line if len(line) <= MAX_SHOWN_CHARS else f"{line[:MAX_SHOWN_CHARS]}…"
