"""`memory/…`: list, search, store and delete what sessions remember."""

from __future__ import annotations

from ...actors.handles.memories import JournaledMemories
from ...embedding.runtime import host_of
from ...runtime.errors import ConflictError, NotFoundError, ValidationError
from ...runtime.memory.memories import MAX_MEMORY_CHARS, MAX_TAG_CHARS, MAX_TAGS, Memory, NewMemory
from ...runtime.wire import memories as wire
from ...runtime.wire.fields import Role
from ..connection.caller import Caller
from ..connection.method_table import MethodTable, Nothing
from ..shared.pages import page

methods = MethodTable()


@methods.add("memory/list", Role.OPERATOR)
async def list_memories(caller: Caller, params: wire.ListMemories) -> wire.Memories:
    """List memories, the latest first."""
    found = await caller.runtime.store.memories(
        agent=params.agent, before=params.before, within=caller.visible, limit=page(params.limit)
    )
    return wire.Memories(found)


@methods.add("memory/search", Role.OPERATOR)
async def search_memories(caller: Caller, params: wire.SearchMemories) -> wire.Memories:
    """Return memories of an agent that have a word of the query, the best first."""
    found = await caller.runtime.store.found_memories(
        params.agent, params.query, within=caller.visible, limit=page(params.limit)
    )
    return wire.Memories(found)


@methods.add("memory/store", Role.OPERATOR, about="session_id")
async def store_memory(caller: Caller, params: wire.StoreMemory) -> Memory:
    """Store a memory for later sessions of a session's agent; repetitions are stored once."""
    session = await caller.session(params.session_id)
    if caller.credential.sessions is not None:
        raise ConflictError(
            "this token is for certain sessions, and other sessions of the agent would read what it stored too"
        )
    _check(params)
    new = NewMemory(
        agent=session.agent,
        text=params.text,
        tags=params.tags,
        session_id=session.session_id,
        is_untrusted=session.is_tainted,
    )
    return await _memories(caller).store(new)


@methods.add("memory/delete", Role.OPERATOR, about="memory_id")
async def delete_memory(caller: Caller, params: wire.OneMemory) -> Nothing:
    """Delete a memory: no session finds it any more."""
    found = await caller.runtime.store.memories(
        memory_id=params.memory_id, within=caller.visible, limit=1
    )
    if not found:
        raise NotFoundError(f"there is no memory {params.memory_id}")
    await _memories(caller).forget(params.memory_id, forgotten_by=caller.name)
    return Nothing()


def _memories(caller: Caller) -> JournaledMemories:
    # Without the index of meanings: what is forgotten is left out of its answers, and what is new
    # is found by its words, until the index fills itself from the record.
    host = host_of(caller.runtime)
    return JournaledMemories(host.journal, host.plan.store, host.plan.node)


def _check(params: wire.StoreMemory) -> None:
    if not params.text.strip() or len(params.text) > MAX_MEMORY_CHARS:
        raise ValidationError(f"a memory has from 1 to {MAX_MEMORY_CHARS} characters", field="text")
    if len(params.tags) > MAX_TAGS or any(len(tag) > MAX_TAG_CHARS for tag in params.tags):
        raise ValidationError(
            f"a memory has at most {MAX_TAGS} tags, of {MAX_TAG_CHARS} characters each",
            field="tags",
        )
