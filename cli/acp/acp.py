"""`callboard acp`: its options, for the parser of command lines; plain ones are read without it (`run.serve_plainly`)."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from ..exit_codes import FAILED
from ..parameters import Config, Data, offered
from .run import AGENT, serve_editor

AgentOption = Annotated[
    str, Parameter(completer=offered("agents"), help="The agent of new sessions.")
]
LoginOption = Annotated[
    bool,
    Parameter(help="Ask at a terminal for a provider's key, and store it; then end.", negative=()),
]


def acp(
    *,
    agent: AgentOption = AGENT,
    login: LoginOption = False,
    config: Config = None,
    data: Data = None,
) -> int:
    """Let an editor drive callboard, by the Agent Client Protocol.

    The editor starts it, and speaks with it on stdin and stdout: docs/editors.md says how Zed, JetBrains and Neovim do. Sessions are those of the
    daemon; where none runs, this command is one as long as it lasts.
    """
    if login:
        return _log_in(config, data)
    return serve_editor(agent, config, data)


def _log_in(config: Path | None, data: Path | None) -> int:
    """Ask which provider, and for its key; an editor runs this at a terminal of its own."""
    from ..setup.keys import set_key  # here: once

    sys.stdout.write(
        "callboard asks a provider's model, and needs its key. Provider (anthropic, openai, …): "
    )
    sys.stdout.flush()
    provider = sys.stdin.readline().strip()
    return set_key(provider, config=config, data=data) if provider else FAILED
