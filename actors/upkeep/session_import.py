"""Sessions from a file, made harmless: with new ids, nothing open, and marked as tainted.

Whoever wrote the file may have written anything, so nothing in it acts here, and nothing that it says counts
for a permission. What was open is closed; questions, answers, grants, memories and marks of files are left
out; no host is known; what only a provider understands of an answer, and would be sent to it unread, is
gone; times lie in the past; and each session counts as having read what strangers wrote, and private data.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from ...runtime.backup.session_file import NOT_IMPORTED
from ...runtime.definitions import CallStatus, SessionKind
from ...runtime.errors import InternalError, ValidationError
from ...runtime.events import (
    CallFinished,
    DurableEvent,
    HistoryCompacted,
    InputAccepted,
    InputCancelled,
    MessageCompleted,
    PrivateDataRead,
    SessionCreated,
    SessionDeleted,
    SessionTainted,
    Stored,
    TurnEnded,
    TurnOutcome,
    TurnSetAside,
)
from ...runtime.history import LOST, Opaque, Part, Thinking, checked_attachments
from ...runtime.identity import new_id
from ...runtime.turn_options import check_fallbacks
from ..conversation.conversation import CONTRADICTIONS, Conversation

IMPORTED = "the session was imported from a file"
"""The reason with which open calls, turns and inputs are closed."""


def imported_events(sessions: dict[str, list[Stored]], workspace: str, now_ms: int) -> list[Stored]:
    """Return all events of the new sessions in order, those of the exported one first.

    Args:
        sessions: As `read_sessions` returns them.
        workspace: The folder that all of them work in here.
        now_ms: The present time; no event may be later.

    Raises:
        ValidationError: The record of a session contradicts itself.
    """
    names = {session_id: new_id("session") for session_id in sessions}
    events: list[Stored] = []
    for session_id, stored in sessions.items():
        events += _imported(names, session_id, stored, workspace, now_ms)
    return events


def _imported(
    names: dict[str, str], session_id: str, stored: list[Stored], workspace: str, now_ms: int
) -> list[Stored]:
    kept = [
        msgspec.structs.replace(
            each,
            session_id=names[session_id],
            at_ms=min(max(each.at_ms, 0), now_ms),
            event=_own(each.event, names, workspace),
        )
        for each in stored
        if not isinstance(each.event, (*NOT_IMPORTED, SessionDeleted))
    ]
    conversation = Conversation()
    number = 0
    try:
        for number, each in enumerate(kept, 1):
            conversation.fold(msgspec.structs.replace(each, seq=number))
    except CONTRADICTIONS as error:
        raise ValidationError(
            f"The record of {session_id} contradicts itself at event {number}. Nothing was imported."
        ) from error
    # Always last: they count as recent activity, however long ago the session was used.
    read = (PrivateDataRead(source="import"), SessionTainted(source="import"))
    closing = (*closing_events(conversation, IMPORTED, outcome="failed"), *read)
    return [*kept, *(Stored(names[session_id], 0, now_ms, event) for event in closing)]


def _own(event: DurableEvent, names: dict[str, str], workspace: str) -> DurableEvent:
    """Return the event without what means something beyond its session."""
    replace = msgspec.structs.replace
    if isinstance(event, SessionCreated):
        parent_id = names.get(event.parent_id or "")
        return replace(
            event,
            workspace=workspace,
            parent_id=parent_id,
            # One below none is a person's own: rules for main sessions are about it.
            kind=SessionKind.MAIN if parent_id is None else event.kind,
            is_detached=False,
            request=None,
            forked_from="",
        )
    if isinstance(event, InputAccepted):
        checked_attachments(event.attachments)
        options = event.options
        if options is not None:
            check_fallbacks(options.fallbacks or ())
            options = replace(options, calls=())  # a file makes no calls
        return replace(event, child_id="", request=None, widens="", options=options)
    if isinstance(event, TurnSetAside):
        return replace(event, request=None)
    if isinstance(event, CallFinished):
        checked_attachments(event.attachments)
        return replace(event, hosts=())
    if isinstance(event, MessageCompleted):
        return replace(event, parts=tuple(_readable(event.parts)), is_copy=False)
    if isinstance(event, HistoryCompacted):
        return replace(event, is_copy=False)
    return event


def _readable(parts: Iterable[Part]) -> Iterator[Part]:
    """Yield what any provider may get, without signatures and opaque parts."""
    for part in parts:
        if isinstance(part, Thinking):
            yield Thinking(part.text)
        elif not isinstance(part, Opaque):
            yield part


def closing_events(
    conversation: Conversation, why: str, *, outcome: TurnOutcome
) -> list[DurableEvent]:
    """Return the events that end all that is open, and why."""
    turn_id = conversation.turn_id
    calls = [*conversation.open_calls.values(), *conversation.pending.calls.values()]
    events: list[DurableEvent] = [
        CallFinished(
            turn_id=call.turn_id,
            call_id=call.call_id,
            name=call.name,
            status=CallStatus.INTERRUPTED,
            result=LOST,
            display=f"interrupted: {why}",
            duration_ms=0,
        )
        for call in {each.call_id: each for each in calls}.values()
    ]
    if turn_id is not None:
        ended = TurnEnded(
            turn_id=turn_id,
            outcome=outcome,
            error_type=InternalError.type if outcome == "failed" else "",
            message=f"Not finished: {why}.",
        )
        events.append(ended)
    waiting = conversation.waiting_inputs
    return [*events, *(InputCancelled(input_id=each, reason=why) for each in waiting)]
