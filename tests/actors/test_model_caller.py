"""What is done about a model call that fails, on a clock that jumps."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
import trio
from trio.testing import MockClock

import callboard
from callboard.actors.conversation.conversation import SUMMARY_HEADING, Conversation
from callboard.actors.model.compaction import LEFT_OUT
from callboard.config.settings import Limits
from callboard.providers.provider import Emit, ModelRequest
from callboard.providers.testing.script import Fail, Step, fail, raw_events, reply, stall
from callboard.providers.testing.scripted import ScriptedModel
from callboard.runtime.definitions import Agent
from callboard.runtime.events import (
    AttemptFailed,
    CallFinished,
    HistoryCompacted,
    MessageCompleted,
    MessageDiscarded,
    ModelSwitched,
    ProviderSetAside,
    StreamBatch,
    TurnEnded,
)
from callboard.runtime.history import Input, Text
from callboard.runtime.messages import CancelTurn
from callboard.runtime.stream import (
    AnyStreamEvent,
    Done,
    StopReason,
    StreamError,
    TextDelta,
    Usage,
)
from support.scene import Heard, Scene, assert_sound, open_scene

BUSY = fail("It is busy.", error_type="overloaded", retryable=True)
CUT = fail("It broke.", error_type="network", retryable=True, text="So I")
KEY = fail("The key is wrong.", error_type="auth")
BAD_KEY = "The key is wrong. Check the key of b (`callboard keys list`)."
TOO_LONG = fail("It is too long.", error_type="context_overflow")
SLOW = fail("Silence.", error_type="timeout", retryable=True)
AWAY = fail("It is away.", error_type="network", retryable=True)
REFUSED = Fail(StreamError(error_type="provider", message="No such thing.", status=400))


def asks(seconds: float) -> Fail:
    error = msgspec.structs.replace(BUSY.error, retry_after_seconds=seconds)
    return Fail(error)


class Show:
    """A session whose models follow scripts."""

    def __init__(self, scene: Scene, models: dict[str, ScriptedModel]) -> None:
        self.scene = scene
        self.models = models

    async def submit(self, text: str = "Go.") -> Heard:
        return await self.scene.submit(self.scene.session, "s1", text)

    async def play(self, text: str = "Go.") -> TurnEnded:
        return await (await self.submit(text)).to_the_end()

    async def cancel(self) -> None:
        await self.scene.session.ask(CancelTurn(session_id="s1", reason="enough"))

    async def told(self, kind: type[Any]) -> list[Any]:
        return [event for event in await self.scene.events() if isinstance(event, kind)]

    @property
    def asked(self) -> list[int]:
        """How often each model was asked, in the order of their names."""
        return [len(self.models[name].requests) for name in sorted(self.models)]


@asynccontextmanager
async def open_show(
    first: Sequence[Step], limits: Limits | None = None, **others: Sequence[Step]
) -> AsyncGenerator[Show]:
    """The agent's models are `local/scripted` and, behind it, `NAME/m` of each other name."""
    models = {"local": ScriptedModel(first)}
    models |= {name: ScriptedModel(steps) for name, steps in others.items()}
    fallbacks = tuple(f"{name}/m" for name in others)

    @callboard.tool(tier="workspace")
    async def work() -> str:
        """Works."""
        await trio.lowlevel.checkpoint()
        return "worked"

    scene = Scene(
        model=models["local"], tools=[work], limits=limits or Limits(),
        agents=[Agent(fallbacks=fallbacks)],
    )  # fmt: skip
    scene.models.others = {f"{name}/m": models[name] for name in others if name != "nokey"}
    await scene.create()
    async with open_scene(scene, "journal", "broker", "dispatcher", "session"):
        yield Show(scene, models)
    await assert_sound(scene.store)


def shown(heard: Heard) -> str:
    """What a consumer that takes back what is withdrawn has on its screen."""
    text = ""
    for update in heard.updates:
        if isinstance(update, StreamBatch):
            text += "".join(event.text for event in update.events if isinstance(event, TextDelta))
        elif isinstance(update, MessageDiscarded):
            text = ""
    return text


