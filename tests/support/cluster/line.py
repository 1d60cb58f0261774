"""A line to a node's door that can be cut in one direction or both, as a network can be, and mended again."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Literal

import trio

Way = Literal["there", "back"]
BOTH: tuple[Way, ...] = ("there", "back")


class Line:
    """Passes what comes until it is cut; what was on its way then arrives when the line is mended.

    Attributes:
        port: Where it begins.
        target: The port of the node at its end.
    """

    def __init__(self) -> None:
        self.port = 0
        self.target = 0
        self._passes: dict[Way, trio.Event] = {}
        self.mend()

    def cut(self, *ways: Way) -> None:
        """Let nothing pass on these ways."""
        for way in ways:
            if self._passes[way].is_set():
                self._passes[way] = trio.Event()

    def mend(self) -> None:
        """Let everything pass."""
        for way in BOTH:
            self._passes.setdefault(way, trio.Event()).set()

    async def serve(self, near: trio.SocketStream) -> None:
        """Pass what one connection brings."""
        try:
            far = await trio.open_tcp_stream("127.0.0.1", self.target)
        except OSError:  # the node has ended
            await near.aclose()
            return
        async with near, far, trio.open_nursery() as nursery:
            scope = nursery.cancel_scope
            nursery.start_soon(self._pass, "there", near, far, scope)
            nursery.start_soon(self._pass, "back", far, near, scope)

    async def _pass(
        self, way: Way, source: trio.SocketStream, sink: trio.SocketStream, end: trio.CancelScope
    ) -> None:
        try:
            while data := await source.receive_some():
                await self._passes[way].wait()
                await sink.send_all(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        await self._passes[way].wait()  # nor does the end of a connection pass
        end.cancel()


@asynccontextmanager
async def open_line() -> AsyncGenerator[Line]:
    """Give a line, whose `target` is to be set, until the block is left."""
    line = Line()
    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        line.port = listeners[0].socket.getsockname()[1]
        nursery.start_soon(trio.serve_listeners, line.serve, listeners)
        try:
            yield line
        finally:
            nursery.cancel_scope.cancel()
