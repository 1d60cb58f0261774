"""The calls of sessions below, as lines under the call of `delegate` that waits for them.

▾ Find out which files are unused.
│ ✓ search_files 3 ms  old
│ ▾ Look at old.txt.
│ │ ✓ read_file 1 ms  old.txt
"""

from __future__ import annotations

from typing import NamedTuple

from ...runtime.definitions import CallStatus
from ...runtime.events import ChildCall
from ..terminal.escaping import safe_line
from ..terminal.style import Style, counted, seconds

MAX_SHOWN_LINES = 40
"""Of each call of `delegate`: a screen of them. Behind that, only what failed or asks is shown, at most as much again."""


class _Head(NamedTuple):
    """A session that stands above lines."""

    session_id: str
    depth: int
    task: str


class BelowLines:
    """Makes the lines of one transcript.

    Args:
        style: What can be shown.

    Attributes:
        head: The session of the line that was printed last; empty where another line came since.
    """

    def __init__(self, style: Style) -> None:
        self.head = ""
        self._style = style
        self._bar = "│" if style.signs else "|"
        self._sign = "▾" if style.signs else "-"
        self._shown: dict[str, int] = {}
        self._heads: dict[tuple[str, int], _Head] = {}
        self._open: list[_Head] = []
        self._left: dict[str, dict[str, int]] = {}

    def take(self, call: ChildCall, *, begins: bool) -> list[str]:
        """Return the lines for an event; with `begins`, also for what a program begins to run, and who asks."""
        self._heads[call.call_id, call.depth] = _Head(call.session_id, call.depth, call.task)
        line = self._line(call, begins=begins)
        if not line:
            return []
        shown = self._shown.get(call.call_id, 0)
        is_news = call.state == "asks" or call.status not in {None, CallStatus.SUCCESS}
        if shown >= MAX_SHOWN_LINES * (2 if is_news else 1):
            if call.state == "finished":
                left = self._left.setdefault(call.call_id, {})
                left[call.session_id] = left.get(call.session_id, 0) + 1
            return []
        self._shown[call.call_id] = shown + 1
        bars = f"{self._bar} " * call.depth
        return [*self._heads_above(call), f"{self._dim(f'  {bars}')}{line}"]

    def _heads_above(self, call: ChildCall) -> list[str]:
        """Return the heads that a line of this session lacks: its own, and after other lines those above it."""
        heads = [self._heads.get((call.call_id, depth)) for depth in range(1, call.depth + 1)]
        known = [each for each in heads if each is not None]
        if call.session_id == self.head:
            return []
        is_open = bool(self.head)
        lines = []
        for head in known:
            is_open = is_open and head in self._open
            if not is_open or head.session_id == call.session_id:
                above = f"{self._bar} " * (head.depth - 1)
                said = safe_line(head.task or head.session_id)
                lines.append(self._dim(f"  {above}{self._sign} {said}"))
        self._open = known
        return lines

    def end(self, call_id: str) -> list[str]:
        """Return the last lines, when the call of `delegate` has ended: how many calls of which session were left out."""
        self._shown.pop(call_id, None)
        self._heads = {key: head for key, head in self._heads.items() if key[0] != call_id}
        left = self._left.pop(call_id, {})
        return [
            self._dim(
                f"  {self._bar} … {counted(count, 'call')} left out (callboard show {safe_line(session_id)})"
            )
            for session_id, count in left.items()
        ]

    def _line(self, call: ChildCall, *, begins: bool) -> str:
        name, subject = safe_line(call.name), safe_line(call.subject)
        match call.state:
            case "finished" if call.status:
                word = "" if call.status is CallStatus.SUCCESS else f" {call.status}"
                took = "" if call.status is CallStatus.DENIED else f" {seconds(call.duration_ms)}"
                return f"{self._style.mark(call.status)} {name}{word}{took}  {subject}".rstrip()
            case "started" if begins and call.is_program:
                return self._dim(f"{name}: {subject}")
            case "asks" if begins:
                return self._dim(f"{name} asks: {subject}")
            case _:
                return ""

    def _dim(self, text: str) -> str:
        return self._style.paint(text, "dim")
