"""Cancelling: by leaving the block, by asking, from outside; the history stays valid each time."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

import callboard
from callboard.providers.provider import ModelRequest
from callboard.providers.testing.script import Step, reply, stall
from callboard.providers.testing.scripted import ScriptedModel
from callboard.providers.testing.scripted_server import ScriptedRequest
from callboard.runtime.events import (
    CallStarted,
    InputCancelled,
    MessageCompleted,
    TurnEnded,
    TurnStarted,
)
from callboard.runtime.history import Input, Result
from support.stage import (
    Played,
    Stage,
    check_record,
    heard,
    on_both_stores,
    open_in,
    open_local_stage,
    open_stage,
    tool_contents,
)


@callboard.tool
async def hang() -> None:
    """Never ends by itself."""
    await trio.sleep_forever()


@callboard.tool(approval="always")
async def ask() -> None:
    """Asks first."""


@callboard.tool
async def quick() -> str:
    """Ends at once."""
    return "quick"


async def waits_for_ever(request: callboard.ApprovalRequest) -> callboard.ApprovalAnswer:
    await trio.sleep_forever()
    raise AssertionError


async def last_turn(stage: Stage, session: callboard.Session) -> TurnEnded:
    ends = [s.event for s in await stage.record(session) if isinstance(s.event, TurnEnded)]
    return ends[-1]


@on_both_stores
async def test_leaving_in_mid_stream_keeps_the_text_so_far(tmp_path: Path, store: str) -> None:
    steps: list[Step] = [stall("Once upon a"), reply("The end.")]
    async with open_stage(tmp_path, steps, store=store) as stage:
        session = await stage.runtime.create_session()
        async with session.prompt("Tell me a story.") as turn:
            await heard(turn, callboard.TextDelta)
        ended = await last_turn(stage, session)
        assert (ended.outcome, ended.message) == ("cancelled", "the program left the turn")
        [kept] = [
            s.event for s in await stage.record(session) if isinstance(s.event, MessageCompleted)
        ]
        assert kept.incomplete
        assert await session.run("Go on.") == "The end."
        assert stage.sent[1][1:] == [
            {"role": "user", "content": "Tell me a story."},
            {"role": "assistant", "content": "Once upon a"},
            {"role": "user", "content": "Go on."},
        ]


@on_both_stores
async def test_leaving_in_mid_tool_cancels_what_is_open(tmp_path: Path, store: str) -> None:
    steps = [reply("I try.", calls=[("hang", {}), ("quick", {}), ("hang", {})]), reply("Well.")]
    async with open_stage(tmp_path, steps, store=store, tools=[hang, quick]) as stage:
        session = await stage.runtime.create_session()
        async with session.prompt("Go.") as turn:
            await heard(turn, callboard.CallFinished)
        assert (await last_turn(stage, session)).outcome == "cancelled"
        assert await session.run("Again.") == "Well."
        contents = tool_contents(stage.sent[1])
        assert [c.get("error_type", "") for c in contents] == ["cancelled", "", "cancelled"]
        rows = await stage.runtime.store.calls(session_id=session.session_id)
        assert sorted(row.status.value for row in rows) == ["cancelled", "cancelled", "success"]


async def test_leaving_the_block_while_an_approval_waits(tmp_path: Path) -> None:
    steps = [reply(calls=[("ask", {}), ("quick", {})]), reply("Well.")]
    async with open_stage(tmp_path, steps, tools=[ask, quick], on_approval=waits_for_ever) as stage:
        session = await stage.runtime.create_session()
        async with session.prompt("Go.") as turn:
            async for event in turn:
                if getattr(event, "approval_id", None):
                    break
        assert (await last_turn(stage, session)).outcome == "cancelled"
        assert await session.run("Again.") == "Well."
        contents = tool_contents(stage.sent[1])
        assert [c.get("error_type", "") for c in contents] == ["cancelled", ""]


@pytest.mark.parametrize("step", [stall("So"), reply("So", calls=[("hang", {})])])
async def test_a_cancelled_turn_can_be_read_to_its_end(tmp_path: Path, step: Step) -> None:
    async with open_stage(tmp_path, [step, reply("Well.")], tools=[hang]) as stage:
        session = await stage.runtime.create_session()
        events: list[callboard.TurnEvent] = []
        async with session.prompt("Go.") as turn:
            async for event in turn:
                events.append(event)
                if isinstance(event, callboard.TextDelta):
                    break
            await turn.cancel("enough")
            events += [event async for event in turn]
        played = Played(events)
        assert (played.ended.outcome, played.ended.message) == ("cancelled", "enough")
        assert {result.status.value for result in played.results} <= {"cancelled"}
        # Cancelling what has ended changes nothing.
        await turn.cancel()
        assert await session.run("Again.") == "Well."


async def test_run_that_is_cancelled_cancels_its_turn(tmp_path: Path) -> None:
    came = trio.Event()

    def answer(request: ScriptedRequest) -> Step:
        came.set()
        return stall("So") if request.body["messages"][-1]["content"] == "Go." else reply("Well.")

    async def run_and_note(scope: trio.CancelScope) -> None:
        with scope:
            await session.run("Go.")

    async with open_stage(tmp_path, [answer] * 2) as stage:
        session = await stage.runtime.create_session()
        async with trio.open_nursery() as nursery:
            scope = trio.CancelScope()
            nursery.start_soon(run_and_note, scope)
            await came.wait()
            scope.cancel()
        assert scope.cancelled_caught
        assert (await last_turn(stage, session)).outcome == "cancelled"
        assert await session.run("Again.") == "Well."


async def test_an_exception_in_the_block_cancels_and_comes_out(tmp_path: Path) -> None:
    async with open_stage(tmp_path, [stall("So"), reply("Well.")]) as stage:
        session = await stage.runtime.create_session()

        async def crash() -> None:
            async with session.prompt("Go.") as turn:
                async for event in turn:
                    if isinstance(event, callboard.TextDelta):
                        raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await crash()
        assert (await last_turn(stage, session)).outcome == "cancelled"
        assert await session.run("Again.") == "Well."


async def test_the_provider_sees_the_cancel_at_once(tmp_path: Path) -> None:
    """The connection is closed, so that nobody pays for an answer that nobody reads."""
    steps = [stall("So")]
    async with open_stage(tmp_path, steps) as stage:
        session = await stage.runtime.create_session()
        async with session.prompt("Go.") as turn:
            await heard(turn, callboard.TextDelta)
            assert stage.runtime._host.http.statistics().active == 1
        assert stage.runtime._host.http.statistics().active == 0


@on_both_stores
@pytest.mark.parametrize("step", [stall("So"), reply("So", calls=[("hang", {}), ("quick", {})])])
async def test_cancelling_around_the_runtime_ends_turns_in_order(
    tmp_path: Path, store: str, step: Step
) -> None:
    data = tmp_path / "data" if store == "disk" else None
    session_id = ""
    with trio.fail_after(30), trio.CancelScope() as scope:
        async with open_in(tmp_path, [step], data=data, tools=[hang, quick]) as runtime:
            session = await runtime.create_session()
            session_id = session.session_id
            async with session.prompt("Go.") as turn:
                async for event in turn:
                    if isinstance(event, callboard.TextDelta | CallStarted):
                        scope.cancel()
    assert scope.cancelled_caught
    if data is None:
        return
    async with open_stage(tmp_path, [reply("Well.")], store=store) as stage:
        session = await stage.runtime.get_session(session_id)
        assert (await last_turn(stage, session)).outcome == "cancelled"
        assert await session.run("Again.") == "Well."


async def test_closing_the_runtime_ends_turns_that_nobody_reads(tmp_path: Path) -> None:
    async with open_stage(tmp_path, [stall("So")], store="disk") as stage:
        session = await stage.runtime.create_session()
        turn = await session.prompt("Go.").__aenter__()
        await heard(turn, callboard.TextDelta)
        await turn.cancel("the test is over")
    async with open_stage(tmp_path, [reply("Well.")], store="disk") as stage:
        again = await stage.runtime.get_session(session.session_id)
        assert await again.run("Again.") == "Well."


async def test_a_waiting_input_that_is_cancelled_never_reaches_the_model(tmp_path: Path) -> None:
    async with open_stage(tmp_path, [stall("So"), reply("Third.")]) as stage:
        session = await stage.runtime.create_session()
        async with session.prompt("First.") as first:
            await heard(first, callboard.TextDelta)
            async with session.prompt("Second.") as second:
                await second.cancel("not needed")
            await first.cancel()
        assert await session.run("Third.") == "Third."
        assert second.ended is not None or [type(e) async for e in second][-1] is InputCancelled
        record = [s.event for s in await stage.record(session)]
        outcomes = [event.outcome for event in record if isinstance(event, TurnEnded)]
        assert outcomes == ["cancelled", "answered"]
        cancelled = [event for event in record if isinstance(event, InputCancelled)]
        assert [(event.input_id, event.reason) for event in cancelled] == [
            (second.input_id, "not needed")
        ]


async def test_a_cancelled_input_does_not_run_after_a_restart(tmp_path: Path) -> None:
    never = reply("never", delay_seconds=60)
    async with open_in(tmp_path, [never], "disk") as runtime:
        session = await runtime.create_session()
        async with session.prompt("First.") as first, session.prompt("Second.") as second:
            await second.cancel("not needed")
            await first.cancel()
    second_model = ScriptedModel([reply("Third.")])
    async with open_in(tmp_path, second_model, "disk") as runtime:
        again = await runtime.get_session(session.session_id)
        assert await again.run("Third.") == "Third."
    second_model.assert_complete()


class Steps(trio.abc.Instrument):
    """Cancels a scope at the n-th step of the task that made it: while it sleeps behind the step.

    So every wait of the task is cut short once, whatever it waits for.
    """

    def __init__(self, scope: trio.CancelScope, at: int) -> None:
        self._task = trio.lowlevel.current_task()
        self._scope = scope
        self._left = at

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        if task is self._task:
            self._left -= 1
            if self._left == 0:
                self._scope.cancel()


async def sweep_once(session: callboard.Session, at: int) -> bool:
    """Plays a turn that is cancelled at this step; whether it came so far."""
    with trio.CancelScope() as scope:
        steps = Steps(scope, at)
        trio.lowlevel.add_instrument(steps)
        try:
            async with session.prompt("Go.") as turn:
                async for event in turn:
                    if isinstance(event, callboard.TextDelta) and event.text == "stalled":
                        break
        finally:
            trio.lowlevel.remove_instrument(steps)
    return scope.cancelled_caught


async def test_a_cancel_in_any_wait_of_the_consumer(tmp_path: Path) -> None:
    """Each turn would hang for ever if its consumer's end did not cancel it."""
    turns = 40
    asks = reply(["a", "b"], calls=[("quick", {}), ("get_current_time", {})])

    def answer(request: ModelRequest) -> Step:
        last = request.rounds[-1].items[-1]
        if isinstance(last, Input) and last.text == "Again.":
            return reply("Well.")
        return stall("stalled") if isinstance(last, Result) else asks

    caught = 0
    async with open_local_stage(tmp_path, [answer] * (turns * 3), tools=[quick]) as (runtime, _):
        for at in range(1, turns):
            session = await runtime.create_session()
            caught += await sweep_once(session, at)
            assert await session.run("Again.") == "Well."
            check_record(await runtime.store.events(session.session_id))
    assert caught > 3


