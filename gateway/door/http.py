"""HTTP/1.1 of the door: read bounded heads and bodies, send answers, close politely.

h11 is the judge of what is HTTP. What it would let pass, but another program on the way could read in
another way, is refused here: that is how requests are smuggled past a proxy.

All bytes of a head are kept with it, so that the websocket library can be given the stream as it came.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable

import h11
import msgspec
import trio

from ...runtime.identity import TraceContext, checked_trace

MAX_HEAD_BYTES = 16 * 1024
"""Browsers send about a kilobyte."""
MAX_HEADERS = 100
"""Browsers send about twenty."""
READ_BYTES = 4096
"""Read of a head at a time; the limit is checked in between."""
BODY_READ_BYTES = 64 * 1024
"""Read of a body at a time; as much may be waiting of what a client sends ahead."""
MAX_SMALL_CHUNKS = 4096
"""Chunks of a body, beside one for each `CHUNK_BYTES`: a client that writes line by line has few. Each
costs h11 some 50 microseconds, however short it is."""
CHUNK_BYTES = 1024
CHUNKS_AT_ONCE = 64
"""Parsed before other tasks have their turn: some milliseconds."""

SMALL_READ_BYTES = 512
MAX_SMALL_READS = 16
"""Of a body that comes in pieces as small as that, after which it is left to gather between two reads: each read
costs some 100 microseconds, however little has come."""
GATHER_SECONDS = 0.25
"""To twice as much, by chance: hundreds that drip don't wake at once."""

HEADERS = (
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cache-control", "no-store"),
    ("content-security-policy", "default-src 'none'; frame-ancestors 'none'"),
)
TEXT = "text/plain; charset=utf-8"
JSON = "application/json"

Headers = tuple[tuple[str, str], ...]

_FOLDED = re.compile(rb"\n[ \t]")
_LENGTHS = re.compile(rb"\ncontent-length[ \t]*:[^\r]*", re.IGNORECASE)


class BadHead(Exception):
    """A request is refused with this HTTP status."""

    def __init__(self, status: int, message: str, headers: Headers = ()) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers


class RequestHead(msgspec.Struct, kw_only=True):
    """A request without its body; nobody changes it.

    Attributes:
        method: The HTTP method.
        target: The raw target, which alone decides the route.
        headers: In order, with names in lower case.
        received: Of a request for a websocket, all bytes that were read, beginning with the head.
    """

    method: str
    target: str
    headers: Headers
    received: bytes

    def forget(self) -> None:
        """Hold no headers any more."""
        self.headers = ()

    def all(self, name: str) -> tuple[str, ...]:
        """Return the values of a header, in order."""
        return tuple(value for key, value in self.headers if key == name)

    def one(self, name: str) -> str | None:
        """Return the value of a header, or `None`; raise `BadHead` if it came twice."""
        values = self.all(name)
        if len(values) > 1:
            raise BadHead(400, f"two {name} headers")
        return values[0] if values else None

    @property
    def trace(self) -> TraceContext | None:
        """Where the client stands in a trace of its own; `None` for nothing that can be used."""
        parent, state = self.all("traceparent"), self.all("tracestate")
        return checked_trace(TraceContext(parent[0], ",".join(state))) if len(parent) == 1 else None

    @property
    def subprotocols(self) -> tuple[str, ...]:
        """The websocket subprotocols that the client offers."""
        values = self.all("sec-websocket-protocol")
        return tuple(name.strip() for value in values for name in value.split(","))

    @property
    def is_upgrade(self) -> bool:
        """Whether the request asks for a websocket."""
        return any("websocket" in value.lower() for value in self.all("upgrade"))


class HttpAnswer(msgspec.Struct, frozen=True):
    """A whole answer.

    Attributes:
        status: The HTTP status.
        body: Bytes as they are; a text gets an end of line.
        content_type: Of the body.
        headers: Beside those that each answer has, and instead of those of the same name.
    """

    status: int
    body: str | bytes
    content_type: str = TEXT
    headers: Headers = ()

    @property
    def data(self) -> bytes:
        """The body's bytes."""
        return self.body if isinstance(self.body, bytes) else f"{self.body}\n".encode()


