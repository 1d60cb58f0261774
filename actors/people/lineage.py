"""Where a session stands in the session tree: under which agents it acts, and whom it can ask.

A session that another one delegated to has no more tools than its parent has now, whatever was
configured since, and no people of its own: its questions go to the nearest session above it whose
people can be reached. A worker asks nobody, wherever it stands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

import msgspec

from ...runtime.channel import Channel
from ...runtime.definitions import GENERAL_AGENT, Agent, Preset, SessionKind
from ...runtime.errors import NotFoundError, StorageError
from ...runtime.events import SessionCreated
from ...runtime.messages import Ancestor, CallPlace
from ...runtime.store.interface import StoreReader
from ...runtime.store.rows import SessionRow
from ...runtime.text import did_you_mean
from ...runtime.turn_options import no_laxer

NONE_GONE: Mapping[str, Agent] = MappingProxyType({})


class Served(msgspec.Struct, frozen=True):
    """A channel that serves a place in the tree.

    Attributes:
        session_id: The session that has the channel.
        channel: The channel.
        asked_in: `session_id`, when that is a session above the place; else empty.
        origin: Which session below asks, and its task, in words; empty for the session itself.
    """

    session_id: str
    channel: Channel
    asked_in: str = ""
    origin: str = ""


class Channels:
    """The channels of a runtime, by the names that places and policies use.

    Args:
        channel: The channel of its main sessions; `None` where there are no people.
        given: Returns the channel in turns of a command, in place of that one: inputs of commands may have people of their
            own, or none.
    """

    def __init__(
        self,
        channel: Channel | None = None,
        given: Callable[[str, Channel | None], Channel | None] | None = None,
    ) -> None:
        self.channel = channel
        self._given = given

    def _of(self, command: str) -> Channel | None:
        if not command or self._given is None:
            return self.channel
        return self._given(command, self.channel)

    def own(self, kind: SessionKind, command: str = "") -> str | None:
        """Return the name of the channel that a session of this kind has itself, in a turn of this command."""
        channel = self._of(command)
        if channel is None or kind is not SessionKind.MAIN:
            return None
        return channel.name

    def serving(self, place: CallPlace) -> Served | None:
        """Return the nearest channel up the session tree."""
        return next(self._reachable(place), None)

    def reachable(self, place: CallPlace) -> tuple[Served, ...]:
        """Return each channel that a place can reach, the nearest first."""
        found: dict[str, Served] = {}
        for served in self._reachable(place):
            found.setdefault(served.channel.name, served)
        return tuple(found.values())

    def _reachable(self, place: CallPlace) -> Iterator[Served]:
        if place.session_kind is SessionKind.WORKER:
            return
        line = [(place.session_id, place.channel)]
        line += [(each.session_id, each.channel) for each in place.lineage]
        channel = self._of(place.command)
        for session_id, name in line:
            if name is not None and channel is not None and name == channel.name:
                if session_id == place.session_id:
                    yield Served(session_id, channel)
                else:
                    yield Served(session_id, channel, session_id, _origin(place))


def _origin(place: CallPlace) -> str:
    task = f", whose task is: {place.task}" if place.task else ""
    return f"from the {place.session_kind} {place.session_id}{task}"


class Lineage:
    """Reads a session's parents from the record; what it finds never changes.

    Args:
        store: The record.
        agents: By name.
        channels: Finds people.
        gone: Agents that are not configured any more, as they were, as far as that is known.
    """

    def __init__(
        self,
        store: StoreReader,
        agents: Mapping[str, Agent],
        channels: Channels,
        gone: Mapping[str, Agent] = NONE_GONE,
    ) -> None:
        self._store = store
        self._agents = agents
        self._channels = channels
        self._gone = gone

    async def above(self, parent_id: str | None) -> tuple[Ancestor, ...]:
        """Return the parent, its parent and so on; empty for a main session."""
        found: list[Ancestor] = []
        seen: set[str] = set()
        while parent_id is not None:
            row = await self._store.session(parent_id)
            if row is None or parent_id in seen:
                raise StorageError(f"the session {parent_id}, which delegated, is not on record")
            seen.add(parent_id)
            agent = narrowed(self._bounds(row.agent), await self._tools(row))
            channel = self._channels.own(row.kind)
            found.append(
                Ancestor(session_id=parent_id, agent=agent, kind=row.kind, channel=channel)
            )
            parent_id = row.parent_id
        line: tuple[Ancestor, ...] = ()
        for each in reversed(found):  # from the main session downwards, each under the one above
            agent = under(each.agent, line)
            line = (msgspec.structs.replace(each, agent=agent), *line)
        return line

    async def agent_of(self, row: SessionRow, lineage: tuple[Ancestor, ...]) -> Agent:
        """Return the agent of a session that is not loaded, with the tools that it may use."""
        agent = narrowed(self._bounds(row.agent), await self._tools(row))
        return under(agent, lineage)

    def _bounds(self, name: str) -> Agent:
        """Return the agent of this name, as it was if it is gone; what nobody knows any more may do nothing."""
        agent = self._agents.get(name) or self._gone.get(name)
        return agent or Agent(name=name, tools=(), policy=Preset.STRICT)

    async def _tools(self, row: SessionRow) -> tuple[str, ...] | None:
        if row.parent_id is None:
            return None
        begun = await self._store.events(row.session_id, limit=1)
        created = begun[0].event if begun else None
        if not isinstance(created, SessionCreated):
            raise StorageError(f"the session {row.session_id} has no beginning on record")
        return created.tools


def agent_named(agents: Mapping[str, Agent], name: str) -> Agent:
    """Return the agent of this name; General Assistant stands in for one that is gone.

    Raises:
        NotFoundError: There is neither; the message lists the names that exist.
    """
    agent = agents.get(name) or agents.get(GENERAL_AGENT)
    return agent if agent is not None else known_agent(agents, name)


def allows_no_more(agent: Agent, than: Agent) -> bool:
    """Return whether one agent may do nothing, unasked, that another may not."""
    has_no_more_tools = than.tools is None or (
        agent.tools is not None and set(agent.tools) <= set(than.tools)
    )
    budgets = (
        (agent.turn_budget, than.turn_budget),
        (agent.session_budget, than.session_budget),
    )
    return (
        has_no_more_tools
        and no_laxer(agent, than.policy) is agent
        and set(agent.auto_hosts) <= set(than.auto_hosts)
        and all(limit is None or limit == own for own, limit in budgets)
    )


def known_agent(agents: Mapping[str, Agent], name: str) -> Agent:
    """Return the agent of this name; raise `NotFoundError`, which lists the names that exist."""
    agent = agents.get(name)
    if agent is None:
        known = ", ".join(sorted(agents))
        close = did_you_mean(name, agents)
        raise NotFoundError(f"there is no agent {name!r}; there are: {known}.{close}")
    return agent


def narrowed(agent: Agent, tools: tuple[str, ...] | None) -> Agent:
    """Return the agent with those of its tools that are among `tools`; `None` keeps them all."""
    if tools is None:
        return agent
    has = agent.tools
    left = tools if has is None else tuple(name for name in tools if name in has)
    return msgspec.structs.replace(agent, tools=left)


def under(agent: Agent, lineage: tuple[Ancestor, ...]) -> Agent:
    """Return the agent with those of its tools that its parent has."""
    return narrowed(agent, lineage[0].agent.tools) if lineage else agent
