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


MAX_KNOWN_GONE = 1_000
"""Agents that are gone of which it is remembered what they were allowed: as many as people remove in a year."""


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
        gone: Agents that a swap took away, by name, as they were; without those that rules named, which may have
            been allowed less than their own configuration says. Always the same mapping.
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
        self.gone: dict[str, Agent] = {}
        self.limits = LiveLimits(self.settings.limits)
        self.policies = policies_of(self.settings)
        self.prices = PriceTable(self.settings.prices)
        self._watchers: list[Callable[[SettingsChange], None]] = []

    def swap(
        self, change: SettingsChange, agents: Mapping[str, Agent], policies: PolicyBook
    ) -> None:
        """Put another configuration in force in one step, then tell who watches; never wait or fail."""
        kept = dict(agents)
        self._remember_gone(kept)
        self.settings = change.settings
        self.agents.clear()
        self.agents.update(kept)
        self.limits.now = change.settings.limits
        self.policies.replace(policies)
        self.prices.replace(PriceTable(change.settings.prices))
        for heard in tuple(self._watchers):
            heard(change)

    def _remember_gone(self, kept: Mapping[str, Agent]) -> None:
        ruled = {name for placed in self.settings.rules for name in placed.rule.agents}
        for name, agent in self.agents.items():
            self.gone.pop(name, None)  # what it was before this is not true any more
            if name not in kept and name not in ruled:
                self.gone[name] = agent
        while len(self.gone) > MAX_KNOWN_GONE:
            del self.gone[next(iter(self.gone))]

    def watch(self, heard: Callable[[SettingsChange], None]) -> Callable[[], None]:
        """Call `heard` after each swap, in its step; it must not wait or fail. Return what ends that."""
        self._watchers.append(heard)
        return lambda: self._watchers.remove(heard)


def policies_of(settings: Settings) -> PolicyBook:
    """Return the rules of settings; raise `ValidationError` when an example of one is wrong."""
    return PolicyBook(settings.rules, search_places(settings.search), settings.network.auto)
