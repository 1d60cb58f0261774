"""The items of one Responses answer: their pieces in, stream events out.

An item begins (`output_item.added`), comes in pieces, and ends (`output_item.done`); the last event
of the stream holds all of them again. Pieces name their item by its place in the answer. Servers
leave out the place, in all events or in some, the item's beginning or its end, change ids between
events, or stream nothing and have it all in the last event. So a piece goes to the item of its place
when that is of the right kind, else to the last one of the kind; the k-th item of a kind in the last
event is the k-th of that kind in the stream; and what an item's end or the last event has beyond the
pieces is added. The parts of a message are told apart by their text, as servers count them in the
pieces otherwise than they stand in the end. Where they differ otherwise, the pieces stay: they were shown.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from itertools import islice

import msgspec

from ...runtime.stream import (
    AnyStreamEvent,
    OpaquePart,
    RefusalDelta,
    TextDelta,
    ThinkingDelta,
    ThinkingEnd,
)
from ..answer_body import MAX_CALLS
from ..lenient_json import NOTHING
from .calls import CALLS, FUNCTION, OpenCall
from .wire import (
    NAME,
    ContentPart,
    OutputItem,
    Shown,
    WireEvent,
    is_object,
    read_annotations,
    read_item,
)

ANNOTATIONS = "annotations"
"""Kind of the part that holds the citations of a message, as a list."""

PHASE = "phase"
"""Kind of the part that says what the text before it is: `commentary`, `final_answer`."""

MAX_ITEMS = 10_000
"""Items of one answer: as many parts as an answer may have; more is a runaway stream."""

MAX_OPAQUE_BYTES = 32 * 1024 * 1024
"""Bytes of all opaque parts of one answer: several of the largest images that the provider draws. Of an
item beyond it only its type is kept."""

MESSAGE, REASONING = "message", "reasoning"

MAX_CONTENT = 1024
"""Parts of one message that are told apart: models write one or two."""

_NOWHERE = -1
_LOOKED_BACK = 64
"""Items searched for the last one of a kind: no answer has so many open at once."""

_encode = msgspec.json.Encoder().encode


class OpenItem(msgspec.Struct, eq=False):
    """One item while its pieces come."""

    kind: str
    place: int | None
    item_id: str | None = None
    is_done: bool = False
    # What was shown of each part of a message; reasoning has one part.
    texts: dict[int, Shown] = {}
    # The length of the whole message, as its end had it.
    whole_chars: int = 0
    annotations: list[msgspec.Raw] = []
    # Reasoning: the paragraph of the last piece.
    section: tuple[str, int] | None = None
    call: OpenCall | None = None
    # An item of a server-side tool: its latest form.
    raw: msgspec.Raw = NOTHING

    def __post_init__(self) -> None:
        if self.kind in CALLS:
            self.call = OpenCall(self.kind)

    def part(self, index: int = 0) -> Shown:
        """Return what was shown of a part."""
        shown = self.texts.get(index)
        if shown is None:
            index = index if len(self.texts) < MAX_CONTENT else _NOWHERE
            shown = self.texts.setdefault(index, Shown())
        return shown

    def part_of(self, index: int, whole: str) -> Shown:
        """Return the part of which this is the whole text: the one of its place, if anything was
        shown there, else one that it goes on with."""
        shown = self.texts.get(index)
        if shown is None:
            others = islice(reversed(self.texts.values()), _LOOKED_BACK)
            shown = next((o for o in others if not o.is_whole and o.begins(whole)), None)
        shown = shown or self.part(index)
        shown.is_whole = True
        return shown


class ItemAssembly:
    """Turns the items of one answer into events.

    Attributes:
        call_count: Calls that have begun.
        has_text: Whether any text came.
        has_refused: Whether any refusal came.
        hot: Where the last text went: place, part, and its pieces. More of the same may be added
            there directly, as long as nothing else was taken here.
    """

    def __init__(self, tool_names: Mapping[str, str]) -> None:
        self._tool_names = tool_names
        self._items: list[OpenItem] = []
        self._by_place: dict[int, OpenItem] = {}
        # Items of server-side tools that have begun and were not given out.
        self._waiting: deque[OpenItem] = deque()
        # The reasoning whose block is open.
        self._thinking: OpenItem | None = None
        self._opaque_bytes = 0
        self.call_count = 0
        self.has_text = False
        self.has_refused = False
        self.hot: tuple[int | None, int | None, list[str]] = (_NOWHERE, None, [])

    @property
    def is_full(self) -> bool:
        """Whether there are more items or calls than any answer may have."""
        return len(self._items) > MAX_ITEMS or self.call_count > MAX_CALLS

    def begin(self, event: WireEvent, events: list[AnyStreamEvent]) -> None:
        """Begin an item."""
        item = read_item(event.item)
        if item is None or not item.type:
            return
        known = self._at(event.output_index)
        if known is None or known.is_done or (known.kind, known.item_id) != (item.type, item.id):
            self._begin(item, event.output_index, event.item, events)

    def add_text(self, event: WireEvent, events: list[AnyStreamEvent]) -> None:
        """Add a piece of a message's text."""
        if event.delta:
            shown = self._find(event, MESSAGE).part(event.content_index or 0)
            self._show(shown, event.delta, events)
            self.hot = (event.output_index, event.content_index, shown.pieces)

    def add_refusal(self, event: WireEvent, events: list[AnyStreamEvent]) -> None:
        """Add a piece of a message in which the model refuses."""
        if event.delta:
            shown = self._find(event, MESSAGE).part(event.content_index or 0)
            self._show(shown, event.delta, events, is_refusal=True)

    def add_annotation(self, event: WireEvent) -> None:
        """Keep a citation, in case the end of its message lacks it."""
        annotations = self._find(event, MESSAGE).annotations
        if is_object(event.annotation) and len(annotations) < MAX_ITEMS:
            annotations.append(_clean(event.annotation))

    def add_thinking(self, event: WireEvent, events: list[AnyStreamEvent]) -> None:
        """Add a piece of reasoning, or of its summary."""
        if event.delta:
            index = event.summary_index if event.content_index is None else event.content_index
            known = self._find(event, REASONING)
            self._think(known, event.delta, events, (event.type, index or 0))

    def add_arguments(self, event: WireEvent, kind: str, events: list[AnyStreamEvent]) -> None:
        """Add a piece of the arguments of a call."""
        if event.delta:
            call = self._find(event, kind).call
            assert call is not None
            call.add(event.delta, events)

    def end_text(self, event: WireEvent, events: list[AnyStreamEvent]) -> None:
        """Add what the whole text of a message's part has beyond its pieces."""
        if event.text:
            shown = self._find(event, MESSAGE).part_of(event.content_index or 0, event.text)
            if missing := shown.missing(event.text):
                self._show(shown, missing, events)

    def end_arguments(self, event: WireEvent, events: list[AnyStreamEvent]) -> None:
        """Add what the whole arguments of a call have beyond their pieces."""
        if event.arguments:
            call = self._find(event, FUNCTION).call
            assert call is not None
            call.complete(event.arguments, events)

    def end(self, event: WireEvent, events: list[AnyStreamEvent]) -> None:
        """End an item."""
        item = read_item(event.item)
        if item is None or not item.type:
            return
        known = self._known(event.output_index, item.id, item.type)
        if known is None or (known.is_done and known.item_id != item.id):
            known = self._begin(item, event.output_index, event.item, events)
        self._end(known, item, event.item, events)

    def finish(
        self, output: Iterable[msgspec.Raw], events: list[AnyStreamEvent], *, is_finished: bool
    ) -> bool:
        """End the answer with all its items; return whether its calls came whole."""
        by_kind: dict[str, deque[OpenItem]] = {}
        for known in sorted(self._items, key=lambda each: (each.place is None, each.place or 0)):
            by_kind.setdefault(known.kind, deque()).append(known)
        for raw in output:
            item = read_item(raw)
            if item is None or not item.type:
                continue
            same = by_kind.get(item.type)
            known = same.popleft() if same else self._begin(item, None, raw, events)
            self._end(known, item, raw, events)
            if self.is_full:
                return False
        self._before(events)
        calls = [known.call for known in self._items if known.call is not None]
        for call in calls:
            self._end_call(call, OutputItem(), events)
        return all(call.is_whole(is_finished=is_finished) for call in calls)

    def _at(self, place: int | None) -> OpenItem | None:
        return self._by_place.get(place) if place is not None else None

    def _known(self, place: int | None, item_id: str | None, kind: str) -> OpenItem | None:
        """Return the item of this place; if none of the kind is there, the one with this id, or the last."""
        known = self._at(place)
        if known is not None and known.kind == kind:
            return known
        same = [each for each in self._items[: -_LOOKED_BACK - 1 : -1] if each.kind == kind]
        is_new = place is not None and known is None
        if is_new:
            # Another place is another item, unless this one's was not said, or counted otherwise.
            same = [each for each in same if not each.is_done]
        named = [each for each in same if item_id and each.item_id == item_id]
        if not named and is_new:
            same = [each for each in same if each.place is None]
        return next(iter(named or same), None)

    def _find(self, event: WireEvent, kind: str) -> OpenItem:
        """Return the item of a piece, begun here if its own beginning never came."""
        known = self._known(event.output_index, event.item_id, kind)
        if known is None:
            known = self._add(OpenItem(kind, event.output_index))
        return known

    def _add(self, item: OpenItem) -> OpenItem:
        self.hot = (_NOWHERE, None, [])
        self._items.append(item)
        if item.place is not None:
            self._by_place[item.place] = item
        return item

    def _begin(
        self, item: OutputItem, place: int | None, raw: msgspec.Raw, events: list[AnyStreamEvent]
    ) -> OpenItem:
        known = self._add(OpenItem(item.type, place, item.id))
        if known.call is not None:
            self._start_call(known.call, item, events)
        elif item.type not in {MESSAGE, REASONING}:
            known.raw = _clean(raw)
            self._waiting.append(known)
        return known

    def _end(
        self, known: OpenItem, item: OutputItem, raw: msgspec.Raw, events: list[AnyStreamEvent]
    ) -> None:
        self.hot = (_NOWHERE, None, [])
        was_done, known.is_done = known.is_done, True
        known.item_id = item.id
        if known.kind == MESSAGE:
            self._end_message(known, item, events, is_first=not was_done)
        elif was_done:
            return
        elif known.kind == REASONING:
            self._end_reasoning(known, item, events)
        elif known.call is not None:
            self._end_call(known.call, item, events)
        else:
            known.raw = _clean(raw)
            while self._waiting and self._waiting[0].is_done:
                self._give_out(self._waiting.popleft(), events)

    def _end_message(
        self, known: OpenItem, item: OutputItem, events: list[AnyStreamEvent], *, is_first: bool
    ) -> None:
        parts = item.content or []
        self._complete(known, parts, events)
        if is_first and item.phase and known.texts:
            self._opaque(PHASE, msgspec.Raw(_encode(item.phase)), events)
        cited = [_clean(each) for each in read_annotations(parts)] or known.annotations
        if is_first and cited:
            self._opaque(ANNOTATIONS, msgspec.Raw(_encode(cited)), events)
        known.annotations.clear()

    def _end_reasoning(
        self, known: OpenItem, item: OutputItem, events: list[AnyStreamEvent]
    ) -> None:
        parts = [*(item.summary or ()), *(item.content or ())]
        whole = "\n\n".join(part.text for part in parts if part.text)
        if missing := known.part().missing(whole):
            self._think(known, missing, events)
        signature = item.encrypted_content or None
        if self._thinking is known:
            self._end_thinking(events, signature)
        elif signature is not None:
            self._before(events)
            self._end_thinking(events, signature)

    def _end_call(self, call: OpenCall, item: OutputItem, events: list[AnyStreamEvent]) -> None:
        self._start_call(call, item, events, is_last=True)
        call.complete(item.arguments or item.input or "", events)
        call.end(item, events)

    def _start_call(
        self,
        call: OpenCall,
        item: OutputItem,
        events: list[AnyStreamEvent],
        *,
        is_last: bool = False,
    ) -> None:
        if call.number is None and (item.name or is_last):
            self._before(events)
            call.start(self.call_count, item, self._tool_names, events)
            self.call_count += 1

    def _complete(
        self,
        known: OpenItem,
        parts: list[ContentPart],
        events: list[AnyStreamEvent],
    ) -> None:
        """Show what the pieces of a message lacked."""
        texts = [(part.text if part.refusal is None else part.refusal) or "" for part in parts]
        whole = "".join(texts)
        # One that is no longer is not compared: servers that repeat it would make that quadratic.
        if len(whole) <= known.whole_chars:
            return
        known.whole_chars = len(whole)
        said = "".join(piece for shown in known.texts.values() for piece in shown.pieces)
        if len(whole) <= len(said):
            return
        is_next, at = whole.startswith(said), 0
        same = sorted(known.texts) if len(known.texts) == len(parts) else range(len(parts))
        for index, part, text in zip(same, parts, texts, strict=True):
            if is_next:
                shown, missing = known.part(index), text[max(0, len(said) - at) :]
            else:
                shown = known.part_of(index, text)
                missing = shown.missing(text)
            at += len(text)
            if missing:
                self._show(shown, missing, events, is_refusal=part.refusal is not None)

    def _show(
        self,
        shown: Shown,
        text: str,
        events: list[AnyStreamEvent],
        *,
        is_refusal: bool = False,
    ) -> None:
        self._before(events)
        shown.pieces.append(text)
        if is_refusal:
            self.has_refused = True
            events.append(RefusalDelta(text))
        else:
            self.has_text = True
            events.append(TextDelta(text))

    def _think(
        self,
        known: OpenItem,
        text: str,
        events: list[AnyStreamEvent],
        section: tuple[str, int] | None = None,
    ) -> None:
        if self._thinking is not known:
            self._before(events)
            self._thinking = known
        if None not in {known.section, section} and known.section != section:
            text = f"\n\n{text}"
        known.section = section
        known.part().pieces.append(text)
        events.append(ThinkingDelta(text))

    def _before(self, events: list[AnyStreamEvent]) -> None:
        """End open reasoning and give out the items that began before another part.

        An item of a server-side tool whose end did not come by now goes out as it began.
        """
        self.hot = (_NOWHERE, None, [])
        if self._thinking is not None:
            self._end_thinking(events)
        while self._waiting:
            self._give_out(self._waiting.popleft(), events)

    def _end_thinking(self, events: list[AnyStreamEvent], signature: str | None = None) -> None:
        self.hot = (_NOWHERE, None, [])
        self._thinking = None
        events.append(ThinkingEnd(signature))

    def _give_out(self, known: OpenItem, events: list[AnyStreamEvent]) -> None:
        known.is_done = True
        self._opaque(known.kind, known.raw, events)
        known.raw = NOTHING

    def _opaque(self, kind: str, data: msgspec.Raw, events: list[AnyStreamEvent]) -> None:
        self.hot = (_NOWHERE, None, [])
        if self._thinking is not None:
            self._end_thinking(events)
        self._opaque_bytes += len(memoryview(data))
        if self._opaque_bytes > MAX_OPAQUE_BYTES:
            self._opaque_bytes -= len(memoryview(data))
            data = msgspec.Raw(_encode({"type": kind, "status": "incomplete"}))
        events.append(OpaquePart(NAME, kind, data))


def _clean(raw: msgspec.Raw) -> msgspec.Raw:
    """Return a copy in valid UTF-8: the original is an unchecked view of a whole event."""
    return msgspec.Raw(bytes(raw).decode("utf-8", "replace").encode())
