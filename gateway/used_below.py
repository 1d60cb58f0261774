"""The tokens of sessions to which a turn delegated: they are part of what it used, as they are part of its budget."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeGuard

from ..embedding.turn import TurnEvent
from ..runtime.events import AttemptCharged, CallFinished
from ..runtime.store.interface import StoreReader

DELEGATE = "delegate"
"""The tool whose calls are tasks for other sessions."""


def is_delegation(event: object) -> TypeGuard[CallFinished]:
    """Whether an event is the end of a call that delegated."""
    return isinstance(event, CallFinished) and event.name == DELEGATE


async def used_below(store: StoreReader, session_id: str, call_id: str) -> list[AttemptCharged]:
    """Return the model calls of the session to which a call delegated, and of all below it.

    A session for which no turn waited has turns of its own, and is left out.
    """
    used: list[AttemptCharged] = []
    for child in await store.children(session_id, call_id=call_id):
        spent = await store.spending(child.session_id)
        if spent is not None and not spent.runs_apart:
            used += [
                AttemptCharged(
                    turn_id=each.turn_id, provider=each.provider, model=each.model, usage=each.usage
                )
                for each in spent.calls
            ]
    return used


async def with_used_below(
    store: StoreReader, session_id: str, events: Iterable[TurnEvent]
) -> list[TurnEvent]:
    """Return events of a turn, with those of `used_below` ahead of the end of each call that delegated."""
    told: list[TurnEvent] = []
    for event in events:
        if is_delegation(event):
            told += await used_below(store, session_id, event.call_id)
        told.append(event)
    return told
