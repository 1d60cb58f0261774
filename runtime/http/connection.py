"""One HTTP/1.1 connection on h11 and Trio's sockets.

Why not httpcore's: a body is handed on in one piece for **everything that one network read brought**.
Gateways put each event of a model's stream into an HTTP chunk of its own, and one read holds many;
one piece for each chunk would cost a decoder pass, a batch and a wake-up for each token.

Exceptions of h11, ssl and the system become ours here; a message names the host and never a header.
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

import h11
import trio

from ..errors import DeadlineError, NetworkError, ValidationError

CONNECT_SECONDS = 30.0
"""The default for name, TCP and TLS together: a server that takes longer is not there."""
KEEPALIVE_SECONDS = 60.0
"""How long an idle connection is worth keeping; servers close theirs after 5 to 75 seconds."""
READ_BYTES = 64 * 1024
"""The size of one network read, and so of one batch of model events."""
MAX_HEAD_BYTES = 64 * 1024
"""The largest response head: eight times what common servers send at most."""

MAX_QUOTED_CHARS = 120
"""An error quotes this much of what a server sent in place of HTTP."""

BAD_HEADER = (
    "A header of the request is not valid. Check the key: it must be one line of ASCII characters."
)

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
    """A request without its body: the method, the target of the request line, all headers."""

    method: str
    target: bytes
    headers: list[tuple[bytes, bytes]]


class HttpConnection:
    """A connection to one destination: opened by its first request, then one request at a time.

    Args:
        tls: Returns the TLS context. Called only for https: making one takes 20 ms and more.
        connect: Makes the TCP connection. TLS verifies the destination's host, whichever address
            this connects.
        connect_seconds: The time for name, TCP and TLS together.
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
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD_BYTES)
        self._body_ended = False
        self._idle_since = 0.0

    async def request(self, head: OutgoingHead, body: bytes) -> h11.Response:
        """Send a request and read the head of the response.

        Raises:
            NetworkError: There is no connection, or it broke before the head was complete.
            DeadlineError: There was no connection after `connect_seconds`.
        """
        if self._stream is None:
            self._stream = await self._connect()
        self._body_ended = False
        await self._send(self._stream, head, body)
        return await self._receive_head()

    async def read_some(self) -> bytes:
        """Return all of the body that one network read brings, or `b""` at the end of the body.

        Raises `NetworkError` when the connection breaks or ends before the body does.
        """
        data = self._take()
        while not data and not self._body_ended:
            await self._receive()
            data = self._take()
        return data

    def close(self) -> None:
        """Close the socket without TLS's goodbye; a pending read fails. Never blocks. Idempotent."""
        if self._stream is not None:
            self._socket().close()

    def is_reusable(self) -> bool:
        """Whether another request can follow: all of the response was read. Starts the idle time."""
        http = self._http
        if self._stream is None or not (http.our_state is http.their_state is h11.DONE):
            return False
        if http.trailing_data[0] or _holds_undecoded(self._stream):
            return False  # surplus bytes would be read as the next response
        http.start_next_cycle()
        self._idle_since = time.monotonic()
        return True

    def has_expired(self) -> bool:
        """Whether it has been idle for too long, or the server has closed it."""
        # A server sends nothing on an idle connection except its end.
        idle_seconds = time.monotonic() - self._idle_since
        return idle_seconds > KEEPALIVE_SECONDS or self._socket().is_readable()

    def _take(self) -> bytes:
        """Return the part of the body that has been received."""
        pieces: list[bytes] = []
        while not self._body_ended:
            event = self._next_event()
            if isinstance(event, h11.Data):
                pieces.append(event.data)
            elif event is h11.NEED_DATA:
                break
            else:
                self._body_ended = True
        # Joined even if there is one: h11's pieces are bytearrays at times.
        return b"".join(pieces)

    def _next_event(self) -> object:
        try:
            return self._http.next_event()
        except h11.RemoteProtocolError as fault:
            if "closed connection" in str(fault):
                text = f"{self._host} closed the connection in the middle of its response."
                raise NetworkError(text) from fault
            what = _without_python(str(fault))[:MAX_QUOTED_CHARS]
            text = f"{self._host} does not speak HTTP correctly: {what}. Check the URL."
            raise NetworkError(text, stage="http") from fault

    async def _receive(self) -> None:
        """Read once from the network."""
        assert self._stream is not None
        try:
            data = await self._stream.receive_some(READ_BYTES)
        except (trio.BrokenResourceError, trio.ClosedResourceError) as fault:
            reason = f": {_reason(fault.__cause__)}" if fault.__cause__ else ""
            raise NetworkError(f"The connection to {self._host} broke{reason}.") from fault
        if not data and self._http.their_state is h11.SEND_RESPONSE:
            raise NetworkError(f"{self._host} closed the connection without a response.")
        self._http.receive_data(bytes(data))

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

    async def _send(self, stream: trio.abc.Stream, head: OutgoingHead, body: bytes) -> None:
        data: list[bytes | None] = []
        # Not chained with `from`: the original's text holds the header, perhaps the key.
        with suppress(h11.LocalProtocolError):
            data.append(
                self._http.send(
                    h11.Request(method=head.method, target=head.target, headers=head.headers)
                )
            )
        if not data:
            raise ValidationError(BAD_HEADER, field="headers")
        if body:
            data.append(self._http.send(h11.Data(data=body)))
        data.append(self._http.send(h11.EndOfMessage()))
        # A server may respond before it has read all (too large, wrong key) and close. Its response
        # says more than the broken connection; if there is none, reading fails.
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            await stream.send_all(b"".join(filter(None, data)))

    async def _receive_head(self) -> h11.Response:
        event = self._next_event()
        while not isinstance(event, h11.Response):
            # RFC 9110 15.2: an informational response (100, 103) precedes the final one.
            if event is h11.NEED_DATA:
                await self._receive()
            else:
                await trio.lowlevel.checkpoint()
            event = self._next_event()
        return event

    def _socket(self) -> trio.socket.SocketType:
        stream = self._stream
        while isinstance(stream, trio.SSLStream):
            stream = stream.transport_stream
        assert isinstance(stream, trio.SocketStream)
        return stream.socket


def _holds_undecoded(stream: trio.abc.Stream) -> bool:
    """Whether TLS holds bytes beyond the response: records that arrived with its last one.

    They are no longer in the kernel and not yet in h11, and `SSLStream` has no public way to see
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


def _without_python(text: str) -> str:
    """Return h11's message with the bytes it quotes written without `b` and `bytearray`."""
    return re.sub(r"bytearray\(b?(.*)\)|\bb(?=['\"])", lambda match: match.group(1) or "", text)


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
