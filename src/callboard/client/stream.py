"""The bytes below a client's websocket: TCP or TLS, when they came last, whether it is silent, and a word when they end."""

from __future__ import annotations

import math
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress

import trio
import trio_websocket
from wsproto.utilities import LocalProtocolError

from ..runtime.errors import NetworkError
from .address import Address

HANDSHAKE_BYTES = 256 * 1024
"""Bytes accepted before the hello is answered: another program may send a whole page."""
PIECE_BYTES = 64 * 1024
SEND_SECONDS = 10.0
"""The time for the daemon to take a piece; it waits as long for a client."""
LEAST_BYTES_PER_SECOND = 64 * 1024
"""A large frame gets the time of its size at this rate in addition: the largest gets some minutes."""


class WatchedStream(trio.abc.Stream):
    """A stream that tells of its end.

    The websocket library waits for ever for a handshake whose connection has ended.

    Args:
        stream: Where the bytes come from and go to.
        tell_end: Called when nothing more will come.

    Attributes:
        heard_at: When something came last, or one more piece of a large frame was taken, by trio's
            clock: what else would tell of the other side may wait behind that frame.
        allowance: How many bytes may come yet; then it has ended.
    """

    def __init__(self, stream: trio.abc.Stream, tell_end: Callable[[], None]) -> None:
        self._stream = stream
        self._tell_end = tell_end
        self.heard_at = trio.current_time()
        self.allowance: float = HANDSHAKE_BYTES

    def allow_all(self) -> None:
        """Accept any number of bytes: the daemon is known, and each message is bounded."""
        self.allowance = math.inf

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """See `trio.abc.ReceiveStream`."""
        try:
            data = bytes(await self._stream.receive_some(max_bytes))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            self._tell_end()
            raise
        self.heard_at = trio.current_time()
        self.allowance -= len(data)
        if not data or self.allowance < 0:
            self._tell_end()
            return b""
        return data

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """See `trio.abc.SendStream`; who takes no piece of it for `SEND_SECONDS` is gone.

        So is who takes all of it more slowly than `LEAST_BYTES_PER_SECOND`.
        """
        try:
            with trio.fail_after(SEND_SECONDS + len(data) / LEAST_BYTES_PER_SECOND):
                await self._send_pieces(memoryview(data))
        except trio.TooSlowError:
            raise trio.BrokenResourceError("nobody takes what is sent") from None

    async def _send_pieces(self, data: memoryview) -> None:
        for begin in range(0, len(data), PIECE_BYTES):
            with trio.fail_after(SEND_SECONDS):
                await self._stream.send_all(data[begin : begin + PIECE_BYTES])
            if len(data) > PIECE_BYTES:
                self.heard_at = trio.current_time()

    async def wait_send_all_might_not_block(self) -> None:
        """See `trio.abc.SendStream`."""
        await self._stream.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        """Close the stream below."""
        await self._stream.aclose()


async def open_stream(address: Address) -> trio.abc.Stream:
    """Connect with TCP, or TLS over it; raise `NetworkError`."""
    try:
        stream = await trio.open_tcp_stream(address.host, address.port)
    except socket.gaierror as error:
        raise NetworkError(
            f"there is no daemon at {address.url}: nobody knows the host {address.host} "
            f"({error.strerror})",
            stage="name",
        ) from error
    except OSError as error:
        raise NetworkError(
            f"there is no daemon at {address.url}: {error}. Start it with `callboard serve`, or look "
            "where it is with `callboard status`.",
            stage="connect",
        ) from error
    if not address.is_tls:
        return stream
    secured = trio.SSLStream(
        stream, ssl.create_default_context(), server_hostname=address.host, https_compatible=True
    )
    try:
        await secured.do_handshake()
    except trio.BrokenResourceError as error:
        await trio.aclose_forcefully(secured)
        raise NetworkError(
            f"no TLS connection to {address.url}: {error.__cause__ or 'it hangs up'}. A daemon "
            "without TLS has a URL with ws://.",
            stage="tls",
        ) from error
    except BaseException:
        await trio.aclose_forcefully(secured)
        raise
    return secured


LOOKS = 4
"""How often the client looks in that time: a suspended process is late for one look, not for all."""


async def wait_silent(
    socket: trio_websocket.WebSocketConnection,
    stream: WatchedStream,
    quiet_seconds: float,
    silent_seconds: float,
) -> None:
    """Return when nothing has come over the connection for a while, not even a pong."""
    async with trio.open_nursery() as nursery:
        answered = trio.Event()
        answered.set()
        is_silent = False
        while not is_silent:
            if trio.current_time() < (until := stream.heard_at + quiet_seconds):
                await trio.sleep_until(until)
                continue
            if answered.is_set():
                answered = trio.Event()
                nursery.start_soon(_ping, socket, answered, name="client ping")
            is_silent = not await _hears(stream, silent_seconds)
        nursery.cancel_scope.cancel(reason="the connection is silent")


async def _hears(stream: WatchedStream, silent_seconds: float) -> bool:
    """Return whether any bytes come within this time."""
    heard_at = stream.heard_at
    for _ in range(LOOKS):
        await trio.sleep(silent_seconds / LOOKS)
        if stream.heard_at > heard_at:
            return True
    return False


async def _ping(socket: trio_websocket.WebSocketConnection, answered: trio.Event) -> None:
    # The reader of the connection notices its end, too.
    with suppress(trio_websocket.ConnectionClosed, LocalProtocolError):
        await socket.ping()
    answered.set()
