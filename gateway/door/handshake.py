"""The head of a request that asks for a websocket (RFC 6455, 4.2.1), judged before the library sees it."""

from __future__ import annotations

import base64
import binascii

import trio

from .request_head import BadHead, RequestHead

PROTOCOL_NAME = "callboard"
"""The subprotocol that is agreed on: a token must not come back in an answer."""
KEY_BYTES = 16


def check_handshake(head: RequestHead) -> None:
    """Raises `BadHead` for a request that is no handshake of a websocket, or has a query."""
    if "?" in head.target:
        raise BadHead(400, "nothing is said in the query: tokens are seen there")
    connection = {
        word.strip().lower() for value in head.all("connection") for word in value.split(",")
    }
    if head.method != "GET" or "upgrade" not in connection:
        raise BadHead(400, "a websocket begins with GET, and with Connection: Upgrade")
    if head.one("sec-websocket-version") != "13":
        raise BadHead(426, "the websocket's version is 13")
    if not _is_key(head.one("sec-websocket-key") or ""):
        raise BadHead(400, "no Sec-WebSocket-Key, or none of 16 bytes in base64")


def agreed_subprotocol(head: RequestHead) -> str | None:
    """The subprotocol of the answer, which is the one that is known; raises `BadHead`."""
    if PROTOCOL_NAME in head.subprotocols:
        return PROTOCOL_NAME
    if head.subprotocols:
        raise BadHead(
            400, f"name {PROTOCOL_NAME!r} among the subprotocols: it is the one spoken here"
        )
    return None


def _is_key(key: str) -> bool:
    try:
        return len(base64.b64decode(key, validate=True)) == KEY_BYTES
    except (binascii.Error, ValueError):
        return False


LINGER_SECONDS = 1.0
"""For the client to read, and to close its side."""
LINGER_BYTES = 1024 * 1024
"""That are thrown away: what a client has on its way when it is refused."""
READ_BYTES = 64 * 1024


async def linger(stream: trio.SocketStream) -> None:
    """Ends the sending side and waits for the client's; whoever goes on sending is cut off."""
    left = LINGER_BYTES
    try:
        with trio.move_on_after(LINGER_SECONDS):
            await stream.send_eof()
            while left > 0 and (data := await stream.receive_some(READ_BYTES)):
                left -= len(data)
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        pass  # the client has left
