"""What a predecessor left open of a session: closed, or taken up."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from ..runtime.identity import now_ms
from ..runtime.recovery import closing_events
from ..runtime.store import OpenTurn, StoreReader


async def close_left_open(
    store: StoreReader, session_id: str, append: Callable[..., Awaitable[object]]
) -> OpenTurn | None:
    """Closes a turn without an end; gives it when it waits for a person's answer, and stays open."""
    found = await left_open(store, session_id)
    closing = closing_events(found, now_ms()) if found is not None else ()
    if not closing:
        return found
    await append(*closing)
    return await left_open(store, session_id)


async def left_open(store: StoreReader, session_id: str) -> OpenTurn | None:
    """The turn of a session that has no end on record."""
    turns = await store.open_turns()
    return next((turn for turn in turns if turn.session_id == session_id), None)
