"""Apply new settings to a running runtime: all that need no restart, or none.

Turns, calls and questions that begin afterwards follow the new settings; a turn that runs keeps its agent.
"""

from __future__ import annotations

from ..config.in_force import policies_of
from ..config.setting_rows import SettingsChange, effect_of
from ..config.settings import Settings
from .host import Host
from .list_changes import tell_changed
from .models import ModelFinder


async def reconfigure(host: Host, settings: Settings) -> SettingsChange:
    """Apply the settings that need no restart; return what changed, and what needs one.

    Raises:
        CallboardError: The settings can't be used, and none of them is applied: the default model does
            not exist or has no key, or a fallback or the example of a rule is wrong.
    """
    plan, force = host.plan, host.force
    effect = effect_of(force.settings, settings)
    new = effect.settings
    agents = force.agents if plan.remake_agents is None else plan.remake_agents(new)
    policies = policies_of(new)
    finder = plan.models.with_settings(new) if isinstance(plan.models, ModelFinder) else None
    if finder is not None:
        await finder.look_around(host.http)
        finder.target(None)
    # From here on nothing waits and nothing fails.
    if isinstance(plan.models, ModelFinder) and finder is not None:
        plan.models.replace(finder)
    force.swap(effect, agents, policies)
    tell_changed(host, effect)
    return effect
