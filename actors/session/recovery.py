"""What a crash left open: turns without an end, closed or suspended.

A turn is open when it has a start and no end on record. Its calls get the result `interrupted`, which
says whether they had started, and the turn gets its end. A turn whose calls wait for a person is
suspended instead, and resumed under the same questions. The rules are in
`runtime/store/recovery.py`; here they are applied, at start-up to all sessions, and again by each
session that is loaded or whose turn failed to store its end.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import msgspec

from ...runtime.identity import now_ms
from ...runtime.kernel.mailbox import Mailbox
from ...runtime.messages import AppendEvents, JournalMessage
from ...runtime.redaction import redacting_logger
from ...runtime.store.interface import StoreReader
from ...runtime.store.recovery import closing_events, deepest_first, kept_calls
from ...runtime.store.rows import OpenTurn

logger = redacting_logger(__name__)


async def close_all_left_open(
    store: StoreReader,
    journal: Mailbox[JournalMessage],
    session_ids: Sequence[str] | None = None,
) -> dict[str, None]:
    """End every turn that a crash left open, of all sessions or of some, before anything new begins.

    A turn that waited for a person's answer is suspended instead, and goes on with its session. Return the
    sessions of which it cut off calls that had started.
    """
    cut_off: dict[str, None] = {}
    waiting: set[tuple[str | None, str]] = set()
    if session_ids is None:
        left = await store.open_turns()
    else:
        left = [turn for name in session_ids for turn in await store.open_turns(name)]
    for found in deepest_first(left):
        # Its children came before it, so what is suspended of them is known.
        below = [call_id for parent_id, call_id in waiting if parent_id == found.session_id]
        turn = msgspec.structs.replace(found, delegated=(*found.delegated, *below))
        if kept_calls(turn) and not turn.is_detached:
            waiting.add((turn.parent_id, turn.parent_call_id))
        if events := closing_events(turn, now_ms()):
            logger.warning(
                "turn %s was interrupted; what can't go on of it is closed", turn.turn_id
            )
            if any(call.started_at_ms is not None for call in turn.calls):
                cut_off[turn.session_id] = None
            await journal.ask(AppendEvents(session_id=turn.session_id, events=events))
    return cut_off


async def close_left_open(
    store: StoreReader, session_id: str, append: Callable[..., Awaitable[object]]
) -> OpenTurn | None:
    """Close a turn without an end; return it when it waits for a person, and stays open."""
    found = await left_open(store, session_id)
    closing = closing_events(found, now_ms()) if found is not None else ()
    if not closing:
        return found
    await append(*closing)
    return await left_open(store, session_id)


async def left_open(store: StoreReader, session_id: str) -> OpenTurn | None:
    """Return the turn of a session that has no end on record, or `None`."""
    return next(iter(await store.open_turns(session_id)), None)
