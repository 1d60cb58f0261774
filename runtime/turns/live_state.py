"""The live state of a session: the answer so far, and the output of its running calls.

Live events are stored nowhere, so a client that joins in the middle gets a snapshot of their sum. The
session folds each event and takes each snapshot between two events. So what follows a snapshot
continues exactly where it ends: no character is missing and none comes twice.
"""

from __future__ import annotations

import msgspec

from ..events import (
    CallFinished,
    CallProgress,
    ChildCall,
    DurableEvent,
    LiveEvent,
    MessageCompleted,
    StreamBatch,
    TurnEnded,
)
from ..store.codec import with_texts
from ..stream import (
    AnyStreamEvent,
    RefusalDelta,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    Usage,
    text_alone,
)
from ..text import without_surrogates

MIN_BATCHES = 256
"""Neighbouring events are joined when so many batches came: what comes in one is joined already, mostly."""
MIN_EVENTS = 1024
"""The same for events, and then whenever their number has doubled: a join takes time in proportion to the answer."""
MAX_OUTPUT = 64 * 1024
"""A client that joins late gets this many characters from the end of a running call's output."""
MAX_BELOW = 64
"""Calls of sessions below of which a client that joins late hears: more than run at once by the limits as they are set."""

OF_LIVE_STATE = frozenset({CallFinished, MessageCompleted, TurnEnded})
"""The stored events that a `LiveState` folds; others say nothing to it."""


class RunningOutput(msgspec.Struct, frozen=True):
    """The lines of a running call so far; `left_out` characters came before `text`."""

    call_id: str
    text: str
    left_out: int = 0


class UnderWay(msgspec.Struct, frozen=True):
    """A snapshot of a session's live state.

    Attributes:
        answer: The answer so far as one batch; `None` if no answer is streaming.
        outputs: The output of the running calls.
        below: What was heard last of the calls of sessions below that have not ended.
    """

    answer: StreamBatch | None = None
    outputs: tuple[RunningOutput, ...] = ()
    below: tuple[ChildCall, ...] = ()


class LiveState:
    """The fold of the updates that a session publishes, in their order."""

    __slots__ = ("_batches", "_below", "_events", "_join_at", "_outputs", "_stream_id")

    def __init__(self, start: UnderWay | None = None) -> None:
        self._stream_id = ""
        self._events: list[AnyStreamEvent] = []
        self._batches = 0
        self._join_at = MIN_EVENTS
        self._outputs: dict[str, _Output] = {}
        self._below: dict[tuple[str, str], ChildCall] = {}
        if start is not None:
            if start.answer is not None:
                self.fold(start.answer)
            self._outputs = {each.call_id: _Output(each) for each in start.outputs}
            for call in start.below:
                self._fold_below(call)

    def fold(self, update: LiveEvent) -> None:
        """Fold a live event."""
        if isinstance(update, StreamBatch):
            if update.stream_id != self._stream_id:
                self._stream_id, self._events = update.stream_id, []
                self._batches, self._join_at = 0, MIN_EVENTS
            text = text_alone(update.events)
            self._events.extend([TextDelta(text)] if text else update.events)
            self._batches += 1
            if self._batches > MIN_BATCHES or len(self._events) > self._join_at:
                self._events, self._batches = joined(self._events), 0
                self._join_at = max(MIN_EVENTS, 2 * len(self._events))
        elif isinstance(update, CallProgress):
            output = self._outputs.get(update.call_id)
            if output is None:
                self._outputs[update.call_id] = _Output(RunningOutput(update.call_id, update.text))
            else:
                output.add(update.text)
        elif isinstance(update, ChildCall):
            self._fold_below(update)
        else:
            self._forget_answer()

    def fold_stored(self, event: DurableEvent) -> None:
        """Fold a stored event: a completed answer or call is no longer live."""
        kind = type(event)
        if kind is CallFinished:
            call_id: str = event.call_id  # type: ignore[union-attr]
            self._outputs.pop(call_id, None)
            if self._below:
                left = self._below.items()
                self._below = {key: each for key, each in left if each.call_id != call_id}
        elif kind is MessageCompleted:
            self._forget_answer()
        elif kind is TurnEnded:
            self._forget_answer()
            self._outputs.clear()
            self._below.clear()

    def snapshot(self) -> UnderWay:
        """Return the present state."""
        answer = None
        if self._stream_id:
            self._events = joined(self._events)
            answer = StreamBatch(self._stream_id, 0, list(self._events))
        outputs = tuple(output.shown() for output in self._outputs.values())
        return UnderWay(answer, outputs, tuple(self._below.values()))

    def _fold_below(self, call: ChildCall) -> None:
        key = call.session_id, call.child_call_id
        self._below.pop(key, None)
        if call.state != "finished":
            self._below[key] = call
            if len(self._below) > MAX_BELOW:
                del self._below[next(iter(self._below))]

    def _forget_answer(self) -> None:
        self._stream_id, self._events = "", []


