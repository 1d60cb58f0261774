"""A model that calls a tool wrongly: it is shown why, tries twice more, and is told to stop."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import callboard
from callboard.providers.testing.script import reply
from callboard.providers.testing.scripted import ScriptStep
from callboard.runtime.events import CallFinished, DurableEvent, ToolGivenUp
from callboard.tools.tool import FunctionTool
from support import waiting
from support.stage import (
    Played,
    on_both_stores,
    open_local_stage,
    open_stage,
    play,
    play_in,
    read_result,
    tool_contents,
)

WRONG: tuple[str, Any] = ("count", {"to": "ten"})
RIGHT: tuple[str, Any] = ("count", {"to": 10})


class Counter:
    """A tool that takes a number, and refuses some of those while it runs."""

    def __init__(self) -> None:
        self.ran: list[int] = []

        @callboard.tool(tier="workspace")
        async def count(to: int) -> int:
            """Counts."""
            if to < 0:
                raise callboard.ToolFailure("validation_error", "It can't count down.", field="to")
            self.ran.append(to)
            return to

        self.tool: FunctionTool = count


def told(played: Played, name: str = "count") -> list[dict[str, Any]]:
    """The results of a tool's calls, as the model gets them."""
    return [read_result(result) for result in played.results if result.name == name]


def given_up(events: list[callboard.TurnEvent] | list[DurableEvent]) -> list[tuple[str, int]]:
    return [(e.name, e.attempts) for e in events if isinstance(e, callboard.ToolGivenUp)]


@on_both_stores
async def test_after_three_answers_the_tool_is_given_up(tmp_path: Path, store: str) -> None:
    counter = Counter()
    look = ("list_directory", {"path": "."})
    steps = [
        reply(calls=[WRONG]),
        reply(calls=[WRONG]),
        reply(calls=[WRONG]),
        reply(calls=[RIGHT, look]),
        reply("I could not count."),
        reply(calls=[RIGHT]),
        reply("Ten."),
    ]
    async with open_stage(tmp_path, steps, store=store, tools=[counter.tool]) as stage:
        session, played = await play_in(stage.runtime, "Count.")
        *failed, refused = told(played)
        assert [result["error_type"] for result in failed] == ["validation_error"] * 3
        assert [result["attempts_left"] for result in failed] == [2, 1, 0]
        for result in failed:
            assert result["field"] == "to"
            assert result["schema"]["properties"]["to"]["type"] == "integer"
            assert "`to`" in result["message"]
        stops = ["Do not call count again in this turn" in r["message"] for r in failed]
        assert stops == [False, False, True]
        assert ". This was attempt 3 of 3. " in failed[2]["message"]
        assert (refused["error_type"], refused["attempts_left"]) == ("validation_error", 0)
        assert "called wrongly in 3 answers" in refused["message"]
        assert told(played, "list_directory")[0]["status"] == "success"
        assert (counter.ran, given_up(played.events)) == ([], [("count", 3)])
        assert played.ended.outcome == "answered"
        [event] = [e for e in played.events if isinstance(e, callboard.ToolGivenUp)]
        assert event.turn_id == played.ended.turn_id
        assert event.child_id == ""
        assert event.message.startswith("count: `to`: expected")
        kept = [stored.event for stored in await stage.record(session)]
        third = [type(e) for e in kept].index(callboard.ToolGivenUp)
        assert isinstance(kept[third - 1], CallFinished)
        # A turn is a new start.
        again = await play(session, "Once more.")
        assert again.statuses == [("count", "success")]
        assert (counter.ran, given_up(again.events)) == ([10], [])


async def test_an_answer_counts_once_however_many_of_its_calls_are_wrong(tmp_path: Path) -> None:
    counter = Counter()
    steps = [reply(calls=[WRONG, RIGHT, WRONG, ("count", "{")])] * 3 + [reply("No.")]
    async with open_local_stage(tmp_path, steps, tools=[counter.tool]) as (runtime, _):
        played = await play(await runtime.create_session(), "Count.")
    lefts = [result.get("attempts_left") for result in told(played)]
    by_answer = [sorted(map(str, lefts[at : at + 4])) for at in (0, 4, 8)]
    assert by_answer == [[str(left)] * 3 + ["None"] for left in (2, 1, 0)]
    # The right ones ran, beside those of the answer that gave it up too.
    assert (counter.ran, given_up(played.events)) == ([10] * 3, [("count", 3)])


async def test_a_right_call_gives_no_attempt_back(tmp_path: Path) -> None:
    counter = Counter()
    wrong, right = reply(calls=[WRONG]), reply(calls=[RIGHT])
    steps = [wrong, right, wrong, right, wrong, right, reply("No.")]
    async with open_local_stage(tmp_path, steps, tools=[counter.tool]) as (runtime, _):
        played = await play(await runtime.create_session(), "Count.")
    assert counter.ran == [10, 10]
    assert [result.get("attempts_left") for result in told(played)] == [2, None, 1, None, 0, 0]


async def test_what_the_tool_itself_finds_invalid_counts_too(tmp_path: Path) -> None:
    counter = Counter()
    steps = [reply(calls=[("count", {"to": number})]) for number in (-1, -2, -3)]
    async with open_local_stage(tmp_path, [*steps, reply("No.")], tools=[counter.tool]) as (
        runtime,
        _,
    ):
        played = await play(await runtime.create_session(), "Count.")
    assert [result["attempts_left"] for result in told(played)] == [2, 1, 0]
    assert {result["field"] for result in told(played)} == {"to"}
    assert all("to" in result["schema"]["properties"] for result in told(played))
    assert given_up(played.events) == [("count", 3)]


