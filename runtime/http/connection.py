"""One HTTP/1.1 connection on Trio's sockets.

Why not httpcore's: a body is handed on in one piece for **everything that one network read brought**.
Gateways put each event of a model's stream into an HTTP chunk of its own, and one read holds many;
one piece for each chunk would cost a decoder pass, a batch and a wake-up for each token.

What is on the wire is read by `http1`. Its errors, and those of ssl and the system, become ours here; a message names the host and never a header.
"""

from __future__ import annotations

import errno
import re
import socket
import ssl
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import NamedTuple

import trio

from ..errors import DeadlineError, NetworkError
from .http1 import ProtocolError, ResponseHead, ResponseReader, UnexpectedEnd

CONNECT_SECONDS = 30.0
"""The default for name, TCP and TLS together: a server that takes longer is not there."""
KEEPALIVE_SECONDS = 60.0
"""How long an idle connection is worth keeping; servers close theirs after 5 to 75 seconds."""
READ_BYTES = 64 * 1024
"""The size of one network read, and so of one batch of model events."""
GONE_SECONDS = 2.0
"""How soon a kept connection breaks that its server had closed: a round trip. Later, the server worked on the request."""

TlsContext = Callable[[], ssl.SSLContext]
Connect = Callable[[str, int], Awaitable[trio.SocketStream]]
"""Connects to a host and port; raises `OSError` when there is no connection."""


class Destination(NamedTuple):
    """Where a connection leads, and for which account; it serves requests to the same alone.

    Attributes:
        account: A digest of the credentials. Two accounts never share a connection, so a server or
            proxy that mixes up the responses of one can't give an account those of another.
    """

    scheme: str
    host: str
    port: int
    account: bytes = b""


class OutgoingHead(NamedTuple):
    """The head of a request as it is sent, and what it says of the response.

    Attributes:
        method: Decides whether a body comes back.
        data: The head.
        closes: Whether it asks the server to close the connection.
    """

    method: str
    data: bytes
    closes: bool = False


