"""Notices a turn that goes round in circles: one tool, the same arguments, the same result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from ..runtime.history import Call, Result


class LoopGuard:
    """Counts the calls of one turn.

    Args:
        most: How often the same may come.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._repeats: Counter[tuple[str, str, str]] = Counter()

    def repeated(
        self, calls: Iterable[Call], result_of: Callable[[str], Result | None]
    ) -> str | None:
        """Counts these calls; says what happened when one of them came too often."""
        for call in calls:
            result = result_of(call.call_id)
            if result is not None:
                key = (call.name, call.arguments, result.content)
                self._repeats[key] += 1
                if self._repeats[key] >= self._most:
                    return f"{call.name} was called {self._most} times with the same result."
        return None
