"""`callboard policy check`: what the rules decide about one call, without running it."""

from __future__ import annotations

import difflib
import sys

import msgspec
import trio

from ...config.files import config_folder, data_folder
from ...config.policy.policy import PolicyBook
from ...config.search_engines import search_places
from ...config.settings import Settings
from ...embedding.policy_check import CheckedCall, Judge
from ...runtime.definitions import Preset
from ...runtime.errors import NotFoundError, ValidationError
from ...runtime.wire.approvals import PolicyAnswer
from ...tools.plugins import LoadedPlugins, load_plugins
from ...tools.registry import ToolRegistry, builtin_tools
from ...tools.tool import Tool
from ..exit_codes import ANSWERED
from ..terminal.complaint import complain
from ..terminal.escaping import exact, safe_line
from ..terminal.json_lines import json_line


def show_verdict(call: CheckedCall, settings: Settings, *, json: bool) -> int:
    """Print the verdict, what decided, and the tier of this very call."""
    answer = answer_about(call, settings)
    if json:
        sys.stdout.write(json_line(answer))
        return ANSWERED
    sys.stdout.write(
        f"{answer.verdict}: {safe_line(answer.tool)} {exact(answer.arguments)}\n"
        f"  tier    {answer.tier}\n"
        f"  reason  {safe_line(answer.reason)}\n"
        f"  rule    {safe_line(answer.rule)}\n"
        f"  policy  {answer.policy[:12]} of agent {answer.agent}, {answer.kind} session\n"
    )
    return ANSWERED


def answer_about(call: CheckedCall, settings: Settings) -> PolicyAnswer:
    """Return the verdict about one call; see `show_verdict`. It imports the enabled plugins."""
    agent = settings.agent(call.agent)
    if call.preset is not None:
        agent = msgspec.structs.replace(agent, policy=Preset(call.preset))
    judge = Judge(
        agent=agent,
        policies=PolicyBook(settings.rules, search_places(settings.search)),
        registry=ToolRegistry(_tools(call, settings)),
        forbidden=(data_folder(), config_folder()),
    )
    return judge.answer(call)


def _tools(call: CheckedCall, settings: Settings) -> tuple[Tool, ...]:
    """Return built-in and plugin tools; check that the call's tool is one of them, or has a given tier."""
    tools = builtin_tools()
    brought: LoadedPlugins = trio.run(load_plugins, settings.plugins, [tool.name for tool in tools])
    tools = (*tools, *brought.tools)
    names = [tool.name for tool in tools]
    if call.tool in names:
        if call.tier is not None:
            raise ValidationError(
                f"--tier is for tools that callboard does not know, and it knows {call.tool}: leave "
                "it out."
            )
        return tools
    if call.tier is None:
        raise NotFoundError(_unknown(call.tool, names, brought))
    complain(f"callboard knows no tool {call.tool!r}: its arguments were not checked.")
    return tools


def _unknown(name: str, names: list[str], brought: LoadedPlugins) -> str:
    close = difflib.get_close_matches(name, names, 1)
    meant = f" Did you mean {close[0]}?" if close else ""
    broken = [plugin.name for plugin in brought.plugins if plugin.problem]
    missing = f" Not used, and so not known: the plugin {', '.join(broken)}." if broken else ""
    return (
        f"There is no tool {name!r}.{meant}{missing} `callboard tools` lists them. Of a tool of your "
        "own program, say the tier: --tier elevated."
    )
