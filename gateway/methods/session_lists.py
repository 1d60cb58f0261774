"""`session/list`, `session/search` and what people do with whole sessions, many at a time."""

from __future__ import annotations

from ...embedding.runtime import host_of
from ...runtime.errors import ConflictError
from ...runtime.store.lists import SessionFilter, SessionPage, WordSearch
from ...runtime.wire.fields import Role
from ...runtime.wire.sessions import (
    FindWords,
    Hits,
    ListSessions,
    NamedSessions,
    Rename,
    SetAgent,
    SomeSessions,
)
from ..connection.caller import Caller
from ..connection.method_table import MethodTable, Nothing
from .sessions import page

methods = MethodTable()


async def _known(caller: Caller, session_ids: tuple[str, ...]) -> None:
    """Raises `NotFoundError` for the first one that does not exist for this caller."""
    for session_id in session_ids:
        await caller.session(session_id)


@methods.add("session/list", Role.OBSERVER)
async def list_sessions(caller: Caller, params: ListSessions) -> SessionPage:
    """Sessions on record by page, the latest activity first."""
    wanted = SessionFilter(
        limit=page(params.limit),
        before=params.before,
        agent=params.agent,
        words=params.query,
        deleted=params.deleted,
        include_children=params.include_children,
        within=caller.visible,
    )
    return await caller.runtime.store.session_page(wanted)


@methods.add("session/search", Role.OBSERVER, is_slow=True)
async def search_sessions(caller: Caller, params: FindWords) -> Hits:
    """Sessions in which words were said, with what stands around them."""
    search = WordSearch(
        query=params.query,
        limit=page(params.limit),
        within=caller.visible,
    )
    return Hits(await host_of(caller.runtime).keeping.search(search))


@methods.add("session/rename", Role.OPERATOR)
async def rename_session(caller: Caller, params: Rename) -> Nothing:
    """Gives a session another title."""
    await _known(caller, (params.session_id,))
    await host_of(caller.runtime).keeping.rename(params.session_id, params.title)
    return Nothing()


@methods.add("session/set_agent", Role.OPERATOR)
async def set_agent(caller: Caller, params: SetAgent) -> Nothing:
    """Has another agent's configuration hold from the next turns on."""
    await _known(caller, params.session_ids)
    agents = caller.credential.agents
    if agents is not None and params.agent not in agents:
        raise ConflictError(f"this token is not for the agent {params.agent!r}")
    await host_of(caller.runtime).keeping.set_agent(params.session_ids, params.agent)
    return Nothing()


@methods.add("session/delete", Role.OPERATOR, is_slow=True)
async def delete_sessions(caller: Caller, params: NamedSessions) -> SomeSessions:
    """Hides sessions and all below them, and ends what runs there; `session/restore` undoes it."""
    await _known(caller, params.session_ids)
    return SomeSessions(tuple(await host_of(caller.runtime).keeping.delete(params.session_ids)))


@methods.add("session/restore", Role.OPERATOR)
async def restore_sessions(caller: Caller, params: NamedSessions) -> SomeSessions:
    """Takes deletions back."""
    await _known(caller, params.session_ids)
    return SomeSessions(tuple(await host_of(caller.runtime).keeping.restore(params.session_ids)))


@methods.add("session/purge", Role.ADMIN, is_slow=True)
async def purge_sessions(caller: Caller, params: NamedSessions) -> SomeSessions:
    """Removes deleted sessions, and all on record of them, for good."""
    await _known(caller, params.session_ids)
    return SomeSessions(tuple(await host_of(caller.runtime).keeping.purge(params.session_ids)))
