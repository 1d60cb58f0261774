"""HTTP/1.1 of the door: read one bounded request head, send one short answer, close politely.

All bytes that were read are kept with the head, so that the websocket library can be given the stream
as it came.
"""

from __future__ import annotations

import h11
import msgspec
import trio

MAX_HEAD_BYTES = 16 * 1024
"""Browsers send about a kilobyte."""
MAX_HEADERS = 100
"""Browsers send about twenty."""
READ_BYTES = 4096
"""Read at a time; the limit is checked in between."""


class BadHead(Exception):
    """A request is refused with this HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class RequestHead(msgspec.Struct, frozen=True, kw_only=True):
    """A request without its body.

    Attributes:
        method: The HTTP method.
        target: The raw target, which alone decides the route.
        headers: In order, with names in lower case.
        received: All bytes that were read, beginning with the head.
    """

    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    received: bytes

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
    def subprotocols(self) -> tuple[str, ...]:
        """The websocket subprotocols that the client offers."""
        values = self.all("sec-websocket-protocol")
        return tuple(name.strip() for value in values for name in value.split(","))

    @property
    def is_upgrade(self) -> bool:
        """Whether the request asks for a websocket."""
        return any("websocket" in value.lower() for value in self.all("upgrade"))


async def read_head(stream: trio.abc.Stream) -> RequestHead | None:
    """Read one head; return `None` if the client leaves before. The caller sets the deadline.

    Raises:
        BadHead: The head is too large, or not HTTP.
    """
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD_BYTES)
    received = b""
    while True:
        try:
            event = connection.next_event()
        except h11.RemoteProtocolError as error:
            status = error.error_status_hint
            raise BadHead(status, f"no request that is understood: {error}") from None
        if isinstance(event, h11.Request):
            head = _head(event, received)
            if head.is_upgrade and connection.trailing_data[0]:
                raise BadHead(400, "a websocket's client waits for the answer to its handshake")
            return head
        if event is not h11.NEED_DATA:
            return None
        if len(received) >= MAX_HEAD_BYTES:
            raise BadHead(431, f"the head of the request is larger than {MAX_HEAD_BYTES} bytes")
        data = bytes(await stream.receive_some(READ_BYTES))
        if not data:
            return None
        received += data
        connection.receive_data(data)


def _head(event: h11.Request, received: bytes) -> RequestHead:
    end = received.find(b"\r\n\r\n")
    if (end if end >= 0 else len(received)) > MAX_HEAD_BYTES or len(event.headers) > MAX_HEADERS:
        raise BadHead(431, "the head of the request is too large")
    return RequestHead(
        method=event.method.decode("ascii"),
        target=event.target.decode("latin-1"),
        headers=tuple(
            (name.decode("ascii"), value.decode("latin-1")) for name, value in event.headers
        ),
        received=received,
    )


HEADERS = (
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cache-control", "no-store"),
    ("content-security-policy", "default-src 'none'; frame-ancestors 'none'"),
    ("connection", "close"),
)


class HttpAnswer(msgspec.Struct, frozen=True):
    """A status, and a text that says what to do."""

    status: int
    text: str
    content_type: str = "text/plain; charset=utf-8"


async def send_answer(stream: trio.abc.SendStream, answer: HttpAnswer) -> None:
    """Send an answer; the connection is to be closed then."""
    connection = h11.Connection(h11.SERVER)
    body = f"{answer.text}\n".encode()
    headers = [("content-type", answer.content_type), ("content-length", str(len(body))), *HEADERS]
    parts = (
        h11.Response(status_code=answer.status, headers=headers, reason=b""),
        h11.Data(data=body),
        h11.EndOfMessage(),
    )
    await stream.send_all(b"".join(connection.send(part) or b"" for part in parts))


LINGER_SECONDS = 1.0
"""The time for the client to read the answer and to close its side."""
LINGER_BYTES = 1024 * 1024
"""Bytes read and dropped: the client may be sending while it is refused."""
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
