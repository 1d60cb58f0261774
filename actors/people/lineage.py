"""Where a session stands in the session tree: who delegated to it, and what that leaves it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ...runtime.definitions import Agent
from ...runtime.errors import NotFoundError, StorageError
from ...runtime.events import SessionCreated
from ...runtime.messages import Ancestor
from ...runtime.store.interface import SessionRow, StoreReader
from .channels import Channels


class Lineage:
    """Reads from the record who a session's parents are; what is found never changes.

    Args:
        store: The record.
        agents: By name.
        channels: Where people are.
    """

    def __init__(self, store: StoreReader, agents: Mapping[str, Agent], channels: Channels) -> None:
        self._store = store
        self._agents = agents
        self._channels = channels

    async def above(self, parent_id: str | None) -> tuple[Ancestor, ...]:
        """The parent, its parent and so on; empty for a session that nobody delegated to.

        Raises:
            NotFoundError: One of them has an agent that is not configured any more.
        """
        found: list[Ancestor] = []
        seen: set[str] = set()
        while parent_id is not None:
            row = await self._store.session(parent_id)
            if row is None or parent_id in seen:
                raise StorageError(f"the session {parent_id}, which delegated, is not on record")
            seen.add(parent_id)
            agent = narrowed(agent_named(self._agents, row.agent), await self._tools(row))
            channel = self._channels.own(row.kind)
            found.append(
                Ancestor(session_id=parent_id, agent=agent, kind=row.kind, channel=channel)
            )
            parent_id = row.parent_id
        return tuple(_narrowed_downwards(found))

    async def agent_of(self, row: SessionRow, lineage: tuple[Ancestor, ...]) -> Agent:
        """The agent of a session that is not loaded, with the tools that are left to it."""
        agent = narrowed(agent_named(self._agents, row.agent), await self._tools(row))
        return under(agent, lineage)

    async def _tools(self, row: SessionRow) -> tuple[str, ...] | None:
        if row.parent_id is None:
            return None
        begun = await self._store.events(row.session_id, limit=1)
        created = begun[0].event if begun else None
        if not isinstance(created, SessionCreated):
            raise StorageError(f"the session {row.session_id} has no beginning on record")
        return created.tools


def agent_named(agents: Mapping[str, Agent], name: str) -> Agent:
    """The agent of this name; raises `NotFoundError`, which says which there are."""
    agent = agents.get(name)
    if agent is None:
        known = ", ".join(sorted(agents))
        raise NotFoundError(f"there is no agent {name!r}; there are: {known}")
    return agent


def narrowed(agent: Agent, tools: tuple[str, ...] | None) -> Agent:
    """The agent with those of its tools that are among these (`None`: with all of its tools)."""
    if tools is None:
        return agent
    has = agent.tools
    left = tools if has is None else tuple(name for name in tools if name in has)
    return msgspec.structs.replace(agent, tools=left)


def under(agent: Agent, lineage: tuple[Ancestor, ...]) -> Agent:
    """The agent with those of its tools that its parent has, whatever was configured since."""
    return narrowed(agent, lineage[0].agent.tools) if lineage else agent


def _narrowed_downwards(found: list[Ancestor]) -> list[Ancestor]:
    below: tuple[Ancestor, ...] = ()
    for each in reversed(found):
        agent = under(each.agent, below)
        below = (msgspec.structs.replace(each, agent=agent), *below)
    return list(below)
