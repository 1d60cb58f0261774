"""The record of one turn: where it begins among the events of its session, and which of them are its own."""

from __future__ import annotations

from operator import itemgetter

from msgspec.structs import replace

from ...runtime.definitions import InputMode
from ...runtime.events import (
    AnswerRejected,
    ApprovalAnswered,
    ApprovalAsked,
    CallDeferred,
    CallFinished,
    CallProposed,
    DurableEvent,
    HistoryCompacted,
    InputAccepted,
    MessageCompleted,
    PlanSet,
    QuestionAnswered,
    QuestionAsked,
    Stored,
    TurnEnded,
    TurnStarted,
)
from ...runtime.history import Text
from ...runtime.store.interface import StoreReader
from ..feeds.frames import wire_json
from .pages import PAGE_BYTES

STEP_EVENTS = 64
"""Read of the record at a time: each may have some hundred KiB."""
MAX_BEGINNING_CHARS = 200
"""Characters that are left of a text where texts are not wanted: what fits into a line or two."""
_cut = itemgetter(slice(MAX_BEGINNING_CHARS))

_OF_THE_SESSION = (ApprovalAnswered, QuestionAnswered)
"""Events without a turn's id that tell, between its start and its end, what it waited for."""


async def find_turn(
    store: StoreReader, session_id: str, turn_id: str | None
) -> tuple[Stored, TurnStarted, bool] | None:
    """Return the start of a turn, of the latest one without an id, and whether it has no end; `None` if there is none.

    It costs the same however long the turn and the session are: a long turn is read in many pages.
    """
    place = await store.turn_start(session_id, turn_id)
    if place is None:
        return None
    [stored] = await store.events(session_id, after_seq=place.seq - 1, limit=1)
    assert isinstance(stored.event, TurnStarted)
    return stored, stored.event, place.is_open


async def inputs_of(store: StoreReader, started: TurnStarted, seq: int, session_id: str) -> int:
    """Return the `seq` of the event that stored the first input of a turn, if that is not long before its start."""
    after = max(seq - 1 - STEP_EVENTS, 0)
    for stored in await store.events(session_id, after_seq=after, limit=seq - 1 - after):
        event = stored.event
        if isinstance(event, InputAccepted) and event.input_id in started.input_ids:
            return stored.seq
    return seq


async def page_of_turn(
    store: StoreReader,
    session_id: str,
    started: TurnStarted,
    begin: int,
    after_seq: int,
    *,
    texts: bool,
) -> tuple[list[Stored], bool, bool]:
    """Return events of a turn behind a `seq`, whether it is over, and whether there are more of it."""
    turn_id = started.turn_id
    found: list[Stored] = []
    size, seq = 0, max(after_seq, begin - 1)
    has_begun = seq >= begin
    while True:
        page = await store.shown_events(session_id, after_seq=seq, limit=STEP_EVENTS)
        for stored in page:
            event = stored.event
            has_begun = has_begun or (isinstance(event, TurnStarted) and event.turn_id == turn_id)
            if isinstance(event, TurnStarted) and event.turn_id != turn_id:
                return found, True, False
            if _is_of(event, started, has_begun=has_begun):
                own = stored if texts else replace(stored, event=beginning_of(event))
                size += len(wire_json(own))
                if found and size > PAGE_BYTES:
                    return found, False, True
                found.append(own)
            if isinstance(event, TurnEnded) and event.turn_id == turn_id:
                return found, True, False
        if len(page) < STEP_EVENTS:
            return found, False, False
        seq = page[-1].seq


def _is_of(event: DurableEvent, started: TurnStarted, *, has_begun: bool) -> bool:
    if isinstance(event, InputAccepted):
        is_steering = has_begun and event.mode is InputMode.STEER
        return is_steering or event.input_id in started.input_ids
    its: str | None = getattr(event, "turn_id", None)
    if its is not None:
        return its == started.turn_id
    return has_begun and isinstance(event, _OF_THE_SESSION)


def beginning_of(event: DurableEvent) -> DurableEvent:  # ruff: ignore[complex-structure]  a case for each event
    """Return an event with the beginning of its texts alone, and without its files."""
    match event:
        case InputAccepted():
            return replace(event, text=_cut(event.text), attachments=(), client=None)
        case MessageCompleted():
            texts = [part.text for part in event.parts if isinstance(part, Text)]
            parts = (Text(text=_cut(texts[0])),) if texts else ()
            return replace(event, parts=parts)
        case CallProposed():
            return replace(event, arguments=_cut(event.arguments))
        case CallFinished():
            return replace(
                event,
                result=_cut(event.result),
                display=_cut(event.display),
                arguments=None,
                artifacts=(),
                full_output=None,
                attachments=(),
            )
        case CallDeferred():
            return replace(event, result=_cut(event.result))
        case ApprovalAsked():
            return replace(event, arguments=_cut(event.arguments), preview="")
        case ApprovalAnswered():
            return replace(event, arguments=None)
        case HistoryCompacted():
            return replace(event, summary=_cut(event.summary))
        case QuestionAsked():
            return replace(event, question=_cut(event.question), options=(), form=None)
        case QuestionAnswered():
            return replace(event, answer=_cut(event.answer))
        case PlanSet():
            return replace(event, items=())
        case AnswerRejected():
            return replace(event, problem=_cut(event.problem))
        case TurnEnded():
            return replace(event, answer="")
        case _:
            return event
