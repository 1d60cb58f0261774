"""A client's frames go out whole, one after the other; whoever sends one can be called off all the same."""

from __future__ import annotations

from collections.abc import Callable

import trio
import trio_websocket
from wsproto.utilities import LocalProtocolError

CALLED_OFF_SECONDS = 2.0
"""For the rest of a frame whose sender is cancelled: most lines take it in that time."""


async def send_whole(
    socket: trio_websocket.WebSocketConnection,
    text: bytes,
    turn: trio.Lock,
    cut: Callable[[], object],
) -> None:
    """Sends a frame when it is its `turn`; after half of one nobody would understand the rest.

    Whoever is cancelled before that has sent nothing. Afterwards the frame has `CALLED_OFF_SECONDS` for
    its rest, and then the connection is `cut`: half of a frame does no harm at its end.

    Raises:
        ConnectionClosed: The connection is gone, or did not take the frame in its time.
        LocalProtocolError: The daemon has closed, and the library is about to see it.
    """
    async with turn:
        whole = trio.CancelScope(shield=True)
        failure: Exception | None = None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_end_when_cancelled, whole, name="a frame's end")
            with whole:
                try:
                    await socket.send_message(text.decode())
                except (trio_websocket.ConnectionClosed, LocalProtocolError) as error:
                    failure = error
            if whole.cancelled_caught:
                cut()
            nursery.cancel_scope.cancel(reason="the frame is sent, or never will be")
        if failure is not None:
            raise failure


async def _end_when_cancelled(whole: trio.CancelScope) -> None:
    try:
        await trio.sleep_forever()
    finally:
        whole.deadline = trio.current_time() + CALLED_OFF_SECONDS
