"""The options of `callboard policy`; what it does is imported when it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter

from ..parameters import Config, Json

ToolName = Annotated[str, Parameter(help="The tool's name.")]
Arguments = Annotated[str, Parameter(help="Its arguments, as a JSON object.")]
Agent = Annotated[str, Parameter(help="Whose session it is.")]
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
    bool, Parameter(help="The session has read untrusted content, as of the web.", negative=())
]
Private = Annotated[
    bool, Parameter(help="The session has read private data, as of files.", negative=())
]
Tier = Annotated[
    Literal["read_only", "workspace", "system", "elevated"] | None,
    Parameter(help="Of a tool of your own program, which callboard does not know: its tier."),
]
Known = Annotated[
    tuple[str, ...],
    Parameter(help="A tool of your own program, which callboard does not know.", negative=()),
]

policy = App(name="policy", help="Explain and check the rules of who may do what.")


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

    The arguments are validated as the tool does, and nothing runs. Tools of enabled plugins are known.
    """
    from ...config.files import load_settings
    from ...embedding.policy_check import CheckedCall
    from ...runtime.definitions import Tier as CallTier
    from .check import show_verdict

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


@policy.command
def lint(*, known: Known = (), json: Json = False, config: Config = None) -> int:
    """Look for rules that don't do what they seem to: exits with 1 when there are any.

    Examples that don't hold are errors of the configuration, here and everywhere.
    """
    from ...config.files import load_settings
    from .lint import show_findings

    return show_findings(load_settings(config), known, json=json)
