"""A session that is run again from its record: what comes out, and what does not run."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
import trio
from msgspec.structs import replace

import callboard
from callboard.actors.upkeep.replay import Replay, Replayed, Tape
from callboard.config.settings import Limits
from callboard.providers.testing.script import fail, reply, stall
from callboard.providers.testing.scripted import ScriptStep
from callboard.runtime.errors import ConflictError
from callboard.runtime.events import CallProposed, MessageCompleted, Stored, TurnEnded
from callboard.runtime.store.recovery import CUT_OFF
from support.replayed import differences, kept_records
from support.stage import heard, open_in, run_in

RAN: list[str] = []


@callboard.tool(tier="read_only")
def count(word: str) -> int:
    """Counts the letters of a word."""
    RAN.append(word)
    return len(word)


@asynccontextmanager
async def opened(folder: Path, steps: Sequence[ScriptStep]) -> AsyncGenerator[callboard.Runtime]:
    async with open_in(folder, steps, tools=[count]) as runtime:
        yield runtime


async def replayed(events: Sequence[Stored], limits: Limits | None = None) -> Replayed:
    async def page(after_seq: int) -> Sequence[Stored]:
        await trio.lowlevel.checkpoint()
        return events[after_seq : after_seq + 3]  # small: ends of pages fall everywhere

    shown: list[object] = []
    tape = Tape(page)
    session_id = events[0].session_id
    done = await Replay(
        session_id, tape, limits or Limits(), lambda *told: shown.append(told)
    ).run()
    assert shown
    return done


async def _cancelled(session: callboard.Session) -> None:
    async with session.prompt("Tell me a story.") as turn:
        await heard(turn, callboard.TextDelta)


async def test_all_kinds_of_turns_come_out_as_they_were(tmp_path: Path) -> None:
    steps: list[ScriptStep] = [
        reply("I count.", calls=[("count", {"word": "ab"}), ("count", {"no": 1})], thinking="Hm."),
        reply("Two."),
        stall("Once upon a"),
        fail("It broke.", text="So"),
        reply(refusal="No."),
        reply("It is", finish="length"),
        reply("Yes."),
    ]
    async with opened(tmp_path, steps) as runtime:
        session = await run_in(runtime, "How long is ab?")
        await _cancelled(session)
        for text in ("Fail.", "Refuse.", "Be long."):
            async with session.prompt(text) as turn:
                async for _ in turn:
                    pass
        async with session.retry() as turn:
            async for _ in turn:
                pass
        events = await runtime.store.events(session.session_id)
    outcomes = [s.event.outcome for s in events if isinstance(s.event, TurnEnded)]
    assert outcomes == ["answered", "cancelled", "failed", "refused", "max_tokens", "answered"]
    RAN.clear()
    done = await replayed(events)
    assert done.is_same, done.difference
    assert (done.turns, done.answers, done.calls) == (6, 6, 2)
    assert RAN == []


def _changed(events: Sequence[Stored], kind: type, **to: object) -> list[Stored]:
    """The record with another value in the last event of this kind."""
    last = max(index for index, stored in enumerate(events) if isinstance(stored.event, kind))
    event = msgspec.structs.replace(events[last].event, **to)
    return [*events[:last], msgspec.structs.replace(events[last], event=event), *events[last + 1 :]]


async def test_a_difference_is_named(tmp_path: Path) -> None:
    steps = [reply(calls=[("count", {"word": "ab"})]), reply("Two.")]
    async with opened(tmp_path, steps) as runtime:
        session = await run_in(runtime, "How long is ab?")
        events = await runtime.store.events(session.session_id)
    assert (await replayed(events)).is_same
    for kind, to, what in (
        (TurnEnded, {"outcome": "refused"}, "turn 1: the end (refused) is on record"),
        (CallProposed, {"arguments": "{}"}, "turn 1: a call (count, "),
        (MessageCompleted, {"stop_reason": "refused"}, "the end (refused) came"),
    ):
        done = await replayed(_changed(events, kind, **to))
        assert what in done.difference


async def test_another_limit_is_a_difference(tmp_path: Path) -> None:
    steps = [*(reply(calls=[("count", {"word": "ab"})]) for _ in range(3)), reply("Two.")]
    async with opened(tmp_path, steps) as runtime:
        session = await run_in(runtime, "How long is ab?")
        events = await runtime.store.events(session.session_id)
    done = await replayed(events, Limits(max_repeats=2))
    assert "loop_guard" in done.difference
    assert (await replayed(events)).is_same


async def test_calls_of_a_program_that_a_crash_cut_off_come_out_as_they_were(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path, []) as runtime:
        called = await runtime.call_tool("get_current_time", {})
        *events, last = await runtime.store.events(called.session_id)
    assert isinstance(last.event, TurnEnded)
    crash = replace(last.event, outcome="failed", error_type="internal", message=CUT_OFF)
    assert (await replayed([*events, last])).is_same
    assert (await replayed([*events, replace(last, event=crash)])).is_same
    other = replace(crash, message="Something else.")
    assert not (await replayed([*events, replace(last, event=other)])).is_same


async def test_a_turn_without_an_end_is_said(tmp_path: Path) -> None:
    async with opened(tmp_path, [reply("One."), reply("Two.")]) as runtime:
        session = await run_in(runtime, "Say one.")
        await session.run("Say two.")
        events = await runtime.store.events(session.session_id)
    assert isinstance(events[-1].event, TurnEnded)
    with pytest.raises(ConflictError, match="has no end on record"):
        await replayed(events[:-1])
    assert (await replayed(events)).turns == 2


@pytest.mark.parametrize("store", ["memory", "disk"])
async def test_sessions_of_tests_are_replayed(tmp_path: Path, store: str) -> None:
    with kept_records(tmp_path) as records:
        async with open_in(tmp_path, [reply("Two.")], store) as runtime:
            await run_in(runtime, "How many?")
    [record] = records
    assert await differences(records) == []
    forged = [
        replace(stored, event=replace(stored.event, outcome="refused"))
        if isinstance(stored.event, TurnEnded)
        else stored
        for stored in record
    ]
    [found] = await differences([forged])
    assert "refused" in found
