"""A server of fixed bodies, for what a model server says beside its wire format."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager

import trio


@asynccontextmanager
async def answering(bodies: Mapping[bytes, bytes | None]) -> AsyncGenerator[str]:
    """Serves bodies by path, and for a POST by path and body; gives a base URL that ends in `/v1`."""

    async def serve(stream: trio.SocketStream) -> None:
        with stream.socket:
            head, _, sent = bytes(await stream.receive_some()).partition(b"\r\n\r\n")
            if head.startswith(b"POST") and not sent:
                sent = bytes(await stream.receive_some())
            if not head:
                return  # somebody only looked whether it is there
            body = bodies.get(b" ".join(filter(None, (head.split()[1], sent))))
            status = b"200 OK" if body is not None else b"404 Not Found"
            answer = b"HTTP/1.1 %s\r\nconnection: close\r\ncontent-length: %d\r\n\r\n"
            await stream.send_all(answer % (status, len(body or b"")) + (body or b""))

    async with trio.open_nursery() as nursery:
        [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, serve, [listener])
        try:
            yield f"http://127.0.0.1:{listener.socket.getsockname()[1]}/v1"
        finally:
            nursery.cancel_scope.cancel(reason="it was asked")
