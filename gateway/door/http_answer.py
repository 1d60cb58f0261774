"""Short answers to plain HTTP: one a connection, with the headers that keep browsers careful."""

from __future__ import annotations

import h11
import msgspec
import trio

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
