"""`callboard attach` and its options; what it does is imported when it runs."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from .parameters import Config, Data, Json, data_path

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
    from ..config.files import load_settings
    from .attach import attach_to

    settings = load_settings(config)
    return attach_to(data_path(data), settings, session, until_idle=until_idle, json=json)
