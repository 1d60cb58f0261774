"""The configuration in force: the one place that holds it, read at each use and swapped as a whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ..runtime.definitions import Agent
from .policy.policy import PolicyBook
from .prices import PriceTable
from .search_engines import search_places
from .settings import LiveLimits, Settings

if TYPE_CHECKING:
    from .setting_rows import SettingsChange


class InForce:
    """Settings, agents, rules and prices as they are now.

    Readers keep this object, or one of its views, and look at each use. All of it is used from the
    event loop's thread.

    Args:
        settings: Those of the start.
        agents: All agents by name.

    Attributes:
        settings: The settings.
        agents: All agents by name; always the same mapping, whose content changes.
        limits: The bounds; always the same object.
        policies: The rules; always the same book.
        prices: What models cost; always the same table.

    Raises:
        ValidationError: An example of a rule is wrong.
    """

    def __init__(
        self, settings: Settings | None = None, agents: Mapping[str, Agent] | None = None
    ) -> None:
        self.settings = settings or Settings()
        self.agents = {"general": self.settings.agent()} if agents is None else dict(agents)
        self.limits = LiveLimits(self.settings.limits)
        self.policies = policies_of(self.settings)
        self.prices = PriceTable(self.settings.prices)
        self._watchers: list[Callable[[SettingsChange], None]] = []

    def swap(
        self, change: SettingsChange, agents: Mapping[str, Agent], policies: PolicyBook
    ) -> None:
        """Put another configuration in force in one step, then tell who watches; never wait or fail."""
        self.settings = change.settings
        kept = dict(agents)
        self.agents.clear()
        self.agents.update(kept)
        self.limits.now = change.settings.limits
        self.policies.replace(policies)
        self.prices.replace(PriceTable(change.settings.prices))
        for heard in tuple(self._watchers):
            heard(change)

    def watch(self, heard: Callable[[SettingsChange], None]) -> Callable[[], None]:
        """Call `heard` after each swap, in its step; it must not wait or fail. Return what ends that."""
        self._watchers.append(heard)
        return lambda: self._watchers.remove(heard)


def policies_of(settings: Settings) -> PolicyBook:
    """Return the rules of settings; raise `ValidationError` when an example of one is wrong."""
    return PolicyBook(settings.rules, search_places(settings.search), settings.network.auto)
