"""The network between clients and the daemon: streams in memory that delay, split, stop and break."""

from __future__ import annotations

import contextvars
import random
from collections import deque
from typing import Any

import trio

HOLDS_BYTES = 64 * 1024
"""What is on its way in one direction before a sender waits, as in a kernel's buffers."""
PORT = 8790

owner: contextvars.ContextVar[str] = contextvars.ContextVar("owner")
"""The client whose task connects."""


class _Way:
    """One direction of a connection."""

    def __init__(self, random: random.Random, roughness: float) -> None:
        self._random = random
        self._roughness = roughness
        self._pieces: deque[tuple[float, bytes]] = deque()
        self._size = 0
        self._last = 0.0
        self._moved = trio.lowlevel.ParkingLot()
        self.stopped_until = 0.0
        self.is_cut = False
        self.is_closed = False
        self.has_ended = False

    def wake(self) -> None:
        self._moved.unpark_all()

    async def put(self, data: bytes) -> None:
        while self._size >= HOLDS_BYTES and not (self.is_cut or self.is_closed):
            await self._moved.park()
        if self.is_cut or self.is_closed:
            raise trio.BrokenResourceError("the connection is cut")
        at = trio.current_time()
        while data:
            size = len(data)
            if self._random.random() < self._roughness:
                at += self._random.choice(SECONDS)
                size = self._random.randint(1, size)
            self._last = max(self._last, at)
            self._pieces.append((self._last, data[:size]))
            self._size += size
            data = data[size:]
        self.wake()

    async def take(self, most: int) -> bytes:
        while True:  # noqa: ASYNC913
            if self.is_cut:
                raise trio.BrokenResourceError("the connection is cut")
            if self._pieces:
                at = max(self._pieces[0][0], self.stopped_until)
                if at <= trio.current_time():
                    return self._next(most)
                with trio.move_on_at(at):
                    await self._moved.park()
            elif self.has_ended:
                return b""
            else:
                await self._moved.park()

    def _next(self, most: int) -> bytes:
        at, data = self._pieces.popleft()
        if len(data) > most:
            self._pieces.appendleft((at, data[most:]))
        data = data[:most]
        self._size -= len(data)
        self.wake()
        return data


SECONDS = (0.0, 0.0, 0.0, 0.0005, 0.003, 0.05, 0.4)


class PlayedSocket:
    """What is asked of a socket."""

    def getpeername(self) -> tuple[str, int]:
        return "127.0.0.1", 40000

    def getsockname(self) -> tuple[str, int]:
        return "127.0.0.1", PORT

    def setsockopt(self, *_: object) -> None:
        pass


class PlayedStream(trio.abc.HalfCloseableStream):
    """One end of a connection."""

    def __init__(self, outgoing: _Way, incoming: _Way) -> None:
        self.socket = PlayedSocket()
        self._out = outgoing
        self._in = incoming
        self._is_closed = False

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await trio.lowlevel.checkpoint()
        if self._is_closed:
            raise trio.ClosedResourceError
        await self._out.put(bytes(data))

    async def wait_send_all_might_not_block(self) -> None:
        await trio.lowlevel.checkpoint()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        await trio.lowlevel.checkpoint()
        if self._is_closed:
            raise trio.ClosedResourceError
        return await self._in.take(max_bytes or HOLDS_BYTES)

    async def send_eof(self) -> None:
        await trio.lowlevel.checkpoint()
        self._out.has_ended = True
        self._out.wake()

    async def aclose(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._out.has_ended = True
            self._in.is_closed = True
            self._out.wake()
            self._in.wake()
        await trio.lowlevel.checkpoint()


class Connection:
    """Both ends of a connection, to be cut or stopped."""

    def __init__(self, random: random.Random, roughness: float) -> None:
        there, back = _Way(random, roughness), _Way(random, roughness)
        self._ways = there, back
        self.client = PlayedStream(there, back)
        self.server = PlayedStream(back, there)

    def cut(self) -> None:
        for way in self._ways:
            way.is_cut = True
            way.wake()

    def stop(self, seconds: float) -> None:
        """Nothing arrives for a while, in either direction."""
        for way in self._ways:
            way.stopped_until = trio.current_time() + seconds
            way.wake()


class Listener(trio.abc.Listener[Any]):
    """The port of one life of the daemon."""

    def __init__(self, network: Network) -> None:
        self.socket = PlayedSocket()
        self._network = network
        self.put, self._take = trio.open_memory_channel[PlayedStream](256)
        self.connections: list[Connection] = []

    async def accept(self) -> PlayedStream:
        try:
            return await self._take.receive()
        except trio.EndOfChannel:
            raise trio.ClosedResourceError from None

    async def aclose(self) -> None:
        self.close()
        await trio.lowlevel.checkpoint()

    def close(self) -> None:
        if self._network.listener is self:
            self._network.listener = None
        self.put.close()
        self._take.close()


class Network:
    """Where clients find the daemon.

    Attributes:
        roughness: How often bytes are delayed and split.
        listener: The port, while a daemon listens there.
    """

    def __init__(self, random: random.Random, roughness: float) -> None:
        self._random = random
        self.roughness = roughness
        self.listener: Listener | None = None
        self.owners: dict[str, list[Connection]] = {}

    def listen(self) -> Listener:
        self.listener = Listener(self)
        return self.listener

    async def connect(self, host: str, port: int, **_: Any) -> PlayedStream:
        """In place of `trio.open_tcp_stream`."""
        await trio.sleep(self._random.choice(SECONDS))
        listener = self.listener
        if listener is None:
            raise ConnectionRefusedError(111, "Connection refused")
        connection = Connection(self._random, self.roughness)
        try:
            listener.put.send_nowait(connection.server)
        except (trio.WouldBlock, trio.ClosedResourceError, trio.BrokenResourceError):
            raise ConnectionRefusedError(111, "Connection refused") from None
        listener.connections.append(connection)
        self.owners.setdefault(owner.get(""), []).append(connection)
        return connection.client
