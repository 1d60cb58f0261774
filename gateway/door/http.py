"""The head of an HTTP request, read with a bound in bytes and in time.

What was read behind the head is kept, so that a websocket library can be handed the stream as it came.
"""

from __future__ import annotations

import h11
import msgspec
import trio

MAX_HEAD_BYTES = 16 * 1024
"""A browser's is a kilobyte; what is larger is no client of ours."""
MAX_HEADERS = 100
"""Browsers send some twenty."""
READ_BYTES = 4096
"""At a time: the bound is checked between reads."""


class BadHead(Exception):
    """The head is no request that this server reads; `status` is what it answers."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class RequestHead(msgspec.Struct, frozen=True, kw_only=True):
    """A request, up to its body.

    Attributes:
        method: As it came.
        target: The raw target: routes are decided by it alone.
        headers: In order, names in lower case.
        received: All bytes that were read, the head's first.
    """

    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    received: bytes

    def all(self, name: str) -> tuple[str, ...]:
        """The values of a header, in order."""
        return tuple(value for key, value in self.headers if key == name)

    def one(self, name: str) -> str | None:
        """The value of a header that may come once; `None` without it.

        Raises:
            BadHead: It came twice.
        """
        values = self.all(name)
        if len(values) > 1:
            raise BadHead(400, f"two {name} headers")
        return values[0] if values else None

    @property
    def subprotocols(self) -> tuple[str, ...]:
        """Those of a websocket that the client names."""
        values = self.all("sec-websocket-protocol")
        return tuple(name.strip() for value in values for name in value.split(","))

    @property
    def is_upgrade(self) -> bool:
        """Whether it asks for a websocket."""
        return any("websocket" in value.lower() for value in self.all("upgrade"))


async def read_head(stream: trio.abc.Stream) -> RequestHead | None:
    """Reads one head; `None` when the client leaves without one. The deadline is the caller's.

    Raises:
        BadHead: It is too large, or no HTTP.
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
    """A status with a text for whoever looks."""

    status: int
    text: str
    content_type: str = "text/plain; charset=utf-8"


async def send_answer(stream: trio.abc.SendStream, answer: HttpAnswer) -> None:
    """Sends it; nothing follows."""
    connection = h11.Connection(h11.SERVER)
    body = f"{answer.text}\n".encode()
    headers = [
        ("content-type", answer.content_type),
        ("content-length", str(len(body))),
        *HEADERS,
    ]
    parts = (
        h11.Response(status_code=answer.status, headers=headers, reason=b""),
        h11.Data(data=body),
        h11.EndOfMessage(),
    )
    await stream.send_all(b"".join(connection.send(part) or b"" for part in parts))
