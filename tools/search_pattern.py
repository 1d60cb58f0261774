"""Regular expressions from a model, bounded before they run.

Python's `re` backtracks and keeps the interpreter's lock while it does: a pattern like `a*a*a*b` on
one line of some thousand letters would stop the whole runtime, and nothing could interrupt it. So
the worst case is reckoned from the pattern: here it is matched on lines that it can't take long for,
and anywhere else in a process that can be killed (`search_process`).
"""

from __future__ import annotations

import re
import warnings

from ..runtime.definitions import ErrorType, ToolFailure
from .search_cost import worst_steps

MAX_PATTERN_CHARACTERS = 1_000
"""What a person would still call a pattern."""
MAX_LINE_CHARACTERS = 1_000_000
"""Of a line that is searched: a longer one is data."""
MAX_STEPS = 2_000_000
"""The worst that one line may cost in this process: a hundredth of a second."""
LINE_LENGTHS = (MAX_LINE_CHARACTERS, 100_000, 10_000, 2_000, 1_000, 500, 400, 250, 120, 60, 30)
"""How long a line may be here: the longest that keeps the worst case within `MAX_STEPS`."""

_HOPELESS_STEPS = 1e12
_HOPELESS_LENGTH = 120
"""What takes hours on the line of a source is told at once instead of tried."""


class SearchPattern:
    """A compiled pattern, and how long a line may be that it is matched with in this process.

    Compiling one may take a second of Python: not on the thread of the runtime.

    Raises:
        ToolFailure: `validation_error` for what is no regular expression, or too costly a one.
    """

    def __init__(self, pattern: str) -> None:
        if len(pattern) > MAX_PATTERN_CHARACTERS:
            raise _refused(f"it is longer than {MAX_PATTERN_CHARACTERS} characters")
        self.text = pattern
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # What may change in later Pythons still works.
                self._regex = re.compile(pattern)
                if worst_steps(pattern, _HOPELESS_LENGTH) > _HOPELESS_STEPS:
                    raise _refused(
                        "it could take for ever: it has a repeat within a repeat, such as (a+)+, "
                        "or too many repeats. Search for a simpler pattern"
                    )
                fitting = (n for n in LINE_LENGTHS if worst_steps(pattern, n) <= MAX_STEPS)
                self.quick_length = next(fitting, 0)
        except (re.error, OverflowError, RecursionError) as error:
            raise _refused(f"it is not a valid regular expression ({error})") from error

    def is_quick(self, lines: list[str]) -> bool:
        """Whether none of the lines can take long."""
        return len(max(lines, key=len, default="")) <= self.quick_length

    def matches(self, line: str) -> bool:
        """Whether the pattern is found in a line that `is_quick`."""
        return self._regex.search(line) is not None


def _refused(problem: str) -> ToolFailure:
    return ToolFailure(ErrorType.VALIDATION_ERROR, f"pattern: {problem}.", field="pattern")
