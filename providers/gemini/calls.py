"""The calls of a Gemini answer: most come whole, some stream their arguments.

A streamed call begins with a name and `willContinue`; its pieces follow without a name, each with
`partialArgs` that set or continue the value at a JSONPath; it ends with the first piece that does
not say that it continues (often an empty `functionCall`), or where another call begins.

What the provider wants back beside a call, its id and the signature of the thought behind it, comes
out as an `OpaquePart` of kind `function_call` directly after the call.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from ...runtime.stream import (
    MAX_ARGUMENT_BYTES,
    AnyStreamEvent,
    OpaquePart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from ..answer_body import MAX_CALLS, cut_to_room
from ..lenient_json import NOTHING
from .wire import FunctionCall, partial_arguments, sound_json

MAX_PIECE_BYTES = 4 * MAX_ARGUMENT_BYTES
"""Largest piece of streamed arguments that is decoded; the arguments may not be longer."""

MAX_PATH_STEPS = 64
"""Steps from the arguments to a value: ten times what an accepted schema allows."""

MAX_LIST_GAP = 16
"""Items of a list that may be missing before a later one; they are null until they come."""

_STEP = re.compile(
    r"""\.(?P<name>[^.\[\]]+)|\[(?P<index>\d{1,9})\]|\[(?P<quote>['"])(?P<quoted>.*?)(?P=quote)\]"""
)
_encode = msgspec.json.Encoder().encode


class MisfitError(Exception):
    """A streamed argument contradicts those before it."""


class CallAssembly:
    """Turns the calls of one answer into events, in the order in which they begin."""

    def __init__(self, dialect: str, tool_names: Mapping[str, str]) -> None:
        self._dialect = dialect
        self._tool_names = tool_names
        self._open: _OpenCall | None = None
        self.count = 0

    @property
    def is_full(self) -> bool:
        """Whether there are more calls than any answer may have."""
        return self.count > MAX_CALLS

    @property
    def is_open(self) -> bool:
        """Whether more of a call may come."""
        return self._open is not None

    @property
    def is_whole(self) -> bool:
        """Whether no call is open that has no arguments yet."""
        return self._open is None or not self._open.is_empty

    def take(self, call: FunctionCall, signature: str | None, events: list[AnyStreamEvent]) -> None:
        """Add a call, or a piece of the open one.

        Raises:
            MisfitError: The piece contradicts those before it.
        """
        known = self._open
        if call.name and (known is None or not call.id or call.id != known.call_id):
            self.end(events)
            known = None
        if known is None:
            if not call.name and call.args is NOTHING and call.partialArgs is NOTHING:
                return
            if call.partialArgs is NOTHING and not call.willContinue:
                self._whole(call, signature, events)
                return
            known = self._open = _OpenCall(self._start(call, events), call.id or "")
        known.signature = known.signature or signature
        known.add(call)
        if not call.willContinue:
            self.end(events)

    def end(self, events: list[AnyStreamEvent]) -> None:
        """End the open call, if there is one."""
        call, self._open = self._open, None
        if call is not None:
            self._finish(call.index, call.arguments(), call.call_id, call.signature, events)

    def _whole(
        self, call: FunctionCall, signature: str | None, events: list[AnyStreamEvent]
    ) -> None:
        index = self._start(call, events)
        arguments = bytes(call.args).decode("utf-8", "replace")
        if arguments in {"", "null"}:
            arguments = "{}"
        self._finish(index, arguments, call.id or "", signature, events)

    def _start(self, call: FunctionCall, events: list[AnyStreamEvent]) -> int:
        index = self.count
        self.count += 1
        name = call.name or ""
        events.append(ToolCallStart(index, call.id or "", self._tool_names.get(name, name)))
        return index

    def _finish(
        self,
        index: int,
        arguments: str,
        call_id: str,
        signature: str | None,
        events: list[AnyStreamEvent],
    ) -> None:
        arguments, _ = cut_to_room(arguments, MAX_ARGUMENT_BYTES)
        events += (ToolCallDelta(index, arguments), ToolCallEnd(index))
        kept = {"id": call_id, "thoughtSignature": signature}
        kept = {key: value for key, value in kept.items() if value}
        if kept:
            events.append(OpaquePart(self._dialect, "function_call", msgspec.Raw(_encode(kept))))


class _OpenCall:
    """One call while its arguments come."""

    def __init__(self, index: int, call_id: str) -> None:
        self.index = index
        self.call_id = call_id
        self.signature: str | None = None
        self._values: dict[str, Any] = {}
        # An unfinished text, joined when it ends, since a megabyte may come in tiny pieces.
        self._text_path = ""
        self._text: list[str] = []
        self._size_bytes = 0

    @property
    def is_empty(self) -> bool:
        """Whether no argument has come."""
        return not self._values and not self._text_path

    def add(self, call: FunctionCall) -> None:
        """Add the arguments of a piece."""
        size = len(memoryview(call.args)) + len(memoryview(call.partialArgs))
        if size > MAX_PIECE_BYTES:
            self._size_bytes += size
            return
        whole = sound_json(call.args)
        if isinstance(whole, dict):
            self._values.update(whole)
        for piece in partial_arguments(call.partialArgs):
            path = piece.get("jsonPath")
            if not isinstance(path, str):
                continue
            text = piece.get("stringValue")
            self._size_bytes += len(path) + (len(text.encode()) if isinstance(text, str) else 8)
            if self._size_bytes <= 2 * MAX_ARGUMENT_BYTES:
                self._add_value(path, piece)

    def arguments(self) -> str:
        """Return the arguments so far, as JSON."""
        self._end_text()
        try:
            text = _encode(self._values).decode()
        except RecursionError:
            raise MisfitError("arguments nested too deeply") from None
        # The length must show that something was dropped.
        too_long = self._size_bytes > 2 * MAX_ARGUMENT_BYTES
        return text.ljust(MAX_ARGUMENT_BYTES + 1) if too_long else text

    def _add_value(self, path: str, piece: dict[str, Any]) -> None:
        if path != self._text_path:
            self._end_text()
        text = piece.get("stringValue")
        if isinstance(text, str):
            self._text_path = path
            self._text.append(text)
            if not piece.get("willContinue"):
                self._end_text()
            return
        number, flag = piece.get("numberValue"), piece.get("boolValue")
        if isinstance(number, float) and number.is_integer() and abs(number) < 2**53:
            number = int(number)
        _set(self._values, path, number if flag is None else flag)

    def _end_text(self) -> None:
        if self._text_path:
            _set(self._values, self._text_path, "".join(self._text))
        self._text_path = ""
        self._text.clear()


def _set(root: dict[str, Any], path: str, value: Any) -> None:
    """Set the value at a JSONPath, creating what is missing on the way."""
    steps = _steps(path)
    place: Any = root
    for at, step in enumerate(steps):
        is_last = at == len(steps) - 1
        made: Any = value if is_last else ([] if isinstance(steps[at + 1], int) else {})
        if isinstance(step, int) and isinstance(place, list):
            if step - len(place) > MAX_LIST_GAP:
                raise MisfitError(f"item {step} of a list of {len(place)}")
            place.extend([None] * (step + 1 - len(place)))
            if is_last or place[step] is None:
                place[step] = made
            place = place[step]
        elif isinstance(step, str) and isinstance(place, dict):
            if is_last or place.get(step) is None:
                place[step] = made
            place = place[step]
        else:
            raise MisfitError(f"a value at {path[:80]}")


def _steps(path: str) -> list[str | int]:
    steps: list[str | int] = []
    at = 1
    while at < len(path):
        found = _STEP.match(path, at)
        if found is None or len(steps) == MAX_PATH_STEPS:
            raise MisfitError(f"a value at {path[:80]}")
        at = found.end()
        if found["index"] is not None:
            steps.append(int(found["index"]))
        else:
            steps.append(found["name"] if found["name"] is not None else found["quoted"])
    if path[:1] != "$" or not steps:
        raise MisfitError(f"a value at {path[:80]}")
    return steps
