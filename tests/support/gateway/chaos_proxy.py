"""A proxy that cuts connections, stalls them and splits what passes, by a seed."""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import trio

MAX_PIECE = 65536


class ChaosProxy:
    """Stands before a port of this machine.

    Attributes:
        port: Its own.
        target: The other one; it may change.
        cuts: How many connections were cut.
        is_calm: Whether everything passes as it is from now on.
    """

    def __init__(self, seed: int, bytes_between_cuts: int) -> None:
        self.port = 0
        self.target = 0
        self.cuts = 0
        self.is_calm = False
        self._random = random.Random(seed)
        self._between = bytes_between_cuts

    async def serve(self, near: trio.SocketStream) -> None:
        """One connection."""
        async with near:
            try:
                far = await trio.open_tcp_stream("127.0.0.1", self.target)
            except OSError:
                return
            patience = self._random.randrange(1, 2 * self._between)
            async with far, trio.open_nursery() as nursery:
                passed = 0

                def cuts(size: int) -> bool:
                    nonlocal passed
                    passed += size
                    return passed > patience and not self.is_calm

                nursery.start_soon(self._pass, near, far, cuts, nursery.cancel_scope)
                nursery.start_soon(self._pass, far, near, cuts, nursery.cancel_scope)

    async def _pass(
        self,
        source: trio.SocketStream,
        sink: trio.SocketStream,
        cuts: Callable[[int], bool],
        scope: trio.CancelScope,
    ) -> None:
        dice = self._random
        try:
            while data := await source.receive_some(MAX_PIECE):
                while data:
                    size = len(data) if self.is_calm else dice.randrange(1, len(data) + 1)
                    piece, data = data[:size], data[size:]
                    if cuts(len(piece)):
                        await sink.send_all(piece[: dice.randrange(len(piece) + 1)])
                        self.cuts += 1
                        scope.cancel()
                        return
                    if not self.is_calm and dice.random() < 0.05:
                        await trio.sleep(0.002 * dice.random())
                    await sink.send_all(piece)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        scope.cancel()


@asynccontextmanager
async def open_chaos(seed: int, *, bytes_between_cuts: int = 6000) -> AsyncGenerator[ChaosProxy]:
    """A proxy around the block."""
    proxy = ChaosProxy(seed, bytes_between_cuts)
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    proxy.port = listeners[0].socket.getsockname()[1]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, proxy.serve, listeners)
        try:
            yield proxy
        finally:
            nursery.cancel_scope.cancel()
