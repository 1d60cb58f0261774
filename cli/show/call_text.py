"""What a person reads of a call: what it is about, and the lines of what it runs."""

from __future__ import annotations

from collections import deque

from ...runtime.definitions import CallStatus
from ...runtime.events import CallFinished
from ...runtime.turns.call_subject import PROGRAMS, telling_argument
from ..terminal.escaping import safe_line, shortened
from ..terminal.style import counted, seconds

MAX_SUBJECT_CHARS = 100
"""A command or a path on a line is cut here; `callboard show` has all of it."""
MAX_CODE_LINES = 6
"""Lines of a program text that are shown: enough to see what it is."""
MAX_FIRST_LINES = 10
MAX_LAST_LINES = 5
"""Of a call's output, so many lines are shown as they come, and so many when it has ended."""
MAX_OUTPUT_CHARS = 500
"""A line of output is cut here."""


class CallText:
    """A call as far as it is known, and as much of its output as people read.

    Args:
        name: Its tool.
        arguments: The JSON text with which it was proposed, or with which it ran.
    """

    def __init__(self, name: str, arguments: str) -> None:
        self.name = safe_line(name)
        self._key, self._text = telling_argument(arguments)
        self._lines = 0
        self._last: deque[str] = deque(maxlen=MAX_LAST_LINES)

    @property
    def is_program(self) -> bool:
        """Whether it runs a command or a program text."""
        return self._key in PROGRAMS

    @property
    def subject(self) -> str:
        """What it is about, on one line; it may be nothing."""
        first, *others = self._text.strip().split("\n")
        sign = "$ " if self._key == "command" else ""
        more = f" (+ {counted(len(others), 'line')})" if others else ""
        return shortened(sign + safe_line(first), MAX_SUBJECT_CHARS) + more if first else ""

    def code(self) -> list[str]:
        """Return the lines of its command or program text, folded, when there are several."""
        lines = self._text.strip().split("\n") if self.is_program else []
        if len(lines) < 2:
            return []
        more = len(lines) - MAX_CODE_LINES
        shown = [safe_code(line) for line in lines[:MAX_CODE_LINES]]
        return [*shown, f"… {counted(more, 'line')} more"] if more > 0 else shown

    def output(self, text: str) -> list[str]:
        """Take lines of its output; return those that are shown at once."""
        shown: list[str] = []
        for line in text.split("\n"):
            self._lines += 1
            if self._lines <= MAX_FIRST_LINES:
                shown.append(safe_code(line))
            else:
                self._last.append(line)
        return shown

    def rest(self, how: str) -> list[str]:
        """Return the last lines of its output, at its end; `how` says where those between are."""
        left = self._lines - MAX_FIRST_LINES - len(self._last)
        gap = [f"… {counted(left, 'line')} left out ({how})"] if left > 0 else []
        lines = [safe_code(line) for line in self._last]
        self._lines = 0
        self._last.clear()
        return [*gap, *lines]


def how_ended(call: CallFinished, *, never_ran: bool = False) -> str:
    """Return the words behind a call's name: how it ended, where it did not succeed, and how long it ran.

    A call that was denied never ran, nor one that was cancelled at its question: its time is that of the question.
    """
    word = "" if call.status is CallStatus.SUCCESS else f" {call.status}"
    never_ran = never_ran or call.status is CallStatus.DENIED
    return word if never_ran else f"{word} {seconds(call.duration_ms)}"


def safe_code(line: str) -> str:
    """Return a line of a program or of its output, which keeps its indentation."""
    bare = line.expandtabs(4).rstrip()
    indent = len(bare) - len(bare.lstrip(" "))
    return shortened(" " * indent + safe_line(bare), MAX_OUTPUT_CHARS)
