"""Inputs that come while a turn runs: they wait, steer it, or interrupt it."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import trio

import callboard
from callboard.providers.testing.script import Step, reply
from callboard.providers.testing.scripted import ScriptedModel
from callboard.runtime.definitions import InputMode
from callboard.runtime.events import (
    InputAccepted,
    InputCancelled,
    InputDelivered,
    TurnEnded,
    TurnStarted,
)
from callboard.runtime.history import Input
from callboard.runtime.kernel.delivery import Subscription
from callboard.runtime.messages import CancelTurn, InputTicket, ResumeTurn, SubmitInput
from callboard.runtime.store.rows import Append
from support.scene import (
    SESSION_ACTORS,
    FakeStore,
    Heard,
    Scene,
    assert_sound,
    full_for,
    open_scene,
)

STEER, INTERRUPT = InputMode.STEER, InputMode.INTERRUPT


@callboard.tool(tier="workspace")
async def work(seconds: float = 1) -> str:
    """Works."""
    await trio.sleep(seconds)
    return "worked"


async def scene_with(*steps: Step | Callable[[Any], Step], **options: Any) -> Scene:
    scene = Scene(model=ScriptedModel(steps), tools=[work], **options)
    await scene.create()
    return scene


async def submit(scene: Scene, text: str, mode: InputMode = InputMode.QUEUE) -> Heard:
    subscription = Subscription()
    ticket: InputTicket = await scene.session.ask(
        SubmitInput(session_id="s1", text=text, mode=mode, subscription=subscription)
    )
    return Heard(ticket, subscription)


async def turns(scene: Scene) -> list[tuple[list[str], str]]:
    """The texts that each turn was told, in order, and how it ended."""
    texts: dict[str, str] = {}
    told: list[tuple[list[str], str]] = []
    for event in await scene.events():
        match event:
            case InputAccepted():
                texts[event.input_id] = event.text
            case TurnStarted():
                told.append(([texts[each] for each in event.input_ids], ""))
            case InputDelivered():
                told[-1][0].append(texts[event.input_id])
            case TurnEnded():
                told[-1] = told[-1][0], event.outcome
            case _:
                pass
    return told


def asked_of(scene: Scene) -> list[list[str]]:
    """The kinds of items of each request that the model got, inputs by their text."""
    model = scene.models.model
    assert isinstance(model, ScriptedModel)
    return [
        [
            item.text if isinstance(item, Input) else type(item).__name__
            for round_ in request.rounds
            for item in round_.items
        ]
        for request in model.requests
    ]


async def test_a_steering_input_is_told_before_the_next_model_call(autojump_clock: Any) -> None:
    scene = await scene_with(reply(calls=[("work", {}), ("work", {})]), reply("Done."))
    async with open_scene(scene, *SESSION_ACTORS):
        first = await submit(scene, "Go.")
        await trio.sleep(0.5)  # both calls run
        steering = await submit(scene, "In French.", STEER)
        assert steering.ticket.turn_id is None
        assert (await first.to_the_end()).outcome == "answered"
        assert (await steering.to_the_end()).outcome == "answered"
    assert await turns(scene) == [(["Go.", "In French."], "answered")]
    assert asked_of(scene)[1] == ["Go.", "Answer", "Result", "Result", "In French."]
    assert await scene.store.open_inputs("s1") == []
    await assert_sound(scene.store)


async def test_who_steers_hears_the_turn_from_the_delivery_on(autojump_clock: Any) -> None:
    scene = await scene_with(reply(calls=[("work", {})]), reply("Done."))
    async with open_scene(scene, *SESSION_ACTORS):
        await submit(scene, "Go.")
        await trio.sleep(0.5)
        steering = await submit(scene, "In French.", STEER)
        await steering.to_the_end()
    told = [type(getattr(each, "event", each)).__name__ for each in steering.updates]
    assert told[:2] == ["InputAccepted", "InputDelivered"]
    assert told[-1] == "TurnEnded"


async def test_a_steering_input_without_a_next_model_call_has_its_own_turn(
    autojump_clock: Any,
) -> None:
    scene = await scene_with(reply("One.", delay_seconds=5), reply("Two."), reply("Three."))
    async with open_scene(scene, *SESSION_ACTORS):
        await submit(scene, "1")
        queued = await submit(scene, "2")
        steering = await submit(scene, "3", STEER)
        await queued.to_the_end()
        await steering.to_the_end()
    expected = [(["1"], "answered"), (["2"], "answered"), (["3"], "answered")]
    assert await turns(scene) == expected


async def test_a_steering_input_of_an_idle_session_begins_a_turn(autojump_clock: Any) -> None:
    scene = await scene_with(reply("One."), reply("Two."))
    async with open_scene(scene, *SESSION_ACTORS):
        for text, mode in (("1", STEER), ("2", INTERRUPT)):
            heard = await submit(scene, text, mode)
            assert heard.ticket.turn_id is not None
            assert (await heard.to_the_end()).outcome == "answered"
    assert await turns(scene) == [(["1"], "answered"), (["2"], "answered")]


async def test_an_interrupting_input_cancels_the_turn_and_goes_ahead_of_the_queue(
    autojump_clock: Any,
) -> None:
    scene = await scene_with(reply(calls=[("work", {"seconds": 60})]), reply("B."), reply("C."))
    async with open_scene(scene, *SESSION_ACTORS):
        first = await submit(scene, "A")
        await trio.sleep(0.5)
        queued = await submit(scene, "C")
        interrupting = await submit(scene, "B", INTERRUPT)
        ended = await first.to_the_end()
        assert (ended.outcome, ended.message) == ("cancelled", "another input interrupted it")
        await interrupting.to_the_end()
        await queued.to_the_end()
    assert await turns(scene) == [(["A"], "cancelled"), (["B"], "answered"), (["C"], "answered")]
    assert trio.current_time() < 60
    await assert_sound(scene.store)


async def test_a_waiting_steering_input_can_be_cancelled_and_a_delivered_one_not(
    autojump_clock: Any,
) -> None:
    scene = await scene_with(reply(calls=[("work", {})]), reply("Done.", delay_seconds=5))
    async with open_scene(scene, *SESSION_ACTORS):
        await submit(scene, "Go.")
        await trio.sleep(0.5)
        gone, kept = [await submit(scene, text, STEER) for text in ("No.", "Yes.")]

        async def cancel(heard: Heard) -> bool:
            message = CancelTurn(session_id="s1", reason="test", input_id=heard.ticket.input_id)
            was_there: bool = await scene.session.ask(message)
            return was_there

        assert await cancel(gone)
        await trio.sleep(2)
        assert not await cancel(kept)
        await kept.to_the_end()
    assert await turns(scene) == [(["Go.", "Yes."], "answered")]


async def test_what_steers_waits_again_when_it_can_t_be_stored(autojump_clock: Any) -> None:
    scene = await scene_with(
        reply(calls=[("work", {})]),
        reply("Again."),
        reply("Done."),
        store=FakeStore(full_for(InputDelivered, once=True)),
    )
    async with open_scene(scene, *SESSION_ACTORS):
        await submit(scene, "Go.")
        await trio.sleep(0.5)
        await submit(scene, "In French.", STEER)
        await trio.sleep(5)
        await (await submit(scene, "Well?")).to_the_end()
    assert (await turns(scene))[0] == (["Go."], "failed")
    told = [text for texts, _ in await turns(scene) for text in texts]
    assert sorted(told) == ["Go.", "In French.", "Well?"]
    await assert_sound(scene.store)


STATES = [
    ("steer waits", STEER, [], [(["A"], "failed"), (["B"], "answered")]),
    ("steer delivered", STEER, [InputDelivered], [(["A", "B"], "failed")]),
    ("interrupt waits", INTERRUPT, [], [(["A"], "failed"), (["B"], "answered")]),
]


@pytest.mark.parametrize(("name", "mode", "more", "expected"), STATES, ids=[s[0] for s in STATES])
async def test_a_killed_process_loses_none_and_runs_none_twice(
    name: str, mode: InputMode, more: list[Any], expected: Any, autojump_clock: Any
) -> None:
    """The record as a kill leaves it, in each state; then the next process goes on."""
    scene = await scene_with(reply("Done."), reply("Done."))
    events: list[Any] = [
        InputAccepted(input_id="a", text="A"),
        TurnStarted(turn_id="t1", input_ids=("a",), provider="p", model="m"),
        InputAccepted(input_id="b", text="B", mode=mode),
        *(kind(turn_id="t1", input_id="b") for kind in more),
    ]
    await scene.fake.inner.commit([Append("s1", tuple(events))])
    async with open_scene(scene, *SESSION_ACTORS):
        subscription = Subscription()
        if not more:
            await scene.session.ask(ResumeTurn(session_id="s1", subscription=subscription))
            while await subscription.take():
                pass
        else:
            await (await submit(scene, "C")).to_the_end()
            expected = [*expected, (["C"], "answered")]
    assert await turns(scene) == expected
    assert await scene.store.open_inputs("s1") == []
    await assert_sound(scene.store)


@pytest.mark.parametrize("seed", range(60))
async def test_in_any_order_each_input_has_one_fate(seed: int, autojump_clock: Any) -> None:
    rng = random.Random(seed)
    steps = [
        reply(calls=[("work", {"seconds": rng.random() * 3})])
        if rng.random() < 0.6
        else reply("A.", delay_seconds=rng.random() * 2)
        for _ in range(60)
    ]
    scene = await scene_with(*steps, *[reply("Done.")] * 60)
    modes = list(InputMode)
    heard: list[Heard] = []
    async with open_scene(scene, *SESSION_ACTORS):
        for number in range(rng.randint(2, 9)):
            heard.append(await submit(scene, str(number), rng.choice(modes)))
            if rng.random() < 0.2:
                chosen = rng.choice([None, rng.choice(heard).ticket.input_id])
                await scene.session.ask(CancelTurn(session_id="s1", reason="test", input_id=chosen))
            await trio.sleep(rng.choice([0, 0, 0.3, 1.1, 4]))
        with trio.fail_after(1000):
            async with trio.open_nursery() as nursery:  # who is not read holds its turn up
                for each in heard:
                    nursery.start_soon(each.to_the_end)
    fates: dict[str, list[str]] = {}
    for event in await scene.events():
        match event:
            case InputAccepted():
                fates[event.input_id] = []
            case TurnStarted():
                for input_id in event.input_ids:
                    fates[input_id].append("turn")
            case InputDelivered() | InputCancelled():
                fates[event.input_id].append(type(event).__name__)
            case _:
                pass
    assert all(len(each) == 1 for each in fates.values()), fates
    assert await scene.store.open_inputs("s1") == []
    await assert_sound(scene.store)
