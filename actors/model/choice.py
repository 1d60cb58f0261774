"""The models that a turn may ask, in their order: which one now, and which one next."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from ...providers.provider import ModelTarget
from ...runtime.errors import CallboardError
from .provider_health import ProviderHealth


class ModelChoice:
    """The agent's models, from the first to the last.

    Each is taken once. One whose provider is set aside waits until there is no other.

    Attributes:
        target: The model that is asked now.
        has_others: Whether the agent names more than one.
        unusable: Why models that it names can't be asked: no key, no such provider.

    Args:
        first: The model that the turn begins with.
        others: Find the models behind it, when they are needed.
        health: The failures of all sessions.
    """

    def __init__(
        self,
        first: ModelTarget,
        others: Sequence[Callable[[], ModelTarget]],
        health: ProviderHealth,
    ) -> None:
        self.target = first
        self.has_others = bool(others)
        self.unusable: list[str] = []
        self._health = health
        self._to_find = deque(others)
        self._passed_over: deque[ModelTarget] = deque()
        self._taken = {_name(first)}

    def pass_over(self) -> bool:
        """Takes another model when this one's provider is set aside and the other's is not."""
        if not self.has_others or not self._health.is_set_aside(self.target.provider):
            return False
        found = self._working()
        if found is None:
            return False
        self._passed_over.appendleft(self.target)
        self.target = found
        return True

    def take_next(self) -> bool:
        """Takes the next model that can be asked, rather one whose provider works."""
        found = self._working()
        if found is None and self._passed_over:
            found = self._passed_over.popleft()
        if found is None:
            return False
        self.target = found
        return True

    def _working(self) -> ModelTarget | None:
        while self._to_find:
            try:
                found = self._to_find.popleft()()
            except CallboardError as error:
                self.unusable.append(str(error))
                continue
            if _name(found) in self._taken:
                continue  # named twice
            self._taken.add(_name(found))
            if not self._health.is_set_aside(found.provider):
                return found
            self._passed_over.append(found)
        return None


def _name(target: ModelTarget) -> str:
    return f"{target.provider}/{target.model}"
