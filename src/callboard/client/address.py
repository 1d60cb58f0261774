"""URL and token of a daemon, checked before anything is sent, and errors of its handshake."""

from __future__ import annotations

import ipaddress
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import h11
import msgspec
import trio
import trio_websocket
from wsproto.utilities import ProtocolError

from ..config.daemon_file import RunningDaemon, check_runs, find_daemon
from ..config.files import data_folder
from ..runtime.errors import (
    AuthError,
    CallboardError,
    NetworkError,
    NotFoundError,
    OverloadedError,
    ValidationError,
)
from ..runtime.redaction import Secret
from ..runtime.wire.hello import WireNode

EXAMPLE = "ws://127.0.0.1:8790/ws"
MAX_PORT = 65535
OWN_SECONDS = 10.0
"""The time for a daemon of this user to appear, or to answer, that another process becomes."""
OWN_PAUSE_SECONDS = 0.25
"""The longest pause between two looks for it: a look at a file says whether there is one."""
MAX_SHOWN_CHARS = 200
"""Characters of a wrong URL in an error message."""


class Address(msgspec.Struct, frozen=True):
    """The address of a websocket.

    Attributes:
        host: In ASCII, without brackets.
        path: With its slash.
    """

    host: str
    port: int
    path: str
    is_tls: bool

    @property
    def is_loopback(self) -> bool:
        """Whether it is this machine, whichever that is."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host.lower() in ("localhost", "ip6-localhost")

    @property
    def host_header(self) -> str:
        """The Host header: the port is left out where it is the default."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.is_tls else 80) else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """The URL to show in messages; there is no secret in it."""
        return f"{'wss' if self.is_tls else 'ws'}://{self.host_header}{self.path}"


def find_address(
    url: str | None,
    token: str,
    data: Path | None = None,
    check: Callable[[RunningDaemon], None] | None = None,
) -> tuple[str, Secret]:
    """Return a URL and a token; what is not given is taken from the daemon that runs on a data folder.

    Args:
        url: The URL, or `None` to look for it.
        token: The token, or nothing for that of the daemon that is found.
        data: The data folder; by default this user's own.
        check: Raises for a daemon of this user that is not the one that is meant.

    Raises:
        NotFoundError: No URL is given, and none of this user's daemons runs.
        ConflictError: It was stopped.
        StorageError: What a daemon left can't be read.
    """
    if url is not None:
        return url, Secret(token)
    folder = data_folder() if data is None else data
    if (daemon := find_daemon(folder)) is None:
        raise NotFoundError(
            f"no daemon runs on {folder}: `callboard serve` starts one. Another one needs its URL and "
            f"a token of it: connect({EXAMPLE!r}, token)."
        )
    check_runs(daemon)
    if check is not None:
        check(daemon)
    return daemon.url, Secret(token) if token else daemon.token


CLIENT_PATH = "/ws"
MAX_LEARNED_NODES = 16
"""Nodes of which a client is told, and which it tries besides those that it was given: not the same ones as all others do."""


def websocket_url(url: str, path: str) -> str:
    """Return where a websocket of a node is, whose address is `http://…` or `https://…`; raise `ValidationError`."""
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise _wrong(f"the address of a node can't be read ({error})") from None
    scheme = {"http": "ws", "https": "wss"}.get(parts.scheme, parts.scheme)
    return f"{scheme}://{parts.netloc}{parts.path.rstrip('/')}{path}"


class NodeAddresses:
    """The addresses of a cluster's nodes, each look at the next, with a token that all of them know.

    Raises:
        ValidationError: There is none, or one of them can't be that of a daemon.
    """

    def __init__(self, urls: Sequence[str], token: str) -> None:
        if isinstance(urls, str) or not urls:
            raise _wrong("urls is to be a list of the nodes' URLs")
        self._given = [read_address(url).url for url in urls]
        self._learned: list[str] = []
        self._token = Secret(token)
        self._latest = ""

    @property
    def urls(self) -> list[str]:
        """The given ones, and behind them those that a node has told."""
        return [*self._given, *self._learned]

    def __call__(self) -> tuple[str, Secret]:
        """Return the next one."""
        urls = self.urls
        at = urls.index(self._latest) + 1 if self._latest in urls else 0
        self._latest = urls[at % len(urls)]
        return self._latest, self._token

    def learn(self, nodes: Sequence[WireNode]) -> None:
        """Take over what the node that was just reached tells of the others: where there may be one if no given one is.

        The token goes to no place that is worse kept than where it went before: not from TLS to a plain connection, and
        not from another machine to a port of this one, which is what a node says of itself that has no other address.
        """
        here = read_address(self._latest)
        found: list[str] = []
        for node in nodes:
            try:
                other = read_address(websocket_url(node.url, CLIENT_PATH))
            except ValidationError:
                continue
            is_worse = here.is_tls and not other.is_tls
            is_worse = is_worse or (other.is_loopback and not here.is_loopback)
            if not (node.is_this or is_worse or other.url in self._given):
                found.append(other.url)
        self._learned = random.sample(found, min(len(found), MAX_LEARNED_NODES))


async def wait_own(data: Path, seconds: float) -> None:
    """Wait for a daemon on a data folder of this user, for so long: another may take its place."""
    with trio.move_on_after(seconds):  # noqa: ASYNC912  what is there is there at once
        while find_daemon(data) is None:  # noqa: ASYNC110  another process writes the file
            await trio.sleep(OWN_PAUSE_SECONDS)


def read_address(url: str) -> Address:
    """Return the address of a URL; raise `ValidationError`.

    A message shows no more of a URL than its scheme, host and path: tokens are pasted into the rest,
    and in the place of all of it.
    """
    if any(char.isspace() or not char.isprintable() for char in url):
        raise _wrong("the URL of the daemon has blanks or signs that can't be seen")
    scheme, sign, _ = url.partition("://")
    if not sign or scheme.lower() not in ("ws", "wss"):
        known = f", but with {scheme}://" if sign and scheme.lower() in ("http", "https") else ""
        raise _wrong(f"the URL of the daemon does not begin with ws:// or wss://{known}")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise _wrong(f"the URL of the daemon can't be read ({error})") from None
    if parts.username is not None or parts.query or parts.fragment:
        raise _wrong(
            "the URL of the daemon has a user, a query or a fragment, where a token would be seen: "
            "give the token by itself"
        )
    is_tls = scheme.lower() == "wss"
    path = parts.path or "/"
    shown = f"{host}{path}"[:MAX_SHOWN_CHARS]
    if not path.isascii():
        raise _wrong(f"the path of the daemon's URL is not ASCII: {shown!r}")
    if port == 0:
        raise _wrong(f"the daemon can't be at port 0 of {shown!r}: ports are from 1 to {MAX_PORT}")
    return Address(_ascii(host, shown), port or (443 if is_tls else 80), path, is_tls)


def _ascii(host: str, shown: str) -> str:
    try:
        name = host if ":" in host else host.encode("idna").decode()
    except UnicodeError:
        name = ""
    if not name or not name.isascii():
        raise _wrong(f"the URL of the daemon names no host that there can be: {shown!r}")
    return name


def authorization(token: Secret) -> list[tuple[bytes, bytes]]:
    """Return the headers of a token, none without one; raise `AuthError`, which does not show it."""
    text = token.reveal()
    if not text:
        return []
    if not (text.isascii() and text.isprintable()) or " " in text:
        raise AuthError(
            "the token has blanks, ends of lines or other signs that are in no token: copy it whole, "
            "as `callboard token create` printed it, and nothing around it"
        )
    return [(b"authorization", f"Bearer {text}".encode())]


def _wrong(what: str) -> ValidationError:
    return ValidationError(f"{what}. It is like {EXAMPLE}; `callboard serve` prints it.")


HANDSHAKE_FAILURES = (
    trio_websocket.HandshakeError,
    ProtocolError,
    h11.ProtocolError,
    UnicodeDecodeError,
)
"""Errors that the websocket library raises in its own task for bytes it cannot read."""
MAX_SAID_CHARS = 300
"""Characters of a refusal that are shown: a daemon sends a line, another program a page."""


def refusal(url: str, group: BaseExceptionGroup[BaseException]) -> CallboardError:
    """Return our error for what the library's task raised."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if not isinstance(error, trio_websocket.ConnectionRejected):
        return NetworkError(
            f"what is at {url} answers, but not as a websocket does: look at the address; a daemon "
            "behind TLS has a URL with wss://",
            stage="http",
        )
    said = _said(error.body or b"") or f"status {error.status_code}"
    if error.status_code == 401:
        return AuthError(f"{url}: {said}")
    if error.status_code in (429, 503):
        return OverloadedError(f"{url}: {said}")
    return NetworkError(
        f"{url} refuses this client with status {error.status_code}: {said}", stage="http"
    )


def farewell(url: str, closed: trio_websocket.ConnectionClosed) -> NetworkError:
    """Return the error for a connection that was closed before it began."""
    why = "without a word"
    if (reason := closed.reason) is not None:
        why = f"with {reason.code} {_said((reason.reason or '').encode())}".rstrip()
    return NetworkError(f"what is at {url} closes the connection {why}", stage="http")


def _said(body: bytes) -> str:
    """Return one line of the text, without signs that move a terminal's cursor."""
    text = " ".join(body[: 4 * MAX_SAID_CHARS].decode(errors="replace").split())
    return "".join(char for char in text if char.isprintable())[:MAX_SAID_CHARS]
