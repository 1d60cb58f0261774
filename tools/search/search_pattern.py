"""Regular expressions from a model, bounded before they run.

Python's `re` backtracks and keeps the interpreter's lock while it does: a pattern like `a*a*a*b` on
one line of some thousand letters would stop the whole runtime, and nothing could interrupt it. So the
worst case is computed from the pattern. On lines for which it is cheap, the pattern is matched here;
on longer ones in a process that can be killed (`search_process`).

Neither `regex` nor RE2 takes the place of this: `regex` has a timeout, but its captures of nested
groups take 750 MB on one line of a megabyte; RE2 is linear, but lacks lookaround and back-references,
which models use.
"""

from __future__ import annotations

import math
import re
import warnings
from re import _constants as ops  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any, NamedTuple

from ...runtime.definitions import ToolFailure
from ..failures import invalid

_REFERENCES = {ops.GROUPREF, ops.GROUPREF_IGNORE, ops.GROUPREF_LOC_IGNORE, ops.GROUPREF_UNI_IGNORE}
_BEGINNINGS = ((ops.AT, ops.AT_BEGINNING), (ops.AT, ops.AT_BEGINNING_STRING))
_REPEATS = {ops.MAX_REPEAT, ops.MIN_REPEAT, ops.POSSESSIVE_REPEAT}


class _Cost(NamedTuple):
    """The ways in which a part can fit from one start, and the steps to try all of them."""

    ways: float
    steps: float


def worst_steps(pattern: str, length: int) -> float:
    """Return how many steps a search of a line of this length takes at most; may be infinite.

    Raises `re.error` when it is not a regular expression.
    """
    tree = parser.parse(pattern)
    if all(op is ops.LITERAL for op, _ in tree):
        return length + len(tree)  # found without backtracking, and no start is tried twice
    starts = 1 if len(tree) and tree[0] in _BEGINNINGS else length + 1
    return length + starts * _sequence(tree, length).steps


def _sequence(items: Any, length: int) -> _Cost:
    ways, steps = 1.0, 1.0
    for op, argument in items:
        cost = _item(op, argument, length)
        steps += ways * cost.steps
        ways *= cost.ways
    return _Cost(ways, steps)


def _item(op: Any, argument: Any, length: int) -> _Cost:
    if op in _REPEATS:
        return _repeat(op, argument, length)
    if op is ops.BRANCH:
        branches = [_sequence(branch, length) for branch in argument[1]]
        ways = 1.0 if _is_decided(argument[1]) else sum(each.ways for each in branches)
        return _Cost(ways, sum(each.steps for each in branches))
    if op is ops.SUBPATTERN:
        return _sequence(argument[-1], length)
    if op is ops.ATOMIC_GROUP:
        return _Cost(1, _sequence(argument, length).steps)
    if op in {ops.ASSERT, ops.ASSERT_NOT}:
        return _Cost(1, _sequence(argument[1], length).steps)  # one way to fit is enough
    if op in _REFERENCES:
        return _Cost(1, length + 1)  # what it repeats may be as long as the line
    if op is ops.GROUPREF_EXISTS:
        branches = [_sequence(branch, length) for branch in argument[1:] if branch is not None]
        return _Cost(max(each.ways for each in branches), 1 + sum(each.steps for each in branches))
    return _Cost(1, len(argument) if op is ops.IN else 1)


def _repeat(op: Any, argument: Any, length: int) -> _Cost:
    low, high, body = argument
    inner = _sequence(body, length)
    width = body.getwidth()[0]
    if high is ops.MAXREPEAT:
        most = length // width if width else max(low, length)
    else:
        most = min(int(high), length // width) if width else int(high)
    rounds = most + 1  # the last one finds that it no longer fits
    if inner.ways <= 1:
        ways, steps = float(max(most - low, 0) + 1), rounds * inner.steps
    else:
        # How often the body is tried in all: 1 + ways + ways² + …
        is_endless = rounds * math.log2(inner.ways) > 1000
        tries = math.inf if is_endless else float((inner.ways**rounds - 1) / (inner.ways - 1))
        ways, steps = tries, tries * inner.steps
    return _Cost(1 if op is ops.POSSESSIVE_REPEAT else ways, 1 + steps)


def _is_decided(branches: list[Any]) -> bool:
    """Return whether the branches are words with different first letters: only one can fit.

    Letters that differ only in case count as equal: `(?i)` may be anywhere in the pattern.
    """
    words = [list(branch) for branch in branches]
    if not all(word and all(op is ops.LITERAL for op, _ in word) for word in words):
        return False
    # `upper` and `casefold` together equate all that `re` does: the dotless i and the long s too.
    first = {chr(word[0][1]).upper().casefold()[0] for word in words}
    return len(first) == len(words)


MAX_PATTERN_CHARACTERS = 1_000
"""A person writes no longer pattern."""
MAX_LINE_CHARACTERS = 1_000_000
"""How much of a line is searched; the rest of it is data."""
MAX_STEPS = 2_000_000
"""The worst case of one line in this process: a hundredth of a second."""
LINE_LENGTHS = (MAX_LINE_CHARACTERS, 100_000, 10_000, 2_000, 1_000, 500, 400, 250, 120, 60, 30)
"""The lengths tried for `quick_length`, the longest that keeps the worst case within `MAX_STEPS`."""

_HOPELESS_STEPS = 1e12
_HOPELESS_LENGTH = 120
"""A pattern that may take hours on a line of source is refused at once."""


class SearchPattern:
    """A compiled pattern, and the longest line that it is matched on in this process.

    Compiling may take a second of Python: don't do it on the Trio thread.

    Raises:
        ToolFailure: It is not a regular expression, or too costly (`validation_error`).
    """

    def __init__(self, pattern: str) -> None:
        if len(pattern) > MAX_PATTERN_CHARACTERS:
            raise _refused(f"it is longer than {MAX_PATTERN_CHARACTERS} characters")
        self.text = pattern
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # what may change in later Pythons still works
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
        """Return whether none of the lines can take long."""
        return len(max(lines, key=len, default="")) <= self.quick_length

    def matches(self, line: str) -> bool:
        """Return whether the pattern is found in a line that `is_quick`."""
        return self._regex.search(line) is not None


def _refused(problem: str) -> ToolFailure:
    return invalid("pattern", f"pattern: {problem}.")
