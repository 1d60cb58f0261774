"""Comments in streams that are silent: one task sends those of all streams, as each task takes some kilobytes."""

from __future__ import annotations

from math import inf
from typing import Protocol

import trio

COMMENT_SECONDS = 15.0
"""Without an event, after which a comment is sent: proxies cut what is silent for 30 or 60 s."""
TOGETHER_SECONDS = 0.25
"""What is due within it is sent together, so that thousands of streams don't wake the task one by one."""


class SilentStream(Protocol):
    """A stream that nothing may be sent into for a long time.

    Attributes:
        comment: What is sent then.
        sent_at: When something was sent last; it notes that itself.
    """

    comment: bytes
    sent_at: float

    async def send(self, data: bytes) -> None:
        """Send something."""
        ...


class Comments:
    """Sends comments into open streams."""

    def __init__(self) -> None:
        self._streams: dict[SilentStream, trio.Nursery] = {}
        self._begun = trio.Event()

    def add(self, stream: SilentStream, nursery: trio.Nursery) -> None:
        """Look after a stream until `forget`; in its nursery it is sent into, which must be open as long."""
        self._streams[stream] = nursery
        self._begun.set()

    def forget(self, stream: SilentStream) -> None:
        """Send nothing more into a stream. Idempotent."""
        self._streams.pop(stream, None)

    async def run(self) -> None:
        """Send comments until cancelled."""
        while True:
            while not self._streams:
                self._begun = trio.Event()
                await self._begun.wait()
            first = min(trio.current_time(), *(each.sent_at for each in self._streams))
            await trio.sleep_until(first + COMMENT_SECONDS)
            due = trio.current_time() + TOGETHER_SECONDS - COMMENT_SECONDS
            for stream, nursery in [*self._streams.items()]:
                if stream.sent_at <= due:
                    stream.sent_at = (
                        inf  # until it is sent, which may take long: there is one at a time
                    )
                    nursery.start_soon(stream.send, stream.comment, name="comment in a stream")
