"""The blocks of one answer, from their pieces to stream events.

A block begins, gets pieces and ends, one block after the other. A piece names its block by place:
the n-th block that began, as Anthropic's own clients count. The two readings of `index` differ only
in streams that a proxy spliced from several answers, whose counts restart; there the place wins,
so that everyone reads the same. A piece without a number is of the block that began last.

Blocks that are more than text, reasoning and calls (redacted thinking, tools that the provider ran,
their results, and every kind that is not known yet) become one `OpaquePart` each, whole, under
their type. Citations of a text become a part of their own after it, which says how much of the
text they belong to: `{"chars": …, "citations": […]}`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ...runtime.stream import (
    MAX_ARGUMENT_BYTES,
    AnyStreamEvent,
    OpaquePart,
    TextDelta,
    ThinkingDelta,
    ThinkingEnd,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from ..answer_body import MAX_CALLS, cut_to_room
from ..lenient_json import BROKEN, NOTHING, attempt
from ..provider import NO_NAMES
from .wire import Block, Delta, clean, decode_block, decode_object

NAME = "anthropic"

CITATIONS = "citations"
"""Kind of the part that holds the citations of the text before it."""

MAX_BLOCKS = 10_000
"""Blocks of one answer. Models write some dozens, and an answer keeps no more parts."""

MAX_OPAQUE_BYTES = 32 * 1024 * 1024
"""Bytes of all opaque parts of one answer: a whole request's limit (Anthropic: 32 MB). Parts beyond
it could never be sent back, and are dropped."""

_decode_any = msgspec.json.Decoder(dict[str, Any]).decode
_encode = msgspec.json.Encoder().encode

_STREAMED = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "thinking"}
"""The kind of block that a piece implies when the block's beginning was lost."""


class OpenBlock(msgspec.Struct, eq=False):
    """One block of the answer.

    Attributes:
        kind: The provider's word.
        place: Which block of the answer it is.
        is_open: Whether pieces of it are still expected.
    """

    kind: str
    place: int
    is_open: bool = True
    # Text: how much, and what it cites.
    chars: int = 0
    citations: list[msgspec.Raw] = []
    # Reasoning.
    has_thought: bool = False
    signature: str | None = None
    # A call: its number, the size of its arguments so far, and those that came with its beginning.
    call: int = -1
    arguments_bytes: int = 0
    given: str = ""
    # Anything else: the block as it began, the pieces of its input, and other events about it.
    value: dict[str, Any] | None = None
    pieces: list[str] = []
    changes: list[bytes] = []


