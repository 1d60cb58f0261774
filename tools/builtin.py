"""The tools that come with callboard: their definitions, and where the code of each one is.

Making 29 definitions from annotations, and importing all that the tools work with, takes longer than opening
a runtime. So the definitions are read from `builtin.json`, which `scripts/builtin-definitions` writes, and a
tool's module is imported when one of its calls is prepared for the first time.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TypeAlias

import msgspec

from ..runtime.definitions import Capability, Effect, Tier, ToolDefinition
from .tool import Tool

DEFINITIONS = Path(__file__).with_name("builtin.json")

PLACES: Mapping[str, str] = {
    "get_current_time": "agent.clock",
    "list_directory": "files.files",
    "read_file": "files.file_pages",
    "write_file": "files.files",
    "edit_file": "files.file_edit",
    "move_file": "files.files",
    "delete_file": "files.files",
    "search_files": "search.search_files",
    "run_code": "programs.run",
    "shell": "programs.run",
    "process": "programs.process_tool",
    "http_request": "web.http_request",
    "web_fetch": "web.fetch",
    "web_search": "web.search",
    "message": "agent.people",
    "ask_user": "agent.people",
    "delegate": "agent.delegate",
    "memory_store": "agent.memories",
    "memory_search": "agent.memories",
    "plan": "agent.plan",
    "skill": "skills.tool",
    "git_status": "git.reading",
    "git_diff": "git.reading",
    "git_log": "git.reading",
    "git_commit": "git.commit",
    "git_push": "git.push",
    "run_tests": "development.run_tests",
    "format_code": "development.format_code",
    "install_package": "development.packages",
}
"""The module of each tool, in the order in which models see them."""


class BuiltinTool(msgspec.Struct, frozen=True):
    """A tool whose module is not imported yet: what models and policies know of it."""

    definition: ToolDefinition

    @property
    def name(self) -> str:
        """The tool's name, which is also its name in its module."""
        return self.definition.name

    def load(self) -> Tool:
        """Import the tool's module and return the tool."""
        module = import_module(f".{PLACES[self.name]}", __package__)
        tool: Tool = getattr(module, self.name)
        return tool


KnownTool: TypeAlias = Tool | BuiltinTool


@cache
def builtin_tools() -> tuple[BuiltinTool, ...]:
    """Return the tools that come with callboard, in the order in which models see them."""
    return tuple(
        BuiltinTool(
            ToolDefinition(
                **{
                    # By hand: msgspec would make 5.0 of a 5, and digests would change.
                    **said,
                    "tier": Tier(said["tier"]),
                    "needs": tuple(Capability(need) for need in said["needs"]),
                    "effect": Effect(said["effect"]),
                }
            )
        )
        for said in msgspec.json.decode(DEFINITIONS.read_bytes())
    )
