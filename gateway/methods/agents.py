"""`agent/…`: which agents there are, and changes of those that programs and commands made."""

from __future__ import annotations

from ...embedding.runtime import host_of
from ...runtime.definitions import Agent
from ...runtime.errors import NotFoundError, PermissionRefused
from ...runtime.wire.agents import (
    AgentDeleted,
    AgentDraft,
    AgentList,
    AgentRow,
    ChangedAgent,
    CloneAgent,
    NewAgent,
    OneAgent,
    PreviewAgent,
    PromptPreview,
)
from ...runtime.wire.fields import Role
from ..connection.caller import Caller
from ..connection.method_table import MethodTable, Nothing
from ..shared.workspaces import check_workspace_named

methods = MethodTable()


@methods.add("agent/list", Role.OBSERVER)
async def list_agents(caller: Caller, params: Nothing) -> AgentList:
    """Return the agents, sorted by name."""
    rows = await caller.runtime.agents.list()
    return AgentList([row for row in rows if caller.knows_agent(row.name)])


@methods.add("agent/get", Role.OBSERVER)
async def get_agent(caller: Caller, params: OneAgent) -> AgentRow:
    """Return an agent."""
    if not caller.knows_agent(params.name):
        raise NotFoundError(f"there is no agent {params.name!r}")
    return await caller.runtime.agents.get(params.name)


@methods.add("agent/preview", Role.OPERATOR)
async def preview_agent(caller: Caller, params: PreviewAgent) -> PromptPreview:
    """Return what a model is told before anything is said, as a session of the agent would begin now."""
    if not caller.knows_agent(params.name):
        raise NotFoundError(f"there is no agent {params.name!r}")
    if params.workspace is not None:
        if caller.is_limited:
            raise PermissionRefused("what a workspace tells is not for a token that is limited")
        await check_workspace_named(caller.daemon, params.workspace)
    return await caller.runtime.agents.preview(params.name, workspace=params.workspace)


@methods.add("agent/create", Role.ADMIN)
async def create_agent(caller: Caller, params: NewAgent) -> AgentRow:
    """Make an agent, which sessions may have at once."""
    return await caller.runtime.agents.create(_agent(caller, params.agent))


@methods.add("agent/update", Role.ADMIN)
async def update_agent(caller: Caller, params: ChangedAgent) -> AgentRow:
    """Change an agent as a whole, for turns that begin afterwards."""
    return await caller.runtime.agents.update(_agent(caller, params.agent))


@methods.add("agent/clone", Role.ADMIN)
async def clone_agent(caller: Caller, params: CloneAgent) -> AgentRow:
    """Copy an agent under another name; nothing binds the copy to it."""
    return await caller.runtime.agents.clone(params.name, params.new_name)


@methods.add("agent/delete", Role.ADMIN, is_slow=True)
async def delete_agent(caller: Caller, params: OneAgent) -> AgentDeleted:
    """Delete an agent; General Assistant takes over its sessions, and turns that run go on."""
    return await caller.runtime.agents.delete(params.name)


def _agent(caller: Caller, draft: AgentDraft) -> Agent:
    return draft.agent(host_of(caller.runtime).settings.policy)