class BlockAssembly:
    """Turns the blocks of one answer into events, in the order in which they come.

    Attributes:
        text_place: The place of the block whose text is being written, -1 when there is none: its
            pieces need no more than to be passed on.
        calls: How many calls began.
    """

    def __init__(self, tool_names: Mapping[str, str] = NO_NAMES) -> None:
        self._tool_names = tool_names
        self._blocks: list[OpenBlock] = []
        self._by_index: dict[int, OpenBlock] = {}
        self._current: OpenBlock | None = None
        self._open_calls: list[OpenBlock] = []
        # Calls whose own end was not seen.
        self._unended: list[OpenBlock] = []
        self._opaque_bytes = 0
        self._text_chars = 0
        self.text_place = -1
        self.calls = 0

    @property
    def is_full(self) -> bool:
        """Whether there are more blocks, or calls, than any answer may have."""
        return len(self._blocks) > MAX_BLOCKS or self.calls > MAX_CALLS

    def begin(
        self, raw: msgspec.Raw | bytes, index: int | None, events: list[AnyStreamEvent]
    ) -> bool:
        """Begin a block and pass on what came with it. Return `False` if it is not a block."""
        data = bytes(raw)
        if (start := attempt(decode_block, data)) is None:
            data = clean(data) or b""
            if (start := attempt(decode_block, data)) is None:
                return False
        block = self._open(start.type, index, events)
        if start.type == "text":
            for citation in start.citations or ():
                self._add_citation(block, citation)
            self._add_text(block, start.text or "", events)
        elif start.type == "thinking":
            block.signature = start.signature or None
            self._add_thinking(block, start.thinking or "", events)
        elif start.type == "tool_use":
            self._begin_call(block, start, events)
        elif self._keep_opaque(len(data)):
            # Its values are untouched: they go back as they came.
            block.value = attempt(decode_object, data)
        return True

    def add(
        self, index: int | None, delta: Delta, payload: bytes, events: list[AnyStreamEvent]
    ) -> None:
        """Add a piece to a block; ignore one that does not fit its block."""
        block = self._find(index)
        if block is None:
            kind = _STREAMED.get(delta.type)
            if kind is None:
                return
            block = self._open(kind, index, events)
        if block.kind == "text":
            if delta.type == "text_delta":
                self._add_text(block, delta.text or "", events)
            elif delta.type == "citations_delta" and delta.citation is not NOTHING:
                self._add_citation(block, delta.citation)
        elif block.kind == "thinking":
            if delta.type == "thinking_delta":
                self._add_thinking(block, delta.thinking or "", events)
            elif delta.type == "signature_delta" and delta.signature:
                self._focus(block, events)
                block.signature = delta.signature
        elif block.kind == "tool_use":
            if delta.type == "input_json_delta" and block.is_open:
                _add_arguments(block, delta.partial_json or "", events)
        elif block.is_open:
            self._add_opaque(block, delta, payload)

    def end(self, index: int | None, events: list[AnyStreamEvent]) -> None:
        """End a block."""
        block = self._find(index)
        # In a spliced stream the count and the number differ: it is the end of either.
        ended = (block, block if index is None else self._by_index.get(index))
        self._unended = [each for each in self._unended if each not in ended]
        if block is None or not block.is_open:
            return
        self._close(block, events)
        if block is self._current:
            self._set_current(None)

    def end_all(self, events: list[AnyStreamEvent]) -> None:
        """End every block whose own end did not come, as the message is complete."""
        self._focus(None, events)
        for block in self._open_calls[:]:
            self._close(block, events)

    def are_calls_whole(self, *, is_finished: bool) -> bool:
        """Return whether each call ended, or has arguments in an answer that says it is finished."""
        return all(is_finished and block.arguments_bytes > 0 for block in self._unended)

    def wrote(self, chars: int) -> None:
        """Count text of the block at `text_place` that the caller passed on."""
        self._text_chars += chars

    def _find(self, index: int | None) -> OpenBlock | None:
        if index is None:
            return self._blocks[-1] if self._blocks else None
        if 0 <= index < len(self._blocks):
            return self._blocks[index]
        # Servers that count from 1, or leave some numbers out.
        return self._by_index.get(index)

    def _open(self, kind: str, index: int | None, events: list[AnyStreamEvent]) -> OpenBlock:
        block = OpenBlock(kind, len(self._blocks))
        self._blocks.append(block)
        self._by_index[block.place if index is None else index] = block
        if kind == "tool_use":
            self._focus(None, events)
        else:
            self._focus(block, events)
        return block

    def _focus(self, block: OpenBlock | None, events: list[AnyStreamEvent]) -> None:
        """Make a block the current one, and end the one before it."""
        if block is self._current:
            return
        if self._current is not None:
            self._close(self._current, events)
        if block is not None:
            block.is_open = True
        self._set_current(block)

    def _set_current(self, block: OpenBlock | None) -> None:
        self._current = block
        self._text_chars = 0
        self.text_place = block.place if block is not None and block.kind == "text" else -1

    def _close(self, block: OpenBlock, events: list[AnyStreamEvent]) -> None:
        block.is_open = False
        if block.kind == "text":
            if block is self._current:
                block.chars += self._text_chars
                self._text_chars = 0
            if block.citations:
                events.append(_citations_part(block))
            block.chars, block.citations = 0, []
        elif block.kind == "thinking":
            if block.has_thought or block.signature:
                events.append(ThinkingEnd(block.signature))
            block.has_thought, block.signature = False, None
        elif block.kind == "tool_use":
            if not block.arguments_bytes and block.given:
                _add_arguments(block, block.given, events)
            events.append(ToolCallEnd(block.call))
            self._open_calls.remove(block)
        elif block.value is not None:
            events.append(_opaque_part(block, block.value))
            block.value = None

    def _add_text(self, block: OpenBlock, text: str, events: list[AnyStreamEvent]) -> None:
        if text:
            self._focus(block, events)
            block.chars += len(text)
            events.append(TextDelta(text))

    def _add_thinking(self, block: OpenBlock, text: str, events: list[AnyStreamEvent]) -> None:
        if text:
            self._focus(block, events)
            block.has_thought = True
            events.append(ThinkingDelta(text))

    def _add_citation(self, block: OpenBlock, citation: msgspec.Raw) -> None:
        if block.is_open and self._keep_opaque(len(memoryview(citation))):
            # A copy: the view would keep the whole read that it came with.
            block.citations.append(citation.copy())

    def _begin_call(self, block: OpenBlock, start: Block, events: list[AnyStreamEvent]) -> None:
        name = start.name or ""
        block.call = self.calls
        self.calls += 1
        self._open_calls.append(block)
        self._unended.append(block)
        if start.input is not NOTHING:
            given = bytes(start.input)
            # Usually empty, and the pieces bring it; servers that don't stream it send it whole.
            block.given = given.decode() if given.strip() not in {b"{}", b"null", b'""'} else ""
        events.append(ToolCallStart(block.call, start.id or "", self._tool_names.get(name, name)))

    def _add_opaque(self, block: OpenBlock, delta: Delta, payload: bytes) -> None:
        if block.value is None or not self._keep_opaque(len(payload)):
            block.value = None
        elif delta.type == "input_json_delta":
            block.pieces.append(delta.partial_json or "")
        else:
            block.changes.append(payload)

    def _keep_opaque(self, size: int) -> bool:
        self._opaque_bytes += size
        return self._opaque_bytes <= MAX_OPAQUE_BYTES


