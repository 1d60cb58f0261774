"""Which tools there are, and which of them a session may see."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Mapping

from ..runtime.definitions import Capability, SessionKind, Tier, ToolDefinition
from ..runtime.errors import ConflictError
from .agent.clock import get_current_time
from .agent.delegate import delegate
from .agent.memories import memory_search, memory_store
from .agent.people import ask_user, message
from .agent.plan import plan
from .development.format_code import format_code
from .development.packages import install_package
from .development.run_tests import run_tests
from .files.file_edit import edit_file
from .files.file_pages import read_file
from .files.files import delete_file, list_directory, move_file, write_file
from .git.commit import git_commit
from .git.push import git_push
from .git.reading import git_diff, git_log, git_status
from .programs.process_tool import process
from .programs.run_code import run_code
from .programs.shell import shell
from .search.search_files import search_files
from .skills.tool import skill
from .tool import Tool
from .web.fetch import web_fetch
from .web.http_request import http_request
from .web.search import web_search

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
        run_code,
        shell,
        process,
        http_request,
        web_fetch,
        web_search,
        message,
        ask_user,
        delegate,
        memory_store,
        memory_search,
        plan,
        skill,
        git_status,
        git_diff,
        git_log,
        git_commit,
        git_push,
        run_tests,
        format_code,
        install_package,
    )


def is_available(definition: ToolDefinition, kind: SessionKind) -> bool:
    """Whether a kind of session has the handles that a tool needs, and takes a tool of its tier."""
    return definition.tier in TIERS[kind] and HANDLES[kind].issuperset(definition.needs)


class ToolRegistry:
    """The tools of one runtime, in the order in which they were given.

    Args:
        tools: All of them.
        why_not: Says why a tool can't be used on this machine, or `None`; such a tool is not
            offered.
        version: A number that changes when an answer of `why_not` may have changed.

    Raises:
        ConflictError: Two have the same name.
    """

    def __init__(
        self,
        tools: Iterable[Tool],
        why_not: Callable[[ToolDefinition], str | None] = lambda definition: None,
        version: Callable[[], int] = lambda: 0,
    ) -> None:
        self._why_not = why_not
        self._version = version
        self._tools: dict[str, Tool] = {}
        self._queries: dict[
            tuple[tuple[str, ...] | None, SessionKind, int], tuple[ToolDefinition, ...]
        ] = {}
        for tool in tools:
            name = tool.name
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

    def withheld(self, name: str) -> str | None:
        """Why a tool can't be used on this machine, whoever asks for it; `None` when it can."""
        tool = self._tools.get(name)
        return None if tool is None else self._why_not(tool.definition)

    def definitions(
        self, names: tuple[str, ...] | None, kind: SessionKind
    ) -> tuple[ToolDefinition, ...]:
        """What a session's model is told: the agent's tools (`None`: all) that its kind may use.

        Unknown names are left out (`unknown` finds them). The same question gives the same
        object, so that what was encoded of it can be kept by identity; until `version` changes.
        """
        key = names, kind, self._version()
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
            if (wanted is None or name in wanted)
            and is_available(tool.definition, kind)
            and self._why_not(tool.definition) is None
        ]
