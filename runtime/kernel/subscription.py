"""How a consumer hears a session: a queue that the session fills without waiting.

The session puts; only the turn that feeds a consumer with back-pressure waits for room, so that an
embedded consumer that stops reading pauses its own model stream and nobody else.
"""

from __future__ import annotations

from collections import deque

import trio

from ..errors import ConflictError
from ..events import LiveEvent, Stored

MAX_WAITING_UPDATES = 64
"""Batches and events that wait for an embedded consumer before its turn pauses. A batch is one
network read (64 KiB at most), so a stalled consumer holds some 4 MiB."""

Update = Stored | LiveEvent


class Subscription:
    """One consumer's queue of a session's updates.

    `put` never blocks. `take` gives everything that waits, in order, to one reader at a time. Ends
    when either side closes it; an error given to `close` is raised by the consumer's next empty `take`.
    """

    __slots__ = ("_error", "_is_closed", "_paces", "_room", "_updates", "_wake")

    def __init__(self) -> None:
        self._updates: deque[Update] = deque()
        self._wake: trio.Event | None = None
        self._room: trio.Event | None = None
        self._is_closed = False
        self._paces = True
        self._error: Exception | None = None

    @property
    def is_closed(self) -> bool:
        """Whether nothing more will come."""
        return self._is_closed

    def put(self, update: Update) -> None:
        """Adds an update; dropped once closed."""
        if self._is_closed:
            return
        self._updates.append(update)
        if self._wake is not None:
            self._wake.set()

    def close(self, error: Exception | None = None) -> None:
        """Ends it for both sides; what waits can still be taken. Idempotent."""
        if self._is_closed:
            return
        self._is_closed = True
        self._error = error
        for event in (self._wake, self._room):
            if event is not None:
                event.set()

    async def take(self) -> deque[Update]:
        """Waits for updates and takes all that are there; empty means the end.

        Raises:
            ConflictError: Somebody else waits for them already.
            Exception: What `close` was given, once everything was taken.
        """
        if self._updates or self._is_closed:
            await trio.lowlevel.checkpoint()
        while not self._updates and not self._is_closed:
            if self._wake is not None:
                # Each event goes to one reader, so that none of two would hear the whole.
                raise ConflictError(
                    "this turn is being read already, by another task or thread: read it in one "
                    "place, and pass on what the other needs"
                )
            self._wake = trio.Event()
            try:
                await self._wake.wait()
            finally:
                self._wake = None
        updates, self._updates = self._updates, deque()
        if self._room is not None:
            self._room.set()
        if not updates and self._error is not None:
            raise self._error
        return updates

    @property
    def waiting(self) -> int:
        """How many updates were put and not taken."""
        return len(self._updates)

    @property
    def has_room(self) -> bool:
        """Whether the consumer keeps up."""
        return len(self._updates) < MAX_WAITING_UPDATES or self._is_closed or not self._paces

    def let_go(self) -> None:
        """The consumer no longer holds the turn up, however much waits."""
        self._paces = False
        if self._room is not None:
            self._room.set()

    async def wait_room(self) -> None:
        """Waits until the consumer has taken what waits, or is gone."""
        while not self.has_room:
            if self._room is None or self._room.is_set():
                self._room = trio.Event()
            await self._room.wait()
