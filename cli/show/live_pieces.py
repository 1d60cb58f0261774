"""Turns what a client hears into events, with no text twice, also when it joins an answer late."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ...runtime.events import (
    CallFinished,
    CallProgress,
    ChildCall,
    DurableEvent,
    LiveEvent,
    MessageCompleted,
    MessageDiscarded,
    Stored,
    StreamBatch,
    TurnEnded,
)
from ...runtime.history import Part, Refusal, Text, Thinking
from ...runtime.stream import AnyStreamEvent, RefusalDelta, TextDelta, ThinkingDelta, ToolCallDelta
from ...runtime.turns.live_state import MAX_BELOW, RunningOutput, joined
from ...runtime.wire.topics import Snapshot
from .transcript import TurnEvent

if TYPE_CHECKING:  # a run without a daemon needs no client
    from ...client.subscriptions import RemoteEvent

Said = TextDelta | ThinkingDelta | RefusalDelta
"""The pieces of an answer that people read while it comes."""

MAX_EVENTS = 256
"""Pieces of an answer that are kept before neighbours are joined: a join copies the whole text."""
WITHDRAWN = "the connection broke meanwhile"
"""Why shown text of an answer does not count, where the reason did not arrive."""


class LivePieces:
    """Turns what a client hears into the events of a turn: each piece of text once, in order."""

    def __init__(self) -> None:
        self._stream_id = ""
        self._known: list[AnyStreamEvent] = []
        self._outputs: dict[str, int] = {}
        self._below: dict[tuple[str, str], ChildCall] = {}

    def take(self, event: RemoteEvent) -> list[TurnEvent]:
        """Return the events of a turn that are new with this one."""
        match event:
            case Stored():
                rest = self._rest_of_message(event.event)
                self._fold(event.event)
                return [*rest, event.event]
            case Snapshot():
                return [
                    *self._rest_of_answer(event.answer),
                    *self._rest_of_outputs(event.outputs),
                    *self._rest_of_below(event.below),
                ]
            case _:
                return self._live(event)

    def _live(self, event: LiveEvent) -> list[TurnEvent]:
        match event:
            case StreamBatch():
                if event.stream_id != self._stream_id:
                    self._stream_id, self._known = event.stream_id, []
                self._known.extend(event.events)
                if len(self._known) > MAX_EVENTS:
                    self._known = joined(self._known)
                return list(event.events)
            case CallProgress():
                shown = self._outputs.get(event.call_id, 0)
                self._outputs[event.call_id] = shown + len(event.text) + 1
            case ChildCall():
                self._note_below(event)
            case MessageDiscarded():
                self._stream_id, self._known = "", []
        return [event]

    def _fold(self, event: DurableEvent) -> None:
        match event:
            case CallFinished():
                self._outputs.pop(event.call_id, None)
                below = self._below.items()
                self._below = {key: each for key, each in below if each.call_id != event.call_id}
            case MessageCompleted():
                self._stream_id, self._known = "", []
            case TurnEnded():
                self._stream_id, self._known = "", []
                self._outputs.clear()
                self._below.clear()
            case _:
                pass

    def _rest_of_answer(self, answer: StreamBatch | None) -> list[TurnEvent]:
        known, stream_id = joined(self._known), self._stream_id
        self._stream_id = "" if answer is None else answer.stream_id
        self._known = [] if answer is None else list(answer.events)
        if answer is not None and answer.stream_id == stream_id:
            rest = _behind(known, answer.events)
            if rest is not None:
                return list(rest)
        withdrawn = [MessageDiscarded(stream_id, WITHDRAWN)] if known else []
        return [*withdrawn, *self._known]

    def _rest_of_message(self, event: DurableEvent) -> list[AnyStreamEvent]:
        """Return the pieces of a completed answer that did not arrive while it came."""
        if not isinstance(event, MessageCompleted):
            return []
        known = joined([each for each in self._known if isinstance(each, Said)])
        said = joined([delta for part in event.parts if (delta := _delta_of(part)) is not None])
        return _behind(known, said) or []

    def _rest_of_outputs(self, outputs: tuple[RunningOutput, ...]) -> list[TurnEvent]:
        found: list[TurnEvent] = []
        for output in outputs:
            total = output.left_out + len(output.text) + 1  # each line with its end
            new = total - self._outputs.get(output.call_id, 0)
            if new > 0:
                lines = f"{output.text}\n"[-new:].removesuffix("\n")
                found.append(CallProgress(output.call_id, lines))
            self._outputs[output.call_id] = total
        return found

    def _note_below(self, call: ChildCall) -> None:
        key = call.session_id, call.child_call_id
        self._below.pop(key, None)
        if call.state != "finished":
            self._below[key] = call
            if len(self._below) > MAX_BELOW:
                del self._below[next(iter(self._below))]

    def _rest_of_below(self, below: tuple[ChildCall, ...]) -> list[TurnEvent]:
        """Return what is new; of a call that has ended meanwhile, how is not known here."""
        now = {(each.session_id, each.child_call_id): each for each in below}
        ended = [each for key, each in self._below.items() if key not in now]
        news = [each for key, each in now.items() if self._below.get(key) != each]
        self._below = now
        return [*(msgspec.structs.replace(each, state="finished") for each in ended), *news]


def _behind(known: list[AnyStreamEvent], now: list[AnyStreamEvent]) -> list[AnyStreamEvent] | None:
    """Return what follows the known events in `now`; `None` when `now` does not begin with them."""
    if not known:
        return now
    last = len(known) - 1
    if len(now) <= last or known[:last] != now[:last]:
        return None
    before, after = _text_of(known[last]), _text_of(now[last])
    if before is None or after is None:
        return now[last + 1 :] if known[last] == now[last] else None
    if type(known[last]) is not type(now[last]) or not after.startswith(before):
        return None
    rest = _with_text(now[last], after[len(before) :])
    return [*([] if after == before else [rest]), *now[last + 1 :]]


def _delta_of(part: Part) -> AnyStreamEvent | None:
    match part:
        case Text(text=text):
            return TextDelta(text)
        case Thinking(text=text):
            return ThinkingDelta(text)
        case Refusal(text=text):
            return RefusalDelta(text)
        case _:
            return None


def _text_of(event: AnyStreamEvent) -> str | None:
    if isinstance(event, Said):
        return event.text
    return event.arguments if isinstance(event, ToolCallDelta) else None


def _with_text(event: AnyStreamEvent, text: str) -> AnyStreamEvent:
    field = "arguments" if isinstance(event, ToolCallDelta) else "text"
    return msgspec.structs.replace(event, **{field: text})
