"""Programs and what runs beside them: nothing else touches a workspace while a program does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from callboard.providers.testing.script import reply
from callboard.runtime.events import CallProposed
from support.flows.program_calls import Call
from support.stage import make_workspace, open_local_stage, play, read_result

ALONE = "mkdir busy || exit 9; sleep 0.2; ls -A | grep -v -e busy -e seen > others; cat others; rmdir busy"
"""Fails when another one is at work, and says what appeared meanwhile."""


pytestmark = pytest.mark.usefixtures("sandbox")


async def at_once(folder: Path, *calls: Call) -> list[dict[str, Any]]:
    """The results of the calls of one answer, in its order."""
    steps = [reply(calls=list(calls)), reply("Done.")]
    async with open_local_stage(folder, steps, policy="auto") as (runtime, _):
        played = await play(await runtime.create_session(), "Go.")
        by_id = {result.call_id: read_result(result) for result in played.results}
        order = [e.call_id for e in played.events if isinstance(e, CallProposed)]
        return [by_id[call_id] for call_id in order]


def alone(tool: str) -> Call:
    if tool == "shell":
        return "shell", {"command": ALONE}
    return "run_code", {"language": "bash", "code": ALONE}


@pytest.mark.parametrize("second", ["shell", "run_code"])
async def test_two_programs_take_turns(tmp_path: Path, second: str) -> None:
    found = await at_once(tmp_path, alone("shell"), alone(second), alone("run_code"))
    assert [each["result"]["exit_code"] for each in found] == [0, 0, 0]


async def test_without_turns_they_would_meet(tmp_path: Path) -> None:
    """The control: programs in the background hold no key."""
    begin: Call = ("shell", {"command": ALONE, "background": True})
    waits = [("process", {"action": "wait", "id": each}) for each in ("p1", "p2")]
    steps = [reply(calls=[begin, begin]), reply(calls=waits), reply("Done.")]
    async with open_local_stage(tmp_path, steps, policy="auto") as (runtime, _):
        played = await play(await runtime.create_session(), "Go.")
        ended = [read_result(result)["result"] for result in played.results[2:]]
    assert sorted(each["exit_code"] for each in ended) == [0, 9]


async def test_files_wait_for_programs_and_programs_for_files(tmp_path: Path) -> None:
    make_workspace(tmp_path)
    found = await at_once(
        tmp_path,
        ("write_file", {"path": "in", "content": "before"}),
        ("shell", {"command": "cat in; sleep 0.1; ls in later 2>&-"}),
        ("write_file", {"path": "later", "content": "between"}),
        ("run_code", {"language": "bash", "code": "cat in later > out"}),
        ("read_file", {"path": "out"}),
        ("delete_file", {"path": "in"}),
        ("shell", {"command": "ls in later out 2>&-"}),
    )
    assert found[1]["result"]["stdout"] == "beforein\n"
    assert found[4]["result"]["content"] == "beforebetween"
    assert found[6]["result"]["stdout"] == "later\nout\n"


async def test_a_start_in_the_background_comes_behind_what_was_asked_before(tmp_path: Path) -> None:
    found = await at_once(
        tmp_path,
        ("run_code", {"language": "bash", "code": "sleep 0.2; echo x > in"}),
        ("shell", {"command": "cat in; sleep 600", "background": True}),
        ("read_file", {"path": "in"}),
    )
    assert [each["status"] for each in found] == ["success"] * 3
    assert found[1]["result"]["runs"] is True


async def test_looking_after_programs_holds_no_key(tmp_path: Path) -> None:
    """A wait of one call would keep the one from running that it waits for."""
    begin: Call = (
        "shell",
        {"command": "while ! test -e go; do sleep 0.02; done", "background": True},
    )
    wait: Call = ("process", {"action": "wait", "id": "p1", "timeout": 30})
    steps = [
        reply(calls=[begin]),
        reply(calls=[wait, ("write_file", {"path": "go", "content": ""})]),
        reply("Done."),
    ]
    async with open_local_stage(tmp_path, steps, policy="auto") as (runtime, _):
        played = await play(await runtime.create_session(), "Go.")
    ended = {result.name: read_result(result) for result in played.results}
    assert ended["process"]["result"]["exit_code"] == 0