class HttpConnection:
    """A connection to one destination: opened by its first request, then one request at a time.

    Args:
        tls: Returns the TLS context. Called only for https: making one takes 20 ms and more.
        connect: Makes the TCP connection. TLS verifies the destination's host, whichever address
            this connects.
        connect_seconds: The time for name, TCP and TLS together.

    Attributes:
        was_gone: Whether it had served before, and broke at once under the next request, without a byte of a response:
            its server had closed it, and most likely never read that request.
    """

    def __init__(
        self,
        destination: Destination,
        tls: TlsContext,
        connect: Connect = trio.open_tcp_stream,
        connect_seconds: float = CONNECT_SECONDS,
    ) -> None:
        self.destination = destination
        self._tls = tls
        self._connect_tcp = connect
        self._connect_seconds = connect_seconds
        self._host = destination.host
        self._stream: trio.abc.Stream | None = None
        self._is_opening_tls = False
        self._reader = ResponseReader()
        self._is_last = False
        self._idle_since = 0.0
        self._has_heard = False
        self.was_gone = False

    async def request(self, head: OutgoingHead, body: bytes) -> ResponseHead:
        """Send a request and read the head of the response.

        Raises:
            NetworkError: There is no connection, or it broke before the head was complete.
            DeadlineError: There was no connection after `connect_seconds`.
        """
        stream, is_kept = self._stream, self._stream is not None
        if stream is None:
            stream = self._stream = await self._connect()
        self._has_heard, asked_at = False, time.monotonic()
        self._reader.begin(head.method)
        self._is_last = head.closes
        # A server may respond before it has read all (too large, wrong key) and close. Its response
        # says more than the broken connection; if there is none, reading fails.
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            await stream.send_all(head.data + body)
        try:
            return await self._receive_head()
        except NetworkError as error:
            is_soon = time.monotonic() - asked_at < GONE_SECONDS
            is_ours = isinstance(error.__cause__, trio.ClosedResourceError)
            self.was_gone = is_kept and is_soon and not (self._has_heard or is_ours)
            raise

    async def read_some(self) -> bytes:
        """Return all of the body that one network read brings, or `b""` at the end of the body.

        Raises `NetworkError` when the connection breaks or ends before the body does.
        """
        reader = self._reader
        try:
            while not (data := reader.read_body()) and not reader.is_done:
                await self._receive()
        except ProtocolError as fault:
            raise self._network_error(fault) from fault
        return data

    def close(self) -> None:
        """Close the socket without TLS's goodbye; a pending read fails. Never blocks. Idempotent."""
        if self._stream is not None:
            self._socket().close()

    def is_reusable(self) -> bool:
        """Whether another request can follow: all of the response was read. Starts the idle time."""
        reader = self._reader
        if self._stream is None or self._is_last or not (reader.is_done and reader.keeps_alive):
            return False
        if reader.has_surplus or _holds_undecoded(self._stream):
            return False  # surplus bytes would be read as the next response
        self._idle_since = time.monotonic()
        return True

    def has_expired(self) -> bool:
        """Whether it has been idle for too long, or the server has closed it."""
        # A server sends nothing on an idle connection except its end.
        idle_seconds = time.monotonic() - self._idle_since
        return idle_seconds > KEEPALIVE_SECONDS or self._socket().is_readable()

    async def _receive_head(self) -> ResponseHead:
        reader = self._reader
        try:
            while True:
                await self._receive()
                if (head := reader.read_head()) is not None:
                    return head
        except UnexpectedEnd as fault:
            raise NetworkError(f"{self._host} closed the connection without a response.") from fault
        except ProtocolError as fault:
            raise self._network_error(fault) from fault

    def _network_error(self, fault: ProtocolError) -> NetworkError:
        if isinstance(fault, UnexpectedEnd):
            return NetworkError(
                f"{self._host} closed the connection in the middle of its response."
            )
        text = f"{self._host} does not speak HTTP correctly: {fault}. Check the URL."
        return NetworkError(text, stage="http")

    async def _receive(self) -> None:
        """Read once from the network."""
        assert self._stream is not None
        try:
            data = await self._stream.receive_some(READ_BYTES)
        except (trio.BrokenResourceError, trio.ClosedResourceError) as fault:
            reason = f": {_reason(fault.__cause__)}" if fault.__cause__ else ""
            raise NetworkError(f"The connection to {self._host} broke{reason}.") from fault
        self._has_heard = self._has_heard or bool(data)
        self._reader.receive(bytes(data))

    async def _connect(self) -> trio.abc.Stream:
        where = f"{self._host}:{self.destination.port}"
        try:
            with trio.fail_after(self._connect_seconds):
                return await self._open_stream(where)
        except trio.TooSlowError as late:
            seconds = f"within {self._connect_seconds:g} s"
            if self._is_opening_tls:
                text = f"{where} accepted the connection but did not speak TLS {seconds}."
                raise DeadlineError(text, stage="tls") from late
            text = f"{where} did not accept the connection {seconds}."
            raise DeadlineError(text, stage="connect") from late

    async def _open_stream(self, where: str) -> trio.abc.Stream:
        try:
            tcp = await self._connect_tcp(self._host, self.destination.port)
        except OSError as fault:
            raise _no_connection(where, fault) from fault
        if self.destination.scheme != "https":
            return tcp
        tls = trio.SSLStream(tcp, self._tls(), server_hostname=self._host, https_compatible=True)
        self._is_opening_tls = True
        try:
            await tls.do_handshake()
        except trio.BrokenResourceError as fault:
            await trio.aclose_forcefully(tcp)
            reason = _reason(fault.__cause__) if fault.__cause__ else "cut off"
            raise NetworkError(
                f"No secure connection to {where}: {reason}. Check that the URL's https is right, "
                f"and the server's certificate.",
                stage="tls",
            ) from fault
        except BaseException:
            await trio.aclose_forcefully(tcp)
            raise
        return tls

    def _socket(self) -> trio.socket.SocketType:
        stream = self._stream
        while isinstance(stream, trio.SSLStream):
            stream = stream.transport_stream
        assert isinstance(stream, trio.SocketStream)
        return stream.socket


def _holds_undecoded(stream: trio.abc.Stream) -> bool:
    """Whether TLS holds bytes beyond the response: records that arrived with its last one.

    They are no longer in the kernel and not yet in our buffer, and `SSLStream` has no public way to see
    them: `pending` counts decrypted bytes alone. Without access to its buffer the answer is yes:
    one connection too many is better than a response that belongs to another request.
    """
    if not isinstance(stream, trio.SSLStream):
        return False
    incoming = getattr(stream, "_incoming", None)
    return not isinstance(incoming, ssl.MemoryBIO) or incoming.pending > 0 or stream.pending() > 0


def _reason(fault: BaseException) -> str:
    """Return the text of a system's or TLS's error, without its number and its place in C."""
    text = getattr(fault, "verify_message", "") or getattr(fault, "strerror", "") or str(fault)
    return re.sub(r"^\[[^\]]*\] | \(_ssl\.c:\d+\)$", "", text) or "cut off"


def _no_connection(where: str, fault: OSError) -> NetworkError:
    faults = [fault, *_causes(fault)]
    if any(isinstance(each, socket.gaierror) for each in faults):
        text = f"The host name of {where} can't be resolved. Check the URL and the network."
        return NetworkError(text, stage="name")
    if any(each.errno == errno.ECONNREFUSED for each in faults):
        text = f"{where} refused the connection. Is the server running there?"
    elif any(each.errno in {errno.ENETUNREACH, errno.EHOSTUNREACH} for each in faults):
        text = f"There is no route to {where}. Check the network."
    else:
        text = f"No connection to {where}: {_reason(faults[-1])}."
    return NetworkError(text, stage="connect")


def _causes(fault: BaseException) -> Iterator[OSError]:
    """Yield the failed attempts behind an error: Trio tries each address of a name."""
    cause = fault.__cause__
    for each in cause.exceptions if isinstance(cause, BaseExceptionGroup) else (cause,):
        if isinstance(each, OSError):
            yield each
