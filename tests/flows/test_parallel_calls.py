"""The matrix of docs/parallel-calls.md: what happens to one call, and what all others see of it."""

from __future__ import annotations

import json
import sys
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

import callboard
from callboard.providers.testing.script import reply
from callboard.runtime.definitions import Resource
from callboard.runtime.events import CallProposed, CallStarted, TurnEnded
from callboard.runtime.kernel.delivery import MAX_WAITING_UPDATES
from support.flows.batch import (
    CANCELLED,
    DONE,
    ENOUGH,
    LAST,
    NEVER_RAN,
    ROWS,
    Bench,
    Row,
    play_row,
    tag,
)
from support.stage import messages_of, open_local_stage, play, tool_contents

each_row = pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)


# ── the matrix ───────────────────────────────────────────────────────────────────────────────────


@each_row
async def test_siblings(row: Row, tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    """They begin at once, end in their own time, and succeed."""
    batch = await play_row(tmp_path, row)
    for place, (_, arguments) in enumerate(row.calls):
        if place == row.place:
            continue
        call_id = batch.call_ids[place]
        ended_at, result = batch.results[place]
        assert batch.bench.began[call_id] == 0
        assert ended_at == arguments["seconds"]
        assert result.duration_ms == 1000 * arguments["seconds"]
        assert json.loads(result.result) == DONE
    # The turn took as long as its slowest call.
    assert batch.heard[-1][0] == max(3, row.ends_at)
    assert isinstance(batch.heard[-1][1], TurnEnded)


@each_row
async def test_model(row: Row, tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    """It gets one result for each call, in the order in which it asked."""
    batch = await play_row(tmp_path, row)
    assert len(batch.contents) == len(row.calls)
    contents = list(batch.contents)
    mine = contents.pop(row.place)
    assert contents == [DONE] * len(contents)
    expected = json.loads(json.dumps(row.content).replace("CALL", batch.call_ids[row.place]))
    assert expected.pop("message", "") in mine.pop("message", "")
    mine.pop("schema", None)
    assert mine == expected


@each_row
async def test_consumer(row: Row, tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    """It hears all proposals first, then each call's own story when it happens."""
    batch = await play_row(tmp_path, row)
    assert batch.of_call(row.place) == row.heard
    about_calls = [event for _, event in batch.heard if getattr(event, "call_id", "")]
    proposed = [event for event in about_calls if isinstance(event, CallProposed)]
    assert about_calls[: len(row.calls)] == proposed
    assert [event.index for event in proposed] == list(range(len(row.calls)))
    assert [(event.name, json.loads(event.arguments)) for event in proposed] == list(row.calls)
    # Results come in the order of their ends.
    ends = {1: row.before[0], 3: LAST, row.ends_at: row.call}
    assert [row.calls[place] for place in batch.results] == [ends[at] for at in sorted(ends)]
    assert [at for at, _ in batch.results.values()] == sorted(ends)


@each_row
async def test_record(row: Row, tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    """One result, a start before every effect, and the state of each moment."""
    batch = await play_row(tmp_path, row)
    mine = batch.call_ids[row.place]
    assert batch.meanwhile[row.place] == row.meanwhile
    assert batch.states[row.place] == row.status
    assert batch.bench.began.get(mine) == row.begins_at
    # What every tool that ran found on record about its own call.
    assert set(batch.bench.found.values()) == {"running"}
    stored = [s.event for s in batch.record if getattr(s.event, "call_id", None) == mine]
    assert [tag(event) for event in stored] == [
        kind for _, kind in row.heard if kind != "call_progress"
    ]
    result = batch.results[row.place][1]
    assert stored[-1] == result
    assert (result.arguments is None) == (row.heard == NEVER_RAN)
    assert (batch.artifacts[row.place] is not None) == ("truncated" in row.content)


@each_row
async def test_cancel(row: Row, tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    """What has its result keeps it, everything else ends at once as cancelled."""
    for moment in (0.5, 2.5):
        folder = tmp_path / str(moment)
        folder.mkdir()
        batch = await play_row(folder, row, cancel_at=moment)
        ended_at, ended = batch.heard[-1]
        assert isinstance(ended, TurnEnded)
        assert (ended.outcome, ended.message, ended.unreaped) == ("cancelled", ENOUGH, ())
        assert ended_at == moment
        for place, (_, arguments) in enumerate(row.calls):
            own_end = row.ends_at if place == row.place else arguments["seconds"]
            own_state = row.status if place == row.place else "success"
            over = own_end <= moment
            assert batch.results[place][0] == (own_end if over else moment)
            assert batch.states[place] == (own_state if over else "cancelled")
            assert (batch.contents[place] == CANCELLED) is not over


async def raise_group(*errors: BaseException) -> None:
    async def fail(error: BaseException) -> None:
        raise error

    async with trio.open_nursery() as nursery:
        for error in errors:
            nursery.start_soon(fail, error)


class ForeignCancel(BaseException):
    """No `Exception`, as the cancel of asyncio is none."""


FAILURE = callboard.ToolFailure(callboard.ErrorType.NETWORK_ERROR, "No route.")


@pytest.mark.parametrize(
    ("errors", "in_nursery", "content"),
    [
        ([ForeignCancel("by asyncio")], False, "ForeignCancel: by asyncio"),
        ([ForeignCancel("by asyncio")], True, "ForeignCancel: by asyncio"),
        ([ZeroDivisionError("zero")], True, "ZeroDivisionError: zero"),
        ([FAILURE], True, "No route."),
        ([FAILURE, SystemExit(3)], True, "2 sub-exceptions"),
    ],
    ids=["foreign cancel", "foreign cancel in a group", "crash in a group", "failure in a group",
         "group of two"],
)  # fmt: skip
async def test_whatever_a_tool_raises_is_its_own(
    errors: list[BaseException], in_nursery: bool, content: str, tmp_path: Path
) -> None:
    @callboard.tool
    async def raises() -> None:
        """Raises."""
        if in_nursery:
            await raise_group(*errors)
        raise errors[0]

    def leave(arguments: Any) -> list[Resource]:
        sys.exit(3)

    @callboard.tool(resources=leave)
    async def leaves() -> None:
        """Leaves the program when it is asked for its keys."""

    bench = Bench()
    steps = [
        reply(calls=[("raises", {}), ("leaves", {}), ("work", {"seconds": 0})]),
        reply("Well."),
    ]
    tools = [raises, leaves, *bench.tools]
    async with open_local_stage(tmp_path, steps, tools=tools) as (runtime, model):
        bench.runtime = runtime
        played = await play(await runtime.create_session(), "Go.")
    assert played.ended.outcome == "answered"
    raised, left, worked = tool_contents(messages_of(model.requests[1]))
    assert content in raised["message"]
    assert raised["error_type"] == (
        "network_error" if content == "No route." else "execution_error"
    )
    assert left["message"] == "leaves failed before it ran: SystemExit: 3"
    assert worked == DONE


# ── progress ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("count", [1, 3])
async def test_progress_comes_before_the_result(count: int, tmp_path: Path) -> None:
    """Nothing is heard of a call behind its result, however fast it spoke."""
    # What all of them say at once waits for the consumer, who misses no line of so few.
    lines = MAX_WAITING_UPDATES // 6

    @callboard.tool
    async def talk(context: callboard.ToolContext) -> None:
        """Says much at once."""
        for number in range(lines):
            context.progress(str(number))

    steps = [reply(calls=[("talk", {})] * count), reply("Well.")]
    async with open_local_stage(tmp_path, steps, tools=[talk]) as (runtime, _):
        played = await play(await runtime.create_session(), "Go.")
    stories: dict[str, list[str]] = {}
    for event in played.events:
        if call_id := getattr(event, "call_id", ""):
            stories.setdefault(call_id, []).append(tag(event))
    assert len(stories) == count
    for kinds in stories.values():
        assert [(kind, len(list(run))) for kind, run in groupby(kinds)] == [
            ("call_proposed", 1),
            ("call_started", 1),
            ("call_progress", lines),
            ("call_finished", 1),
        ]


# ── a batch that is read only ────────────────────────────────────────────────────────────────────


async def test_a_read_that_waited_has_no_start_on_record(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    """What changes nothing needs no record before it runs; at once, it costs nothing to have."""

    @callboard.tool(effect="read", tier="read_only", resources=lambda _: [Resource("key")])
    async def look() -> None:
        """Looks."""
        await trio.sleep(1)

    steps = [reply(calls=[("look", {})] * 2), reply("Well.")]
    async with open_local_stage(tmp_path, steps, tools=[look]) as (runtime, _):
        played = await play(await runtime.create_session(), "Go.")
    started = [event.call_id for event in played.events if isinstance(event, CallStarted)]
    assert started == [played.results[0].call_id]
    assert [result.duration_ms for result in played.results] == [1000, 1000]