# ── the same model again ─────────────────────────────────────────────────────────────────────────


async def test_a_call_that_may_work_later_is_made_again(autojump_clock: MockClock) -> None:
    async with open_show([BUSY, BUSY, BUSY, reply("Here.")]) as show:
        assert (await show.play()).outcome == "answered"
        failed: list[AttemptFailed] = await show.told(AttemptFailed)
        assert [each.attempt for each in failed] == [1, 2, 3]
        assert {(e.provider, e.model, e.error_type) for e in failed} == {
            ("local", "scripted", "overloaded")
        }
        assert trio.current_time() == pytest.approx(sum(e.wait_seconds for e in failed), abs=0.01)
        for number, each in enumerate(failed):
            assert 0.25 * 2**number <= each.wait_seconds <= 0.5 * 2**number
        [message] = await show.told(MessageCompleted)
        assert message.duration_ms == 0  # of the attempt that worked


@pytest.mark.parametrize(("step", "times"), [(KEY, 1), (SLOW, 2), (CUT, 2)])
async def test_some_failures_are_not_worth_three_attempts(
    autojump_clock: MockClock, step: Step, times: int
) -> None:
    async with open_show([step] * 9) as show:
        assert (await show.play()).outcome == "failed"
        assert show.asked == [times]


async def test_a_text_that_broke_off_is_withdrawn_and_told_once() -> None:
    async with open_show([CUT, reply("So I did.")]) as show:
        heard = await show.submit()
        assert (await heard.to_the_end()).outcome == "answered"
        assert shown(heard) == "So I did."
        batches = [update for update in heard.updates if isinstance(update, StreamBatch)]
        [discarded] = [update for update in heard.updates if isinstance(update, MessageDiscarded)]
        assert discarded.stream_id == batches[0].stream_id != batches[-1].stream_id
        assert [batch.offset for batch in batches[:2]] == [0, 0]
        [message] = await show.told(MessageCompleted)
        assert message.parts == (Text("So I did."),)


async def test_no_tool_runs_twice_when_the_call_behind_it_fails(autojump_clock: MockClock) -> None:
    steps: list[Step] = [reply(calls=[("work", {})] * 2), BUSY, CUT, reply("Done.")]
    async with open_show(steps) as show:
        assert (await show.play()).outcome == "answered"
        assert len(await show.told(CallFinished)) == 2
        first, *others = show.models["local"].requests
        assert [len(each.rounds) for each in (first, *others)] == [1, 1, 1, 1]
        assert [each.rounds[-1].items for each in others] == [others[0].rounds[-1].items] * 3


async def test_cancelling_during_the_wait_ends_the_turn_at_once(autojump_clock: MockClock) -> None:
    async with open_show([asks(50), reply("Later.")]) as show:
        heard = await show.submit()
        await trio.sleep(10)
        await show.cancel()
        assert trio.current_time() == 10
        ended = await heard.to_the_end()
        assert (ended.outcome, ended.message, ended.unreaped) == ("cancelled", "enough", ())
        assert await show.told(MessageCompleted) == []
        assert (await show.play("Again.")).outcome == "answered"
        assert show.asked == [2]


async def test_cancelling_during_the_second_attempt_keeps_its_text_alone(
    autojump_clock: MockClock,
) -> None:
    async with open_show([CUT, stall("But now")]) as show:
        heard = await show.submit()
        await trio.sleep(10)
        await show.cancel()
        assert (await heard.to_the_end()).outcome == "cancelled"
        assert shown(heard) == "But now"
        [message] = await show.told(MessageCompleted)
        assert message.incomplete
        assert message.parts == (Text("But now"),)


# ── the next model ───────────────────────────────────────────────────────────────────────────────


async def test_every_model_has_its_own_retries(autojump_clock: MockClock) -> None:
    async with open_show([BUSY] * 9, b=[BUSY] * 9, c=[BUSY, BUSY, reply("c")]) as show:
        assert (await show.play()).outcome == "answered"
        assert show.asked == [4, 3, 4]


