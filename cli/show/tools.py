"""`callboard tools`: lists the tools, and the plugins that are not used."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterable
from typing import Annotated, Literal

import trio
from cyclopts import Parameter

from ...config.files import load_settings
from ...tools.builtin import builtin_tools
from ...tools.plugins import LoadedPlugins, Plugin, load_plugins, unused_plugins
from ...tools.registry import ToolRegistry
from ...tools.sandbox.sandbox import Sandbox
from ...tools.tool import Tool
from ..exit_codes import ANSWERED
from ..parameters import Config, Json
from ..terminal.complaint import complain
from ..terminal.escaping import safe_line
from ..terminal.folding import columns_of
from ..terminal.json_lines import json_line
from ..terminal.style import style_of

_WIDTH = 100
"""Columns at which descriptions are wrapped in a pipe, and on wider terminals."""


Format = Annotated[
    Literal["openai", "responses", "anthropic", "gemini"] | None,
    Parameter(name="--format", help="Print them as a request to such a provider has them."),
]
Agent = Annotated[str, Parameter(help="With --format: those of this agent.")]


def tools(
    *,
    wire_format: Format = None,
    agent: Agent = "general",
    json: Json = False,
    config: Config = None,
) -> int:
    """List the tools that a model can ask for, and the plugins that are installed."""
    all_settings = load_settings(config)
    settings = all_settings.plugins
    sandbox = Sandbox(all_settings.sandbox)
    built_in = [tool.load() for tool in builtin_tools()]
    brought: LoadedPlugins = trio.run(load_plugins, settings, [tool.name for tool in built_in])
    unused = [plugin for plugin in brought.plugins if plugin.state != "used"]
    unused += unused_plugins(settings)
    found = (*built_in, *brought.tools)
    if all_settings.mcp:
        from ...tools.mcp.tool import accepted_tools  # here: most people have no server

        found = (*found, *accepted_tools(all_settings.mcp))
    if wire_format is not None:
        from ...embedding.tools import definitions_of  # here: the list needs no runtime

        registry = ToolRegistry(found, sandbox.why_not)
        for definition in definitions_of(registry, all_settings.agent(agent), wire_format):
            sys.stdout.write(json_line(definition))
    elif json:
        for item in (*(tool.definition for tool in found), *unused):
            sys.stdout.write(json_line(item))
    else:
        widest = max(len(tool.name) for tool in found)
        if sys.stdout.isatty():
            heads = f"{'tool':<{widest}}  {'tier':<9}  {'limit':>5}  what it does"
            sys.stdout.write(style_of(sys.stdout).paint(heads, "bold") + "\n")
        for tool in found:
            sys.stdout.write(_line(tool, widest) + "\n")
        sys.stdout.writelines(f"{line}\n" for line in plugin_lines(unused))
    sys.stdout.flush()
    withheld = [tool.name for tool in found if sandbox.why_not(tool.definition) is not None]
    if withheld:
        complain(f"Not offered to models here: {', '.join(withheld)}, since {sandbox.problem()}")
    return ANSWERED


def plugin_lines(plugins: Iterable[Plugin]) -> list[str]:
    """Return a line for each plugin that is not used: why, and what to do about it."""
    lines: list[str] = []
    for plugin in plugins:
        name = safe_line(plugin.name)
        installed = safe_line(f"{plugin.distribution} {plugin.version}")
        why = f"off; enabled = true in the table [plugins.{name}] of callboard.toml enables it"
        if plugin.state == "broken":
            why = f"not used: {safe_line(plugin.problem)}"
        lines.append(f"plugin {name}{f' ({installed})' if installed else ''}: {why}")
    return lines


def _line(tool: Tool, widest: int) -> str:
    definition = tool.definition
    said = definition.description
    if definition.source:
        said = safe_line(f"{said} ({definition.source})")
    deadline = "none" if tool.waits else f"{definition.timeout_seconds:g} s"
    head = f"{definition.name:<{widest}}  {definition.tier:<9}  {deadline:>5}  "
    width = min(_WIDTH, columns_of(1) or _WIDTH)
    return textwrap.fill(said, width, initial_indent=head, subsequent_indent=" " * len(head))
