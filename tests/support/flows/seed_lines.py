"""Lines of the documents that callboard began with, each with the test that asserts it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, TypeVar

_Test = TypeVar("_Test", bound=Callable[..., Any])


class Lines:
    """The lines of one document; each is said by at least one test, and no test says another."""

    def __init__(self, lines: Collection[str]) -> None:
        self.lines = tuple(lines)
        self.said: dict[str, list[str]] = {line: [] for line in self.lines}

    def says(self, *lines: str) -> Callable[[_Test], _Test]:
        """Marks the test that asserts these lines."""

        def mark(test: _Test) -> _Test:
            for line in lines:
                self.said[line].append(test.__name__)
            return test

        return mark

    @property
    def unsaid(self) -> list[str]:
        """Those that no test asserts."""
        return [line for line, tests in self.said.items() if not tests]
