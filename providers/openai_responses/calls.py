"""One call of a Responses answer: its pieces in, stream events out.

Calls of functions come with JSON arguments. Calls of custom tools come with any text, which becomes
the one argument `_raw`: everywhere else a call is JSON.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from ...runtime.stream import (
    MAX_ARGUMENT_BYTES,
    AnyStreamEvent,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from ..answer_body import cut_to_room
from .wire import OutputItem, Shown

RAW_INPUT = "_raw"
"""The only argument of a call of a custom tool."""

FUNCTION, CUSTOM = "function_call", "custom_tool_call"
CALLS = frozenset({FUNCTION, CUSTOM})


class OpenCall:
    """A call while its pieces come. It starts when its name is known, at the latest at its end."""

    __slots__ = ("_is_custom", "_is_ended", "_is_said", "_room", "_taken", "number")

    def __init__(self, kind: str) -> None:
        self.number: int | None = None
        self._is_custom = kind == CUSTOM
        self._is_ended = self._is_said = False
        self._room = MAX_ARGUMENT_BYTES
        # The pieces as they came, to see at the end what is missing; until the start they wait here.
        self._taken = Shown()

    def start(
        self,
        number: int,
        item: OutputItem,
        tool_names: Mapping[str, str],
        events: list[AnyStreamEvent],
    ) -> None:
        """Start the call: it has a name, or will never get one."""
        self.number = number
        name = item.name or ""
        call_id = item.call_id or item.id or ""
        events.append(ToolCallStart(number, call_id, tool_names.get(name, name)))
        if self._is_custom:
            self._pass_on(f'{{"{RAW_INPUT}":"', events)
        for piece in self._taken.pieces:
            self._pass_on(self._escaped(piece), events)

    def add(self, piece: str, events: list[AnyStreamEvent]) -> None:
        """Add a piece of the arguments."""
        if self._room < 0 or (self.number is None and self._taken.chars > MAX_ARGUMENT_BYTES):
            return
        self._taken.pieces.append(piece)
        if self.number is not None:
            self._pass_on(self._escaped(piece), events)

    def complete(self, whole: str, events: list[AnyStreamEvent]) -> None:
        """Add what the pieces lacked; if they differ otherwise, they stay."""
        missing = self._taken.missing(whole) if self._room >= 0 else ""
        if missing:
            self.add(missing, events)

    def is_whole(self, *, is_finished: bool) -> bool:
        """Return whether it ended, or has arguments in an answer that says it is finished."""
        return self._is_said or (is_finished and self._taken.chars > 0)

    def end(self, item: OutputItem, events: list[AnyStreamEvent]) -> None:
        """End the call; `item` is its end, without a type if that never came."""
        if self.number is None or self._is_ended:
            return
        self._is_ended = True
        self._is_said = bool(item.type) and item.status not in {"in_progress", "incomplete"}
        if self._is_custom:
            self._pass_on('"}', events)
        events.append(ToolCallEnd(self.number))

    def _escaped(self, piece: str) -> str:
        return json.dumps(piece, ensure_ascii=False)[1:-1] if self._is_custom else piece

    def _pass_on(self, text: str, events: list[AnyStreamEvent]) -> None:
        if self.number is None or self._room < 0:
            return
        text, self._room = cut_to_room(text, self._room)
        events.append(ToolCallDelta(self.number, text))