class _Output:
    """The end of a call's output; cut to `MAX_OUTPUT` whenever it is twice as long."""

    __slots__ = ("_call_id", "_left_out", "_size", "_texts")

    def __init__(self, start: RunningOutput) -> None:
        self._call_id = start.call_id
        self._texts = [start.text]
        self._size = len(start.text)
        self._left_out = start.left_out

    def add(self, text: str) -> None:
        self._texts += ("\n", text)
        self._size += 1 + len(text)
        if self._size > 2 * MAX_OUTPUT:
            self.shown()

    def shown(self) -> RunningOutput:
        text = "".join(self._texts)
        over = max(0, len(text) - MAX_OUTPUT)
        text = text[over:]
        self._left_out += over
        self._texts, self._size = [text], len(text)
        return RunningOutput(self._call_id, text, self._left_out)


def joined(events: list[AnyStreamEvent]) -> list[AnyStreamEvent]:
    """Return what says the same: neighbours of one kind joined, and only the last usage.

    Servers may send usage with every piece, and pieces of several calls in turns: the pieces of a call
    are joined across those of others.
    """
    found: list[AnyStreamEvent] = []
    more: dict[int, list[str]] = {}
    calls: dict[int, int] = {}
    last: type | None = None
    usage: Usage | None = None
    usage_at = 0
    # A long answer is joined again and again: no function is called for an event.
    for event in events:
        kind, text = type(event), ""
        at = -1
        if isinstance(event, (TextDelta, ThinkingDelta, RefusalDelta)):
            text = event.text
            at = len(found) - 1 if last is kind else -1
        elif isinstance(event, ToolCallDelta):
            text = event.arguments
            at = calls.setdefault(event.index, len(found))
            at = at if at < len(found) else -1
        elif isinstance(event, Usage):
            usage, usage_at = event, len(found)
            continue
        if at < 0:
            found.append(event)
            last = kind
        elif at in more:
            more[at].append(text)
        else:
            more[at] = [text]
    for at, texts in more.items():
        first = found[at]
        found[at] = _with_text(first, "".join([text_of(first) or "", *texts]))
    if usage is not None:
        found.insert(usage_at, usage)
    return found


def text_of(event: AnyStreamEvent) -> str | None:
    """Return the text of a piece of an answer; `None` for an event that is not one."""
    if isinstance(event, (TextDelta, ThinkingDelta, RefusalDelta)):
        return event.text
    return event.arguments if isinstance(event, ToolCallDelta) else None


def _with_text(event: AnyStreamEvent, text: str) -> AnyStreamEvent:
    field = "arguments" if isinstance(event, ToolCallDelta) else "text"
    return msgspec.structs.replace(event, **{field: text})


_ENCODER = msgspec.json.Encoder()
_WITHOUT_TEXT = frozenset({ToolCallEnd, Usage})


def whole_events(events: list[AnyStreamEvent]) -> list[AnyStreamEvent]:
    """Return the events with U+FFFD for each lone surrogate; nearly always the same list."""
    if (text := text_alone(events)) and text.isascii():
        return events
    if all(map(_is_whole, events)):
        return events
    return [with_texts(event, without_surrogates) for event in events]


def _is_whole(event: AnyStreamEvent) -> bool:
    kind = type(event)
    if kind in _WITHOUT_TEXT:
        return True
    if kind is TextDelta or kind is ToolCallDelta:
        text: str = event.text if kind is TextDelta else event.arguments  # type: ignore[union-attr]
        if text.isascii():
            return True
    if kind is ToolCallStart and event.name.isascii() and event.call_id.isascii():  # type: ignore[union-attr]
        return True
    try:
        _ENCODER.encode(event)
    except UnicodeEncodeError:
        return False
    return True
