"""Schedules are managed the same way through every door, and what is wrong with one is said by its field."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from callboard.runtime.budget import Budget
from callboard.runtime.errors import CallboardError
from callboard.runtime.schedules.schedule import MAX_PROMPT_CHARS, Schedule
from callboard.runtime.wire.schedules import schedule_of_row
from support.cli.in_process import own_logging as own_logging
from support.cli.in_process import run_here as run_here
from support.portal.doors import DOORS, Door, RunHere

MORNING = Schedule(
    name="morning",
    prompt="What is new?\nBe brief.",
    cron="0 9 * * 1-5",
    zone="Europe/Berlin",
    session="same",
    missed="skip",
    overlap="queue",
    unattended="defer",
    budget=Budget(tokens=5000),
)


async def it_comes_and_changes_and_rests_and_goes(door: Door) -> None:
    await door.plan(MORNING)
    row = (await door.schedules())["morning"]
    assert plain(schedule_of_row(row)) == MORNING
    assert (row.source, len(row.next_at_ms), row.last) == (door.source, 3, None)
    await door.pause("morning", paused=True)
    row = (await door.schedules())["morning"]
    assert (row.paused, row.next_at_ms) == (True, ())
    await door.pause("morning", paused=False)
    quarter = replace(MORNING, cron=None, every="15m")
    await door.replan(quarter)
    row = (await door.schedules())["morning"]
    assert plain(schedule_of_row(row)) == quarter
    assert not row.next_at_ms[0] % 900_000
    await door.unplan("morning")
    assert await door.schedules() == {}
    if door.source == "managed":
        changes = (
            partial(door.unplan, "nobody"),
            partial(door.replan, replace(MORNING, name="nobody")),
            partial(door.pause, "nobody", paused=True),
        )
        for change in changes:
            with pytest.raises(CallboardError, match="no schedule 'nobody'; there is none"):
                await change()


BAD: list[tuple[dict[str, str], str, bool]] = [
    ({"name": "mor ning"}, "name", True),
    ({"name": "m\u043erning"}, "name", True),  # a Cyrillic letter
    ({"name": "x" * 65}, "name", True),
    ({"name": "all"}, "name.*reserved", False),
    ({"name": "there"}, "name.*taken", False),
    ({"name": "THERE"}, "name.*looks like 'there'", False),
    ({"cron": "0 0 30 2 *"}, "cron.*never fires", True),
    ({"cron": "0 9 * *"}, "cron.*4 fields", True),
    ({"every": "5m"}, "cron and every are given", True),
    ({"zone": "Mars/Olympus"}, "zone.*no time zone 'Mars/Olympus'", True),
    ({"agent": "nobody"}, "agent.*no agent 'nobody'", False),
    ({"workspace": "here"}, "workspace.*absolute", True),
    ({"prompt": " "}, "prompt.*empty", True),
    ({"prompt": "x" * (MAX_PROMPT_CHARS + 1)}, "prompt", True),
    ({"session": "old"}, "session", True),
]
"""What can't be a schedule, what is said about it, and whether an editor's file is refused for it, too."""


async def what_cannot_be_names_its_field_and_changes_nothing(door: Door) -> None:
    await door.plan(replace(MORNING, name="there"))
    before = await door.schedules()
    for fields, said, is_for_all in BAD:
        if is_for_all or door.source == "managed":
            with pytest.raises(CallboardError, match=f"(?s){said}"):
                await door.plan(unchecked(fields))
    assert await door.schedules() == before


def unchecked(fields: dict[str, str]) -> Schedule:
    """A schedule as no program can make it, but a client or a file can say it."""
    made = replace(MORNING)
    for name, value in fields.items():
        msgspec.structs.force_setattr(made, name, value)
    return made


def plain(schedule: Schedule) -> Schedule:
    """A schedule without the times, which the clock says."""
    return replace(schedule, created_at_ms=None, updated_at_ms=None)


CASES = (
    it_comes_and_changes_and_rests_and_goes,
    what_cannot_be_names_its_field_and_changes_nothing,
)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
async def test_every_door(
    door: str, case: Callable[[Door], Awaitable[None]], tmp_path: Path, run_here: RunHere
) -> None:
    async with DOORS[door](tmp_path, run_here) as opened:
        await case(opened)
