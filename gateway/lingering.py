"""The end of a connection whose client still sends: it gets to read what it was told.

A socket that is closed while bytes wait in it resets the connection, and what was sent last may be lost
with it: the reason of a refusal, most of all. So the sending side is ended first, and what still comes
is thrown away for a moment.
"""

from __future__ import annotations

import trio

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
