"""What a client may find in a daemon's place: one that says what it is told to, or a program of another kind."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import trio
import trio_websocket

WELCOME = {
    "protocol": 1,
    "server": {"name": "callboard", "version": "99"},
    "epoch": "epoch_1",
    "seq": 0,
    "role": "admin",
    "limits": {"max_frame_bytes": 10_000, "max_outbox_bytes": 1, "ping_seconds": 60.0},
    "features": [],
    "methods": [],
    "novel": "of a later version",
}

Handler = Callable[["FalseDaemon", dict[str, Any]], Awaitable[None]]


class FalseDaemon:
    """Says hello as a daemon does, and leaves each request to a function.

    Attributes:
        asked: Every request but the first ones.
        connections: How many there were.
    """

    def __init__(self, handle: Handler) -> None:
        self.asked: list[dict[str, Any]] = []
        self.connections = 0
        self.url = ""
        self._handle = handle
        self._socket: trio_websocket.WebSocketConnection | None = None

    async def answer(self, request: dict[str, Any], result: object) -> None:
        await self.say({"id": request["id"], "result": result})

    async def tell(self, method: str, **params: object) -> None:
        await self.say({"method": method, "params": params})

    async def say(self, frame: dict[str, Any]) -> None:
        await self.send(msgspec.json.encode({"jsonrpc": "2.0", **frame}).decode())

    async def send(self, text: str) -> None:
        assert self._socket is not None
        await self._socket.send_message(text)

    async def hang_up(self) -> None:
        assert self._socket is not None
        await self._socket.aclose()

    async def serve(self, stream: trio.SocketStream) -> None:
        """One connection; clients come one after the other."""
        try:
            async with trio.open_nursery() as nursery:
                request = await trio_websocket.wrap_server_stream(nursery, stream)
                self._socket = socket = await request.accept()
                self.connections += 1
                hello = msgspec.json.decode(await socket.get_message())
                await self.answer(hello, WELCOME)
                while True:
                    asked = msgspec.json.decode(await socket.get_message())
                    self.asked.append(asked)
                    await self._handle(self, asked)
        except* trio_websocket.ConnectionClosed:
            pass
        finally:
            await trio.aclose_forcefully(stream)


@asynccontextmanager
async def open_false(handle: Handler) -> AsyncGenerator[FalseDaemon]:
    """A false daemon around the block."""
    daemon = FalseDaemon(handle)
    async with open_server(daemon.serve) as daemon.url:
        yield daemon


@asynccontextmanager
async def open_server(
    serve: Callable[[trio.SocketStream], Awaitable[object]],
) -> AsyncGenerator[str]:
    """Any server around the block; gives the URL that a daemon in its place would have."""
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listeners[0].socket.getsockname()[1]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, serve, listeners)
        try:
            yield f"ws://127.0.0.1:{port}/ws"
        finally:
            nursery.cancel_scope.cancel()
