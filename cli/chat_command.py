"""`callboard chat` and its options; what it does is imported when it runs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from .parameters import Config, Data, data_path

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
    from ..config.files import load_settings
    from ..runtime.core_dumps import forbid_core_dumps
    from .chat import ChatOptions
    from .chat import chat as talk
    from .log_file import start_logging

    forbid_core_dumps()
    settings = load_settings(config)
    folder = data_path(data)
    start_logging(folder, verbose=False)
    options = ChatOptions(
        session=session, agent=agent, workspace=workspace, model=model, config=config
    )
    return talk(options, settings, folder)


def is_wanted_alone() -> bool:
    """Whether `callboard` without a command is a chat: where a person sits."""
    return os.isatty(0) and os.isatty(1)
