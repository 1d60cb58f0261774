"""`agent/…`: which agents there are, and changes of those that programs and commands made."""

from __future__ import annotations

import msgspec

from ...actors.upkeep.keeping import MAX_BATCH
from ...embedding.runtime import host_of
from ...runtime.definitions import GENERAL_AGENT, Agent
from ...runtime.errors import (
    ConflictError,
    NetworkError,
    NotFoundError,
    OverloadedError,
    PermissionRefused,
)
from ...runtime.redaction import redacting_logger
from ...runtime.store.lists import SessionFilter
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
from ...runtime.wire.sessions import SetAgent
from ..connection.caller import Caller
from ..connection.method_table import MethodTable, Nothing
from ..shared.workspaces import check_workspace_named
from .sessions import methods as sessions

logger = redacting_logger(__name__)

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
    deleted = await caller.runtime.agents.delete(params.name)
    is_gone = params.name not in host_of(caller.runtime).agents
    if caller.daemon.relays is None or not is_gone:
        return deleted
    moved = await _leave_elsewhere(caller, params.name)
    await caller.runtime.agents.finish_deletions()
    return AgentDeleted(deleted.moved_sessions + moved)


async def _leave_elsewhere(caller: Caller, agent: str) -> int:
    """Have other nodes give the sessions of a deleted agent to General Assistant; return how many did."""
    set_agent, moved = sessions.get("session/set_agent"), 0
    assert set_agent is not None
    wanted = SessionFilter(agent=agent, deleted="also", limit=MAX_BATCH)
    while True:
        page = await caller.runtime.store.session_page(wanted)
        for row in page.sessions:
            one = SetAgent(session_ids=(row.session_id,), agent=GENERAL_AGENT)
            try:
                await set_agent.call(caller, one)
                moved += 1
            except (ConflictError, NetworkError, NotFoundError, OverloadedError) as error:
                logger.warning("a session keeps the deleted agent %s for now: %s", agent, error)
                if isinstance(error, NetworkError | OverloadedError):
                    return moved  # its other sessions would be waited for, too
        if page.next_before is None:
            return moved
        wanted = msgspec.structs.replace(wanted, before=page.next_before)


def _agent(caller: Caller, draft: AgentDraft) -> Agent:
    return draft.agent(host_of(caller.runtime).settings.policy)
