"""One check of `callboard doctor`, and what came of it."""

from __future__ import annotations

from typing import Literal

import msgspec

from ..hints import runnable

State = Literal["good", "warning", "problem"]


class Finding(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a check found.

    Attributes:
        check: Its name.
        state: A problem keeps something from working; a warning may.
        words: What there is.
        fix: What to do about it; empty when all is well.
    """

    check: str
    state: State
    words: str
    fix: str = ""

    def lines(self) -> list[str]:
        """Return the finding as lines for people."""
        mark = "" if self.state == "good" else f"{self.state}: "
        return [
            f"{self.check}: {mark}{self.words}",
            *([f"  fix: {runnable(self.fix)}"] if self.fix else []),
        ]


def good(check: str, words: str) -> Finding:
    """Return a finding that all is well."""
    return Finding(check=check, state="good", words=words)


def warning(check: str, words: str, fix: str) -> Finding:
    """Return a finding that may get in the way."""
    return Finding(check=check, state="warning", words=words, fix=fix)


def problem(check: str, words: str, fix: str) -> Finding:
    """Return a finding that something does not work."""
    return Finding(check=check, state="problem", words=words, fix=fix)