async def test_cancelling_the_second_model_ends_the_turn(autojump_clock: MockClock) -> None:
    async with open_show([KEY], b=[stall("Well")]) as show:
        heard = await show.submit()
        await trio.sleep(1)
        await show.cancel()
        assert (await heard.to_the_end()).outcome == "cancelled"
        [message] = await show.told(MessageCompleted)
        assert (message.provider, message.parts) == ("b", (Text("Well"),))


# ── set aside ────────────────────────────────────────────────────────────────────────────────────


async def test_a_provider_that_keeps_failing_is_passed_over_and_comes_back(
    autojump_clock: MockClock,
) -> None:
    first = [BUSY] * 3 + [reply("I am back.")]
    answers = [reply(str(number)) for number in range(4)]
    async with open_show(first, Limits(model_retries=0), b=answers) as show:
        for _ in range(3):
            assert (await show.play()).outcome == "answered"
        [aside] = await show.told(ProviderSetAside)
        assert (aside.provider, aside.seconds, aside.reason) == ("local", 30, "It is busy.")
        await show.play()
        assert show.asked == [4, 3]  # b was asked at once
        *_, switched = await show.told(ModelSwitched)
        assert switched.reason == "local is set aside for 30 s: It is busy."
        await trio.sleep(31)
        await show.play()
        assert show.asked == [4, 4]
        *_, message = await show.told(MessageCompleted)
        assert (message.provider, message.parts) == ("local", (Text("I am back."),))


async def test_failures_with_an_answer_between_them_are_not_in_a_row() -> None:
    first: list[Step] = [BUSY, BUSY, reply("a"), BUSY, BUSY, reply("a")]
    async with open_show(first, Limits(model_retries=0), b=[reply("b")] * 4) as show:
        for _ in first:
            assert (await show.play()).outcome == "answered"
        assert show.asked == [4, 6]
        assert await show.told(ProviderSetAside) == []


async def test_when_all_are_set_aside_they_are_asked_in_their_order(
    autojump_clock: MockClock,
) -> None:
    async with open_show([KEY] * 9, b=[KEY] * 9, c=[KEY] * 9) as show:
        for number in (1, 2, 3):
            ended = await show.play()
            assert ended.message.endswith("Asked: local/scripted once, b/m once, c/m once.")
            assert show.asked == [number] * 3


async def test_who_has_no_other_model_is_not_told_of_that() -> None:
    async with open_show([KEY] * 3 + [reply("Here.")]) as show:
        for _ in range(3):
            assert (await show.play()).outcome == "failed"
        assert (await show.play()).outcome == "answered"
        assert await show.told(ProviderSetAside) == []


# ── a history that is too long ───────────────────────────────────────────────────────────────────


def talk(turns: int, then: Sequence[Step]) -> list[Step]:
    """So many turns of the same length, and what comes then."""
    return [*(reply(f"answer {number} " + "x" * 100) for number in range(turns)), *then]


async def play_long(show: Show, turns: int = 4) -> TurnEnded:
    for number in range(turns):
        assert (await show.play(f"input {number}")).outcome == "answered"
    return await show.play("and now?")


async def test_a_history_that_is_too_long_is_summed_up_once_and_the_call_made_again() -> None:
    steps = talk(4, [TOO_LONG, reply("The notes."), reply("Go on.")])
    async with open_show(steps) as show:
        assert (await play_long(show)).outcome == "answered"
        [compacted] = await show.told(HistoryCompacted)
        assert (compacted.rounds, compacted.summary) == (3, "The notes.")
        assert (compacted.provider, compacted.model) == ("local", "scripted")
        assert compacted.usage is not None
        *_, too_long, summary, last = show.models["local"].requests
        assert summary.tools == ()
        [record] = summary.rounds[0].items
        assert isinstance(record, Input)
        assert "answer 2" in record.text
        assert "answer 3" not in record.text
        assert len(last.rounds) == len(too_long.rounds) - 3
        first = last.rounds[0].items[0]
        assert first == Input(f"{SUMMARY_HEADING}\n\nThe notes.")
        assert last.rounds[0].items[1:] == too_long.rounds[3].items
        loaded = Conversation()
        loaded.fold_all(await show.scene.store.events("s1"))
        assert loaded.rounds[0].items == last.rounds[0].items


