"""The calls that ended last, with what they put out, for whoever wants to see it then."""

from __future__ import annotations

from collections import deque
from itertools import starmap

import msgspec

from ...runtime.events import CallFinished
from ..hints import command_line
from ..terminal.style import Style, counted
from .call_text import CallText, how_ended, safe_code

MAX_ENDED_CALLS = 20
"""Calls whose output can be shown again: some turns. `callboard show` has all of them."""
MAX_ENDED_CHARS = 64 * 1024
"""Of a call's result, so much is kept, half of it from the end; results are mostly bounded by less."""
MAX_ENDED_LINES = 200
"""Lines of an output that are printed: what a person reads by scrolling back. Half are its last ones."""


class EndedCall(msgspec.Struct, frozen=True):
    """A call that has ended; `text` is what it was about, `result` its output, cut in the middle."""

    finished: CallFinished
    text: CallText
    result: str


class EndedCalls:
    """The calls of a session that ended last; the latest is number 1."""

    def __init__(self) -> None:
        self._calls: deque[EndedCall] = deque(maxlen=MAX_ENDED_CALLS)
        self._shown = 0

    def add(self, finished: CallFinished, text: CallText | None) -> None:
        """Take a call that has ended, and what is known of it."""
        if text is None or finished.arguments is not None:  # a person may have changed them
            text = CallText(finished.name, finished.arguments or "")
        result = _cut(_output(finished.result))
        bare = msgspec.structs.replace(finished, result="", arguments=None, full_output=None)
        bare = msgspec.structs.replace(bare, artifacts=(), attachments=())
        self._calls.append(EndedCall(bare, text, result))
        self._shown = 0

    def get(self, number: int) -> EndedCall | None:
        """Return a call by its number, if there is one."""
        return self._calls[-number] if 1 <= number <= len(self._calls) else None

    def next(self) -> tuple[int, EndedCall] | None:
        """Return the latest call with its number, then each time the one before; begin again behind the first."""
        self._shown = self._shown % len(self._calls) + 1 if self._calls else 0
        found = self.get(self._shown)
        return None if found is None else (self._shown, found)

    def lines(self, style: Style) -> list[str]:
        """Return a line for each call, the latest last."""
        numbers = range(len(self._calls), 0, -1)
        return [
            f"{number:>4}  {_head(each, style)}"
            for number, each in zip(numbers, self._calls, strict=True)
        ]


def output_lines(call: EndedCall, style: Style, session_id: str) -> list[str]:
    """Return the call and its output, as many lines as people read; `session_id` says where the rest is."""
    lines = call.result.rstrip().split("\n")
    if len(lines) > MAX_ENDED_LINES:
        half = MAX_ENDED_LINES // 2
        left = counted(len(lines) - 2 * half, "line")
        gap = f"… {left} left out ({command_line(f'callboard show {session_id}')})"
        lines = [*lines[:half], gap, *lines[-half:]]
    bar = "│" if style.signs else "|"
    shown = [f"  {bar} {safe_code(line)}".rstrip() for line in lines]
    return [_head(call, style), *(style.paint(line, "dim") for line in shown)]


def _head(call: EndedCall, style: Style) -> str:
    finished = call.finished
    head = f"{style.mark(finished.status)} {call.text.name}{how_ended(finished)}"
    return f"{head}  {call.text.subject}".rstrip()


def _output(result: str) -> str:
    """Return what a result says as people read it: texts with their lines, the rest as JSON."""
    try:
        content = msgspec.json.decode(result)
    except msgspec.DecodeError:
        return result
    if isinstance(content, dict):
        content = content.get("result", content.get("message", content))
    if isinstance(content, str):
        return content
    if not isinstance(content, dict):
        return msgspec.json.format(msgspec.json.encode(content)).decode()
    return "\n".join(starmap(_field, content.items()))


def _field(name: str, value: object) -> str:
    if isinstance(value, str):
        text = value.rstrip("\n")
        return f"{name}:\n{text}" if "\n" in text else f"{name}: {text}"
    return f"{name}: {msgspec.json.encode(value).decode()}"


def _cut(text: str) -> str:
    if len(text) <= MAX_ENDED_CHARS:
        return text
    half = MAX_ENDED_CHARS // 2
    left = len(text) - 2 * half
    return f"{text[:half]}\n… {counted(left, 'character')} left out\n{text[-half:]}"
