"""`callboard schedule` as people use it: its options, what it says of times, and of what can't be."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.cli.command import Command
from support.cli.in_process import own_logging as own_logging
from support.cli.in_process import run_here as run_here
from support.portal.doors import RunHere

NINE = ("--cron", "0 9 * * 1-5")


async def test_times_are_those_of_the_schedule_and_say_their_zone(
    tmp_path: Path, run_here: RunHere
) -> None:
    command = Command(tmp_path)
    at_nine = re.compile(r"\d{4}-\d\d-\d\d 09:00 (CET|CEST)")
    made = await run_here(
        command, "schedule", "add", "morning", "Look.", *NINE, "--zone", "Europe/Berlin"
    )
    assert made.code == 0, made
    assert at_nine.search(made.out), made.out
    assert at_nine.search((await run_here(command, "schedule", "list")).out)
    assert at_nine.search((await run_here(command, "schedule", "show", "morning")).out)
    planned = (await run_here(command, "schedule", "next", "morning")).out.splitlines()
    assert all(at_nine.fullmatch(line) for line in planned), planned
    daily = await run_here(command, "schedule", "add", "night", "Look.", "--cron", "@daily")
    assert "00:00 UTC" in daily.out, daily
    often = await run_here(command, "schedule", "add", "often", "Look.", "--every", "1h")
    assert re.search(r":\d\d \w+\.", often.out), often  # of this machine, and so it says


async def test_an_empty_list_says_so_and_a_budget_is_that_of_a_run(
    tmp_path: Path, run_here: RunHere
) -> None:
    command = Command(tmp_path)
    assert "There are no schedules" in (await run_here(command, "schedule", "list")).err
    for group, options in (("schedule", NINE), ("hooks", ())):
        budget = ("--budget", "tokens=5000,tool-calls=3")
        made = await run_here(command, group, "add", "ci", "Look.", *options, *budget)
        assert made.code == 0, made
        shown = (await run_here(command, group, "show", "ci")).out
        assert "tokens = 5000" in shown
        assert "tool_calls = 3" in shown


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("schedule", "add", "x", "Look."), "--cron: nothing says when; give one of cron, every"),
        (("schedule", "add", "x"), "PROMPT: it is required"),
        (("schedule", "add", "x", " ", *NINE), "PROMPT: it is empty"),
        (("schedule", "add", "x", "Look.", "--cron", "@often"), "--cron: '@often' has 1 field, "),
        (("schedule", "add", "x", "Look.", "--every", "90"), "--every: '90' is not a number"),
        (
            ("schedule", "add", "x", "Look.", "--every", "1h", "--zone", "Asia/Tokyo"),
            "--zone is for --cron and --at",
        ),
        (("schedule", "add", "x", "Look.", *NINE, "--budget", "token=5"), "--budget: there is no"),
        (("hooks", "add", "x"), "PROMPT: it is required"),
        (("hooks", "add", "x", "Look.", "--max-per-minute", "0"), "--max-per-minute: expected"),
        (("agents", "create", "x", "--fallbacks", "groq"), "--fallbacks: "),
    ],
)
async def test_what_is_wrong_is_named_as_it_was_typed(
    words: tuple[str, ...], problem: str, tmp_path: Path, run_here: RunHere
) -> None:
    command = Command(tmp_path)
    ended = await run_here(command, *words)
    assert ended.code == 1
    assert ended.err.startswith(f"callboard: {problem}"), ended.err
    assert "the options" not in ended.err
    assert "Look." not in (await run_here(command, words[0], "list")).out