async def test_the_summary_is_shown_to_nobody() -> None:
    async with open_show(talk(2, [TOO_LONG, reply("The notes."), reply("Go on.")])) as show:
        for _ in range(2):
            await show.play()
        heard = await show.submit()
        await heard.to_the_end()
        assert shown(heard) == "Go on."


async def test_the_next_model_may_read_more() -> None:
    steps = talk(4, [TOO_LONG, reply("The notes."), TOO_LONG])
    async with open_show(steps, b=[reply("I read it.")]) as show:
        assert (await play_long(show)).outcome == "answered"
        [switched] = await show.told(ModelSwitched)
        assert "It is too long" in switched.reason
        assert await show.told(ProviderSetAside) == []


async def test_the_last_word_is_about_the_last_model() -> None:
    async with open_show([TOO_LONG], nokey=[], b=[KEY]) as show:
        ended = await show.play()
        assert ended.message == f"{BAD_KEY} Asked: local/scripted once, b/m once."
        [switched] = await show.told(ModelSwitched)
        assert switched.reason == (
            "It is too long. It is the latest part that is too long: send less at once. "
            "There is no nokey/m."
        )


@pytest.mark.parametrize(
    ("steps", "why"),
    [
        ([reply("")], "the model wrote nothing."),
        ([reply(calls=[("work", {})])], "the model wrote nothing."),
        ([reply("half", finish="length")], "the model did not write it to its end."),
        ([TOO_LONG] * 3, "It is too long."),
        ([REFUSED], "No such thing."),
        ([reply("The notes."), TOO_LONG], "it is too long with a summary, too"),
    ],
    ids=["empty", "calls", "cut", "too long", "refused", "not enough"],
)
async def test_rounds_without_a_summary_are_left_out(steps: list[Step], why: str) -> None:
    """A model with a small window can't sum up, and its session must go on all the same."""
    async with open_show(talk(4, [TOO_LONG, *steps, reply("Go on."), reply("On.")])) as show:
        assert (await play_long(show)).outcome == "answered"
        compacted = (await show.told(HistoryCompacted))[-1]
        assert (compacted.summary, compacted.why_left_out, compacted.usage) == (LEFT_OUT, why, None)
        last = show.models["local"].requests[-1]
        assert last.rounds[0].items[0] == Input(f"{SUMMARY_HEADING}\n\n{LEFT_OUT}")
        assert "answer 0" not in str(last.rounds)
        assert await show.told(CallFinished) == []
        assert (await show.play("and on?")).outcome == "answered"
        loaded = Conversation()
        loaded.fold_all(await show.scene.store.events("s1"))
        first = last.rounds[0].items
        assert loaded.rounds[0].items[: len(first)] == first


@pytest.mark.parametrize(
    ("step", "why"),
    [
        (KEY, "The key is wrong."),
        (
            raw_events(TextDelta("half"), StreamError(error_type="provider", message="Broken.")),
            "Broken.",
        ),
    ],
    ids=["key", "half"],
)
async def test_a_summary_that_may_work_later_leaves_the_history_as_it_is(
    step: Step, why: str
) -> None:
    async with open_show(talk(4, [TOO_LONG, step])) as show:
        ended = await play_long(show)
        assert ended.error_type == "context_overflow"
        assert ended.message == f"It is too long. Summing its oldest part up failed: {why}"
        assert await show.told(HistoryCompacted) == []
        assert await show.told(CallFinished) == []