class HttpServerConnection:
    """One client's requests on a stream, one after the other: head, body, answer.

    What waits for the client waits as long as the client likes: the caller sets the deadline. After a cancellation the connection can only be closed.

    Args:
        stream: The TCP connection; the caller closes it.
    """

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.stream = stream
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD_BYTES)
        self._method = ""
        self._chunks = self._size = self._small_reads = 0

    # ── what comes in ────────────────────────────────────────────────────────────────────────────

    async def read_head(self) -> RequestHead | None:
        """Read one head; return `None` if the client leaves before.

        Raises:
            BadHead: The head is too large, not HTTP, or has two meanings.
        """
        received = self._http.trailing_data[0]
        while True:
            event = self._next_event()
            if isinstance(event, h11.Request):
                break
            if event is not h11.NEED_DATA:
                return None
            if len(received) >= MAX_HEAD_BYTES:
                raise BadHead(431, f"the head of the request is larger than {MAX_HEAD_BYTES} bytes")
            data = bytes(await self.stream.receive_some(READ_BYTES))
            if not data:
                return None
            received += data
            self._http.receive_data(data)
        head = _head(event, received)
        self._method = head.method
        self._chunks = self._size = self._small_reads = 0
        if head.is_upgrade:
            if self._http.trailing_data[0]:
                raise BadHead(400, "a websocket's client waits for the answer to its handshake")
        elif not _has_body(head):
            self._next_event()  # the end of the request
        return head

    async def wait_more(self) -> bool:
        """Wait until something of the next request has come; return `False` if the client leaves."""
        data, has_ended = self._http.trailing_data
        if not data and not has_ended:
            data = bytes(await self.stream.receive_some(READ_BYTES))
            self._http.receive_data(data)
        return bool(data)

    async def allow_body(self) -> None:
        """Tell a client that waits for it (`Expect: 100-continue`) that its body is welcome."""
        if self._http.they_are_waiting_for_100_continue:
            go_on = h11.InformationalResponse(status_code=100, headers=[])
            await self.stream.send_all(self._http.send(go_on) or b"")

    async def read_piece(self) -> bytes | None:
        """Read some of the body; return `None` at its end.

        Raises:
            BadHead: It ends early, or is cut into more chunks than it has reason to.
        """
        while self._http.their_state is h11.SEND_BODY:
            event = self._next_event()
            if isinstance(event, h11.Data):
                self._size += len(event.data)
                self._chunks += event.chunk_start
                if self._chunks > MAX_SMALL_CHUNKS + self._size // CHUNK_BYTES:
                    raise BadHead(400, "the body comes in too many small chunks")
                if self._chunks % CHUNKS_AT_ONCE == 0:
                    await trio.lowlevel.checkpoint()
                return bytes(event.data)
            if event is h11.NEED_DATA:
                self._http.receive_data(await self._more_of_body())
        return None

    async def _more_of_body(self) -> bytes:
        """Read what has come; wait a moment ahead of it when too little came too often."""
        if self._small_reads >= MAX_SMALL_READS:
            await trio.sleep(GATHER_SECONDS * random.uniform(1, 2))
        data = bytes(await self.stream.receive_some(BODY_READ_BYTES))
        self._small_reads += len(data) < SMALL_READ_BYTES
        return data

    async def wait_left(self) -> None:
        """Wait until the client has left; what it sends ahead is kept, up to a bound.

        A client that has sent more than the bound is only noticed to have left when it is sent something.
        """
        while len(self._http.trailing_data[0]) < MAX_HEAD_BYTES:
            try:
                data = bytes(await self.stream.receive_some(READ_BYTES))
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                return
            self._http.receive_data(data)
            if not data:
                return
        await trio.sleep_forever()

    def _next_event(self) -> object:
        try:
            return self._http.next_event()
        except h11.RemoteProtocolError as error:
            status = error.error_status_hint
            raise BadHead(status, f"no request that is understood: {error}") from None

    # ── what goes out ────────────────────────────────────────────────────────────────────────────

    def answer_bytes(self, answer: HttpAnswer, *, keeps: bool) -> bytes:
        """Return an answer as it is sent, with `Connection: close` unless `keeps`."""
        body = answer.data
        own = answer.headers
        if answer.status != 304:  # its length would be that of what was not sent
            its = ("content-type", answer.content_type), ("content-length", str(len(body)))
            own = (*its, *own)
        head = self._begin(answer.status, own, keeps=keeps)
        shown = body if self._method != "HEAD" else b""
        return head + (self._http.send(h11.Data(data=shown)) or b"") + self.end_stream()

    def begin_stream(self, status: int, headers: Iterable[tuple[str, str]]) -> bytes:
        """Return the head of an answer whose length is not known."""
        return self._begin(status, headers, keeps=True)

    def chunk(self, data: bytes) -> bytes:
        """Return a part of that answer. Framed here: h11 takes twenty times as long."""
        if self._http.their_http_version == b"1.0":
            return data
        return b"%x\r\n%b\r\n" % (len(data), data)

    def end_stream(self) -> bytes:
        """Return the end of that answer."""
        return self._http.send(h11.EndOfMessage()) or b""

    def _begin(self, status: int, headers: Iterable[tuple[str, str]], *, keeps: bool) -> bytes:
        keeps = keeps and self._http.their_state is h11.DONE
        closing = () if keeps else (("connection", "close"),)
        own = list(headers)
        given = {name for name, _ in own}
        all_ = [*own, *(each for each in HEADERS if each[0] not in given), *closing]
        response = h11.Response(status_code=status, headers=all_, reason=b"")
        return self._http.send(response) or b""

    @property
    def has_begun(self) -> bool:
        """Whether the answer to the present request has begun."""
        return self._http.our_state not in (h11.IDLE, h11.SEND_RESPONSE)

    def next_request(self) -> bool:
        """Go on to the next request; return `False` if the connection is to be closed."""
        if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
            return False
        self._http.start_next_cycle()
        return True


