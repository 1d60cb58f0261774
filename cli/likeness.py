"""What somebody may have meant who mistyped a name."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

MIN_LIKENESS = 0.7
"""Of a mistyped option and the one that is suggested: two letters may be wrong, not half of them."""


def closest(name: str, known: Sequence[str]) -> str | None:
    """The known option that is most like this one; `None` when none is."""
    if len(name) == 2:  # one letter: the option that begins with it
        return next((option for option in known if option.startswith(f"-{name}")), None)
    return next(iter(difflib.get_close_matches(name, known, 1, MIN_LIKENESS)), None)
