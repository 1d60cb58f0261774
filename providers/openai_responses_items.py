"""The items of one Responses answer: their pieces in, stream events out.

An item begins (`output_item.added`), comes in pieces, and ends (`output_item.done`); the last event
of the stream holds all of them again. Pieces name their item by its place in the answer. Servers
leave out the place, the item's beginning or its end, change ids between events, or stream nothing
and have it all in the last event. So a piece goes to the item of its place when that is of the
right kind, else to the last one of the kind; the k-th item of a kind in the last event is the k-th
of that kind in the stream; and what an item's end or the last event has beyond the pieces is added.
Where they differ otherwise, the pieces stay: they were shown.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Mapping

import msgspec

from ..runtime.stream import (
    MAX_ARGUMENT_BYTES,
    AnyStreamEvent,
    OpaquePart,
    RefusalDelta,
    TextDelta,
    ThinkingDelta,
    ThinkingEnd,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from .openai_responses_wire import NAME, ContentPart, Event, OutputItem, read_item

ANNOTATIONS = "annotations"
"""The kind of opaque part that holds the citations of a message, as a list."""

PHASE = "phase"
"""The kind of opaque part that says what the text before it is: `commentary`, `final_answer`."""

RAW_INPUT = "_raw"
"""The one argument of a call of a custom tool, which takes text instead of JSON."""

MAX_ITEMS = 10_000
"""Of one answer: as many parts as an answer may have; more is a runaway stream."""

MAX_CALLS = 1024
"""Of one answer: four times what a response may run."""

MAX_OPAQUE_BYTES = 8 * 1024 * 1024
"""Of one opaque part: twice the largest image that the provider draws."""

MESSAGE, REASONING, CALL, CUSTOM = "message", "reasoning", "function_call", "custom_tool_call"
_STREAMED = frozenset({MESSAGE, REASONING, CALL, CUSTOM})
_CALLS = frozenset({CALL, CUSTOM})
_NOWHERE = -1
_encode = msgspec.json.Encoder().encode


class OpenItem:
    """One item while its pieces come."""

    __slots__ = ("annotations", "is_done", "kind", "number", "place", "raw", "section", "texts")

    def __init__(self, kind: str, place: int | None, raw: msgspec.Raw) -> None:
        self.kind = kind
        self.place = place
        # The pieces of each content part; of reasoning and calls there is one.
        self.texts: dict[int, list[str]] = {}
        self.annotations: list[msgspec.Raw] = []
        # Of reasoning: the kind and number of the paragraph to which the last piece belongs.
        self.section: tuple[str, int] | None = None
        # Of a call that has begun.
        self.number: int | None = None
        # Of any other item: its latest form. Copied, since it is a view of the whole event.
        self.raw = raw
        self.is_done = False

    def text(self, part: int = 0) -> str:
        """What of a part was shown."""
        return "".join(self.texts.get(part, ()))


class ItemAssembly:
    """The items of one answer.

    Attributes:
        call_count: Calls that have begun.
        has_text: Whether any text came.
        has_refused: Whether any refusal came.
        hot: Where the last text went: place, content part, and its pieces. More of the same may be
            added there directly, as long as nothing else was taken here.
    """

    def __init__(self, tool_names: Mapping[str, str]) -> None:
        self._tool_names = tool_names
        self._items: list[OpenItem] = []
        self._by_place: dict[int, OpenItem] = {}
        # Items of server-side tools that have begun and were not given out.
        self._waiting: deque[OpenItem] = deque()
        # The reasoning whose block is open.
        self._thinking: OpenItem | None = None
        self._ended_thinking_last = False
        self._argument_bytes: dict[int, int] = {}
        self.call_count = 0
        self.has_text = False
        self.has_refused = False
        self.hot: tuple[int | None, int | None, list[str]] = (_NOWHERE, None, [])

    @property
    def is_full(self) -> bool:
        """Whether there are more items or calls than any answer may have."""
        return len(self._items) > MAX_ITEMS or self.call_count > MAX_CALLS

    def begin(self, event: Event, events: list[AnyStreamEvent]) -> None:
        """An item begins."""
        item = read_item(event.item)
        if item is not None and item.type:
            self._begin(item, event.output_index, event.item, events)

    def add_text(self, event: Event, events: list[AnyStreamEvent]) -> None:
        """A piece of a message's text."""
        if event.delta:
            item = self._find(event, MESSAGE)
            self._show(item, event.content_index or 0, event.delta, events)
            self.hot = (
                event.output_index,
                event.content_index,
                item.texts[event.content_index or 0],
            )

    def add_refusal(self, event: Event, events: list[AnyStreamEvent]) -> None:
        """A piece of a message in which the model refuses."""
        if event.delta:
            item = self._find(event, MESSAGE)
            self._show(item, event.content_index or 0, event.delta, events, is_refusal=True)

    def add_annotation(self, event: Event) -> None:
        """A citation, in case the end of its message lacks them."""
        item = self._find(event, MESSAGE)
        if event.annotation and len(item.annotations) < MAX_ITEMS:
            item.annotations.append(event.annotation.copy())

    def add_thinking(self, event: Event, events: list[AnyStreamEvent]) -> None:
        """A piece of reasoning, or of its summary."""
        if event.delta:
            item = self._find(event, REASONING)
            index = event.summary_index if event.content_index is None else event.content_index
            self._think(item, (event.type, index or 0), event.delta, events)

    def add_arguments(
        self, event: Event, events: list[AnyStreamEvent], kind: str = CALL
    ) -> None:
        """A piece of a call's arguments, or of the text of a call of a custom tool."""
        if event.delta:
            self._add_arguments(self._find(event, kind), event.delta, events)

    def end_text(self, event: Event, events: list[AnyStreamEvent]) -> None:
        """The whole text of a part of a message."""
        part = event.content_index or 0
        self._complete(self._find(event, MESSAGE), part, event.text or "", events)

    def end_arguments(self, event: Event, events: list[AnyStreamEvent]) -> None:
        """The whole arguments of a call."""
        self._complete_arguments(self._find(event, CALL), event.arguments or "", events)

    def end(self, event: Event, events: list[AnyStreamEvent]) -> None:
        """An item ends."""
        item = read_item(event.item)
        if item is not None and item.type:
            known = self._known(event.output_index, item.type)
            if known is None or (known.is_done and event.output_index is None):
                known = self._begin(item, event.output_index, event.item, events)
            self._end(known, item, event.item, events)

    def finish(self, output: Iterable[msgspec.Raw], events: list[AnyStreamEvent]) -> None:
        """The answer ends, with all its items."""
        by_kind: dict[str, deque[OpenItem]] = {}
        for known in sorted(self._items, key=lambda each: (each.place is None, each.place or 0)):
            by_kind.setdefault(known.kind, deque()).append(known)
        for raw in output:
            item = read_item(raw) if raw else None
            if item is None or not item.type:
                continue
            same = by_kind.get(item.type)
            known = same.popleft() if same else self._begin(item, None, raw, events)
            self._end(known, item, raw, events)
            if self.is_full:
                return
        self._before(events)
        for known in self._items:
            if not known.is_done and known.number is not None:
                self._end_call(known, events)

    def _find(self, event: Event, kind: str) -> OpenItem:
        """The item that a piece belongs to; it begins here when its beginning never came."""
        known = self._known(event.output_index, kind)
        if known is None:
            known = OpenItem(kind, event.output_index, msgspec.Raw())
            self._add(known)
        return known

    def _known(self, place: int | None, kind: str) -> OpenItem | None:
        if place is not None:
            known = self._by_place.get(place)
            if known is None or known.kind == kind:
                return known
        return next((each for each in reversed(self._items[-64:]) if each.kind == kind), None)

    def _add(self, item: OpenItem) -> None:
        self._items.append(item)
        if item.place is not None:
            self._by_place[item.place] = item
        self.hot = (_NOWHERE, None, [])

    def _begin(
        self, item: OutputItem, place: int | None, raw: msgspec.Raw, events: list[AnyStreamEvent]
    ) -> OpenItem:
        known = OpenItem(item.type, place, msgspec.Raw())
        self._add(known)
        if item.type in _CALLS:
            self._start_call(known, item, events)
        elif item.type not in _STREAMED:
            known.raw = _bounded(item, raw)
            self._waiting.append(known)
        return known

    def _end(
        self, known: OpenItem, item: OutputItem, raw: msgspec.Raw, events: list[AnyStreamEvent]
    ) -> None:
        was_done, known.is_done = known.is_done, True
        self.hot = (_NOWHERE, None, [])
        if known.kind == MESSAGE:
            self._end_message(known, item, events, is_first=not was_done)
        elif was_done:
            return
        elif known.kind == REASONING:
            self._end_reasoning(known, item, events)
        elif known.kind in _CALLS:
            self._start_call(known, item, events)
            self._complete_arguments(known, _arguments_of(item), events)
            self._end_call(known, events)
        else:
            known.raw = _bounded(item, raw)
            while self._waiting and self._waiting[0].is_done:
                self._give_out(self._waiting.popleft(), events)

    def _end_message(
        self, known: OpenItem, item: OutputItem, events: list[AnyStreamEvent], *, is_first: bool
    ) -> None:
        parts = item.content or []
        for index, part in enumerate(parts):
            text = part.refusal if part.refusal is not None else part.text
            is_refusal = part.refusal is not None
            self._complete(known, index, text or "", events, is_refusal=is_refusal)
        if not is_first:
            return
        if item.phase and known.texts:
            self._opaque(PHASE, msgspec.Raw(_encode(item.phase)), events)
        cited = [each for part in parts for each in part.annotations or () if each]
        cited = cited or known.annotations
        known.annotations = []
        if cited and sum(len(memoryview(each)) for each in cited) <= MAX_OPAQUE_BYTES:
            self._opaque(ANNOTATIONS, msgspec.Raw(_encode(cited)), events)

    def _show(
        self,
        item: OpenItem,
        part: int,
        text: str,
        events: list[AnyStreamEvent],
        *,
        is_refusal: bool = False,
    ) -> None:
        self._before(events)
        item.texts.setdefault(part, []).append(text)
        if is_refusal:
            self.has_refused = True
            events.append(RefusalDelta(text))
        else:
            self.has_text = True
            events.append(TextDelta(text))

    def _complete(
        self,
        item: OpenItem,
        part: int,
        whole: str,
        events: list[AnyStreamEvent],
        *,
        is_refusal: bool = False,
    ) -> None:
        """Shows what the pieces of a part lacked."""
        shown = item.text(part) if whole else ""
        if len(whole) > len(shown) and whole.startswith(shown):
            self._show(item, part, whole[len(shown) :], events, is_refusal=is_refusal)

    def _think(
        self, item: OpenItem, section: tuple[str, int], text: str, events: list[AnyStreamEvent]
    ) -> None:
        if self._thinking is not item:
            self._before(events)
        self._thinking = item
        if item.section is not None and item.section != section:
            text = f"\n\n{text}"
        item.section = section
        item.texts.setdefault(0, []).append(text)
        events.append(ThinkingDelta(text))

    def _end_reasoning(
        self, known: OpenItem, item: OutputItem, events: list[AnyStreamEvent]
    ) -> None:
        parts: list[ContentPart] = [*(item.summary or ()), *(item.content or ())]
        whole = "\n\n".join(part.text for part in parts if part.text)
        shown = known.text()
        if len(whole) > len(shown) and whole.startswith(shown):
            known.section = None
            self._think(known, ("", 0), whole[len(shown) :], events)
        if self._thinking is known or item.encrypted_content:
            if self._thinking is not known:
                self._before(events)
                if self._ended_thinking_last:
                    # Two blocks without text in a row: the second must not be taken for the first.
                    events.append(ThinkingDelta(""))
            self._end_thinking(events, item.encrypted_content or None)

    def _start_call(
        self, known: OpenItem, item: OutputItem, events: list[AnyStreamEvent]
    ) -> None:
        name = item.name or ""
        if known.number is not None or not (name or known.is_done):
            return
        self._before(events)
        known.number = self.call_count
        self.call_count += 1
        name = self._tool_names.get(name, name)
        events.append(ToolCallStart(known.number, item.call_id or item.id or "", name))
        if known.kind == CUSTOM:
            self._pass_on(known, f'{{"{RAW_INPUT}":"', events)
        for piece in known.texts.get(0, ()):
            self._pass_on(known, piece, events)

    def _add_arguments(self, item: OpenItem, text: str, events: list[AnyStreamEvent]) -> None:
        if item.kind == CUSTOM:
            text = json.dumps(text, ensure_ascii=False)[1:-1]
        pieces = item.texts.setdefault(0, [])
        if self._argument_bytes.setdefault(id(item), 0) > MAX_ARGUMENT_BYTES:
            return
        text, size = _fitting(text, MAX_ARGUMENT_BYTES - self._argument_bytes[id(item)])
        self._argument_bytes[id(item)] += size
        pieces.append(text)
        if item.number is not None:
            self._pass_on(item, text, events)

    def _pass_on(self, item: OpenItem, text: str, events: list[AnyStreamEvent]) -> None:
        if item.number is not None:
            events.append(ToolCallDelta(item.number, text))

    def _complete_arguments(
        self, item: OpenItem, whole: str, events: list[AnyStreamEvent]
    ) -> None:
        if item.kind == CUSTOM:
            whole = json.dumps(whole, ensure_ascii=False)[1:-1]
        shown = item.text()
        if len(whole) > len(shown) and whole.startswith(shown):
            rest = whole[len(shown) :]
            self._add_arguments(item, json.loads(f'"{rest}"') if item.kind == CUSTOM else rest, events)

    def _end_call(self, item: OpenItem, events: list[AnyStreamEvent]) -> None:
        item.is_done = True
        if item.number is not None:
            if item.kind == CUSTOM:
                self._pass_on(item, '"}', events)
            events.append(ToolCallEnd(item.number))

    def _before(self, events: list[AnyStreamEvent]) -> None:
        """What comes before another part: the end of open reasoning, and items that began before.

        An item of a server-side tool whose end did not come by now goes out as it began.
        """
        self._end_thinking(events)
        while self._waiting:
            self._give_out(self._waiting.popleft(), events)
        self._ended_thinking_last = bool(events) and isinstance(events[-1], ThinkingEnd)

    def _end_thinking(self, events: list[AnyStreamEvent], signature: str | None = None) -> None:
        if self._thinking is not None or signature:
            self._thinking = None
            events.append(ThinkingEnd(signature))

    def _give_out(self, item: OpenItem, events: list[AnyStreamEvent]) -> None:
        item.is_done = True
        self._opaque(item.kind, item.raw, events)

    def _opaque(self, kind: str, data: msgspec.Raw, events: list[AnyStreamEvent]) -> None:
        self._end_thinking(events)
        events.append(OpaquePart(NAME, kind, data))
