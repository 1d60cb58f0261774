"""The URLs of a model's requests: parsed once, so that what is judged is what is requested."""

from __future__ import annotations

import re

import msgspec

from ..definitions import ErrorType, ToolFailure
from ..redaction import redact
from .address_guard import DEFAULT_PORTS, normalize_host

MAX_URL_CHARS = 8192
"""What common servers take as a request line; longer ones are data in the wrong place."""
MAX_SHOWN_CHARS = 200
"""Of a URL in a message of one line."""

_HOST = re.compile(r"(?=.{1,253}\Z)[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*|[0-9a-f:.]*:[0-9a-f:.]*")


class HttpUrl(msgspec.Struct, frozen=True):
    """An absolute http or https URL.

    Attributes:
        scheme: `http` or `https`.
        host: In its one spelling: ASCII, lower case, no dot at the end, no brackets.
        port: Said or not.
        text: The whole, as it is requested; without a fragment, which servers never see.
    """

    scheme: str
    host: str
    port: int
    text: str

    @property
    def origin(self) -> tuple[str, str, int]:
        """What another URL must share to be told the same secrets."""
        return self.scheme, self.host, self.port

    @property
    def authority(self) -> str:
        """The host, with the port when it is not the scheme's own."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def shown(self) -> str:
        """The text for a message: one line, not too long."""
        return _shown(self.text)


def parse_url(text: str, base: HttpUrl | None = None) -> HttpUrl:
    """The URL that a text means, relative to `base` when there is one.

    Raises:
        ToolFailure: `validation_error` (field `url`) when it is none or holds a password,
            `url_not_allowed` when its scheme is not http or https.
    """
    import httpx  # here: who requests nothing starts without it

    text = text.strip()
    if len(text) > MAX_URL_CHARS:
        raise _invalid(f"it has {len(text)} characters; {MAX_URL_CHARS} is the most")
    try:
        url = httpx.URL(text) if base is None else httpx.URL(base.text).join(text)
        host = normalize_host(url.raw_host.decode("ascii"))
    except (httpx.InvalidURL, ValueError) as fault:
        raise _invalid(f"{_shown(text)!r} is no URL ({fault})") from None
    if url.scheme and url.scheme not in DEFAULT_PORTS:
        raise not_allowed(_shown(text))
    if url.userinfo:
        raise _invalid(
            "a URL holds no user name or password; http_request can send an Authorization header"
        )
    if not url.scheme or not _HOST.fullmatch(host):
        raise _invalid(f"{_shown(text)!r} is no URL with http:// or https:// and a host")
    port = DEFAULT_PORTS[url.scheme] if url.port is None else url.port
    if not 0 < port < 65536:
        raise _invalid(f"{port} is no port")
    made = url.copy_with(host=host, fragment=None)
    return HttpUrl(url.scheme, host, port, str(made))


class NotSent(ToolFailure):
    """A request, or a hop of it, was refused before anybody was connected for it."""


def not_allowed(shown: str, failure: type[ToolFailure] = ToolFailure) -> ToolFailure:
    """The one refusal for all forbidden addresses; it never tells whether something is there."""
    return failure(
        ErrorType.URL_NOT_ALLOWED,
        f"{shown}: not allowed. Tools reach public hosts by http and https, on ports 80 and 443. "
        "Others are for the operator to list in callboard.toml: [network] allow = "
        '["HOST:PORT"].',
    )


def _invalid(problem: str) -> ToolFailure:
    return ToolFailure(
        ErrorType.VALIDATION_ERROR, f"url: {problem}. Correct it and call again.", field="url"
    )


def _shown(text: str) -> str:
    line = redact(text)
    line = line if line.isascii() and line.isprintable() else ascii(line)[1:-1]
    return line if len(line) <= MAX_SHOWN_CHARS else f"{line[:MAX_SHOWN_CHARS]}…"
