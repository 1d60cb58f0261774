"""A door with routes of a test, beside the one of a daemon."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import trio

from callboard.config.sections import ServerSettings
from callboard.gateway.door.exchange import Route
from callboard.gateway.door.rules import door_rules
from callboard.gateway.door.server import Server
from callboard.gateway.gateway import Gateway
from callboard.gateway.http_turns import HttpTurns
from callboard.gateway.methods.all import all_methods
from support.gateway.daemon_scene import Daemon, open_daemon


@asynccontextmanager
async def open_door(
    routes: dict[str, Route], settings: ServerSettings | None = None
) -> AsyncGenerator[Daemon]:
    """A daemon whose port answers these routes."""
    async with open_daemon(settings=settings) as daemon, trio.open_nursery() as nursery:
        state = daemon.gateway.daemon
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        port = listeners[0].socket.getsockname()[1]
        server = Server(state, all_methods(), door_rules("127.0.0.1", port), routes)
        nursery.start_soon(trio.serve_listeners, server.handle, listeners)
        nursery.start_soon(server.comments.run)
        gateway = Gateway(state, HttpTurns(state, nursery), port, trio.Event())
        try:
            yield Daemon(gateway, daemon.runtime, daemon.credentials, daemon.token)
        finally:
            nursery.cancel_scope.cancel()


def request(
    daemon: Daemon,
    target: str,
    body: bytes | None = None,
    *,
    method: str = "POST",
    version: str = "1.1",
    **changes: str | None,
) -> bytes:
    """A request with a token; `changes` to its headers by name with `_` for `-`, `None` leaves one out."""
    headers = {
        "host": f"127.0.0.1:{daemon.gateway.port}",
        "authorization": f"Bearer {daemon.token}",
        "content-type": None if body is None else "application/json",
        "content-length": None if body is None else str(len(body)),
    } | {name.replace("_", "-"): value for name, value in changes.items()}
    lines = [f"{name}: {value}" for name, value in headers.items() if value is not None]
    head = "\r\n".join([f"{method} {target} HTTP/{version}", *lines, "", ""])
    return head.encode() + (body or b"")


def chunked(*pieces: bytes) -> bytes:
    """A body in chunks."""
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in (*pieces, b""))
