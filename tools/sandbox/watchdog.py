"""Ends a program that uses up more than it may, all its processes together.

The kernel's own limits hold for one process each, and the one for their number does not hold for
root at all. This looks at all of them every tenth of a second, so that what it bounds can be
exceeded for as long.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress

import trio

from ...config.sandbox_settings import SandboxSettings
from .process_tree import use_of
from .started import Started

LOOK_SECONDS = 0.1
"""In which a program may fill some 200 MB, or start some thousand processes; looking at a handful
of processes takes a thousandth of it."""

IN_MEMORY = ("/tmp", "/dev/shm")
"""Where a program can make files that take memory."""


async def watch(
    started: Started, settings: SandboxSettings, on_excess: Callable[[str], None]
) -> None:
    """Looks until it is cancelled, or until it has told once what is exceeded."""
    while True:
        await trio.sleep(LOOK_SECONDS)
        exceeded = "memory" if started.check_memory() else _too_many_files(started, settings)
        if (exceeded := exceeded or excess(started.processes(), settings)) is not None:
            on_excess(exceeded)
            return


def _too_many_files(started: Started, settings: SandboxSettings) -> str | None:
    """Whether what is in memory holds too many files, which no limit of the kernel counts."""
    if started.root is None:
        return None
    count = 0
    for folder in IN_MEMORY:
        with suppress(OSError):  # it is just ending
            if os.stat(started.root + folder).st_dev == os.stat(folder).st_dev:
                continue  # its own is still being built
            found = os.statvfs(started.root + folder)
            count += found.f_files - found.f_ffree
    return "files" if count > settings.temporary_files else None


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
