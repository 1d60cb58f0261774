"""Opens the place in which `callboard run` works: the daemon when one has the sessions, else its own."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path

import msgspec

from ...config.daemon_file import find_daemon
from ...config.settings import Settings
from .choice import Choice, RunOptions
from .place import Meeting, RunPlace


def open_place(
    options: RunOptions,
    choice: Choice,
    settings: Settings,
    data: Path,
    meeting: Meeting,
    *,
    record: Path | None,
) -> AbstractAsyncContextManager[RunPlace]:
    """The place, around a block.

    Args:
        options: The command line.
        choice: What follows from it.
        settings: The configuration.
        data: The data folder.
        meeting: How the run reaches people.
        record: Where recordings lie, when this run is recorded.
    """
    settings = options.tuning.applied(settings, choice.agent)
    if (daemon := find_daemon(data)) is not None:
        from .remote import open_remote_place  # here: mostly no daemon runs

        return open_remote_place(daemon, data, options, choice, meeting)
    from ...embedding.runtime import open_runtime  # here: a run in the daemon needs it not

    return open_runtime(
        model=choice.model,
        base_url=options.base_url,
        dialect=options.dialect,
        workspace=options.workspace,
        data=data,
        policy=options.policy,
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
