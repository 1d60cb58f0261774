"""`agent/…`: who sessions may have."""

from __future__ import annotations

from ..embedded import host_of
from ..runtime.definitions import Agent
from ..runtime.errors import NotFoundError
from ..runtime.wire.agents import Agents, OneAgent
from ..runtime.wire.roles import Role
from .caller import Caller
from .methods import MethodTable, Nothing

methods = MethodTable()


@methods.add("agent/list", Role.OBSERVER)
def list_agents(caller: Caller, params: Nothing) -> Agents:
    """The agents, by name."""
    found = host_of(caller.runtime).plan.agents
    return Agents([found[name] for name in sorted(found) if _may_know(caller, name)])


@methods.add("agent/get", Role.OBSERVER)
def get_agent(caller: Caller, params: OneAgent) -> Agent:
    """One agent."""
    found = host_of(caller.runtime).plan.agents.get(params.name)
    if found is None or not _may_know(caller, params.name):
        raise NotFoundError(f"there is no agent {params.name!r}")
    return found


def _may_know(caller: Caller, name: str) -> bool:
    agents = caller.credential.agents
    return agents is None or name in agents
