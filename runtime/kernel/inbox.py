"""The way committed events reach their session: a synchronous put that cannot fail or wait.

The journal puts what it has committed before it acknowledges it. So a turn that is cancelled while
it awaits a commit can't leave an event stored and unpublished.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import trio

from ..events import Stored


class EventInbox:
    """Committed events of one session on their way to its fold.

    Its length is bounded by the appends that wait for an acknowledgement: the session folds what
    is here before it goes on.
    """

    __slots__ = ("_events", "_wake")

    def __init__(self) -> None:
        self._events: deque[Stored] = deque()
        self._wake = trio.Event()

    def put(self, events: tuple[Stored, ...]) -> None:
        """Adds committed events and wakes the session."""
        self._events.extend(events)
        self._wake.set()

    def take(self) -> Stored | None:
        """The next event, or `None`."""
        return self._events.popleft() if self._events else None

    async def wait(self) -> None:
        """Waits until there is something to take."""
        if not self._events:
            self._wake = trio.Event()
            await self._wake.wait()
        else:
            await trio.lowlevel.checkpoint()


class EventInboxes:
    """Where the journal finds the inbox of a live session; events of others only go to disk."""

    def __init__(self) -> None:
        self._inboxes: dict[str, EventInbox] = {}
        self._taps: list[Callable[[tuple[Stored, ...]], None]] = []

    def open(self, session_id: str) -> EventInbox:
        """A fresh inbox for a session that loads; replaces the one of a crashed predecessor."""
        inbox = self._inboxes[session_id] = EventInbox()
        return inbox

    def close(self, session_id: str, inbox: EventInbox) -> None:
        """Forgets an inbox, unless a successor has already opened its own."""
        if self._inboxes.get(session_id) is inbox:
            del self._inboxes[session_id]

    def watch(self, tap: Callable[[tuple[Stored, ...]], None]) -> Callable[[], None]:
        """Tells what is committed, of all sessions, until what this gives is called.

        `tap` never waits, and never fails.
        """
        self._taps.append(tap)
        return lambda: self._taps.remove(tap)

    def put(self, session_id: str, events: tuple[Stored, ...]) -> None:
        """Hands committed events to the session, when it is live."""
        for tap in self._taps:
            tap(events)
        inbox = self._inboxes.get(session_id)
        if inbox is not None:
            inbox.put(events)
