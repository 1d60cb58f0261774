"""What the flows with programs share: calls one after another, and a look at what runs."""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from typing import Any

from callboard.providers.testing.script import reply
from support.stage import open_local_stage, play, read_result

Call = tuple[str, dict[str, Any]]

_NUMBERS = itertools.count(1)


async def results(folder: Path, *calls: Call, **options: Any) -> list[dict[str, Any]]:
    """What the model gets of calls that it makes one after another."""
    steps = [*(reply(calls=[call]) for call in calls), reply("Done.")]
    async with open_local_stage(folder, steps, **options) as (runtime, _):
        played = await play(await runtime.create_session(), "Go.")
        return [read_result(result) for result in played.results]


def new_tag() -> str:
    """A number of seconds to sleep by which a process is known."""
    return f"7{next(_NUMBERS):03d}.{os.getpid()}1"


def tagged(tag: str) -> bool:
    """Whether a process sleeps for so long, here or in any namespace below."""
    return count(tag) > 0


def count(tag: str) -> int:
    """How many processes do."""
    found = 0
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                words = Path(f"/proc/{entry}/cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            found += tag.encode() in words
    return found
