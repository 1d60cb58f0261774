"""Bytes to a daemon's port as somebody sends them who has no library, and what comes back."""

from __future__ import annotations

import base64
import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import msgspec
import trio
from trio_websocket import ConnectionClosed

from callboard.client.client import Client
from support.gateway.daemon_scene import Daemon, RawClient

KEY = base64.b64encode(b"sixteen bytes...").decode()
PATIENCE = 30.0
"""For an answer that comes at once: a test that waits in vain fails."""


class Answer(msgspec.Struct, frozen=True):
    """What came back: of a websocket the head, of a stream all until the server closed its side."""

    status: int
    headers: dict[str, str]
    body: str


def handshake(daemon: Daemon, **changes: str | None) -> list[tuple[str, str]]:
    """The headers of a right one; `changes` by name with `_` for `-`, `None` leaves one out."""
    headers = {
        "host": f"127.0.0.1:{daemon.gateway.port}",
        "connection": "Upgrade",
        "upgrade": "websocket",
        "sec-websocket-version": "13",
        "sec-websocket-key": KEY,
        "authorization": f"Bearer {daemon.token}",
    } | {name.replace("_", "-"): value for name, value in changes.items()}
    return [(name, value) for name, value in headers.items() if value is not None]


def head_of(headers: Sequence[tuple[str, str]], target: str = "/ws", method: str = "GET") -> bytes:
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers)]
    return "\r\n".join([*lines, "", ""]).encode()


@asynccontextmanager
async def open_stream(daemon: Daemon) -> AsyncGenerator[trio.SocketStream]:
    with trio.fail_after(PATIENCE):
        stream = await trio.open_tcp_stream("127.0.0.1", daemon.gateway.port)
        try:
            yield stream
        finally:
            await trio.aclose_forcefully(stream)


async def answer_to(daemon: Daemon, sent: bytes) -> Answer:
    """Sends, and reads the one answer; of an open websocket the head alone."""
    async with open_stream(daemon) as stream:
        await stream.send_all(sent)
        return await read_answer(stream)


async def read_answer(stream: trio.SocketStream) -> Answer:
    received = b""
    while not _is_whole(received) and (data := await stream.receive_some()):
        received += data
    head, _, body = received.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (x.partition(":") for x in lines)}
    return Answer(int(first.split()[1]), headers, body.decode())


def _is_whole(received: bytes) -> bool:
    head, end, body = received.partition(b"\r\n\r\n")
    size = re.search(rb"\r\ncontent-length: (\d+)", head.lower())
    if not end or head.startswith(b"HTTP/1.1 101"):
        return bool(end)
    return size is not None and len(body) >= int(size[1])


async def upgrade(daemon: Daemon, target: str = "/ws", **changes: str | None) -> int:
    """The status of an answer to a handshake."""
    return (await answer_to(daemon, head_of(handshake(daemon, **changes), target))).status


async def read_end(stream: trio.SocketStream) -> bytes:
    """What comes until the server closes, or cuts off."""
    received = b""
    try:
        while data := await stream.receive_some():
            received += data
    except trio.BrokenResourceError:
        pass
    return received


@asynccontextmanager
async def open_frames(daemon: Daemon, token: str = "") -> AsyncGenerator[trio.SocketStream]:
    """A websocket that is open, and nothing said on it: for frames made by hand."""
    async with open_stream(daemon) as stream:
        bearer = f"Bearer {token or daemon.token}"
        await stream.send_all(head_of(handshake(daemon, authorization=bearer)))
        assert (await read_answer(stream)).status == 101
        yield stream


def frame(
    payload: bytes,
    opcode: int = 1,
    *,
    is_last: bool = True,
    is_masked: bool = True,
    reserved: int = 0,
) -> bytes:
    """A frame of a client, with a mask of zeros."""
    first = (0x80 if is_last else 0) | reserved | opcode
    mask = 0x80 if is_masked else 0
    size = len(payload)
    if size < 126:
        head = bytes((first, mask | size))
    elif size < 1 << 16:
        head = bytes((first, mask | 126)) + size.to_bytes(2)
    else:
        head = bytes((first, mask | 127)) + size.to_bytes(8)
    return head + (bytes(4) if is_masked else b"") + payload


def close_code(received: bytes) -> int | None:
    """The code of the close frame that received bytes end with; `None` without one."""
    at = 0
    while at + 2 <= len(received):
        size = received[at + 1]
        start = at + 2
        if size >= 126:
            width = 2 if size == 126 else 8
            size = int.from_bytes(received[start : start + width])
            start += width
        if received[at] & 0x0F == 8:
            return int.from_bytes(received[start : start + 2])
        at = start + size
    return None


async def are_left(client: Client, number: int) -> None:
    """Waits until so many connections are open."""
    with trio.fail_after(PATIENCE):
        while (await client.status()).connections != number:  # noqa: ASYNC110  nothing tells of it
            await trio.sleep(0.01)


async def code_of_end(raw: RawClient) -> int:
    """The code with which the server closes; what comes before it is kept in `heard`."""
    with trio.fail_after(PATIENCE):
        try:
            while True:
                raw.heard.append(await raw.receive())
        except ConnectionClosed as closed:
            await trio.lowlevel.checkpoint()
            return 0 if closed.reason is None else closed.reason.code
