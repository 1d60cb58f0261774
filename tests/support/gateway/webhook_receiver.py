"""A service that notes what webhooks post to it."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import trio


class Hook:
    """A service that notes what is posted to it."""

    def __init__(self, statuses: list[int]) -> None:
        self.statuses = statuses
        self.bodies: list[dict[str, Any]] = []
        self.heads: list[str] = []
        self.raw: list[bytes] = []
        self.port = 0
        self._more = trio.Event()

    async def serve(self, stream: trio.SocketStream) -> None:
        async with stream:
            data = b""
            while b"\r\n\r\n" not in data:
                data += await stream.receive_some()
            head, _, body = data.partition(b"\r\n\r\n")
            size = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
            while len(body) < size:
                body += await stream.receive_some()
            self.heads.append(head.decode())
            self.raw.append(body)
            self.bodies.append(json.loads(body))
            status = self.statuses.pop(0) if self.statuses else 200
            answer = f"HTTP/1.1 {status} X\r\ncontent-length: 0\r\nconnection: close\r\n"
            await stream.send_all(answer.encode() + b"location: http://127.0.0.1:1/\r\n\r\n")
            self._more.set()

    async def wait(self, count: int) -> None:
        with trio.fail_after(20):
            await trio.lowlevel.checkpoint()
            while len(self.bodies) < count:
                self._more = trio.Event()
                await self._more.wait()


@asynccontextmanager
async def hook(*statuses: int) -> AsyncGenerator[Hook]:
    service = Hook([*statuses])
    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(trio.serve_tcp, service.serve, 0)
        service.port = listeners[0].socket.getsockname()[1]
        try:
            yield service
        finally:
            nursery.cancel_scope.cancel()
