"""The scripted model, the test double of everything above providers."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from callboard.providers.provider import LocalModel, ModelRequest
from callboard.providers.testing.script import (
    ScriptedCall,
    ScriptedReply,
    Step,
    drip,
    fail,
    garbage,
    html,
    last_result,
    raw_events,
    reply,
    stall,
)
from callboard.providers.testing.scripted import ScriptedModel
from callboard.runtime.history import Input, Result, Round
from callboard.runtime.stream import (
    AnyStreamEvent,
    Done,
    RefusalDelta,
    StopReason,
    StreamError,
    TextDelta,
    ThinkingDelta,
    ThinkingEnd,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    Usage,
)

REQUEST = ModelRequest(model="m", rounds=[Round([Input("hi")])])


class Batches:
    """What a consumer got."""

    def __init__(self) -> None:
        self.events: list[AnyStreamEvent] = []

    async def emit(self, events: list[AnyStreamEvent]) -> None:
        await trio.lowlevel.checkpoint()
        self.events += events


async def play(*steps: Step, request: ModelRequest = REQUEST) -> list[AnyStreamEvent]:
    model = ScriptedModel(steps)
    got = Batches()
    for _ in steps:
        await model.run(request, got.emit)
    model.assert_complete()
    return got.events


def test_it_is_a_local_model() -> None:
    assert isinstance(ScriptedModel([]), LocalModel)


async def test_a_reply_comes_as_its_events() -> None:
    answer = reply(
        ["He", "llo"],
        thinking="hm",
        calls=[("t", {"a": 1}), ("u", "{broken"), ScriptedCall("v", "", "i")],
        usage=Usage(1, 2),
    )
    assert await play(answer) == [
        ThinkingDelta("hm"),
        ThinkingEnd(),
        TextDelta("He"),
        TextDelta("llo"),
        ToolCallStart(0, "", "t"),
        ToolCallDelta(0, '{"a":1}'),
        ToolCallStart(1, "", "u"),
        ToolCallDelta(1, "{broken"),
        ToolCallStart(2, "i", "v"),
        ToolCallEnd(0),
        ToolCallEnd(1),
        ToolCallEnd(2),
        Usage(1, 2),
        Done(StopReason.TOOL_CALLS, "tool_calls"),
    ]


@pytest.mark.parametrize(
    ("answer", "reason", "detail"),
    [
        (reply("a"), StopReason.END, "stop"),
        (reply("a", finish="length"), StopReason.MAX_TOKENS, "length"),
        (reply("a", finish="content_filter"), StopReason.REFUSED, "content_filter"),
        (reply(refusal="no"), StopReason.REFUSED, "stop"),
    ],
)
async def test_the_reason_to_stop(answer: ScriptedReply, reason: StopReason, detail: str) -> None:
    events = await play(answer)
    assert events[-1] == Done(reason, detail)
    assert not answer.refusal or events[0] == RefusalDelta("no")


async def test_a_reply_without_a_finish_is_cut_off() -> None:
    assert await play(reply("a", finish=None, usage=None)) == [TextDelta("a")]


async def test_errors_and_raw_events_come_as_they_are() -> None:
    error = StreamError(error_type="overloaded", message="busy", retryable=True)
    step = fail("busy", error_type="overloaded", retryable=True, text="so")
    assert await play(step, raw_events(TextDelta("x"))) == [TextDelta("so"), error, TextDelta("x")]


async def test_a_step_can_depend_on_the_request() -> None:
    request = ModelRequest(model="m", rounds=[Round([Result("i", "t", '"seen"')])])
    model = ScriptedModel([lambda asked: reply(last_result(asked) + asked.model)])
    got = Batches()
    await model.run(request, got.emit)
    assert got.events[0] == TextDelta('"seen"m')
    assert model.requests == [request]
    assert last_result(REQUEST) == ""


async def test_delays_pass_on_the_clock(autojump_clock: trio.testing.MockClock) -> None:
    await play(reply(["a", "b"], usage=None, delay_seconds=10, piece_seconds=1))
    assert trio.current_time() == 13  # two pieces and the end


async def test_a_stall_says_its_text_and_waits_for_ever(
    autojump_clock: trio.testing.MockClock,
) -> None:
    got = Batches()
    with trio.move_on_after(1000) as scope:
        await ScriptedModel([stall("so")]).run(REQUEST, got.emit)
    assert scope.cancelled_caught
    assert got.events == [TextDelta("so")]


async def test_an_exhausted_script_is_an_error_that_says_so() -> None:
    model = ScriptedModel([reply("a")])
    got = Batches()
    await model.run(REQUEST, got.emit)
    model.assert_complete()
    await model.run(REQUEST, got.emit)
    error = got.events[-1]
    assert isinstance(error, StreamError)
    assert "1 steps" in error.message
    with pytest.raises(AssertionError, match="1 steps, and 2 requests"):
        model.assert_complete()


def test_a_script_that_was_not_played_is_not_complete() -> None:
    with pytest.raises(AssertionError, match="1 steps, and 0 requests"):
        ScriptedModel([reply("a")]).assert_complete()


@pytest.mark.parametrize("step", [drip(), html(), garbage()])
async def test_faults_of_the_wire_need_a_server(step: Step) -> None:
    with pytest.raises(ValueError, match="only a scripted server"):
        await play(step)
