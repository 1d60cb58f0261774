"""A daemon for a test: a runtime with a scripted model, its door, and clients that come through it."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import trio
import trio_websocket

import callboard
from callboard.client.client import Client, connect
from callboard.config.keys.tokens import Credentials
from callboard.config.sections import ServerSettings
from callboard.config.settings import Settings
from callboard.gateway.gateway import Gateway, open_gateway
from callboard.runtime.events import Stored, StreamBatch, TurnEnded
from callboard.runtime.stream import TextDelta
from callboard.runtime.wire.fields import Role
from callboard.runtime.wire.topics import Snapshot


class Daemon(msgspec.Struct, frozen=True):
    """What a test knows of its daemon."""

    gateway: Gateway
    runtime: callboard.Runtime
    credentials: Credentials
    token: str

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.gateway.port}/ws"

    def new_token(self, name: str, role: Role, **limits: Any) -> str:
        return self.credentials.create(name, role, **limits).reveal()


@asynccontextmanager
async def open_daemon(
    model: Any = "rehearsal",
    *,
    settings: ServerSettings | None = None,
    configured: Settings | None = None,
    **options: Any,
) -> AsyncGenerator[Daemon]:
    """A daemon on a port of its own, with an administrator's token."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        credentials = Credentials(data)
        token = credentials.create("test", Role.ADMIN).reveal()
        own = settings or ServerSettings(port=0)
        async with (
            callboard.open_runtime(
                model=model,
                settings=configured,
                **{"workspace": folder, "on_approval": "wait", **options},
            ) as runtime,
            open_gateway(runtime, own, data) as gateway,
        ):
            yield Daemon(gateway, runtime, credentials, token)


@asynccontextmanager
async def open_client(daemon: Daemon, token: str | None = None) -> AsyncGenerator[Client]:
    """Our own client."""
    async with connect(daemon.url, daemon.token if token is None else token) as client:
        yield client


class RawClient:
    """Frames as a program of somebody else would send them."""

    def __init__(self, socket: trio_websocket.WebSocketConnection) -> None:
        self.socket = socket
        self.heard: list[dict[str, Any]] = []
        self._last_id = 0

    async def call(self, method: str, **params: Any) -> Any:
        """The whole answer; what comes before it is kept in `heard`."""
        self._last_id += 1
        await self.send({"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params})
        while (frame := await self.receive()).get("id") != self._last_id:
            self.heard.append(frame)
        return frame

    async def send(self, frame: Any) -> None:
        text = frame if isinstance(frame, (str, bytes)) else msgspec.json.encode(frame).decode()
        await self.socket.send_message(text)

    async def receive(self) -> dict[str, Any]:
        frame: dict[str, Any] = msgspec.json.decode(await self.socket.get_message())
        return frame

    async def hello(self) -> Any:
        return await self.call("initialize", protocol={"min": 1, "max": 1})


@asynccontextmanager
async def open_raw(
    daemon: Daemon, token: str | None = None, **headers: str
) -> AsyncGenerator[RawClient]:
    """A websocket with a token, before `initialize`."""
    bearer = f"Bearer {daemon.token if token is None else token}"
    extra = [(b"authorization", bearer.encode())]
    extra += [(name.encode(), value.encode()) for name, value in headers.items()]
    stream = await trio.open_tcp_stream("127.0.0.1", daemon.gateway.port)
    async with trio.open_nursery() as nursery:
        try:
            socket = await trio_websocket.wrap_client_stream(
                nursery, stream, f"127.0.0.1:{daemon.gateway.port}", "/ws", extra_headers=extra
            )
            yield RawClient(socket)
        finally:
            await trio.aclose_forcefully(stream)
            nursery.cancel_scope.cancel()


@asynccontextmanager
async def open_greeted(daemon: Daemon, token: str | None = None) -> AsyncGenerator[RawClient]:
    """A websocket with a token, after `initialize`."""
    async with open_raw(daemon, token) as raw:
        await raw.hello()
        yield raw


class View:
    """What a client has come to know of a session: the fold that every client makes."""

    def __init__(self) -> None:
        self.stored: list[Stored] = []
        self.text = ""

    def take(self, event: object) -> None:
        match event:
            case Stored():
                self.stored.append(event)
                if isinstance(event.event, callboard.MessageCompleted):
                    self.text = ""
            case Snapshot():
                self.text = "" if event.answer is None else _text(event.answer)
            case StreamBatch():
                assert event.offset == len(self.text.encode()), "a hole, or a piece that came twice"
                self.text += _text(event)
            case _:
                pass

    async def read(self, events: AsyncIterator[object], turns: int = 1) -> None:
        """Takes events until so many turns have ended."""
        while turns:
            event = await anext(events)
            self.take(event)
            turns -= isinstance(getattr(event, "event", None), TurnEnded)

    @property
    def has_ended(self) -> bool:
        return bool(self.stored) and isinstance(self.stored[-1].event, TurnEnded)


def _text(batch: StreamBatch) -> str:
    return "".join(event.text for event in batch.events if isinstance(event, TextDelta))
