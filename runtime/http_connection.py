"""One HTTP/1.1 connection, as httpcore2's pool wants it.

The pool comes with a connection class of its own. Ours is here for the body: it gives **everything
that one network read brought** in one piece. Gateways put each event of a model's stream into an
HTTP chunk of its own, and one read holds many; handing them on one at a time would cost a decoder
pass, a batch and a wake-up for each token.

Foreign exceptions become ours here, at the edge; a message names the host and never a header.
"""

from __future__ import annotations

import enum
import errno
import socket
import ssl
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress

import h11
import httpcore2
import trio

from .errors import DeadlineError, NetworkError, ValidationError

CONNECT_SECONDS = 30.0
"""Unless told otherwise, for name, TCP and TLS together: a server that takes longer is not there."""
KEEPALIVE_SECONDS = 60.0
"""How long an idle connection is worth keeping; servers close theirs after 5 to 75 seconds."""
READ_BYTES = 64 * 1024
"""Of one network read; what one batch may hold."""
MAX_HEAD_BYTES = 64 * 1024
"""Of a response's head: eight times what common servers send at most."""

MAX_QUOTED_CHARS = 120
"""Of what a server sent in place of HTTP, for an error of one line."""

TlsContext = Callable[[], ssl.SSLContext]
Connect = Callable[[str, int], Awaitable[trio.SocketStream]]
"""(host, port) → a TCP connection; raises `OSError` when there is none."""


class _State(enum.Enum):
    CONNECTING = enum.auto()
    ACTIVE = enum.auto()
    IDLE = enum.auto()
    CLOSED = enum.auto()


class HttpConnection(httpcore2.AsyncConnectionInterface):
    """A connection to one origin; connects with its first request, then serves one at a time.

    Args:
        tls: Gives the context, when it is needed: to make one takes 20 ms and more.
        connect: Makes the TCP connection; TLS is for the origin's host, wherever that leads.
        connect_seconds: For name, TCP and TLS together.
    """

    def __init__(
        self,
        origin: httpcore2.Origin,
        tls: TlsContext,
        connect: Connect = trio.open_tcp_stream,
        connect_seconds: float = CONNECT_SECONDS,
    ) -> None:
        self._origin = origin
        self._tls = tls
        self._connect_tcp = connect
        self._connect_seconds = connect_seconds
        self._host = origin.host.decode("ascii")
        self._state = _State.CONNECTING
        self._stream: trio.abc.Stream | None = None
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD_BYTES)
        self._idle_until = 0.0

    async def handle_async_request(self, request: httpcore2.Request) -> httpcore2.Response:
        """Sends the request and reads the response's head.

        Raises:
            NetworkError: There is no connection, or it broke before the head was whole.
            DeadlineError: There was no connection after `connect_seconds`.
        """
        if self._stream is None and self._state is _State.CONNECTING:
            stream = await self._connect()
        elif self._stream is not None and self._state is _State.IDLE:
            stream = self._stream
        else:
            raise httpcore2.ConnectionNotAvailable
        self._state = _State.ACTIVE
        try:
            await self._send(stream, request)
            head = await self._receive_head(stream)
        except BaseException:
            await self.aclose()
            raise
        body = HttpBody(self, stream)
        return httpcore2.Response(
            head.status_code,
            headers=list(head.headers),
            content=body,
            extensions={
                "http_version": b"HTTP/1.1",
                "reason_phrase": bytes(head.reason),
                "body": body,
            },
        )

    async def aclose(self) -> None:
        """Closes at once, without TLS's farewell; a cancellation does not keep it open."""
        self._state = _State.CLOSED
        if self._stream is not None:
            await trio.aclose_forcefully(self._stream)

    def can_handle_request(self, origin: httpcore2.Origin) -> bool:
        """Whether it leads there."""
        return origin == self._origin

    def is_available(self) -> bool:
        """Whether it can take a request now."""
        return self._state is _State.IDLE

    def is_connected(self) -> bool:
        """Whether there is a socket."""
        return self._stream is not None and self._state is not _State.CLOSED

    def is_idle(self) -> bool:
        """Whether it waits for a request."""
        return self._state is _State.IDLE

    def is_closed(self) -> bool:
        """Whether it is of no more use."""
        return self._state is _State.CLOSED

    def has_expired(self) -> bool:
        """Whether it idled for too long, or the server has closed it meanwhile."""
        if self._state is not _State.IDLE:
            return False
        # An idle server has nothing to say but that it closes.
        return time.monotonic() > self._idle_until or self._socket().is_readable()

    def info(self) -> str:
        """For the pool's `repr`."""
        return f"{self._host!r}, HTTP/1.1, {self._state.name}"

    async def release(self) -> None:
        """Behind a body: idle again when all of it was read, closed when not."""
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
            self._idle_until = time.monotonic() + KEEPALIVE_SECONDS
            self._state = _State.IDLE
        else:
            await self.aclose()

    def next_event(self) -> object:
        """The next event of the bytes that are here; h11's `NEED_DATA` when they are used up."""
        try:
            return self._http.next_event()
        except h11.RemoteProtocolError as fault:
            if "closed connection" in str(fault):
                text = f"{self._host} closed the connection in the middle of its answer."
            else:
                what = str(fault)[:MAX_QUOTED_CHARS]
                text = f"{self._host} does not speak HTTP as it should: {what}. Check the URL."
            raise NetworkError(text) from fault

    async def receive(self, stream: trio.abc.Stream) -> None:
        """One network read."""
        try:
            data = await stream.receive_some(READ_BYTES)
        except (trio.BrokenResourceError, trio.ClosedResourceError) as fault:
            reason = f": {fault.__cause__}" if fault.__cause__ else ""
            raise NetworkError(f"The connection to {self._host} broke{reason}.") from fault
        if not data and self._http.their_state is h11.SEND_RESPONSE:
            raise NetworkError(f"{self._host} closed the connection without an answer.")
        self._http.receive_data(bytes(data))

    async def _connect(self) -> trio.abc.Stream:
        where = f"{self._host}:{self._origin.port}"
        # Whatever happens below, this connection is not for another request to find.
        try:
            with trio.fail_after(self._connect_seconds):
                self._stream = stream = await self._open_stream(where)
        except trio.TooSlowError as late:
            self._state = _State.CLOSED
            text = f"{where} did not take the connection within {self._connect_seconds:g} s."
            raise DeadlineError(text) from late
        except BaseException:
            self._state = _State.CLOSED
            raise
        return stream

    async def _open_stream(self, where: str) -> trio.abc.Stream:
        try:
            tcp = await self._connect_tcp(self._host, self._origin.port)
        except OSError as fault:
            raise NetworkError(_why_no_connection(where, fault)) from fault
        if self._origin.scheme != b"https":
            return tcp
        tls = trio.SSLStream(tcp, self._tls(), server_hostname=self._host, https_compatible=True)
        try:
            await tls.do_handshake()
        except trio.BrokenResourceError as fault:
            await trio.aclose_forcefully(tcp)
            reason = getattr(fault.__cause__, "verify_message", "") or fault.__cause__ or "cut off"
            raise NetworkError(
                f"No secure connection to {where}: {reason}. Check that the URL's https is right, "
                f"and the server's certificate."
            ) from fault
        except BaseException:
            await trio.aclose_forcefully(tcp)
            raise
        return tls

    async def _send(self, stream: trio.abc.Stream, request: httpcore2.Request) -> None:
        body = [part async for part in request.stream]  # type: ignore[union-attr]
        data: list[bytes | None] = []
        # Not mapped with `from`: the original's text holds the header, which may be the key.
        with suppress(h11.LocalProtocolError):
            head = h11.Request(
                method=request.method, target=request.url.target, headers=request.headers
            )
            data.append(self._http.send(head))
        if not data:
            text = "A header of the request is not valid: a key is one line of plain characters."
            raise ValidationError(text, field="headers")
        data += [self._http.send(h11.Data(data=part)) for part in body]
        data.append(self._http.send(h11.EndOfMessage()))
        # A server may answer before it has read all (too large, wrong key) and close: what it said
        # is worth more than that it closed. When it said nothing, reading tells.
        with suppress(trio.BrokenResourceError):
            await stream.send_all(b"".join(filter(None, data)))

    async def _receive_head(self, stream: trio.abc.Stream) -> h11.Response:
        event = self.next_event()
        while not isinstance(event, h11.Response):
            # An informational response (100, 103) only says that there will be another.
            if event is h11.NEED_DATA:
                await self.receive(stream)
            else:
                await trio.lowlevel.checkpoint()
            event = self.next_event()
        return event

    def _socket(self) -> trio.socket.SocketType:
        stream = self._stream
        while isinstance(stream, trio.SSLStream):
            stream = stream.transport_stream
        assert isinstance(stream, trio.SocketStream)
        return stream.socket


