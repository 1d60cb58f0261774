"""Ends a program that uses up more than it may, all its processes together.

The kernel's own limits hold for one process each, and the one for their number does not hold for
root at all. This looks at all of them every tenth of a second, so that what it bounds can be
exceeded for as long.
"""

from __future__ import annotations

from collections.abc import Callable

import trio

from ...config.sandbox_settings import SandboxSettings
from .process_tree import use_of
from .started import Started

LOOK_SECONDS = 0.1
"""In which a program may fill some 200 MB, or start some thousand processes; looking at a handful
of processes takes a thousandth of it."""


async def watch(
    started: Started, settings: SandboxSettings, on_excess: Callable[[str], None]
) -> None:
    """Looks until it is cancelled, or until it has told once what is exceeded."""
    while True:
        await trio.sleep(LOOK_SECONDS)
        if (exceeded := excess(started.processes(), settings)) is not None:
            on_excess(exceeded)
            return


def excess(pids: list[int], settings: SandboxSettings) -> str | None:
    """What these processes use too much of, in the words of `killed_by`."""
    if len(pids) > settings.processes:
        return "processes"
    use = use_of(pids)
    if use.cpu_seconds > settings.cpu_seconds:
        return "cpu"
    if use.memory_bytes <= settings.memory_bytes:
        return None
    # Memory that forks share was counted for each of them.
    return "memory" if use_of(pids, exact=True).memory_bytes > settings.memory_bytes else None