def _head(event: h11.Request, received: bytes) -> RequestHead:
    end = received.find(b"\r\n\r\n")
    if (end if end >= 0 else len(received)) > MAX_HEAD_BYTES or len(event.headers) > MAX_HEADERS:
        raise BadHead(431, "the head of the request is too large")
    head = RequestHead(
        method=event.method.decode("ascii"),
        target=event.target.decode("latin-1"),
        headers=tuple(
            (name.decode("ascii"), value.decode("latin-1")) for name, value in event.headers
        ),
        received=b"",
    )
    if head.is_upgrade:
        head.received = received
    _check_meaning(head, received[: end + 2], event.http_version)
    return head


def _check_meaning(head: RequestHead, raw: bytes, version: bytes) -> None:
    """Raise `BadHead` for what programs are known to read in different ways (RFC 9112, 11.2)."""
    if not raw.endswith(b"\r\n") or raw.count(b"\n") != raw.count(b"\r\n") or _FOLDED.search(raw):
        raise BadHead(400, "each line of a head ends with CRLF, and none is folded")
    if version not in (b"1.1", b"1.0"):
        raise BadHead(505, "HTTP/1.1 is spoken here")
    lengths = _LENGTHS.findall(raw)
    codings = head.all("transfer-encoding")
    if len(lengths) > 1 or (lengths and (codings or b"," in lengths[0])):
        raise BadHead(400, "the request has more than one length")
    if codings and version == b"1.0":
        raise BadHead(400, "HTTP/1.0 has no Transfer-Encoding")


def _has_body(head: RequestHead) -> bool:
    length = head.one("content-length")
    return bool(head.all("transfer-encoding")) or (length is not None and int(length) > 0)


LINGER_SECONDS = 1.0
"""The time for the client to read the answer and to close its side."""
LINGER_BYTES = 16 * 1024 * 1024
"""Bytes read and dropped: the client may be sending a body while it is refused, and reads the answer afterwards."""
LINGER_READ_BYTES = 64 * 1024


async def linger(stream: trio.SocketStream) -> None:
    """End the sending side and wait for the client to end its own, for a bounded time.

    Closing at once would reset the connection and lose the answer, if the client still sends.
    """
    left = LINGER_BYTES
    try:
        with trio.move_on_after(LINGER_SECONDS):
            await stream.send_eof()
            while left > 0 and (data := await stream.receive_some(LINGER_READ_BYTES)):
                left -= len(data)
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        pass  # the client has left
