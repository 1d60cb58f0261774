"""The bytes below a client's websocket: TCP or TLS, and a word when they end."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

import trio

from .runtime.errors import ValidationError


class WatchedStream(trio.abc.Stream):
    """A stream that tells of its end.

    The websocket library waits for ever for a handshake whose connection has ended.

    Args:
        stream: Where the bytes come from and go to.
        tell_end: Called when nothing more will come.
    """

    def __init__(self, stream: trio.abc.Stream, tell_end: Callable[[], None]) -> None:
        self._stream = stream
        self._tell_end = tell_end

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """See `trio.abc.ReceiveStream`."""
        try:
            data = bytes(await self._stream.receive_some(max_bytes))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            self._tell_end()
            raise
        if not data:
            self._tell_end()
        return data

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """See `trio.abc.SendStream`."""
        await self._stream.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        """See `trio.abc.SendStream`."""
        await self._stream.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        """Closes the stream below."""
        await self._stream.aclose()


async def open_stream(url: str) -> trio.abc.Stream:
    """TCP, or TLS over it; raises `OSError`."""
    where = urlsplit(url)
    if where.scheme not in ("ws", "wss") or where.hostname is None:
        raise ValidationError(f"{url!r} is no URL of a daemon, like ws://127.0.0.1:8790/ws")
    port = where.port or (443 if where.scheme == "wss" else 80)
    if where.scheme == "ws":
        return await trio.open_tcp_stream(where.hostname, port)
    stream = await trio.open_ssl_over_tcp_stream(where.hostname, port, https_compatible=True)
    try:
        await stream.do_handshake()
    except BaseException:
        await trio.aclose_forcefully(stream)
        raise
    return stream
