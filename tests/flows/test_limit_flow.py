"""Bounds that keep one from hurting the others: loops, slow readers, cancelled requests."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest
import trio

import callboard
from callboard.actors.model.stream import MAX_WAITING_BATCHES
from callboard.config.settings import Limits, Settings
from callboard.providers.provider import Emit, ModelRequest
from callboard.providers.testing.script import Step, drip, reply, stall
from callboard.runtime.history import Input
from callboard.runtime.kernel.delivery import MAX_WAITING_UPDATES
from callboard.runtime.stream import Done, StopReason
from support.stage import open_in, open_local_stage, open_stage, play_in, tool_contents

CANCELLED = 300 if os.environ.get("CALLBOARD_SOAK") else 100


async def test_a_model_that_goes_in_circles_is_stopped(tmp_path: Path) -> None:
    """The same call with the same arguments and the same result, again and again."""
    ran = 0

    @callboard.tool
    async def poll() -> str:
        """Nothing new."""
        nonlocal ran
        ran += 1
        return "nothing new"

    steps = [*[reply(calls=[("poll", {})])] * 25, reply("I stop.")]
    async with open_stage(tmp_path, steps, tools=[poll]) as stage:
        session, played = await play_in(stage.runtime, "Poll.")
        assert played.ended.outcome == "loop_guard"
        assert "poll was called 25 times" in played.ended.message
        assert ran == 25
        assert await session.run("Stop.") == "I stop."
        assert len(tool_contents(stage.sent[-1])) == 25


async def test_polling_something_that_changes_is_no_loop(tmp_path: Path) -> None:
    count = 0

    @callboard.tool
    async def poll() -> int:
        """Something new."""
        nonlocal count
        count += 1
        return count

    settings = Settings(limits=Limits(max_repeats=3))
    steps = [*[reply(calls=[("poll", {})])] * 10, reply("Enough.")]
    async with open_stage(tmp_path, steps, tools=[poll], settings=settings) as stage:
        assert await (await stage.runtime.create_session()).run("Poll.") == "Enough."


class Endless:
    """A model that speaks without end, except to those who want it short."""

    def __init__(self) -> None:
        self.said = 0

    async def run(self, request: ModelRequest, emit: Emit) -> None:
        item = request.rounds[-1].items[-1]
        if isinstance(item, Input) and item.text == "Short, please.":
            await emit([callboard.TextDelta("Short."), Done(StopReason.END)])
            return
        while True:
            await emit([callboard.TextDelta("x" * 1000)])
            self.said += 1
            await trio.lowlevel.checkpoint()


async def test_a_slow_consumer_pauses_its_own_stream_and_nobody_else(tmp_path: Path) -> None:
    model = Endless()
    async with open_in(tmp_path, model) as runtime:
        slow, quick = await runtime.create_session(), await runtime.create_session()
        async with slow.prompt("Speak.") as turn:
            await trio.testing.wait_all_tasks_blocked()
            # What waits: in the consumer's queue, in the channel, and in the hands of two tasks.
            said = model.said
            assert MAX_WAITING_UPDATES <= said <= MAX_WAITING_UPDATES + MAX_WAITING_BATCHES + 2
            for _ in range(3):
                assert await quick.run("Short, please.") == "Short."
            assert model.said == said
            heard = 0
            async for event in turn:
                heard += isinstance(event, callboard.TextDelta)
                if heard == 1000:
                    break
            assert 1000 <= model.said <= 1200
        assert await slow.run("Short, please.") == "Short."


async def test_cancelled_requests_leave_no_connection_behind(tmp_path: Path) -> None:
    """100 of them, or 300 with `CALLBOARD_SOAK=1`, cancelled wherever they were by then."""
    source = random.Random(300)
    kinds: list[Step] = [
        stall(),
        stall("So"),
        drip(0.005),
        reply("Late.", delay_seconds=5),
        reply(["a"] * 20, piece_seconds=0.005),
        reply("Short."),
        reply(calls=[("get_current_time", {})] * 3, piece_seconds=0.002),
    ]

    def answer(request: Any) -> Step:
        said = [m["content"] for m in request.body["messages"] if m["role"] == "user"]
        return reply("Here I am.") if said[-1].endswith("Well?") else source.choice(kinds)

    async def prompt_and_leave(number: int) -> None:
        session = await stage.runtime.create_session()
        with trio.move_on_after(source.uniform(0, 0.05)):
            await session.run(f"Prompt {number}.")
        left.append(session)

    left: list[callboard.Session] = []
    async with open_stage(tmp_path, [answer] * 2000, complete=False) as stage:
        for batch in range(CANCELLED // 50):
            async with trio.open_nursery() as nursery:
                for number in range(50):
                    nursery.start_soon(prompt_and_leave, 50 * batch + number)
        http = stage.runtime._host.http
        assert len(left) == CANCELLED
        assert http.statistics().active == 0
        assert await source.choice(left).run("Well?") == "Here I am."
        assert http.statistics().active == 0
        assert http.statistics().idle >= 1


async def test_inputs_that_wait_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Past the bound a caller is told, and everybody before it still has a turn.

    A smaller bound than that of a session: each turn sends all that was said before it.
    """
    monkeypatch.setattr("callboard.actors.session.session.MAX_WAITING_INPUTS", 64)
    async with open_local_stage(tmp_path, [stall("So"), *[reply("Ok.")] * 64]) as (runtime, _):
        session = await runtime.create_session()
        answers: list[str] = []

        async def ask(number: int) -> None:
            try:
                answers.append(await session.run(f"{number}"))
            except callboard.CallboardError as error:
                answers.append(error.type)

        async with session.prompt("First.") as first:
            async with trio.open_nursery() as nursery:
                for number in range(68):
                    nursery.start_soon(ask, number)
                await trio.testing.wait_all_tasks_blocked()
                await first.cancel()
        assert sorted(answers) == ["Ok."] * answers.count("Ok.") + ["overloaded"] * (
            68 - answers.count("Ok.")
        )
        assert 15 <= answers.count("Ok.") <= 64
