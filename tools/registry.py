"""The tools of a runtime, and which of them each kind of session is offered."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from ..config.policy.path_pattern import is_wild
from ..config.settings import Settings
from ..runtime.definitions import Capability, SessionKind, Tier, ToolDefinition, Verdict
from ..runtime.errors import ConflictError, NotFoundError
from ..runtime.text import did_you_mean
from .builtin import PLACES, BuiltinTool, KnownTool, builtin_tools
from .tool import Tool

MAX_CACHED_QUERIES = 256
"""Agents times session kinds; a full cache is emptied."""

HANDLES: Mapping[SessionKind, frozenset[Capability]] = {
    SessionKind.MAIN: frozenset(Capability),
    SessionKind.BRANCH: frozenset(Capability),
    SessionKind.WORKER: frozenset(
        {Capability.FILES_READ, Capability.NETWORK, Capability.MEMORY_READ}
    ),
}
"""The handles of each kind of session, whatever is registered: its calls get no others.

A worker reads and reports: it can't write, run, remember, speak, or start sessions.
"""

TIERS: Mapping[SessionKind, frozenset[Tier]] = {
    SessionKind.MAIN: frozenset(Tier),
    SessionKind.BRANCH: frozenset(Tier),
    SessionKind.WORKER: frozenset({Tier.READ_ONLY}),
}
"""The tiers of tools that each kind of session is offered."""


def is_available(definition: ToolDefinition, kind: SessionKind) -> bool:
    """Return whether a kind of session has a tool's handles and is offered its tier."""
    return definition.tier in TIERS[kind] and HANDLES[kind].issuperset(definition.needs)


class ToolRegistry:
    """The tools of one runtime, in the order in which they were given.

    A built-in tool's module is imported when `get` is asked for it; its definition is known before.
    `why_not` returns why a tool can't be used on this machine, or `None`; such a tool is not offered. `version`
    returns a number that changes when an answer of `why_not` may have changed. Raises `ConflictError` when two
    tools have the same name.

    Attributes:
        of_sessions: What was brought for single sessions.
        instructions: What models are told of the use of a source's tools, when they are offered one of them.
    """

    def __init__(
        self,
        tools: Iterable[KnownTool],
        why_not: Callable[[ToolDefinition], str | None] = lambda definition: None,
        version: Callable[[], int] = lambda: 0,
    ) -> None:
        self._why_not = why_not
        self._version = version
        self._tools: dict[str, KnownTool] = {}
        self._withheld: dict[str, str] = {}
        self._runs_programs: dict[tuple[str, ...] | None, bool] = {}
        self._queries: dict[
            tuple[tuple[str, ...] | None, SessionKind, int],
            tuple[tuple[ToolDefinition, ...], frozenset[str]],
        ] = {}
        self.of_sessions: dict[str, SessionRegistry] = {}
        self.instructions: dict[str, str] = {}
        for tool in tools:
            self.add(tool)

    def of(self, session_id: str) -> ToolRegistry:
        """Return the tools of a session: these, and what was brought for it alone."""
        return self.of_sessions.get(session_id, self)

    def bring(self, session_id: str) -> SessionRegistry:
        """Return where tools are put that a session has for itself, none at first, in place of earlier ones."""
        registry = self.of_sessions[session_id] = SessionRegistry(self)
        return registry

    def take_away(self, session_id: str, brought: SessionRegistry) -> None:
        """End what was brought for a session, unless others have its place."""
        if self.of_sessions.get(session_id) is brought:
            del self.of_sessions[session_id]

    def add(self, tool: KnownTool) -> None:
        """Add a tool behind the others; raise `ConflictError` when there is one of its name."""
        if tool.name in self._tools:
            raise ConflictError(
                f"two tools are named {tool.name}; give one of them another name (@tool(name=…))"
            )
        self._tools[tool.name] = tool
        self._forget_queries()

    def remove(self, name: str) -> None:
        """Remove a tool that a program brought; its calls that run go on.

        Raises:
            NotFoundError: There is no such tool.
            ConflictError: It is built in, or a plugin's.
        """
        tool = self._tools.get(name)
        if tool is None:
            raise NotFoundError(f"there is no tool {name!r}.{did_you_mean(name, self._tools)}")
        if name in PLACES or tool.definition.source:
            raise ConflictError(
                f"{name} is not a tool that this program brought; leave it out of an agent's tools"
            )
        del self._tools[name]
        self._forget_queries()

    def replace(
        self, source: str, tools: Iterable[KnownTool], withheld: Mapping[str, str]
    ) -> list[str]:
        """Put these in place of all tools of a source; `withheld` says why some are not offered.

        Return the names that others have already: those tools are left out.
        """
        for name, tool in tuple(self._tools.items()):
            if tool.definition.source == source:
                del self._tools[name]
                self._withheld.pop(name, None)
        taken: list[str] = []
        for tool in tools:
            if tool.name in self._tools:
                taken.append(tool.name)
            else:
                self._tools[tool.name] = tool
        self._withheld.update((name, why) for name, why in withheld.items() if name in self._tools)
        self._forget_queries()
        return taken

    def _forget_queries(self) -> None:
        self._queries.clear()
        self._runs_programs.clear()

    def get(self, name: str) -> Tool | None:
        """Return the tool of that name, or `None`; import its module if nobody has asked for it yet."""
        tool = self._tools.get(name)
        if isinstance(tool, BuiltinTool):
            tool = self._tools[name] = tool.load()
        return tool

    def definition(self, name: str) -> ToolDefinition | None:
        """Return the definition of the tool of that name, or `None`; imports nothing."""
        tool = self._tools.get(name)
        return None if tool is None else tool.definition

    def names(self) -> tuple[str, ...]:
        """Return all names."""
        return tuple(self._tools)

    def all_definitions(self) -> tuple[ToolDefinition, ...]:
        """Return the definitions of all tools."""
        return tuple(tool.definition for tool in self._tools.values())

    def runs_programs(self, names: tuple[str, ...] | None) -> bool:
        """Return whether one of these tools (`None`: of all) runs programs, as far as definitions say."""
        found = self._runs_programs.get(names)
        if found is None:
            needs = (
                t.definition.needs for n, t in self._tools.items() if names is None or n in names
            )
            found = any(Capability.PROCESSES in each for each in needs)
            if len(self._runs_programs) >= MAX_CACHED_QUERIES:
                self._runs_programs.clear()
            self._runs_programs[names] = found
        return found

    def withheld(self, name: str) -> str | None:
        """Return why a tool can't be used on this machine, or `None`."""
        tool = self._tools.get(name)
        return None if tool is None else self._withheld.get(name) or self._why_not(tool.definition)

    def definitions(
        self, names: tuple[str, ...] | None, kind: SessionKind
    ) -> tuple[ToolDefinition, ...]:
        """Return the definitions for a model: the agent's tools (`None`: all) that its kind may use.

        Unknown names are left out (`unknown_tools` finds them). Until `version` changes, the same
        arguments return the same object, so that its encoded form can be cached by identity.
        """
        return self._offered(names, kind)[0]

    def instructions_for(self, definitions: Iterable[ToolDefinition]) -> str:
        """Return what is to be told of the use of these tools; empty when that is nothing."""
        if not self.instructions:
            return ""
        sources = {definition.source for definition in definitions}
        return "\n\n".join(
            text for source, text in sorted(self.instructions.items()) if source in sources
        )

    def is_offered(self, name: str, names: tuple[str, ...] | None, kind: SessionKind) -> bool:
        """Return whether `definitions` of the same arguments has that of a tool of this name."""
        return name in self._offered(names, kind)[1]

    def _offered(
        self, names: tuple[str, ...] | None, kind: SessionKind
    ) -> tuple[tuple[ToolDefinition, ...], frozenset[str]]:
        key = names, kind, self._version()
        found = self._queries.get(key)
        if found is None:
            if len(self._queries) >= MAX_CACHED_QUERIES:
                self._queries.clear()
            offered = {
                name: tool.definition
                for name, tool in self._tools.items()
                if (names is None or name in names)
                and is_available(tool.definition, kind)
                and name not in self._withheld
                and self._why_not(tool.definition) is None
            }
            found = self._queries[key] = tuple(offered.values()), frozenset(offered)
        return found