async def test_other_failures_are_not_counted(tmp_path: Path) -> None:
    missing = reply(calls=[("read_file", {"path": "none"}), ("unknown", {})])
    async with open_local_stage(tmp_path, [*[missing] * 4, reply("No.")]) as (runtime, _):
        played = await play(await runtime.create_session(), "Read.")
    assert [r["error_type"] for r in told(played, "read_file")] == ["file_not_found"] * 4
    assert given_up(played.events) == []


@pytest.mark.parametrize("arguments", ['{"to": ', "[1]", '"to"', '{"to": 1} and more'])
async def test_text_that_is_no_json_has_field_and_schema(tmp_path: Path, arguments: str) -> None:
    counter = Counter()
    steps = [reply(calls=[("count", arguments)]), reply("I see.")]
    async with open_stage(tmp_path, steps, tools=[counter.tool]) as stage:
        played = await play(await stage.runtime.create_session(), "Count.")
        [result] = told(played)
        assert result["field"] is None
        assert result["schema"] == counter.tool.definition.parameters
        assert result["attempts_left"] == 2
        assert tool_contents(stage.sent[1]) == [result]


async def test_what_a_person_made_of_the_arguments_is_no_attempt(tmp_path: Path) -> None:
    async def edit(request: callboard.ApprovalRequest) -> callboard.ApprovalAnswer:
        return callboard.ApprovalAnswer(decision="allow", arguments='{"path": 3}')

    steps = [reply(calls=[("delete_file", {"path": "old.txt"})])] * 4
    async with open_local_stage(
        tmp_path, [*steps, reply("No.")], on_approval=edit, policy="balanced"
    ) as (runtime, _):
        played = await play(await runtime.create_session(), "Delete it.")
    results = told(played, "delete_file")
    assert [result["error_type"] for result in results] == ["validation_error"] * 4
    assert not any("attempts_left" in result for result in results)
    assert given_up(played.events) == []


async def test_the_count_survives_the_process(tmp_path: Path) -> None:
    session_id = waiting.killed_while_waiting(tmp_path, steps="wrong")
    steps = [reply(calls=[("note", {"text": 3})]), reply(calls=[("note", {"text": "x"})])]
    async with waiting.open_on(tmp_path, [*steps, reply("No.")], "allow") as runtime:
        turn = await (await runtime.get_session(session_id)).resume()
        assert turn is not None
        async with turn:
            events = [event async for event in turn]
    results = [json.loads(e.result) for e in events if isinstance(e, CallFinished)]
    failed = [result for result in results if result["status"] == "error"]
    # Two attempts were made before, and what had been asked about went on.
    assert [result["attempts_left"] for result in failed] == [0, 0]
    assert given_up(events) == [("note", 3)]
    assert waiting.noted(tmp_path) == ["one", "two"]


class Odd:
    """What has no JSON form, and whose `repr` fails."""

    def __repr__(self) -> str:
        raise ZeroDivisionError


def circle() -> dict[str, Any]:
    held: dict[str, Any] = {}
    held["held"] = held
    return held


class OwnFailure(callboard.ToolFailure):
    """A program's own class, whose text fails."""

    def __str__(self) -> str:
        raise ZeroDivisionError


ODD_FAILURES: dict[str, Callable[[], callboard.ToolFailure]] = {
    "a count of its own": lambda: callboard.ToolFailure(
        "validation_error", "bad", attempts_left=100
    ),
    "no number": lambda: callboard.ToolFailure("validation_error", "bad", attempts_left="x"),
    "a failing repr": lambda: callboard.ToolFailure("validation_error", "bad", odd=Odd()),
    "a circle": lambda: callboard.ToolFailure("validation_error", "bad", odd=circle()),
    "no number in JSON": lambda: callboard.ToolFailure(
        "validation_error", "bad \udc80", odd=float("nan")
    ),
    "its own status": lambda: callboard.ToolFailure("validation_error", "bad", status="success"),
}


@pytest.mark.parametrize("name", ODD_FAILURES)
async def test_what_a_tool_says_of_its_failure_stays_its_own(tmp_path: Path, name: str) -> None:
    """The count is the runtime's, and the dispatcher outlives whatever stands in the details."""

    @callboard.tool(tier="read_only")
    async def picky() -> str:
        """Fails."""
        raise ODD_FAILURES[name]()

    steps: list[ScriptStep] = [*[reply(calls=[("picky", {})])] * 4, reply("I stop.")]
    async with open_local_stage(tmp_path, steps, tools=[picky]) as (runtime, _):
        played = await play(await runtime.create_session(), "Go.")
    left = [result.attempts_left for result in played.results]
    assert left == [2, 1, 0, None]
    results = [read_result(result) for result in played.results]
    assert [result["error_type"] for result in results] == ["validation_error"] * 4
    assert [result["attempts_left"] for result in results] == [2, 1, 0, 0]
    assert {result["status"] for result in results} == {"error"}
    [given_up] = [event for event in played.events if isinstance(event, ToolGivenUp)]
    assert given_up.name == "picky"


async def test_a_failure_whose_text_fails_is_a_crash_of_its_call(tmp_path: Path) -> None:
    @callboard.tool(tier="read_only")
    async def picky() -> str:
        """Fails."""
        raise OwnFailure("validation_error", "bad")

    steps: list[ScriptStep] = [reply(calls=[("picky", {})]), reply("So be it.")]
    async with open_local_stage(tmp_path, steps, tools=[picky]) as (runtime, _):
        played = await play(await runtime.create_session(), "Go.")
    [result] = played.results
    assert read_result(result)["error_type"] == "execution_error"
