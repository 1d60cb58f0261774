"""The options of `callboard chat` and `attach`; what they do is imported when they run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from ..parameters import Config, Data, Json, data_path

SessionOption = Annotated[
    str | None,
    Parameter(help="Go on with this session: its id, the beginning of it, of its title, or last."),
]
AgentOption = Annotated[str | None, Parameter(help="A configured agent; general by default.")]
WorkspaceOption = Annotated[
    Path | None, Parameter(help="The folder that tools may touch; by default this one.")
]
ModelOption = Annotated[str | None, Parameter(help="PROVIDER/MODEL, or a provider's name.")]


def chat(
    *,
    session: SessionOption = None,
    agent: AgentOption = None,
    workspace: WorkspaceOption = None,
    model: ModelOption = None,
    config: Config = None,
    data: Data = None,
) -> int:
    """Talk with a model at the terminal; /help lists what can be typed.

    The daemon holds the conversation, which goes on when you leave; where none runs, this
    command is one as long as it lasts. Without a terminal, each line of the input is a prompt,
    and the exit code is as of run.
    """
    from ...config.files import load_settings
    from ...runtime.disk.core_dumps import forbid_core_dumps
    from ..log_file import start_logging
    from .chat import chat as talk
    from .daemon import ChatOptions

    forbid_core_dumps()
    settings = load_settings(config)
    folder = data_path(data)
    start_logging(folder, verbose=False)
    options = ChatOptions(
        workspace=(workspace or Path.cwd()).expanduser().absolute(),
        agent=agent or "general",
        model=model,
        session=session,
        config=config,
    )
    return talk(options, settings, folder)


def is_wanted_alone() -> bool:
    """Return whether `callboard` without a command is a chat: where a person sits."""
    return os.isatty(0) and os.isatty(1)


SessionName = Annotated[str, Parameter(help="The session: its id, the beginning of it, or last.")]
UntilIdle = Annotated[
    bool, Parameter(help="End when no turn of the session runs or waits.", negative=())
]


def attach(
    session: SessionName,
    /,
    *,
    until_idle: UntilIdle = False,
    json: Json = False,
    config: Config = None,
    data: Data = None,
) -> int:
    """Show what happens in a session of the daemon, from the beginning of the turn that runs.

    Questions are put here too; whoever answers first has answered. Ctrl-C leaves, and the session
    goes on.
    """
    from ...config.files import load_settings
    from .attach import attach_to

    settings = load_settings(config)
    return attach_to(data_path(data), settings, session, until_idle=until_idle, json=json)