@pytest.mark.parametrize(
    ("step", "times", "outcome"),
    [(BUSY, 4, "answered"), (SLOW, 2, "answered"), (KEY, 1, "failed"), (AWAY, 4, "failed")],
    ids=["busy", "slow", "key", "away"],
)
async def test_a_summary_that_fails_in_two_turns_leaves_a_session_that_can_be_used(
    autojump_clock: MockClock, step: Step, times: int, outcome: str
) -> None:
    """What stays as it is until somebody mends it, as a wrong key, is not left out."""
    fails: list[Step] = [TOO_LONG, *[step] * times]
    async with open_show(talk(4, [*fails, *fails, reply("Go on."), reply("On.")])) as show:
        assert (await play_long(show)).error_type == "context_overflow"
        assert await show.told(HistoryCompacted) == []
        assert (await show.play("Again.")).outcome == outcome
        compacted = await show.told(HistoryCompacted)
        assert [each.summary for each in compacted] == [LEFT_OUT] * (outcome == "answered")


async def test_a_summary_is_asked_for_again_where_that_may_help(autojump_clock: MockClock) -> None:
    async with open_show(talk(4, [TOO_LONG, BUSY, CUT, reply("Notes."), reply("Go on.")])) as show:
        assert (await play_long(show)).outcome == "answered"
        assert len(await show.told(AttemptFailed)) == 2
        assert len(await show.told(HistoryCompacted)) == 1


async def test_a_summary_of_less_where_the_model_can_not_read_the_whole() -> None:
    long = [reply("y" * 20_000)] * 6
    async with open_show([*long, TOO_LONG, TOO_LONG, reply("Notes."), reply("Go on.")]) as show:
        assert (await play_long(show, 6)).outcome == "answered"
        *_, whole, less, _ = show.models["local"].requests
        sizes = [len(each.rounds[0].items[0].text) for each in (whole, less)]  # type: ignore[union-attr]
        assert sizes[1] < 21_000 < 60_000 < sizes[0]


async def test_cancelling_the_summary_leaves_the_history_as_it_is(
    autojump_clock: MockClock,
) -> None:
    async with open_show(talk(2, [TOO_LONG, stall("The no"), reply("Go on.")])) as show:
        for _ in range(2):
            await show.play()
        heard = await show.submit()
        await trio.sleep(1)
        await show.cancel()
        assert (await heard.to_the_end()).outcome == "cancelled"
        assert await show.told(HistoryCompacted) == []
        assert not [m for m in await show.told(MessageCompleted) if m.incomplete]
        assert (await show.play()).outcome == "answered"


async def test_in_the_middle_of_a_turn_its_own_rounds_are_summed_up_too() -> None:
    steps: list[Step] = [
        reply("z" * 500, calls=[("work", {})]),
        TOO_LONG,
        reply("Notes."),
        reply("Done."),
    ]
    async with open_show(steps) as show:
        ended = await show.play()
        assert ended.outcome == "answered"
        assert len(await show.told(CallFinished)) == 1
        last = show.models["local"].requests[-1]
        summary = Input(f"{SUMMARY_HEADING}\n\nNotes.")
        assert [each.items for each in last.rounds] == [(summary, Input("Go."))]


async def test_a_model_behind_one_whose_summary_failed_is_asked_for_one() -> None:
    others: list[Step] = [TOO_LONG, reply("Notes."), reply("Go on.")]
    async with open_show(talk(4, [TOO_LONG, KEY]), b=others) as show:
        assert (await play_long(show)).outcome == "answered"
        [compacted] = await show.told(HistoryCompacted)
        assert (compacted.provider, compacted.summary) == ("b", "Notes.")


async def test_a_model_that_goes_on_behind_its_end_in_one_batch_is_heard_and_not_asked_again() -> (
    None
):
    said: list[AnyStreamEvent] = [TextDelta("a"), Done(StopReason.END), Usage(1, 1)]

    class Own:
        asked = 0

        async def run(self, request: ModelRequest, emit: Emit) -> None:
            self.asked += 1
            await emit(said)

    model = Own()
    async with callboard.open_runtime(model=model) as runtime:
        session = await runtime.create_session()
        assert await session.run("Go.") == "a"
    assert model.asked == 1
