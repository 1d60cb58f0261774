"""Calls that do nothing but wait hold no slot, and only their own deadline ends them."""

from __future__ import annotations

import json

import pytest
import trio
import trio.testing
from trio.testing import MockClock

import callboard
from callboard.config.settings import Limits
from callboard.runtime.definitions import Agent, Preset, Resource
from callboard.runtime.events import CallFinished, TurnStarted
from callboard.runtime.history import Call
from callboard.runtime.messages import ApprovalRequest
from callboard.tools.tool import FunctionTool
from support.scene import Scene, open_scene, run_calls

MANY = 200
"""More than a session's slots, within what one answer may ask for."""
SLOTS = Limits().max_calls_per_session


class Room:
    """A tool that waits until it is let go, and one that just works."""

    def __init__(self, *, waits: bool, approval: bool = False, **options: float) -> None:
        self.inside = 0
        self.let_go = trio.Event()
        self.worked = trio.Event()

        async def stay() -> str:
            """Waits."""
            self.inside += 1
            await self.let_go.wait()
            return "waited"

        async def work() -> str:
            """Works."""
            self.worked.set()
            return "worked"

        self.tools = [
            FunctionTool(
                stay,
                tier="read_only",
                effect="read",
                waits=waits,
                approval="always" if approval else "never",
                **options,  # type: ignore[arg-type]
            ),
            FunctionTool(work, tier="read_only", effect="read"),
        ]


async def start(scene: Scene) -> None:
    """The session's turn, in whose middle calls are asked for."""
    await scene.append("s1", TurnStarted(turn_id="t", input_ids=(), provider="p", model="m"))


async def results(scene: Scene) -> list[str]:
    return [str(json.loads(e.result).get("result")) for e in await scene.events()
            if isinstance(e, CallFinished)]  # fmt: skip


@pytest.mark.parametrize("waits", [True, False])
async def test_many_waiting_calls_leave_room_for_a_sibling(waits: bool) -> None:
    room = Room(waits=waits)
    scene = Scene(tools=room.tools)
    calls = [Call(f"c{at}", "stay", "{}") for at in range(MANY)]
    await scene.create()
    async with open_scene(scene, "journal", "broker", "dispatcher"):
        await start(scene)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run_calls, scene, [*calls, Call("last", "work", "{}")])
            await trio.testing.wait_all_tasks_blocked()
            assert scene.running_dispatcher is not None
            held = scene.running_dispatcher.slots.held
            # The second is what would happen otherwise.
            assert (room.worked.is_set(), room.inside, held) == (
                (True, MANY, 0) if waits else (False, SLOTS, SLOTS)
            )
            room.let_go.set()
    assert sorted(await results(scene)) == ["waited"] * MANY + ["worked"]


async def test_a_waiting_call_that_was_asked_about_holds_no_slot_either() -> None:
    room = Room(waits=True, approval=True)

    async def allow(request: ApprovalRequest) -> bool:
        return True

    scene = Scene(
        tools=room.tools,
        approver=allow,
        limits=Limits(max_calls_per_session=1, max_calls_per_runtime=1, model_retries=0),
    )
    await scene.create()
    async with open_scene(scene, "journal", "broker", "dispatcher"):
        await start(scene)
        calls = [Call("a", "stay", "{}"), Call("b", "stay", "{}"), Call("c", "work", "{}")]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run_calls, scene, calls)
            with trio.fail_after(30):
                await room.worked.wait()
                while room.inside < 2:  # noqa: ASYNC110  nothing tells of it
                    await trio.sleep(0.001)
            room.let_go.set()
    assert sorted(await results(scene)) == ["waited", "waited", "worked"]


async def test_its_keys_are_taken_all_the_same() -> None:
    running: list[int] = []
    most: list[int] = []

    async def stay() -> None:
        """Waits, alone."""
        running.append(1)
        most.append(len(running))
        await trio.sleep(0.001)
        running.pop()

    tool = FunctionTool(stay, tier="read_only", waits=True, resources=lambda _: [Resource("door")])
    scene = Scene(tools=[tool], limits=Limits(max_calls_per_session=1, model_retries=0))
    await scene.create()
    async with open_scene(scene, "journal", "broker", "dispatcher"):
        await start(scene)
        with trio.fail_after(30):
            await run_calls(scene, [Call(f"c{at}", "stay", "{}") for at in range(5)])
    assert most == [1] * 5


@pytest.mark.parametrize(("waits", "seconds"), [(True, 1000), (False, 10)])
async def test_only_its_own_deadline_ends_it(
    autojump_clock: MockClock, waits: bool, seconds: float
) -> None:
    room = Room(waits=waits, timeout_seconds=1000)
    scene = Scene(tools=room.tools, limits=Limits(max_tool_seconds=10, model_retries=0))
    await scene.create()
    async with open_scene(scene, "journal", "broker", "dispatcher"):
        await start(scene)
        await run_calls(scene, [Call("a", "stay", "{}")], agent=Agent(policy=Preset.AUTO))
    [finished] = [e for e in await scene.events() if isinstance(e, CallFinished)]
    assert finished.status == "timeout"
    assert finished.duration_ms == seconds * 1000


def test_tools_wait_only_when_they_say_so() -> None:
    @callboard.tool
    def act() -> None:
        """Acts."""

    assert not act.waits
