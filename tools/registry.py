"""Which tools there are, and which of them a session may see."""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Mapping

from ..runtime.definitions import Capability, SessionKind, Tier, ToolDefinition
from ..runtime.errors import ConflictError
from .channel_tools import ask_user, message
from .clock import get_current_time
from .delegate import delegate
from .file_edit import edit_file
from .file_pages import read_file
from .files import delete_file, list_directory, move_file, write_file
from .http_request import http_request
from .search_files import search_files
from .tool import Tool

MAX_CACHED_QUERIES = 256
"""Agents times session kinds; beyond it the cache starts anew rather than grow."""

HANDLES: Mapping[SessionKind, frozenset[Capability]] = {
    SessionKind.MAIN: frozenset(Capability),
    SessionKind.BRANCH: frozenset(Capability),
    SessionKind.WORKER: frozenset(
        {Capability.FILES_READ, Capability.NETWORK, Capability.MEMORY_READ}
    ),
}
"""What a kind of session has to act with, whatever is registered: its calls get no other handle.

A worker looks and reports: it can't write, run, remember, speak, or start sessions.
"""

TIERS: Mapping[SessionKind, frozenset[Tier]] = {
    SessionKind.MAIN: frozenset(Tier),
    SessionKind.BRANCH: frozenset(Tier),
    SessionKind.WORKER: frozenset({Tier.READ_ONLY}),
}
"""How dangerous the tools may be that a kind of session is offered at all."""


def builtin_tools() -> tuple[Tool, ...]:
    """The tools that come with callboard."""
    return (
        get_current_time,
        list_directory,
        read_file,
        write_file,
        edit_file,
        move_file,
        delete_file,
        search_files,
        http_request,
        message,
        ask_user,
        delegate,
    )


def is_available(definition: ToolDefinition, kind: SessionKind) -> bool:
    """Whether a kind of session has the handles that a tool needs, and takes a tool of its tier."""
    return definition.tier in TIERS[kind] and HANDLES[kind].issuperset(definition.needs)


class ToolRegistry:
    """The tools of one runtime, in the order in which they were given.

    Raises:
        ConflictError: Two have the same name.
    """

    def __init__(self, tools: Iterable[Tool]) -> None:
        self._tools: dict[str, Tool] = {}
        self._queries: dict[
            tuple[tuple[str, ...] | None, SessionKind], tuple[ToolDefinition, ...]
        ] = {}
        for tool in tools:
            name = tool.definition.name
            if name in self._tools:
                raise ConflictError(
                    f"two tools are named {name}; give one of them another name (@tool(name=…))"
                )
            self._tools[name] = tool

    def get(self, name: str) -> Tool | None:
        """The tool of that name, or `None`."""
        return self._tools.get(name)

    def names(self) -> tuple[str, ...]:
        """All names."""
        return tuple(self._tools)

    def list(self) -> tuple[Tool, ...]:
        """All tools."""
        return tuple(self._tools.values())

    def unknown(self, names: Iterable[str]) -> tuple[str, ...]:
        """Those names for which there is no tool."""
        return tuple(name for name in names if name not in self._tools)

    def definitions(
        self, names: tuple[str, ...] | None, kind: SessionKind
    ) -> tuple[ToolDefinition, ...]:
        """What a session's model is told: the agent's tools (`None`: all) that its kind may use.

        Unknown names are left out (`unknown` finds them). The same question gives the same
        object, so that what was encoded of it can be kept by identity.
        """
        key = names, kind
        found = self._queries.get(key)
        if found is None:
            if len(self._queries) >= MAX_CACHED_QUERIES:
                self._queries.clear()
            found = self._queries[key] = tuple(self._select(names, kind))
        return found

    def _select(
        self, names: tuple[str, ...] | None, kind: SessionKind
    ) -> builtins.list[ToolDefinition]:
        wanted = None if names is None else frozenset(names)
        return [
            tool.definition
            for name, tool in self._tools.items()
            if (wanted is None or name in wanted) and is_available(tool.definition, kind)
        ]
