"""Which sockets a command gets: what its call may have, checked."""

from __future__ import annotations

import re

from ...config.sandbox_settings import SandboxSettings
from ...runtime.definitions import ErrorType, ToolFailure
from ...runtime.processes import Command
from .doors import MAX_ANSWERED, Doors
from .egress import Egress, WayOut

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")


def doors_of(command: Command, way_out: WayOut | None, settings: SandboxSettings) -> Doors | None:
    """The doors of a command; `None` when it wants none.

    Args:
        command: What it wants.
        way_out: What makes the connections of its call, if it may have any.
        settings: The bounds.

    Raises:
        ToolFailure: `permission_denied` when its call may not reach hosts.
    """
    if not command.network and not command.answers:
        return None
    _check(command)
    if not command.network:
        return Doors(None, command.answers)
    if way_out is None:
        raise ToolFailure(
            ErrorType.PERMISSION_DENIED,
            "Nothing was run: this call may not reach hosts.",
            reason="no network handle",
        )
    return Doors(Egress(way_out, settings.network_bytes), command.answers)


def _check(command: Command) -> None:
    if len(command.answers) > MAX_ANSWERED:
        raise ValueError(f"a command has {MAX_ANSWERED} answered sockets at most")
    for name in command.answers:
        if not _NAME.fullmatch(name) or name in command.files:
            raise ValueError(f"{name!r} can't be an answered socket's name")
