"""Agents as programs, clients and commands manage them: list, make, change, copy, delete.

An agent of callboard.toml is changed there, one that the program passed by the program; all others are in
managed.toml. Each change is one new file, tried before it is kept, and in force when the method returns.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial, reduce
from pathlib import Path

import msgspec
import trio

from ..actors.people.lineage import known_agent
from ..actors.turn.setup import told
from ..config.files import config_file, load_own_settings, load_settings_of, place_of
from ..config.managed import forget_deleted_agent, load_managed, remove_agent, save_agent
from ..config.settings import Settings
from ..config.toml_reader import NAME
from ..config.validation import checked
from ..providers.catalog.table import REHEARSAL, check_provider
from ..runtime.definitions import GENERAL_AGENT, Agent, SessionKind, ToolDefinition
from ..runtime.errors import ConflictError, NotFoundError, ValidationError
from ..runtime.identity import now_ms
from ..runtime.text import did_you_mean
from ..runtime.wire.agents import (
    AgentDeleted,
    AgentRow,
    AgentSource,
    AgentTool,
    PromptPart,
    PromptPreview,
    row_of,
)
from ..tools.registry import unknown_tools
from ..tools.skills.shelf import workspace_prompt
from .configuration import Configuration
from .host import Host

RESERVED = ("general-assistant", "all", "none", "default", "callboard", "program", "terminal")
"""Names that would be taken for something else: a word of a command, or who acts on record."""

_LOOKS = str.maketrans({"0": "o", "1": "l", "i": "l", "5": "s", "-": "", "_": "", ".": ""})


def looks(name: str) -> str:
    """Return what names that look alike have in common."""
    return name.lower().translate(_LOOKS).replace("rn", "m").replace("vv", "w")


def check_name(name: str, taken: Iterable[str], whose: str = "an agent") -> None:
    """Raise `ValidationError` unless an agent, a schedule or a hook may have this name beside those that there are."""
    if NAME.fullmatch(name) is None:
        problem = f"{name[:80]!r} can't be {whose}'s name: use letters, digits, '.', '_' and '-', at most 64"
        raise ValidationError(f"{problem}.", field="name")
    for other in (*RESERVED, *taken):
        if looks(other) == looks(name):
            why = "is taken" if other == name else f"looks like {other!r}"
            why = "is reserved" if other in RESERVED else why
            raise ValidationError(f"the name {name!r} {why}; choose another.", field="name")


def check_agent(name: str, agents: Collection[str]) -> None:
    """Raise `ValidationError` unless there is this agent, whom a schedule or a hook names."""
    if name not in agents:
        known, close = ", ".join(sorted(agents)), did_you_mean(name, agents)
        problem = f"agent: there is no agent {name!r}; there are: {known}.{close}"
        raise ValidationError(problem, field="agent")


def check_parts(agent: Agent, settings: Settings, tools: Collection[str]) -> None:
    """Raise `ValidationError` for a tool, provider or model that does not exist; it names the field."""
    for sentence in unknown_tools(agent.name, agent.tools, tools):
        raise ValidationError(f"tools: {sentence}", field="tools")
    given = [("model", agent.model), *(("fallbacks", name) for name in agent.fallbacks)]
    for field, choice in given:
        if choice is None:
            continue
        provider, _, model = choice.partition("/")
        if provider == REHEARSAL and model not in {"", REHEARSAL}:
            problem = f"{field}: there is no model {choice!r}; write {REHEARSAL}/{REHEARSAL}."
            raise ValidationError(problem, field=field)
        try:
            check_provider(settings, choice)
        except NotFoundError as error:
            raise ValidationError(f"{field}: {error}", field=field) from error


class AgentBook:
    """Changes the agents of managed.toml. Everything here blocks.

    Args:
        file: The operator's file, which need not exist.
        tools: The tools that there are.
        given: Agents that the program passed, by name.
    """

    def __init__(
        self,
        file: Path | None,
        tools: Iterable[ToolDefinition],
        given: Mapping[str, Agent] | None = None,
    ) -> None:
        self._file = config_file(file)
        self._tools = {each.name: _tool(each) for each in tools}
        self._given = given or {}

    def rows(self) -> list[AgentRow]:
        """Return all agents, sorted by name."""
        settings = load_settings_of(self._file)
        agents = {GENERAL_AGENT: settings.agent(), **settings.agents, **self._given}
        return agent_rows(agents, settings, self._tools, self._given)

    def row(self, name: str) -> AgentRow:
        """Return an agent; raise `NotFoundError`."""
        return row_named(self.rows(), name)

    def create(self, agent: Agent) -> None:
        """Add an agent.

        Raises:
            ConflictError: It stands in callboard.toml; the message says where.
            ValidationError: A field is not what it may be; the message names it.
            StorageError: It can't be written.
        """
        self._check_elsewhere(agent.name, "choose another name")
        settings = load_settings_of(self._file)
        check_name(agent.name, {GENERAL_AGENT, *settings.agents, *self._given})
        self._save(agent, settings, None)

    def update(self, agent: Agent) -> None:
        """Change an agent as a whole.

        Raises:
            NotFoundError: There is none of that name.
            ConflictError: It stands in callboard.toml, or has changed since `agent.updated_at_ms`.
            ValidationError, StorageError: As `create`.
        """
        self._check_elsewhere(agent.name, "change it there")
        settings = load_settings_of(self._file)
        before = settings.agents.get(agent.name)
        if before is None and agent.name != GENERAL_AGENT:
            raise _missing(agent.name, settings.agents)
        last = None if before is None else before.updated_at_ms
        if agent.updated_at_ms is not None and agent.updated_at_ms != last:
            raise ConflictError(
                f"the agent {agent.name!r} was changed meanwhile: read it again, and change that."
            )
        self._save(agent, settings, None if before is None else before.created_at_ms)

    def clone(self, name: str, new_name: str) -> None:
        """Copy an agent under another name; nothing binds the copy to it. Raises as `create`."""
        settings = load_settings_of(self._file)
        agents = {GENERAL_AGENT: settings.agent(), **settings.agents, **self._given}
        if name not in agents:
            raise _missing(name, agents)
        self.create(msgspec.structs.replace(agents[name], name=new_name))

    def delete(self, name: str) -> None:
        """Remove an agent; its sessions have yet to move.

        Raises:
            NotFoundError: There is none of that name.
            ConflictError: It is built in, or stands in callboard.toml.
            StorageError: It can't be written.
        """
        if name == GENERAL_AGENT:
            raise ConflictError(
                f"{name!r} is built in: it can't be deleted, and takes over the sessions of others."
            )
        if name not in (managed := load_managed(self._file.parent)).agents:
            self._check_elsewhere(name, "remove it there")
            raise _missing(name, managed.agents)
        remove_agent(self._file.parent, name)

    def _check_elsewhere(self, name: str, advice: str) -> None:
        if name in self._given:
            raise ConflictError(f"the program itself gives the agent {name!r}: {advice}.")
        if name in load_own_settings(self._file, required=False).agents:
            place = place_of(self._file, "agents", name)
            raise ConflictError(f"the agent {name!r} stands in {place}: {advice}.")

    def _save(self, agent: Agent, settings: Settings, created_at_ms: int | None) -> None:
        agent = checked(agent, "agent")
        check_parts(agent, settings, self._tools)
        now = now_ms()
        agent = msgspec.structs.replace(
            agent, created_at_ms=created_at_ms or now, updated_at_ms=now
        )
        save_agent(self._file.parent, agent)


class RuntimeAgents:
    """`Runtime.agents`: the agents in force, and changes of those that programs and commands made.

    Example:
        for agent in await runtime.agents.list():
            print(agent.name, agent.source, [tool.name for tool in agent.tools])
    """

    def __init__(self, host: Host, files: Callable[[], Configuration]) -> None:
        self._host = host
        self._files = files

    async def list(self) -> builtins.list[AgentRow]:
        """Return the agents in force, sorted by name."""
        await trio.lowlevel.checkpoint()
        return self.rows()

    def rows(self) -> builtins.list[AgentRow]:
        """Return the agents in force, sorted by name; never wait."""
        host = self._host
        tools = {each.name: _tool(each) for each in host.plan.registry.all_definitions()}
        return agent_rows(host.agents, host.settings, tools, host.plan.own_agents)

    async def get(self, name: str) -> AgentRow:
        """Return an agent in force; raise `NotFoundError`."""
        await trio.lowlevel.checkpoint()
        return row_named(self.rows(), name)

    async def preview(self, name: str, *, workspace: str | None = None) -> PromptPreview:
        """Return what a model is told before anything is said, as a session of the agent would begin now.

        Args:
            name: The agent.
            workspace: The folder of that session, for its skills and each AGENTS.md; without one, they are left out.

        Raises:
            NotFoundError: There is no such agent.
        """
        host = self._host
        agent = known_agent(host.agents, name)
        tools = host.plan.registry.definitions(agent.tools, SessionKind.MAIN)
        found = [
            PromptPart("agent", agent.prompt),
            PromptPart("servers", host.plan.registry.instructions_for(tools)),
        ]
        if workspace is not None:
            reads_skills = any(definition.name == "skill" for definition in tools)
            said = await workspace_prompt(
                host.plan.skills, workspace, agent.skills, reads_skills=reads_skills
            )
            found.append(PromptPart("workspace", said))
        parts = tuple(part for part in found if part.text)
        return PromptPreview(reduce(told, (part.text for part in parts), ""), parts)

    async def create(self, agent: Agent) -> AgentRow:
        """Make an agent, which sessions may have at once.

        Raises:
            ConflictError: The runtime has no configuration file, or the agent stands in callboard.toml.
            ValidationError: A field is not what it may be; the message names it.
        """
        return await self._change(partial(self._book().create, agent), agent.name)

    async def update(self, agent: Agent) -> AgentRow:
        """Change an agent as a whole, for turns that begin afterwards.

        Raises:
            NotFoundError: There is none of that name.
            ConflictError: As `create`, or it was changed after its `updated_at_ms`.
            ValidationError: As `create`.
        """
        return await self._change(partial(self._book().update, agent), agent.name)

    async def clone(self, name: str, new_name: str) -> AgentRow:
        """Copy an agent under another name; nothing binds the copy to it. Raises as `create`."""
        return await self._change(partial(self._book().clone, name, new_name), new_name)

    async def delete(self, name: str) -> AgentDeleted:
        """Delete an agent, and have General Assistant take over its sessions; turns that run go on.

        Raises:
            NotFoundError: There is none of that name.
            ConflictError: It is built in, or stands in callboard.toml.
        """
        files = self._files()
        await files.change(partial(self._book().delete, name), self._host)
        return AgentDeleted(await self._move(name, files))  # cut off, the next start does the rest

    async def finish_deletions(self) -> None:
        """Move the sessions of agents whose deletion was cut off."""
        files = self._files()
        for name in (await trio.to_thread.run_sync(load_managed, files.folder)).deleted_agents:
            await self._move(name, files)

    async def _move(self, name: str, files: Configuration) -> int:
        moved = kept = 0
        if name not in self._host.agents:
            moved, kept = await self._host.keeping.leave_agent(name)
        if not kept:  # those of other nodes are asked for again at the next start, too
            await trio.to_thread.run_sync(forget_deleted_agent, files.folder, name)
        return moved

    async def _change(self, edit: Callable[[], None], name: str) -> AgentRow:
        await self._files().change(edit, self._host)
        return await self.get(name)

    def _book(self) -> AgentBook:
        plan = self._host.plan
        return AgentBook(self._files().file, plan.registry.all_definitions(), plan.own_agents)


def agent_rows(
    agents: Mapping[str, Agent],
    settings: Settings,
    tools: dict[str, AgentTool],
    given: Collection[str],
) -> list[AgentRow]:
    """Return agents as rows, sorted by name; `given` are those of the program."""
    return [
        row_of(
            agent,
            _source(agent, settings, given),
            tools,
            is_built_in=name == GENERAL_AGENT,
        )
        for name, agent in sorted(agents.items())
    ]


def row_named(rows: Iterable[AgentRow], name: str) -> AgentRow:
    """Return the row of that name; raise `NotFoundError`."""
    by_name = {row.name: row for row in rows}
    if name not in by_name:
        raise _missing(name, by_name)
    return by_name[name]


def _source(agent: Agent, settings: Settings, given: Collection[str]) -> AgentSource:
    if agent.name in given:
        return "program"
    if agent.name not in settings.agents:
        return "built_in"
    return "callboard.toml" if agent.created_at_ms is None else "managed"


def _tool(definition: ToolDefinition) -> AgentTool:
    return AgentTool(definition.name, definition.description, definition.tier)


def _missing(name: str, agents: Collection[str]) -> NotFoundError:
    known = ", ".join(sorted({GENERAL_AGENT, *agents}))
    close = did_you_mean(name, agents)
    return NotFoundError(f"there is no agent {name!r}; there are: {known}.{close}")