def _add_arguments(block: OpenBlock, arguments: str, events: list[AnyStreamEvent]) -> None:
    room = MAX_ARGUMENT_BYTES - block.arguments_bytes
    if room < 0 or not arguments:
        return
    arguments, room = cut_to_room(arguments, room)
    block.arguments_bytes = MAX_ARGUMENT_BYTES - room
    events.append(ToolCallDelta(block.call, arguments))


def _citations_part(block: OpenBlock) -> OpaquePart:
    data = _encode({"chars": block.chars, "citations": block.citations})
    return OpaquePart(NAME, CITATIONS, msgspec.Raw(data))


def _opaque_part(block: OpenBlock, value: dict[str, Any]) -> OpaquePart:
    _merge(value, block.changes)
    text = "".join(block.pieces)
    block.pieces, block.changes = [], []
    if text:
        # The provider ran it and knows what it ran; the API wants an object back.
        value["input"] = msgspec.Raw(_encode(attempt(decode_object, text) or {}))
    return OpaquePart(NAME, block.kind, msgspec.Raw(_encode(value)))


def _merge(value: dict[str, Any], changes: list[bytes]) -> None:
    """Add the pieces of a kind that is not known here, by the form of their fields.

    So far all kinds are alike: text goes on, a list grows, anything else takes the field's place.
    """
    grown: dict[str, list[Any]] = {}
    for payload in changes:
        try:
            fields = _decode_any(decode_object(payload)["delta"])
        except (*BROKEN, KeyError):
            continue
        for key, field in fields.items():
            if key != "type":
                if key not in grown:
                    grown[key] = [msgspec.json.decode(value.get(key, b"null"))]
                grown[key].append(field)
    for key, fields_of_key in grown.items():
        value[key] = _joined(fields_of_key)


def _joined(fields: list[Any]) -> Any:
    last = fields[-1]
    if isinstance(last, str):
        return "".join(field for field in fields if isinstance(field, str))
    if isinstance(last, list):
        return [item for field in fields if isinstance(field, list) for item in field]
    return last
