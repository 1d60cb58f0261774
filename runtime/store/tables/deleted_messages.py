"""What is left of events when messages of their session were deleted.

The journal keeps every event. Whoever folds, copies or exports a session passes its events through here first,
so a deleted message is read nowhere, and the history keeps its shape: a call still has its one result, and
rounds count as before.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import msgspec

from ...events import (
    AnswerRejected,
    CallDeferred,
    CallFinished,
    CallProposed,
    DurableEvent,
    Event,
    HistoryCompacted,
    InputAccepted,
    MessageCompleted,
    MessagesDeleted,
    QuestionAnswered,
    QuestionAsked,
    Stored,
    TurnEnded,
)
from ...history import Call, Part, Refusal, Text

DELETED = "(This message was deleted.)"
"""What stands in the place of a deleted text, for models too."""
_NO_ARGUMENTS = "{}"
_NO_RESULT = '"(This result was deleted.)"'
_BLANK: dict[type[Event], dict[str, Any]] = {
    InputAccepted: {"text": DELETED, "attachments": ()},
    HistoryCompacted: {"summary": DELETED},
    CallProposed: {"arguments": _NO_ARGUMENTS},
    CallFinished: {
        "result": _NO_RESULT,
        "arguments": None,
        "display": "",
        "full_output": None,
        "attachments": (),
    },
    TurnEnded: {"answer": ""},
    AnswerRejected: {"problem": DELETED},
    CallDeferred: {"result": _NO_RESULT},
    QuestionAsked: {"question": DELETED, "options": (), "form": None},
    QuestionAnswered: {"answer": DELETED},
}
"""What says something in events of inputs, summaries and calls, and what is left of it."""

replace = msgspec.structs.replace


def deleted_in(events: Iterable[Stored]) -> frozenset[str]:
    """Return the ids of all messages that were deleted by these events."""
    return frozenset(
        message_id
        for stored in events
        if type(stored.event) is MessagesDeleted
        for message_id in stored.event.message_ids
    )


def without_deleted(
    events: Sequence[Stored], deleted: Collection[str] | None = None
) -> Sequence[Stored]:
    """Return the events of a session with nothing of its deleted messages.

    Args:
        events: All of the session, or some of it.
        deleted: The ids of its deleted messages; by default those that `events` delete.
    """
    gone = deleted_in(events) if deleted is None else deleted
    return [_without(each, gone) for each in events] if gone else events


def _without(stored: Stored, gone: Collection[str]) -> Stored:
    event = _left_of(stored.event, stored.seq, gone)
    return stored if event is stored.event else replace(stored, event=event)


def _left_of(event: DurableEvent, seq: int, gone: Collection[str]) -> DurableEvent:
    if isinstance(event, MessageCompleted):
        return _answer(event, gone)
    if (blank := _BLANK.get(type(event))) is None:
        return event
    message_id = ""
    if isinstance(event, InputAccepted):
        message_id = event.input_id
    elif isinstance(event, HistoryCompacted):
        message_id = f"summary:{seq}"
    elif isinstance(event, TurnEnded | AnswerRejected):
        message_id = event.message_id
    if message_id in gone or _is_gone(getattr(event, "call_id", ""), gone):
        return replace(event, **blank)
    return event


def _is_gone(call_id: str, gone: Collection[str]) -> bool:
    return f"call:{call_id}" in gone


def _answer(event: MessageCompleted, gone: Collection[str]) -> MessageCompleted:
    """Return what is left of an answer: its calls, or words in its place.

    What only a provider understands belongs to the whole answer, and goes with any piece of it.
    """
    calls = [part for part in event.parts if isinstance(part, Call)]
    is_gone = event.message_id in gone
    if not is_gone and not any(_is_gone(call.call_id, gone) for call in calls):
        return event
    kept: list[Part] = [
        replace(part, arguments=_NO_ARGUMENTS) if _is_gone(part.call_id, gone) else part
        for part in calls
    ]
    if is_gone:
        said: list[Part] = [] if kept else [Text(DELETED)]
    else:
        said = [part for part in event.parts if isinstance(part, Text | Refusal)]
    return replace(event, parts=(*said, *kept))
