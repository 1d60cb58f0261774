"""`callboard policy`, and its `check`: what the rules decide about one call, without running it."""

from __future__ import annotations

import difflib
import sys
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import trio
from cyclopts import App, Parameter

from ...config.files import config_folder, data_folder, load_settings
from ...config.policy.policy import PolicyBook
from ...config.search_engines import search_places
from ...config.settings import Settings
from ...embedding.policy_check import CheckedCall, Judge
from ...runtime.definitions import Preset as Policy
from ...runtime.definitions import Tier as CallTier
from ...runtime.errors import NotFoundError, ValidationError
from ...runtime.wire.approvals import PolicyAnswer
from ...tools.builtin import KnownTool, builtin_tools
from ...tools.plugins import LoadedPlugins, load_plugins
from ...tools.registry import ToolRegistry
from ..exit_codes import ANSWERED
from ..parameters import Config, Json, offered
from ..terminal.complaint import complain
from ..terminal.escaping import exact, safe_line
from ..terminal.json_lines import json_line
from .lint import lint

ToolName = Annotated[str, Parameter(completer=offered("tools"), help="The tool's name.")]
Arguments = Annotated[str, Parameter(help="Its arguments, as a JSON object.")]
Agent = Annotated[str, Parameter(help="The agent of the session.")]
Kind = Annotated[Literal["main", "branch", "worker"], Parameter(help="What kind of session it is.")]
Channel = Annotated[str | None, Parameter(help="The session's channel; by default it has none.")]
Preset = Annotated[
    Literal["auto", "balanced", "strict"] | None,
    Parameter(help="Instead of the agent's own preset."),
]
Workspace = Annotated[
    Path | None, Parameter(help="The folder that tools may touch; by default this one.")
]
Tainted = Annotated[
    bool, Parameter(help="The session has read untrusted content, as from the web.", negative=())
]
Private = Annotated[
    bool, Parameter(help="The session has read private data, as from files.", negative=())
]
Tier = Annotated[
    Literal["read_only", "workspace", "system", "elevated"] | None,
    Parameter(help="The tier of a tool of your own program, which callboard does not know."),
]
policy = App(name="policy", help="Explain and check the rules that decide which calls may run.")
policy.command(lint)


@policy.command
def check(
    tool: ToolName,
    arguments: Arguments,
    /,
    *,
    agent: Agent = "general",
    kind: Kind = "main",
    channel: Channel = None,
    policy: Preset = None,
    workspace: Workspace = None,
    tainted: Tainted = False,
    private: Private = False,
    tier: Tier = None,
    json: Json = False,
    config: Config = None,
) -> int:
    """Say whether a call would run, ask or be denied, and which rule decides.

    The arguments are validated as the tool validates them, and nothing runs. Tools of enabled plugins are known.
    """
    call = CheckedCall(
        tool=tool,
        arguments=arguments,
        agent=agent,
        kind=kind,
        channel=channel,
        preset=policy,
        workspace=workspace,
        is_tainted=tainted,
        has_private=private,
        tier=None if tier is None else CallTier(tier),
    )
    return show_verdict(call, load_settings(config), json=json)


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
        agent = msgspec.structs.replace(agent, policy=Policy(call.preset))
    judge = Judge(
        agent=agent,
        policies=PolicyBook(settings.rules, search_places(settings.search), settings.network.auto),
        registry=ToolRegistry(_tools(call, settings)),
        forbidden=(data_folder(), config_folder(), *map(Path, settings.files)),
    )
    return judge.answer(call)


def _tools(call: CheckedCall, settings: Settings) -> tuple[KnownTool, ...]:
    """Return built-in and plugin tools; check that the call's tool is one of them, or has a given tier."""
    built_in = builtin_tools()
    brought: LoadedPlugins = trio.run(
        load_plugins, settings.plugins, [tool.name for tool in built_in]
    )
    tools: tuple[KnownTool, ...] = (*built_in, *brought.tools)
    if settings.mcp:
        from ...tools.mcp.tool import accepted_tools  # here: most people have no server

        tools = (*tools, *accepted_tools(settings.mcp))
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
