"""A fork: the events of a new session that goes on from a message of another one.

What was said and done up to there is copied, with what the session has read: strangers' words taint the fork,
too. Questions to people, answers, grants and memories are not, nor what waits: nothing in the copy acts. Its
calls did what they did once, so no file is rolled back, and what they cost is counted where they ran.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ...runtime.backup.session_file import NOT_IMPORTED
from ...runtime.definitions import SessionKind
from ...runtime.errors import ConflictError, NotFoundError
from ...runtime.events import (
    AttemptCharged,
    AttemptFailed,
    CallFinished,
    ChangesUndone,
    DurableEvent,
    HistoryCompacted,
    InputAccepted,
    InputCancelled,
    InputDelivered,
    MessageCompleted,
    MessagesDeleted,
    SessionCreated,
    SessionDeleted,
    SessionRestored,
    Stored,
    TitleSet,
    TurnEnded,
    TurnSetAside,
    TurnStarted,
)
from ...runtime.history import Call
from ...runtime.identity import RequestKey, new_id
from ...runtime.store.tables.deleted_messages import deleted_in, without_deleted
from ..conversation.conversation import CONTRADICTIONS, Conversation, UnreadableRecord
from .session_import import closing_events

FORKED = "the session was forked here"
"""The reason with which calls, turns and inputs are closed that were open."""
_NOT_COPIED = (
    *NOT_IMPORTED,
    *(AttemptCharged, AttemptFailed, ChangesUndone, MessagesDeleted),
    *(SessionDeleted, SessionRestored, TitleSet),
)
replace = msgspec.structs.replace


def forked_events(
    events: Sequence[Stored],
    message_id: str | None,
    *,
    title: str,
    now_ms: int,
    request: RequestKey | None = None,
) -> list[Stored]:
    """Return the events of the new session, in order.

    Args:
        events: All of the session to go on from.
        message_id: An answer, a call or a result, to go on behind it and what it asked for; an input, to ask
            something else in its place. `None` is the end of the last turn that has ended.
        title: The new session's.
        now_ms: The present time.
        request: The client's request that makes it, if that has an idempotency key.

    Raises:
        NotFoundError: The session has no such message.
        UnreadableRecord: The record contradicts itself.
    """
    session_id, deleted = new_id("session"), deleted_in(events)
    until = _end(events, message_id)
    copied = [
        replace(each, session_id=session_id, event=_copied(each.event))
        for each in without_deleted(events[:until], deleted)
        if not isinstance(each.event, _NOT_COPIED)
    ]
    created, *rest = copied
    assert isinstance(created.event, SessionCreated)
    begun = replace(
        created.event,
        title=title,
        request=request,
        forked_from=events[0].session_id,
        forked_at=message_id or "",
        via="",
    )
    conversation = _folded([created, *rest])
    waiting = conversation.waiting_inputs
    kept = [
        each
        for each in rest
        if not (isinstance(each.event, InputAccepted) and each.event.input_id in waiting)
    ]
    closing = [
        each
        for each in closing_events(conversation, FORKED, outcome="cancelled")
        if not isinstance(each, InputCancelled)
    ]
    if gone := _still_there(deleted, kept):
        closing.append(MessagesDeleted(message_ids=gone))
    # Its creation is recent activity, whenever it was that all else happened.
    return [
        Stored(session_id, 1, now_ms, begun),
        *kept,
        *(Stored(session_id, 0, now_ms, event) for event in closing),
    ]


def _folded(events: Sequence[Stored]) -> Conversation:
    conversation, seq = Conversation(), 0
    try:
        for seq, each in enumerate(events, 1):
            conversation.fold(replace(each, seq=seq))
    except CONTRADICTIONS as error:
        raise UnreadableRecord(
            f"the record contradicts itself at event {seq}, so it can't be forked: choose a message in front "
            "of it"
        ) from error
    return conversation


def _copied(event: DurableEvent) -> DurableEvent:
    """Return the event without what belongs to the first session alone."""
    match event:
        case InputAccepted():
            return replace(event, child_id="", request=None, widens="")
        case TurnSetAside():
            return replace(event, request=None)
        case MessageCompleted() | HistoryCompacted():
            return replace(event, is_copy=True)
        case CallFinished() if event.artifacts:
            kept = (each for each in event.artifacts if not each.kind.startswith("process"))
            return replace(event, artifacts=tuple(kept))
        case _:
            return event


def _still_there(deleted: frozenset[str], kept: Sequence[Stored]) -> tuple[str, ...]:
    """Return which of the deleted messages are in the copy."""
    names: set[str] = set()
    for each in kept:
        match each.event:
            case InputAccepted(input_id=name) | MessageCompleted(message_id=name):
                names.add(name)
            case CallFinished(call_id=name):
                names.update((f"call:{name}", f"result:{name}"))
            case _:
                pass
    return tuple(sorted(names & deleted))


# ── where it is cut ──────────────────────────────────────────────────────────────────────────────


def _end(events: Sequence[Stored], message_id: str | None) -> int:
    """Return how many events are in front of the place where the fork goes on."""
    if message_id is None:
        return _last_rest(events)
    kind, _, name = message_id.partition(":")
    for at, each in enumerate(events):
        match each.event:
            case InputAccepted() if each.event.input_id == message_id:
                return _asked(events, at, message_id)
            case MessageCompleted() if each.event.message_id == message_id or (
                kind in {"call", "result"} and name in _calls(each.event)
            ):
                return _answered(events, at, each.event)
            case TurnEnded() if kind == "error" and each.event.turn_id == name:
                return at + 1
            case _ if kind in {"summary", "model", "agent"} and name == str(each.seq):
                return at + 1
            case _:
                pass
    raise NotFoundError(f"the session has no message {message_id}")


def _last_rest(events: Sequence[Stored]) -> int:
    """Return the end, or where the turn began that has no end yet."""
    for at in range(len(events) - 1, -1, -1):
        event = events[at].event
        if isinstance(event, TurnEnded):
            break
        if isinstance(event, TurnStarted):
            return at
    return len(events)


def _asked(events: Sequence[Stored], accepted: int, input_id: str) -> int:
    """Return where an input became part of a turn; it waited until then."""
    for at in range(accepted, len(events)):
        match events[at].event:
            case TurnStarted(input_ids=names) if input_id in names:
                return at
            case InputDelivered(input_id=name) if name == input_id:
                return at
            case _:
                pass
    return accepted


def _answered(events: Sequence[Stored], at: int, answer: MessageCompleted) -> int:
    """Return where an answer has the results of all its calls; of a last one, where its turn has ended."""
    left = _calls(answer)
    for place in range(at + 1, len(events)):
        event = events[place].event
        if isinstance(event, TurnEnded):
            return place + 1 if not left and event.turn_id == answer.turn_id else place
        if isinstance(event, MessageCompleted | InputDelivered) and not left:
            return place
        if isinstance(event, CallFinished):
            left.discard(event.call_id)
            if not left:
                return place + 1
    return len(events)


def _calls(answer: MessageCompleted) -> set[str]:
    return {part.call_id for part in answer.parts if isinstance(part, Call)}


def check_forkable(kind: SessionKind, session_id: str, *, is_deleted: bool) -> None:
    """Raise `ConflictError` for a session that nobody may go on from."""
    if is_deleted:
        raise ConflictError(f"{session_id} is deleted: restore it first")
    if kind is not SessionKind.MAIN:
        raise ConflictError(
            f"{session_id} was delegated, and has rights of its own: fork the session above it",
            kind="state",
        )
