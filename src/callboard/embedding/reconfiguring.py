"""Apply new settings to a running runtime: all that need no restart, or none.

Turns, calls and questions that begin afterwards follow the new settings; those that run keep the old.
"""

from __future__ import annotations

from ..config.policy.policy import PolicyBook
from ..config.prices import PriceTable
from ..config.search_engines import search_places
from ..config.setting_rows import SettingsChange, effect_of
from ..config.settings import Settings
from .host import Host
from .models import ModelFinder


async def reconfigure(host: Host, settings: Settings) -> SettingsChange:
    """Apply the settings that need no restart; return what changed, and what needs one.

    Raises:
        CallboardError: The settings can't be used, and none of them is applied: the default model does
            not exist or has no key, or a fallback or the example of a rule is wrong.
    """
    effect = effect_of(host.settings, settings)
    new = effect.settings
    plan = host.plan
    agents = dict(host.agents if plan.remake_agents is None else plan.remake_agents(new))
    policies = PolicyBook(new.rules, search_places(new.search), new.network.auto)
    finder = plan.models.with_settings(new) if isinstance(plan.models, ModelFinder) else None
    if finder is not None:
        await finder.look_around(host.http)
        finder.target(None)
    # From here on nothing waits and nothing fails.
    if isinstance(plan.models, ModelFinder) and finder is not None:
        plan.models.replace(finder)
    host.agents.clear()
    host.agents.update(agents)
    plan.policies.replace(policies)
    plan.prices.replace(PriceTable(new.prices))
    if host.guard is not None:
        host.guard.allow_only(new.network.endpoints)
    host.marked_files.trust(new.workspaces.trust, new.workspaces.untrusted)
    limits = host.limits.now = new.limits
    host.questions.seconds = limits.approval_seconds
    if (broker := host.broker_services) is not None:
        broker.approval_seconds = limits.approval_seconds
        broker.deferred_seconds = limits.deferred_seconds
    host.settings = new
    return effect
