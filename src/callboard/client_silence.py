"""Notices that the other side of a connection is gone without a word: asleep, cut off, or swallowed."""

from __future__ import annotations

from contextlib import suppress

import trio
import trio_websocket
from wsproto.utilities import LocalProtocolError

from .client_stream import WatchedStream

QUIET_SECONDS = 15.0
"""Without a byte, before it is asked for one; a daemon pings about as often by itself."""
SILENT_SECONDS = 10.0
"""For anything at all to come then: far longer than any line is slow."""
LOOKS = 4
"""In that time: one of them may be late because this process was, but not all."""


async def wait_silent(socket: trio_websocket.WebSocketConnection, stream: WatchedStream) -> None:
    """Returns when nothing comes over the connection, though a ping asked for it."""
    async with trio.open_nursery() as nursery:
        answered = trio.Event()
        answered.set()
        is_silent = False
        while not is_silent:
            quiet = trio.current_time() - stream.heard_at
            if quiet < QUIET_SECONDS:
                await trio.sleep(QUIET_SECONDS - quiet)
                continue
            if answered.is_set():
                answered = trio.Event()
                nursery.start_soon(_ping, socket, answered, name="client ping")
            is_silent = not await _hears(stream)
        nursery.cancel_scope.cancel(reason="the connection is silent")


async def _hears(stream: WatchedStream) -> bool:
    """Whether anything comes within the time that it has."""
    heard_at = stream.heard_at
    for _ in range(LOOKS):
        await trio.sleep(SILENT_SECONDS / LOOKS)
        if stream.heard_at > heard_at:
            return True
    return False


async def _ping(socket: trio_websocket.WebSocketConnection, answered: trio.Event) -> None:
    # What ends, its reader finds out, too.
    with suppress(trio_websocket.ConnectionClosed, LocalProtocolError):
        await socket.ping()
    answered.set()
