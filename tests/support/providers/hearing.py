"""A model call whose answer comes by the clock: what the model stream hands up of it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import trio

from callboard.actors.model.stream import MAX_WAITING_BATCHES, ModelStream, StartModelCall
from callboard.config.settings import Limits
from callboard.providers.provider import Dialect, Endpoint, ModelRequest, ModelTarget
from callboard.runtime.errors import NetworkError
from callboard.runtime.kernel.mailbox import Mailbox
from callboard.runtime.stream import AnyStreamEvent

PING = b": ping\n\n"
PING_SECONDS = 0.25
END = b""

Reads = Sequence[tuple[float, bytes | NetworkError]]
"""What comes, and after how long; behind it pings without an end."""


class Body:
    """The answer's bytes by the clock."""

    status = 200

    def __init__(self, reads: Reads) -> None:
        self.headers: dict[str, str] = {}
        self._reads = list(reads)

    async def read_some(self) -> bytes:
        """What comes next, or the fault."""
        seconds, data = self._reads.pop(0) if self._reads else (PING_SECONDS, PING)
        await trio.sleep(seconds)
        if isinstance(data, NetworkError):
            raise data
        return data


async def heard(
    dialect: Dialect, reads: Reads, *, capacity: int = MAX_WAITING_BATCHES, pause: float = 0.0
) -> list[AnyStreamEvent]:
    """What comes up of a call, to a reader that begins after a pause."""

    class Http:
        @asynccontextmanager
        async def stream_post(self, *_: object) -> AsyncGenerator[Body]:
            yield Body(reads)

    http: Any = Http()
    mailbox: Mailbox[StartModelCall] = Mailbox("model stream", 2)
    outlet, batches = trio.open_memory_channel[list[AnyStreamEvent]](capacity)
    endpoint = Endpoint(name="p", dialect=dialect, base_url="http://x")
    async with trio.open_nursery() as nursery:
        await nursery.start(ModelStream(mailbox, http, Limits()).run)
        await mailbox.tell(
            StartModelCall(
                target=ModelTarget(provider="p", model="m", endpoint=endpoint),
                request=ModelRequest(model="m", rounds=[]),
                outlet=outlet,
                scope=trio.CancelScope(),
            )
        )
        await trio.sleep(pause)
        with batches:
            events = [event async for batch in batches for event in batch]
        nursery.cancel_scope.cancel()
    return events
