"""`callboard tools`: lists the tools, and the plugins that are not used."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path

import trio

from ...config.files import load_settings
from ...runtime.definitions import ToolDefinition
from ...tools.plugins import LoadedPlugins, Plugin, load_plugins, unused_plugins
from ...tools.registry import builtin_tools
from ...tools.sandbox.sandbox import Sandbox
from ...tools.tool import Tool
from ..exit_codes import ANSWERED
from ..terminal.complaint import complain
from ..terminal.escaping import safe_line
from ..terminal.json_lines import json_line

_WIDTH = 100
"""Columns at which descriptions are wrapped; a narrower terminal wraps them again."""


def show_tools(config: Path | None, *, json: bool) -> int:
    """List what is built in and what plugins bring, and the plugins that are not used, and why."""
    all_settings = load_settings(config)
    settings = all_settings.plugins
    sandbox = Sandbox(all_settings.sandbox)  # its test goes on beside
    built_in = builtin_tools()
    brought: LoadedPlugins = trio.run(load_plugins, settings, [tool.name for tool in built_in])
    unused = [plugin for plugin in brought.plugins if plugin.state != "used"]
    unused += unused_plugins(settings)
    tools = (*built_in, *brought.tools)
    if json:
        for item in (*(tool.definition for tool in tools), *unused):
            sys.stdout.write(json_line(item))
        _tell_withheld(sandbox, tools)
        return ANSWERED
    widest = max(len(tool.name) for tool in tools)
    for tool in tools:
        sys.stdout.write(_line(tool, widest) + "\n")
    sys.stdout.writelines(f"{line}\n" for line in plugin_lines(unused))
    sys.stdout.flush()
    _tell_withheld(sandbox, tools)
    return ANSWERED


def _tell_withheld(sandbox: Sandbox, tools: Sequence[Tool]) -> None:
    """Say which tools models are not offered on this machine, and why."""
    withheld = [tool.name for tool in tools if sandbox.why_not(tool.definition) is not None]
    if withheld:
        complain(f"Not offered to models here: {', '.join(withheld)}, since {sandbox.problem()}")


def plugin_lines(plugins: Iterable[Plugin]) -> list[str]:
    """Return a line for each plugin that is not used: why, and what to do about it."""
    return [f"plugin {safe_line(plugin.name)}{_from(plugin)}: {_why(plugin)}" for plugin in plugins]


def _line(tool: Tool, widest: int) -> str:
    definition = tool.definition
    deadline = "none" if tool.waits else f"{definition.timeout_seconds:g} s"
    head = f"{definition.name:<{widest}}  {definition.tier:<9}  {deadline:>5}  "
    return textwrap.fill(
        _told(definition), _WIDTH, initial_indent=head, subsequent_indent=" " * len(head)
    )


def _told(definition: ToolDefinition) -> str:
    if not definition.source:
        return definition.description
    return safe_line(f"{definition.description} ({definition.source})")


def _from(plugin: Plugin) -> str:
    installed = safe_line(f"{plugin.distribution} {plugin.version}")
    return f" ({installed})" if installed else ""


def _why(plugin: Plugin) -> str:
    if plugin.state == "broken":
        return f"not used: {safe_line(plugin.problem)}"
    return f"off; enabled = true in the table [plugins.{safe_line(plugin.name)}] of callboard.toml enables it"
