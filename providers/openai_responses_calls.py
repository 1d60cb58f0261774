"""One call of a Responses answer: its pieces in, stream events out.

Calls of functions come with JSON arguments. Calls of custom tools come with any text, which becomes
the one argument `_raw`: a call is JSON to everyone behind this.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from ..runtime.stream import (
    MAX_ARGUMENT_BYTES,
    AnyStreamEvent,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from .openai_responses_wire import OutputItem

RAW_INPUT = "_raw"
"""The one argument of a call of a custom tool."""

FUNCTION, CUSTOM = "function_call", "custom_tool_call"
CALLS = frozenset({FUNCTION, CUSTOM})


class OpenCall:
    """A call while its pieces come. It starts when its name is known, at the latest at its end."""

    __slots__ = ("_is_custom", "_is_ended", "_pieces", "_room", "number")

    def __init__(self, kind: str) -> None:
        self.number: int | None = None
        self._is_custom = kind == CUSTOM
        self._is_ended = False
        self._room = MAX_ARGUMENT_BYTES
        # As they came, to see at the end whether all did.
        self._pieces: list[str] = []

    def start(
        self,
        number: int,
        item: OutputItem,
        tool_names: Mapping[str, str],
        events: list[AnyStreamEvent],
    ) -> None:
        """The call has a name, or will never get one."""
        self.number = number
        name = item.name or ""
        call_id = item.call_id or item.id or ""
        events.append(ToolCallStart(number, call_id, tool_names.get(name, name)))
        if self._is_custom:
            self._pass_on(f'{{"{RAW_INPUT}":"', events)
        for piece in self._pieces:
            self._pass_on(self._escaped(piece), events)

    def add(self, piece: str, events: list[AnyStreamEvent]) -> None:
        """A piece of the arguments."""
        kept = sum(map(len, self._pieces)) if self.number is None else 0
        if self._room < 0 or kept > MAX_ARGUMENT_BYTES:
            return
        self._pieces.append(piece)
        if self.number is not None:
            self._pass_on(self._escaped(piece), events)

    def complete(self, whole: str, events: list[AnyStreamEvent]) -> None:
        """Adds what the pieces lacked; where they differ otherwise, they stay."""
        if self._room < 0:
            return
        shown = "".join(self._pieces)
        if len(whole) > len(shown) and whole.startswith(shown):
            self.add(whole[len(shown) :], events)

    def end(self, events: list[AnyStreamEvent]) -> None:
        """The arguments are complete."""
        if self.number is None or self._is_ended:
            return
        self._is_ended = True
        if self._is_custom:
            self._pass_on('"}', events)
        events.append(ToolCallEnd(self.number))
        self._pieces.clear()

    def _escaped(self, piece: str) -> str:
        return json.dumps(piece, ensure_ascii=False)[1:-1] if self._is_custom else piece

    def _pass_on(self, text: str, events: list[AnyStreamEvent]) -> None:
        if self.number is None or self._room < 0:
            return
        size = len(text) if text.isascii() else len(text.encode())
        if size > self._room:
            # One character past the limit says that there was more; see MAX_ARGUMENT_BYTES.
            fitting = text.encode()[: self._room].decode(errors="ignore")
            text = text[: len(fitting) + 1]
            self._pieces.clear()
        self._room -= size
        events.append(ToolCallDelta(self.number, text))