class SessionRegistry(ToolRegistry):
    """The tools of one session: all that the runtime has, and behind them those that were brought for it.

    A name means the runtime's tool where there is one.
    """

    def __init__(self, shared: ToolRegistry) -> None:
        super().__init__(())
        self._shared = shared
        self._joined: tuple[object, object, tuple[ToolDefinition, ...]] = (None, None, ())

    def get(self, name: str) -> Tool | None:
        """See `ToolRegistry`."""
        return self._shared.get(name) or super().get(name)

    def definition(self, name: str) -> ToolDefinition | None:
        """See `ToolRegistry`."""
        return self._shared.definition(name) or super().definition(name)

    def withheld(self, name: str) -> str | None:
        """See `ToolRegistry`."""
        is_shared = self._shared.definition(name) is not None
        return self._shared.withheld(name) if is_shared else super().withheld(name)

    def definitions(
        self, names: tuple[str, ...] | None, kind: SessionKind
    ) -> tuple[ToolDefinition, ...]:
        """See `ToolRegistry`: the same object, until one of the two lists is another."""
        shared, own = self._shared.definitions(names, kind), super().definitions(names, kind)
        if self._joined[0] is not shared or self._joined[1] is not own:
            known = self._shared.definition
            joined = (*shared, *(each for each in own if known(each.name) is None))
            self._joined = shared, own, joined
        return self._joined[2]

    def is_offered(self, name: str, names: tuple[str, ...] | None, kind: SessionKind) -> bool:
        """See `ToolRegistry`."""
        if self._shared.definition(name) is not None:
            return self._shared.is_offered(name, names, kind)
        return super().is_offered(name, names, kind)


def unknown_tools(agent: str, names: Iterable[str] | None, known: Collection[str]) -> list[str]:
    """Return a sentence for each of an agent's tools that does not exist: its model never gets it."""
    return [
        f"agent {agent!r} names a tool {name!r}, which does not exist.{did_you_mean(name, known)}"
        for name in names or ()
        if name not in known
    ]


def unknown_in_rules(settings: Settings, brought: Iterable[str] | None = None) -> list[str]:
    """Return a sentence for each tool that a rule denies or asks about, and that does not exist: nobody is protected.

    Args:
        settings: The configuration.
        brought: The tools of plugins; `None` where they are not known, and then a name may be theirs.
    """
    if settings.plugins and brought is None:
        return []
    known = {place.name for place in builtin_tools()}.union(brought or ())
    known.update(tool.name for server in settings.mcp.values() for tool in server.tools)
    if settings.mcp:
        known.update(("mcp_read", "mcp_resources"))
    return [
        f"{placed.place}: there is no tool {name!r}, and so the rule to {placed.rule.verdict} it does nothing."
        f"{did_you_mean(name, known)}"
        for placed in settings.rules
        if placed.rule.verdict in {Verdict.DENY, Verdict.ASK}
        for name in placed.rule.tools
        if not (name in known or is_wild(name))
    ]
