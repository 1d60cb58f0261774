"""Patterns of .gitignore as regular expressions whose cost grows with the name, not with its power.

pathspec says what a pattern means. Its expressions go back over each star in turn: twenty lines like
`*a*a*a0b` held the interpreter for seconds on one long name, and a cloned repository brings both the
lines and the name. Within a name only the last star has to be tried in more than one way: what stands
before it may be found once, as early as it can be, and kept (an atomic group).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from pathspec import GitIgnoreSpec
from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

_STAR = "[^/]*"
_ONE = "[^/]"


def spec_of(lines: Iterable[str]) -> GitIgnoreSpec:
    """What fits these patterns; raises `ValueError` for what is none."""
    # Another backend would not know atomic groups, and is there or not as the machine has it.
    return GitIgnoreSpec.from_lines(lines, _pattern, backend="simple")


def _pattern(line: str) -> GitIgnoreSpecPattern:
    regex, include = GitIgnoreSpecPattern.pattern_to_regex(line)
    if regex is None:
        return GitIgnoreSpecPattern(None)
    return GitIgnoreSpecPattern(re.compile(without_ways_back(regex)), include)


def without_ways_back(regex: str) -> str:
    """The expression, with each star but the last of a name bound to the first place that fits."""
    before, *pieces = regex.split(_STAR)
    for number, piece in enumerate(pieces, 1):
        # A slash that is no part of "any character but a slash" ends the name.
        is_last = number == len(pieces) or "/" in piece.replace(_ONE, "")
        before += f"{_STAR}{piece}" if is_last else f"(?>{_STAR}?{piece})"
    return before
