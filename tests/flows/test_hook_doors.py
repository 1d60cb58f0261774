"""Hooks are managed the same way through every door, and what is wrong with one is said by its field."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from callboard.runtime.budget import Budget
from callboard.runtime.errors import CallboardError
from callboard.runtime.hooks.hook import Hook
from callboard.runtime.wire.hooks import hook_of_row
from support.cli.in_process import own_logging as own_logging
from support.cli.in_process import run_here as run_here
from support.portal.doors import DOORS, Door, RunHere

CI = Hook(
    name="ci",
    prompt="The build {event} ended.\nSay what broke.",
    signature="github",
    session="same",
    unattended="defer",
    budget=Budget(tokens=5000),
    max_per_minute=7,
)


async def it_comes_and_changes_and_rests_and_goes(door: Door) -> None:
    await door.add_hook(CI)
    row = (await door.hooks())["ci"]
    assert plain(hook_of_row(row)) == CI
    assert (row.source, row.direction, row.place) == (door.source, "in", "/hooks/ci")
    assert (row.has_secret, "keys set hook:ci" in row.problem) == (False, True)
    await door.pause_hook("ci", paused=True)
    assert (await door.hooks())["ci"].paused
    await door.pause_hook("ci", paused=False)
    stripe = replace(CI, signature="stripe", budget=None)
    await door.change_hook(stripe)
    assert plain(hook_of_row((await door.hooks())["ci"])) == stripe
    await door.remove_hook("ci")
    assert await door.hooks() == {}
    if door.source == "managed":
        for change in (
            partial(door.remove_hook, "nobody"),
            partial(door.change_hook, replace(CI, name="nobody")),
        ):
            with pytest.raises(CallboardError, match="no hook 'nobody'; there is none"):
                await change()


BAD: list[tuple[dict[str, Any], str, bool]] = [
    ({"name": "c\u0456"}, "name", True),  # a Cyrillic letter
    ({"name": "x" * 65}, "name", True),
    ({"name": "all"}, "name.*reserved", False),
    ({"name": "c1"}, "name.*looks like 'ci'", False),
    ({"name": "ci"}, "name.*taken", False),
    ({"agent": "nobody"}, "agent.*no agent 'nobody'", False),
    ({"workspace": "here"}, "workspace.*absolute", True),
    ({"prompt": " "}, "prompt.*empty", True),
    ({"signature": "none"}, "signature", True),
    ({"max_per_minute": 0}, "max_per_minute", True),
]
"""What can't be a hook, what is said about it, and whether an editor's file is refused for it, too."""


async def what_cannot_be_names_its_field_and_changes_nothing(door: Door) -> None:
    await door.add_hook(CI)
    before = await door.hooks()
    for fields, said, is_for_all in BAD:
        if is_for_all or door.source == "managed":
            with pytest.raises(CallboardError, match=f"(?s){said}"):
                await door.add_hook(unchecked({"name": "other", **fields}))
    assert await door.hooks() == before


def unchecked(fields: dict[str, Any]) -> Hook:
    """A hook as no program can make it, but a client or a file can say it."""
    made = replace(CI)
    for name, value in fields.items():
        msgspec.structs.force_setattr(made, name, value)
    return made


def plain(hook: Hook) -> Hook:
    """A hook without the times, which the clock says."""
    return replace(hook, created_at_ms=None, updated_at_ms=None)


@pytest.mark.parametrize("door", DOORS)
async def test_every_door(door: str, tmp_path: Path, run_here: RunHere) -> None:
    async with DOORS[door](tmp_path, run_here) as opened:
        await it_comes_and_changes_and_rests_and_goes(opened)
        await what_cannot_be_names_its_field_and_changes_nothing(opened)