async def test_what_was_called_off_before_a_word_came_is_not_asked_for_again() -> None:
    """Both would stand in one message, and the model would do both; what the end of a process cut off may be meant."""
    model = ScriptedModel([stall(), reply("Listed.")])
    async with callboard.open_runtime(model=model) as runtime:
        session = await runtime.create_session()
        async with session.prompt("Delete all tests.") as turn:
            async for event in turn:
                if isinstance(event, TurnStarted):
                    break
        assert await session.run("List the tests.") == "Listed."
    items = [item for each in model.requests[-1].rounds for item in each.items]
    said = [item.text for item in items if isinstance(item, Input)]
    assert said[0] == "Delete all tests."
    assert "was cancelled before it was answered" in said[1]
    assert said[2:] == ["List the tests."]


async def test_a_cancelled_call_takes_no_time_of_its_question(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    """A call that was asked about for minutes, ran a second, and was cancelled, was said to have taken minutes."""

    @callboard.tool(approval="always")
    async def stay() -> None:
        """Never ends by itself."""
        await trio.sleep_forever()

    async def allow_later(request: callboard.ApprovalRequest) -> str:
        await trio.sleep(300)
        return "allow"

    steps = [reply(calls=[("stay", {})]), reply("Done.")]
    options = {"tools": [stay], "on_approval": allow_later}
    async with open_local_stage(tmp_path, steps, **options) as (runtime, _):
        session = await runtime.create_session()
        async with session.prompt("Go.") as turn:
            async for event in turn:
                if isinstance(event, CallStarted):
                    await trio.sleep(1)
                    break
        record = [each.event for each in await runtime.store.events(session.session_id)]
    [finished] = [each for each in record if isinstance(each, callboard.CallFinished)]
    assert (finished.status, finished.duration_ms) == ("cancelled", 1000)
