"""Where `callboard run` works: in the daemon that has the sessions, else in a runtime of its own.

Both give sessions and turns with the same methods. In the daemon, an input comes from the terminal of
the run, and questions come back to it; what the run changes of its agent travels with the prompt.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ...config.daemon_file import find_daemon
from ...config.settings import Settings
from ..ask.terminal_channel import TerminalChannel
from .choice import Choice, RunOptions

if TYPE_CHECKING:  # a run needs one of the two
    from ...embedding.runtime import Runtime
    from .remote import RemotePlace


class Meeting(msgspec.Struct, frozen=True, kw_only=True):
    """How a run reaches whoever reads it.

    Attributes:
        channel: Where questions are put; `None` where nobody can be asked.
        notice: Says a word of callboard's own.
        confirm: Asks for a yes; `None` where nobody can be asked.
    """

    channel: TerminalChannel | None
    notice: Callable[[str], None]
    confirm: Callable[[str], Awaitable[bool]] | None


def open_place(
    options: RunOptions,
    choice: Choice,
    settings: Settings,
    data: Path,
    meeting: Meeting,
    *,
    record: Path | None,
) -> AbstractAsyncContextManager[Runtime | RemotePlace]:
    """The place, around a block.

    Args:
        options: The command line.
        choice: What follows from it.
        settings: The configuration.
        data: The data folder.
        meeting: How the run reaches people.
        record: Where recordings lie, when this run is recorded.
    """
    settings = options.flags.apply(settings, choice.agent)
    if (daemon := find_daemon(data)) is not None:
        from .remote import open_remote_place  # here: mostly no daemon runs

        return open_remote_place(daemon, data, options, choice, meeting)
    from ...embedding.runtime import open_runtime  # here: a run in the daemon needs it not

    return open_runtime(
        model=choice.model,
        base_url=options.flags.base_url,
        dialect=options.flags.dialect,
        workspace=options.flags.workspace,
        data=data,
        policy=options.flags.policy,
        channel=meeting.channel,
        record=record,
        wake=False,
        settings=_without_preferences(settings),
    )


def _without_preferences(settings: Settings) -> Settings:
    """The settings with every agent's model taken out: the choice has been made already."""
    agents = {
        name: msgspec.structs.replace(agent, model=None) for name, agent in settings.agents.items()
    }
    return msgspec.structs.replace(settings, agents=agents)