class HttpBody:
    """The body of one response.

    Closing it gives the connection back to the pool when it was read to its end.
    """

    def __init__(self, connection: HttpConnection, stream: trio.abc.Stream) -> None:
        self._connection = connection
        self._stream = stream
        self._ended = False
        self._closed = False

    async def read_some(self) -> bytes:
        """All that one network read brings, at least one byte; `b""` at a clean end.

        Raises `NetworkError` when the connection breaks or ends before the body does.
        """
        data = self._take()
        while not data and not self._ended:
            await self._connection.receive(self._stream)
            data = self._take()
        return data

    def __aiter__(self) -> HttpBody:
        return self

    async def __anext__(self) -> bytes:
        data = await self.read_some()
        if not data:
            raise StopAsyncIteration
        return data

    async def aclose(self) -> None:
        """Gives the connection back or closes it. The pool calls it in a shield."""
        if not self._closed:
            self._closed = True
            await self._connection.release()

    def _take(self) -> bytes:
        """What is here already."""
        pieces: list[bytes] = []
        while not self._ended and not self._closed:
            event = self._connection.next_event()
            if isinstance(event, h11.Data):
                pieces.append(event.data)
            elif event is h11.NEED_DATA:
                break
            else:
                self._ended = True
        self._ended = self._ended or self._closed
        return bytes(pieces[0]) if len(pieces) == 1 else b"".join(pieces)


def _why_no_connection(where: str, fault: OSError) -> str:
    faults = [fault, *_causes(fault)]
    if any(isinstance(each, socket.gaierror) for each in faults):
        return f"The name of {where} can't be resolved. Check the URL and the network."
    if any(each.errno == errno.ECONNREFUSED for each in faults):
        return f"{where} refused the connection. Is the server running there?"
    if any(each.errno in {errno.ENETUNREACH, errno.EHOSTUNREACH} for each in faults):
        return f"There is no way to {where}. Check the network."
    return f"No connection to {where}: {faults[-1].strerror or faults[-1]}."


def _causes(fault: BaseException) -> Iterator[OSError]:
    """The attempts behind a failed connection: trio tries each address of a name."""
    cause = fault.__cause__
    for each in cause.exceptions if isinstance(cause, BaseExceptionGroup) else (cause,):
        if isinstance(each, OSError):
            yield each
