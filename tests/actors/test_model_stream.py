"""The model stream: batches, deadlines, and how a call ends."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from callboard.actors.model.stream import MAX_WAITING_BATCHES, StartModelCall
from callboard.config.settings import Limits
from callboard.providers.provider import Emit, ModelRequest, ModelTarget
from callboard.providers.testing.script import reply, stall
from callboard.providers.testing.scripted import ScriptedModel
from callboard.runtime.errors import OverloadedError, StorageError
from callboard.runtime.kernel.lease_gate import LeaseGate
from callboard.runtime.stream import AnyStreamEvent, Done, StopReason, StreamError, TextDelta
from support.scene import Scene, open_scene

LIMITS = Limits(first_byte_seconds=10, idle_seconds=20, progress_seconds=50, model_call_seconds=100)
Batches = trio.MemoryReceiveChannel[list[AnyStreamEvent]]


class Model:
    """A model that is one function."""

    def __init__(self, speak: Callable[[Emit], Awaitable[None]]) -> None:
        self._speak = speak

    async def run(self, request: ModelRequest, emit: Emit) -> None:
        await self._speak(emit)


def scene_of(speak: Callable[[Emit], Awaitable[None]]) -> Scene:
    return Scene(model=Model(speak), limits=LIMITS)


@asynccontextmanager
async def calling(
    scene: Scene, scope: trio.CancelScope | None = None, capacity: int = MAX_WAITING_BATCHES
) -> AsyncGenerator[Batches]:
    """A model call, and the batches that come of it."""
    async with open_scene(scene, "model_stream"):
        outlet, batches = trio.open_memory_channel[list[AnyStreamEvent]](capacity)
        with batches:
            await scene.model_stream.tell(
                StartModelCall(
                    target=scene.models.target(None),
                    request=ModelRequest(model="m", rounds=[]),
                    outlet=outlet,
                    scope=scope or trio.CancelScope(),
                )
            )
            yield batches


async def events_of(batches: Batches) -> list[AnyStreamEvent]:
    return [event async for batch in batches for event in batch]


async def error_of(scene: Scene) -> StreamError:
    async with calling(scene) as batches:
        *_, last = await events_of(batches)
    assert isinstance(last, StreamError)
    return last


async def test_batches_come_up_as_they_are_and_the_end_says_that_the_call_is_gone() -> None:
    scene = Scene(model=ScriptedModel([reply(["a", "b"], usage=None)]))
    async with calling(scene) as batches:
        got = [batch async for batch in batches]
    assert got == [[TextDelta("a")], [TextDelta("b")], [Done(StopReason.END, "stop")]]


# ── deadlines ────────────────────────────────────────────────────────────────────────────────────


async def say(emit: Emit, count: int, seconds: float) -> None:
    for _ in range(count):
        await emit([TextDelta("x")])
        await trio.sleep(seconds)


async def test_a_model_that_says_nothing_is_stopped(autojump_clock: MockClock) -> None:
    async def speak(emit: Emit) -> None:
        await trio.sleep_forever()

    error = await error_of(scene_of(speak))
    assert trio.current_time() == 10
    assert (error.error_type, error.retryable) == ("timeout", True)
    assert "said nothing for 10 s" in error.message


async def test_a_model_that_falls_silent_is_stopped(autojump_clock: MockClock) -> None:
    scene = Scene(model=ScriptedModel([stall("hello")]), limits=LIMITS)
    async with calling(scene) as batches:
        first, last = await events_of(batches)
    assert first == TextDelta("hello")
    assert isinstance(last, StreamError)
    assert "fell silent for 20 s" in last.message
    assert 20 <= trio.current_time() <= 22


async def test_a_model_that_never_ends_is_stopped(autojump_clock: MockClock) -> None:
    async def speak(emit: Emit) -> None:
        await say(emit, 10_000, 5)

    error = await error_of(scene_of(speak))
    assert "still speaking after 100 s" in error.message
    assert 100 <= trio.current_time() <= 102


async def test_a_model_that_keeps_speaking_is_not_stopped(autojump_clock: MockClock) -> None:
    async def speak(emit: Emit) -> None:
        await say(emit, 5, 19)
        await emit([Done(StopReason.END)])

    async with calling(scene_of(speak)) as batches:
        *_, last = await events_of(batches)
    assert last == Done(StopReason.END)
    assert trio.current_time() == 95


async def test_the_time_that_the_consumer_takes_is_not_the_models(
    autojump_clock: MockClock,
) -> None:
    async def speak(emit: Emit) -> None:
        await say(emit, 3, 0)
        await emit([Done(StopReason.END)])

    async with calling(scene_of(speak), capacity=1) as batches:
        got: list[AnyStreamEvent] = []
        async for batch in batches:
            got += batch
            await trio.sleep(15)  # slow, but within the idle time
    assert got[-1] == Done(StopReason.END)


# ── faults ───────────────────────────────────────────────────────────────────────────────────────


async def test_a_model_that_crashes_fails_its_call_alone() -> None:
    async def speak(emit: Emit) -> None:
        await emit([TextDelta("a")])
        raise ZeroDivisionError("boom")

    scene = scene_of(speak)
    error = await error_of(scene)
    assert (error.error_type, error.retryable) == ("provider", False)
    assert "ZeroDivisionError: boom" in error.message


@pytest.mark.parametrize("fault", [ZeroDivisionError("boom"), OverloadedError("too much")])
async def test_a_model_that_fails_behind_its_end_has_ended(fault: Exception) -> None:
    async def speak(emit: Emit) -> None:
        await emit([TextDelta("a"), Done(StopReason.END)])
        await emit([TextDelta("b"), Done(StopReason.END)])
        raise fault

    async with calling(scene_of(speak)) as batches:
        assert await events_of(batches) == [TextDelta("a"), Done(StopReason.END)]


async def test_an_error_of_ours_keeps_its_type() -> None:
    async def speak(emit: Emit) -> None:
        await trio.lowlevel.checkpoint()
        raise OverloadedError("too much")

    error = await error_of(scene_of(speak))
    assert (error.error_type, error.message, error.retryable) == ("overloaded", "too much", True)


async def test_an_end_without_a_terminal_event_is_left_to_the_turn() -> None:
    scene = Scene(model=ScriptedModel([reply("a", usage=None, finish=None)]))
    async with calling(scene) as batches:
        assert await events_of(batches) == [TextDelta("a")]


async def test_a_target_that_is_nowhere_gives_nothing() -> None:
    scene = Scene()
    nowhere = ModelTarget(provider="p", model="m")
    scene.models.target = lambda choice, preferred=None: nowhere  # type: ignore[method-assign]
    async with calling(scene) as batches:
        assert await events_of(batches) == []


# ── flow and cancel ──────────────────────────────────────────────────────────────────────────────


async def test_a_consumer_that_does_not_read_pauses_the_model() -> None:
    emitted = 0

    async def speak(emit: Emit) -> None:
        nonlocal emitted
        for _ in range(1000):
            await emit([TextDelta("x")])
            emitted += 1
        await emit([Done(StopReason.END)])

    async with calling(scene_of(speak)) as batches:
        await trio.testing.wait_all_tasks_blocked()
        assert emitted == MAX_WAITING_BATCHES
        assert len(await events_of(batches)) == 1001


async def test_cancelling_the_scope_ends_the_call_without_a_word() -> None:
    scope = trio.CancelScope()
    ended = False

    async def speak(emit: Emit) -> None:
        nonlocal ended
        try:
            await emit([TextDelta("a")])
            await trio.sleep_forever()
        finally:
            ended = True

    scene = scene_of(speak)
    async with calling(scene, scope) as batches:
        assert await batches.receive() == [TextDelta("a")]
        scope.cancel()
        assert await events_of(batches) == []
        assert ended


async def test_a_call_that_was_cancelled_before_it_began_asks_nobody() -> None:
    async def speak(emit: Emit) -> None:
        await trio.lowlevel.checkpoint()
        raise AssertionError("it must not get so far")

    scope = trio.CancelScope()
    scope.cancel()
    async with calling(scene_of(speak), scope) as batches:
        assert await events_of(batches) == []


async def test_a_consumer_that_is_gone_does_not_crash_the_call() -> None:
    said: list[int] = []

    async def speak(emit: Emit) -> None:
        for number in range(3):
            await emit([TextDelta("x")])
            said.append(number)

    async with calling(scene_of(speak)) as batches:
        batches.close()
        await trio.testing.wait_all_tasks_blocked()
    assert said == [0, 1, 2]


@pytest.mark.parametrize("count", [2, 5])
async def test_one_call_follows_the_other(count: int) -> None:
    scene = Scene(model=ScriptedModel([reply(str(n)) for n in range(count)]))
    async with open_scene(scene, "model_stream"):
        for number in range(count):
            outlet, batches = trio.open_memory_channel[list[AnyStreamEvent]](16)
            await scene.model_stream.tell(
                StartModelCall(
                    target=scene.models.target(None),
                    request=ModelRequest(model="m", rounds=[]),
                    outlet=outlet,
                    scope=trio.CancelScope(),
                )
            )
            with batches:
                assert (await events_of(batches))[0] == TextDelta(str(number))


async def test_a_model_that_never_returns_behind_its_answer_is_let_go(
    autojump_clock: MockClock,
) -> None:
    async def speak(emit: Emit) -> None:
        await emit([TextDelta("Hi."), Done(StopReason.END)])
        await trio.sleep_forever()

    async with calling(scene_of(speak)) as batches:
        began = trio.current_time()
        assert (await events_of(batches))[-1] == Done(StopReason.END)
        assert trio.current_time() - began < LIMITS.first_byte_seconds


# ── a lease that ends ────────────────────────────────────────────────────────────────────────────


async def test_a_model_is_asked_only_while_the_lease_is_held(autojump_clock: MockClock) -> None:
    is_open, asked = False, list[float]()

    async def speak(emit: Emit) -> None:
        asked.append(trio.current_time())
        await emit([TextDelta("a"), Done(StopReason.END, "stop")])

    scene = scene_of(speak)
    scene.gate = LeaseGate(lambda: is_open)
    async with calling(scene) as batches:
        await trio.sleep(200)  # longer than any deadline of the call
        assert not asked
        is_open = True
        assert [type(event) for event in await events_of(batches)] == [TextDelta, Done]


async def test_a_model_call_fails_when_the_lease_ends_and_can_be_made_again() -> None:
    async def speak(emit: Emit) -> None:
        await emit([TextDelta("a")])
        await trio.sleep_forever()

    scene = scene_of(speak)
    scene.gate = LeaseGate(lambda: True)
    async with calling(scene) as batches:
        assert await batches.receive() == [TextDelta("a")]
        scene.gate.cut_off()
        *_, last = await events_of(batches)
    assert isinstance(last, StreamError)
    assert last.error_type == StorageError.type
    assert last.retryable
