"""All that happens in a session, whoever prompted, as a Trio program hears it."""

from __future__ import annotations

from collections import deque
from types import TracebackType
from typing import Self

from ..runtime.errors import ConflictError
from ..runtime.events import Stored, StreamBatch
from ..runtime.kernel.delivery import Subscription
from ..runtime.messages import FollowSession
from .host import Host
from .turn import TurnEvent


class Following:
    """What happens in a session from here on; made by `Session.follow`.

    No turn waits for whoever follows: who reads slower than the session goes on is cut off with an
    `OverloadedError`, and can read the record behind `seq`. A session that is followed stays loaded.

    Attributes:
        seq: The `seq` of the last event on record that was seen.
        at_ms: When that one was stored, in Unix milliseconds.
    """

    def __init__(self, host: Host, session_id: str) -> None:
        self._host = host
        self._session_id = session_id
        self._subscription = Subscription()
        self._is_entered = False
        self._events: deque[TurnEvent | Stored] = deque()
        self.seq = 0
        self.at_ms = 0

    async def __aenter__(self) -> Self:
        if self._is_entered:
            raise ConflictError("a following is entered once: call session.follow again")
        self._is_entered = True
        await self._host.directory.ask(
            FollowSession(session_id=self._session_id, subscription=self._subscription)
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._subscription.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> TurnEvent:
        """The next event; waits for it."""
        event = await self.next_event()
        if event is None:
            raise StopAsyncIteration
        return event

    async def next_event(self) -> TurnEvent | None:
        """The next event; `None` when it was left.

        Raises:
            ActorStopped: The session, or the runtime, has ended.
            OverloadedError: Too much waits to be read.
        """
        if not self._is_entered:
            raise ConflictError("enter it first: `async with session.follow() as events:`")
        while not self._events:
            updates = await self._subscription.take()
            if not updates:
                return None
            for update in updates:
                self._events.extend(update.events if isinstance(update, StreamBatch) else (update,))
        event = self._events.popleft()
        if not isinstance(event, Stored):
            return event
        self.seq, self.at_ms = event.seq, event.at_ms
        return event.event
