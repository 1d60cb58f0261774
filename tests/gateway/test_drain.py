"""A daemon that ends lets turns end, suspends those that wait for people, and cancels the rest."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

import callboard
from callboard.gateway.lifecycle import drain, working
from callboard.providers.testing.script import stall
from callboard.runtime.events import ApprovalAsked, QuestionAsked, TurnEnded
from callboard.runtime.stream import TextDelta

PATIENCE_SECONDS = 20.0
LONG_SECONDS = 3600.0


class Gate:
    """A tool that runs until it is let go."""

    def __init__(self) -> None:
        self.runs = trio.Event()
        self.opened = trio.Event()

    @property
    def tool(self) -> Any:
        @callboard.tool(name="wait_here", timeout_seconds=PATIENCE_SECONDS)
        async def wait_here() -> str:
            """Waits."""
            self.runs.set()
            await self.opened.wait()
            return "It is over."

        return wait_here


@asynccontextmanager
async def runtime_with(
    tmp_path: Path, gate: Gate, call: str, **arguments: str
) -> AsyncGenerator[callboard.Runtime]:
    """One whose only session is about to make this call."""
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "old.txt").write_text("")
    script = [callboard.reply(calls=[(call, arguments)]), callboard.reply("Done.")]
    with trio.fail_after(PATIENCE_SECONDS):
        async with callboard.open_runtime(
            model=callboard.ScriptedModel(script),
            workspace=tmp_path / "work",
            data=tmp_path / "data",
            on_approval="wait",
            policy="auto" if call == "wait_here" else "balanced",
            tools=[gate.tool],
        ) as runtime:
            yield runtime


async def outcomes(runtime: callboard.Runtime) -> list[str]:
    (session,) = await runtime.sessions()
    events = await runtime.store.events(session.session_id)
    return [each.event.outcome for each in events if isinstance(each.event, TurnEnded)]


async def test_a_turn_that_runs_ends_by_itself(tmp_path: Path) -> None:
    gate = Gate()
    async with runtime_with(tmp_path, gate, "wait_here") as runtime:
        await (await runtime.create_session()).submit("Do it.")
        await gate.runs.wait()
        drained = trio.Event()

        async def run() -> None:
            await drain(runtime, LONG_SECONDS, trio.Event())
            drained.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(run)
            await trio.testing.wait_all_tasks_blocked(0.05)
            assert not drained.is_set()
            gate.opened.set()
        assert await outcomes(runtime) == ["answered"]
        assert (await runtime.status()).sessions == ()


async def test_one_that_does_not_is_cancelled_when_its_time_is_over(tmp_path: Path) -> None:
    gate = Gate()
    async with runtime_with(tmp_path, gate, "wait_here") as runtime:
        await (await runtime.create_session()).submit("Do it.")
        await gate.runs.wait()
        await drain(runtime, 0.05, trio.Event())
        assert await outcomes(runtime) == ["cancelled"]


async def test_who_is_asked_to_hurry_waits_no_longer(tmp_path: Path) -> None:
    gate, hurry = Gate(), trio.Event()
    async with runtime_with(tmp_path, gate, "wait_here") as runtime:
        await (await runtime.create_session()).submit("Do it.")
        await gate.runs.wait()
        hurry.set()
        await drain(runtime, LONG_SECONDS, hurry)
        assert await outcomes(runtime) == ["cancelled"]


async def test_a_turn_that_waits_for_a_person_is_suspended_at_once(tmp_path: Path) -> None:
    async with runtime_with(tmp_path, Gate(), "delete_file", path="old.txt") as runtime:
        session = await runtime.create_session()
        async with session.follow() as events:
            await session.submit("Do it.")
            async for event in events:
                if isinstance(event, ApprovalAsked):
                    break
        await drain(runtime, LONG_SECONDS, trio.Event())
        assert (await outcomes(runtime))[-1:] in ([], ["suspended"])
        assert [row.state for row in await runtime.approvals()] == ["waiting"]


class Nobody(callboard.Channel):
    """People who never answer."""

    async def ask(self, question: callboard.UserQuestion) -> str:
        await trio.sleep_forever()
        raise AssertionError

    async def approve(self, request: callboard.ApprovalRequest) -> callboard.ApprovalAnswer:
        await trio.sleep_forever()
        raise AssertionError


@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside a call that runs"])
async def test_a_question_of_a_model_is_no_work_and_a_call_beside_it_is(
    beside: bool, tmp_path: Path
) -> None:
    gate = Gate()
    calls: list[tuple[str, dict[str, Any]]] = [("ask_user", {"question": "Which door?"})]
    calls += [("wait_here", {})] * beside
    with trio.fail_after(PATIENCE_SECONDS):
        async with callboard.open_runtime(
            model=callboard.ScriptedModel([callboard.reply(calls=calls)]),
            data=tmp_path / "data",
            policy="auto",
            channel=Nobody(),
            tools=[gate.tool],
        ) as runtime:
            session = await runtime.create_session()
            async with session.follow() as events:
                await session.submit("Do it.")
                async for event in events:
                    if isinstance(event, QuestionAsked):
                        break
            if beside:
                await gate.runs.wait()
                assert await working(runtime) == {session.session_id}
                gate.opened.set()
            await drain(runtime, LONG_SECONDS, trio.Event())
            assert [each.question for each in await runtime.questions()] == ["Which door?"]


@pytest.mark.parametrize("asks", ["ask_user", "delete_file"])
async def test_a_question_below_a_session_is_no_work_of_that_either(
    asks: str, tmp_path: Path
) -> None:
    """Its `delegate` runs for as long as the session below waits for a person."""
    arguments = {"question": "Which door?"} if asks == "ask_user" else {"path": "a.txt"}
    steps = [
        callboard.reply(calls=[("delegate", {"kind": "branch", "task": "Find out."})]),
        callboard.reply(calls=[(asks, arguments)]),
    ]
    (tmp_path / "work").mkdir()
    (tmp_path / "work/a.txt").write_text("a")
    with trio.fail_after(PATIENCE_SECONDS):
        async with callboard.open_runtime(
            model=callboard.ScriptedModel(steps),
            data=tmp_path / "data",
            workspace=tmp_path / "work",
            channel=Nobody(),
        ) as runtime:
            session = await runtime.create_session()
            await session.submit("Do it.")
            questions = runtime.questions if asks == "ask_user" else runtime.approvals
            while not await questions():  # ruff: ignore[async-busy-wait] nothing tells of it  # noqa: ASYNC110
                await trio.sleep(0.003)
            await drain(runtime, LONG_SECONDS, trio.Event())
            assert await working(runtime) == set()
            assert len(await questions()) == 1


async def test_a_turn_that_goes_on_without_an_answer_works(tmp_path: Path) -> None:
    """It was taken for one that waits for a person, and cancelled at once; another command's was lost when a run ended."""
    model = callboard.ScriptedModel(
        [callboard.reply(calls=[("delete_file", {"path": "a.txt"})]), stall("Well, ")]
    )
    (tmp_path / "work").mkdir()
    (tmp_path / "work/a.txt").write_text("a")
    with trio.fail_after(PATIENCE_SECONDS):
        async with callboard.open_runtime(
            model=model, data=tmp_path / "data", workspace=tmp_path / "work", channel=Nobody()
        ) as runtime:
            session = await runtime.create_session()
            async with session.follow() as events:
                await session.submit("Do it.", unattended="defer")
                async for event in events:
                    if isinstance(event, TextDelta):
                        break
            [row] = await runtime.approvals()
            assert (row.state, row.is_deferred) == ("waiting", True)
            assert await working(runtime) == {session.session_id}
            await session.cancel()
            assert await working(runtime) == set()


async def test_without_turns_it_is_over_at_once(tmp_path: Path) -> None:
    async with runtime_with(tmp_path, Gate(), "wait_here") as runtime:
        await drain(runtime, LONG_SECONDS, trio.Event())
