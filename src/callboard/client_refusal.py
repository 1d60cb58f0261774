"""Why a handshake came to nothing, for people: another program, another protocol, or a refusal."""

from __future__ import annotations

import h11
import trio_websocket
from wsproto.utilities import ProtocolError

from .runtime.errors import AuthError, CallboardError, NetworkError, OverloadedError

HANDSHAKE_FAILURES = (
    trio_websocket.HandshakeError,
    ProtocolError,
    h11.ProtocolError,
    UnicodeDecodeError,
)
"""What the websocket library raises in its own task for what it can't take."""
MAX_SAID_CHARS = 300
"""Of what was answered: a daemon says a line, another program a page."""


def refusal(url: str, group: BaseExceptionGroup[BaseException]) -> CallboardError:
    """The error of ours for what the library's task raised."""
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
    """The error for a connection that was closed before it began."""
    why = "without a word"
    if (reason := closed.reason) is not None:
        why = f"with {reason.code} {_said((reason.reason or '').encode())}".rstrip()
    return NetworkError(f"what is at {url} closes the connection {why}", stage="http")


def _said(body: bytes) -> str:
    """One line of it, with nothing in it that moves a terminal's cursor."""
    text = " ".join(body[: 4 * MAX_SAID_CHARS].decode(errors="replace").split())
    return "".join(char for char in text if char.isprintable())[:MAX_SAID_CHARS]
