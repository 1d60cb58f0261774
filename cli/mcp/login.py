"""Logging in at a server: a browser is sent to it, and comes back to a port of this machine."""

from __future__ import annotations

import hmac
import webbrowser
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit

import trio

from ...config.keys.store import KeyStore
from ...runtime.redaction import Secret
from ...tools.mcp.state import LOGIN_SECONDS, login_answer, login_fields, login_page
from ..daemon.console import has_browser
from ..setup.keys import MASTER_KEY_MADE
from ..terminal.complaint import complain
from ..terminal.escaping import safe_line

HEAD_SECONDS = 10.0
MAX_HEAD_BYTES = 16 * 1024
"""A request of a browser; a code in it may be long."""
MAX_BROWSERS = 16
"""Connections at once; browsers open some ahead."""
PATH = "/callback"


class Loopback:
    """A `LoginDesk` at this terminal: it shows an address, and waits for the browser on a port of this machine.

    Attributes:
        was_asked: Whether a server wanted a login.
    """

    def __init__(self, listener: trio.SocketListener) -> None:
        self.was_asked = False
        self._listener = listener
        self._port: int = listener.socket.getsockname()[1]

    @property
    def redirect_uri(self) -> str:
        """See `LoginDesk`."""
        return f"http://127.0.0.1:{self._port}{PATH}"

    async def authorize(self, url: str) -> dict[str, str]:
        """See `LoginDesk`."""
        self.was_asked = True
        show_page(url)
        state = login_fields(urlsplit(url).query).get("state", "")
        came: dict[str, str] = {}
        slots = trio.CapacityLimiter(MAX_BROWSERS)

        async def serve(stream: trio.SocketStream) -> None:
            async with slots:
                fields = await _answered(stream, state)
            if fields is not None and not came:
                came.update(fields)
                nursery.cancel_scope.cancel(reason="the browser came back")

        with trio.move_on_after(LOGIN_SECONDS):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(open_browser, url, name="browser")
                await trio.serve_listeners(serve, [self._listener])
        return login_answer(came)


class TellingStore:
    """A `LoginStore` over the key store, which says where its master key was made."""

    def __init__(self, store: KeyStore) -> None:
        self.get = store.get
        self._store = store

    def put(self, provider: str, origin: str, key: Secret, name: str, *, masks: bool) -> None:
        """See `LoginStore`."""
        _, made = self._store.put(provider, origin, key, name, masks=masks)
        if made is not None:
            complain(MASTER_KEY_MADE.format(place=made))


@asynccontextmanager
async def open_loopback(port: int = 0) -> AsyncGenerator[Loopback]:
    """Listen on a port of this machine around the block; on any that is free, unless one is named."""
    (listener,) = await trio.open_tcp_listeners(port, host="127.0.0.1")
    async with listener:
        yield Loopback(listener)


async def _answered(stream: trio.SocketStream, state: str) -> dict[str, str] | None:
    """Read a request and answer it; return its fields if it is the one that is waited for.

    Any page can have a browser send a request here: only the state, which the server was sent, makes it ours.
    """
    async with stream:
        with trio.move_on_after(HEAD_SECONDS), suppress(trio.BrokenResourceError):
            head = b""
            while b"\r\n\r\n" not in head and len(head) < MAX_HEAD_BYTES:
                if not (data := await stream.receive_some()):
                    return None
                head += data
            method, _, rest = head.partition(b"\r\n")[0].decode("latin-1").partition(" ")
            where = urlsplit(rest.partition(" ")[0])
            fields = login_fields(where.query)
            is_ours = (
                method == "GET"
                and where.path == PATH
                and hmac.compare_digest(fields.get("state", "").encode(), state.encode())
            )
            text = login_page(is_ours)
            with trio.CancelScope(shield=True), trio.move_on_after(HEAD_SECONDS):
                await stream.send_all(_answer("200 OK" if is_ours else "400 Bad Request", text))
            return fields if is_ours else None
    return None


def _answer(status: str, text: str) -> bytes:
    head = (
        f"HTTP/1.1 {status}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {len(text)}\r\n"
        "cache-control: no-store\r\nreferrer-policy: no-referrer\r\nx-content-type-options: nosniff\r\n"
        "connection: close\r\n\r\n"
    )
    return (head + text).encode()


def show_page(url: str) -> None:
    """Show where a person logs in."""
    complain(f"Log in here, within ten minutes: {safe_line(url)}")


async def open_browser(url: str) -> None:
    """Open a page, where there is a browser."""
    await trio.lowlevel.checkpoint()
    if has_browser():
        await trio.to_thread.run_sync(webbrowser.open, url, abandon_on_cancel=True)
