"""The record of a session as a replay reads it: forward, a page at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from ...runtime.events import (
    CallFinished,
    CallProposed,
    DurableEvent,
    MessageCompleted,
    Stored,
    TurnEnded,
)

Pages = Callable[[int], Awaitable[Sequence[Stored]]]
"""Gives the events behind a `seq`, as many as a page has; none at the end."""
MAX_SHOWN = 120
"""Characters of a text in the line that says what differs."""


class Tape:
    """Events in their order; what is ahead is held as far as somebody has looked.

    Args:
        pages: Where they come from.
    """

    def __init__(self, pages: Pages) -> None:
        self._pages = pages
        self._ahead: deque[Stored] = deque()
        self._seq = 0
        self._is_whole = False

    @property
    def next(self) -> Stored | None:
        """The next event, as far as `look` has found it."""
        return self._ahead[0] if self._ahead else None

    async def look(self) -> Stored | None:
        """The next event, which stays there; `None` at the end."""
        if not self._ahead:
            await self._load()
        return self.next

    def take(self) -> Stored:
        """The next event, which `look` has found; it is gone from here."""
        return self._ahead.popleft()

    async def end_of_turn(self) -> TurnEnded | None:
        """How the turn has ended that is next, or runs; `None` when it has no end on record."""
        page: Sequence[Stored] = tuple(self._ahead)
        while True:
            for stored in page:
                if isinstance(stored.event, TurnEnded):
                    return stored.event
            if not (page := await self._load()):
                return None

    async def _load(self) -> Sequence[Stored]:
        if self._is_whole:
            return ()
        page = await self._pages(self._seq)
        if page:
            self._seq = page[-1].seq
            self._ahead.extend(page)
        else:
            self._is_whole = True
        return page


Essence = tuple[str, ...]
"""What of an event has to come out again; what it is comes first."""


def essence(event: DurableEvent) -> Essence | None:
    """What of an event has to come out again: of an answer, a call, a result and the end of a turn.

    Ids that are made anew, times and tokens are no part of it. `None` for other events.
    """
    match event:
        case MessageCompleted():
            parts = msgspec.json.encode(event.parts).decode(errors="replace")
            how = "incomplete" if event.incomplete else event.stop_reason
            return ("an answer", f"{event.provider}/{event.model}", how, parts)
        case CallProposed():
            return ("a call", event.name, event.call_id, event.arguments)
        case CallFinished():
            return ("a result", event.name, event.call_id, event.status.value, event.result)
        case TurnEnded():
            return ("the end", event.outcome, event.error_type)
        case _:
            return None


def in_words(kept: Essence) -> str:
    """For a person."""
    what, *more = kept
    said = ", ".join(
        shown if len(shown) <= MAX_SHOWN else f"{shown[:MAX_SHOWN]}…" for shown in more if shown
    )
    return f"{what} ({said})"
