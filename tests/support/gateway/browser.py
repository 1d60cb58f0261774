"""What a browser and a page of the console send to a daemon, made by hand, so that a test can leave out a part of it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import trio
import trio_websocket

from callboard.config.keys.tokens import local_credential
from support.gateway.daemon_scene import Daemon, RawClient
from support.gateway.door_scene import request
from support.gateway.raw_door import Answer, answer_to, handshake, head_of


def build(folder: Path) -> Path:
    """A built console, as small as one can be."""
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_text('<script src="/console/assets/a-1.js"></script>')
    (folder / "assets" / "a-1.js").write_text("console.log('here');\n" * 100)
    (folder / "icon.svg").write_text("<svg/>")
    (folder / "manifest.json").write_text("{}")
    (folder / "secret.key").write_text("not for anybody")
    return folder


class Page(RawClient):
    """An open page of the console: frames as it sends them, and how it was welcomed."""

    welcome: dict[str, Any]


class Browser:
    """A browser at a daemon; its cookie and its page's key are those of the last login."""

    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon
        self.origin = f"http://127.0.0.1:{daemon.gateway.port}"
        self.cookie = ""
        self.key = ""
        self.set_cookie = ""

    async def get(self, path: str, **headers: str | None) -> Answer:
        sent: dict[str, Any] = {"authorization": None, **headers}
        return await answer_to(self.daemon, request(self.daemon, path, method="GET", **sent))

    async def post(self, path: str, wanted: Any, **headers: str | None) -> Answer:
        body = wanted if isinstance(wanted, bytes) else msgspec.json.encode(wanted)
        sent: dict[str, Any] = {"origin": self.origin, "authorization": None, **headers}
        return await answer_to(self.daemon, request(self.daemon, path, body, **sent))

    async def log_in(self, **wanted: Any) -> Answer:
        """As the page does, with `ticket` or `token`."""
        answer = await self.post("/console/session", wanted)
        if answer.status == 200:
            self.key = msgspec.json.decode(answer.body)["key"]
            self.set_cookie = answer.headers["set-cookie"]
            self.cookie = self.set_cookie.partition(";")[0]
        return answer

    async def opens(self, **changes: str | None) -> int:
        """The status of an upgrade with both halves, but for changes."""
        sent = head_of(handshake(self.daemon, **self.halves(**changes)))
        return (await answer_to(self.daemon, sent)).status

    def halves(self, **changes: str | None) -> dict[str, str | None]:
        return {
            "authorization": None,
            "origin": self.origin,
            "cookie": self.cookie,
            "sec_websocket_protocol": f"callboard, callboard.page.{self.key}",
        } | changes

    def ticket(self, **limits: Any) -> str:
        """As `callboard console` gets one for this daemon's own user."""
        state = self.daemon.gateway.daemon
        if state.local is None:
            state.local, _ = local_credential()
        return state.console.ticket(state.local, limits.get("role")).ticket


@asynccontextmanager
async def open_page(browser: Browser, *, greets: bool = True) -> AsyncGenerator[Page]:
    """A websocket with both halves, after `initialize` if it `greets`."""
    where = f"127.0.0.1:{browser.daemon.gateway.port}"
    own = browser.halves(sec_websocket_protocol=None, authorization=None)
    extra = [(name.encode(), value.encode()) for name, value in own.items() if value is not None]
    names = ("callboard", f"callboard.page.{browser.key}")
    stream = await trio.open_tcp_stream("127.0.0.1", browser.daemon.gateway.port)
    async with trio.open_nursery() as nursery:
        try:
            socket = await trio_websocket.wrap_client_stream(
                nursery, stream, where, "/ws", subprotocols=names, extra_headers=extra
            )
            page = Page(socket)
            if greets:
                page.welcome = (await page.hello())["result"]
            yield page
        finally:
            await trio.aclose_forcefully(stream)
            nursery.cancel_scope.cancel()
