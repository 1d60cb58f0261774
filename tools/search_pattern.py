"""Regular expressions from a model, bounded before they run.

Python's `re` backtracks and keeps the interpreter's lock while it does: a pattern like `(a+)+b`
on one line of thirty letters would stop the whole runtime for minutes, and nothing could
interrupt it. So the worst case is estimated from the parsed pattern: repeats within repeats are
refused, and the more repeats stand side by side, the less of each line is looked at.
"""

from __future__ import annotations

import math
import re
import warnings
from re import _constants as ops  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

from ..runtime.definitions import ErrorType, ToolFailure

MAX_PATTERN_CHARACTERS = 1_000
"""What a person would still call a pattern."""
MAX_STEPS = 50_000_000
"""The worst that one line may cost: about a second, and only for a line made for it."""
LINE_LENGTHS = (1_000_000, 10_000, 2_000, 1_000, 500, 250, 180, 120)
"""How much of a line is searched: the longest that keeps the worst case within `MAX_STEPS`."""

_REFERENCES = {
    ops.GROUPREF,
    ops.GROUPREF_IGNORE,
    ops.GROUPREF_LOC_IGNORE,
    ops.GROUPREF_UNI_IGNORE,
}
_REPEATS = {ops.MAX_REPEAT, ops.MIN_REPEAT, ops.POSSESSIVE_REPEAT}


class SearchPattern:
    """A compiled pattern and how much of a line it may see.

    Raises:
        ToolFailure: `validation_error` for what is no regular expression, or too costly a one.
    """

    def __init__(self, pattern: str) -> None:
        if len(pattern) > MAX_PATTERN_CHARACTERS:
            raise _refused(f"it is longer than {MAX_PATTERN_CHARACTERS} characters")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # What may change in later Pythons still works.
                self._regex = re.compile(pattern)
                tree = parser.parse(pattern)
        except (re.error, OverflowError, RecursionError) as error:
            raise _refused(f"it is not a valid regular expression ({error})") from error
        for length in LINE_LENGTHS:
            if _steps(tree, length) <= MAX_STEPS:
                self.line_length = length
                return
        raise _refused(
            "it could take for ever: it has a repeat within a repeat, such as (a+)+, or too many "
            "repeats. Search for a simpler pattern"
        )

    def matches(self, line: str) -> bool:
        """Whether the pattern is found in what is searched of the line."""
        return self._regex.search(line[: self.line_length]) is not None


def _refused(problem: str) -> ToolFailure:
    return ToolFailure(ErrorType.VALIDATION_ERROR, f"pattern: {problem}.", field="pattern")


def _steps(tree: Any, length: int) -> float:
    """An upper bound of backtracking steps for a line: every start times every way to split."""
    ways, wide = _ways(tree, length)
    # Side by side, k repeats share one line: the ways to split it are a simplex, not a cube.
    return length * ways / math.factorial(wide + 1)


def _ways(sequence: Any, length: int) -> tuple[float, int]:
    ways: float = 1
    wide = 0
    for op, argument in sequence:
        more, wider = _ways_of(op, argument, length)
        ways *= more
        wide += wider
    return ways, wide


def _ways_of(op: Any, argument: Any, length: int) -> tuple[float, int]:
    if op in _REPEATS:
        low, high, body = argument
        return _ways_of_repeat(low, high, body, length)
    if op is ops.BRANCH:
        branches = [_ways(branch, length) for branch in argument[1]]
        return sum(ways for ways, _ in branches), min(wide for _, wide in branches)
    if op is ops.SUBPATTERN:
        return _ways(argument[-1], length)
    if op is ops.ATOMIC_GROUP:
        return _ways(argument, length)
    if op in {ops.ASSERT, ops.ASSERT_NOT}:
        # Tried anew at each place, it shares no line with what stands beside it.
        return _ways(argument[1], length)[0], 0
    if op in _REFERENCES:
        return length, 1  # What it repeats may be as long as the line, and is compared each time.
    if op is ops.GROUPREF_EXISTS:
        return sum(_ways(branch, length)[0] for branch in argument[1:] if branch is not None), 0
    return 1, 0


def _ways_of_repeat(low: int, high: Any, body: Any, length: int) -> tuple[float, int]:
    inner = 1.0 if _is_decided(body) else _ways(body, length)[0]
    if high == 1:
        return (inner if low == 1 else 1 + inner), 0
    if inner > 1:
        return math.inf, 0
    longest = length if high is ops.MAXREPEAT else min(int(high), length)
    span = max(longest - low, 0) + 1
    return float(span), int(span >= length // 2)


def _is_decided(body: Any) -> bool:
    """Whether a group of words, each with another first letter: no letter fits two of them.

    Letters that differ in case alone are one: `(?i)` may be anywhere in the pattern.
    """
    items = list(body)
    while len(items) == 1 and items[0][0] is ops.SUBPATTERN:
        items = list(items[0][1][-1])
    if len(items) != 1 or items[0][0] is not ops.BRANCH:
        return False
    words = [list(word) for word in items[0][1][1]]
    plain = all(word and all(op is ops.LITERAL for op, _ in word) for word in words)
    # `upper` and `casefold` together know all that `re` takes for the same letter: the
    # dotless i and the long s too.
    first = {chr(word[0][1]).upper().casefold()[0] for word in words} if plain else set()
    return len(first) == len(words)
