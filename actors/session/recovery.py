"""What a predecessor left open of sessions: closed, or taken up."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

import msgspec

from ...runtime.identity import now_ms
from ...runtime.kernel.mailbox import Mailbox
from ...runtime.messages import AppendEvents, JournalMessage
from ...runtime.redaction import redacting_logger
from ...runtime.store.interface import StoreReader
from ...runtime.store.recovery import closing_events, deepest_first, kept_calls
from ...runtime.store.rows import ApprovalRow, OpenTurn
from ..conversation.conversation import Conversation

logger = redacting_logger(__name__)


class LateHost(Protocol):
    """Whose inputs are looked at."""

    conversation: Conversation
    session_id: str


async def close_all_left_open(store: StoreReader, journal: Mailbox[JournalMessage]) -> None:
    """Gives every turn that a crash left open its end, before anything new begins.

    One that waited for a person's answer is suspended instead, and goes on with its session.
    """
    waiting: set[tuple[str | None, str]] = set()
    for found in deepest_first(await store.open_turns()):
        # What is suspended by now: its children came before it.
        below = [call_id for parent_id, call_id in waiting if parent_id == found.session_id]
        turn = msgspec.structs.replace(found, delegated=(*found.delegated, *below))
        if kept_calls(turn) and not turn.is_detached:
            waiting.add((turn.parent_id, turn.parent_call_id))
        if events := closing_events(turn, now_ms()):
            logger.warning("turn %s was interrupted; what it can't go on is closed", turn.turn_id)
            await journal.ask(AppendEvents(session_id=turn.session_id, events=events))


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


async def late_answers(
    store: StoreReader, host: LateHost, input_id: str
) -> tuple[ApprovalRow, ...]:
    """The question about a deferred call, with its answer, when an input brings that."""
    late = host.conversation.deferred.inputs.get(input_id)
    if late is None:
        return ()
    return tuple(await store.approvals(session_id=host.session_id, approval_id=late.approval_id))


async def left_open(store: StoreReader, session_id: str) -> OpenTurn | None:
    """The turn of a session that has no end on record."""
    turns = await store.open_turns()
    return next((turn for turn in turns if turn.session_id == session_id), None)
