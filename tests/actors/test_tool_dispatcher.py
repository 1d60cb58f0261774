"""The dispatcher: what tests of whole parallel calls do not reach. See tests/flows/test_parallel_calls.py."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock

import callboard
from callboard.config.settings import Limits
from callboard.runtime.definitions import Agent, CallStatus, Effect, Preset, Resource
from callboard.runtime.events import (
    ApprovalAnswered,
    CallFinished,
    CallProgress,
    CallStarted,
    TurnStarted,
)
from callboard.runtime.history import Call
from callboard.runtime.messages import ApprovalRequest
from callboard.tools.tool import ToolContext
from support.scene import FakeStore, Manner, Scene, assert_sound, full_for, open_scene, run_calls

AUTO = Agent(policy=Preset.AUTO)


def calls(*names: str, arguments: dict[str, Any] | None = None) -> list[Call]:
    text = json.dumps(arguments or {})
    return [Call(f"c{index}", name, text) for index, name in enumerate(names)]


@asynccontextmanager
async def dispatching(scene: Scene, *without: str) -> AsyncGenerator[None]:
    """A scene in the middle of a turn."""
    await scene.create()
    names = [name for name in ("journal", "broker", "dispatcher") if name not in without]
    async with open_scene(scene, *names):
        if "journal" in names:
            started = TurnStarted(turn_id="t", input_ids=(), provider="p", model="m")
            await scene.append("s1", started)
        yield
    assert scene.running_dispatcher is not None
    assert scene.running_dispatcher.slots.held == 0


async def finished(scene: Scene) -> dict[str, CallFinished]:
    """The results by call id, in the order in which they were stored."""
    await assert_sound(scene.store, ended=False)
    return {e.call_id: e for e in await scene.events() if isinstance(e, CallFinished)}


async def statuses(scene: Scene) -> dict[str, str]:
    return {call_id: event.status.value for call_id, event in (await finished(scene)).items()}


def result(event: CallFinished) -> dict[str, Any]:
    decoded: dict[str, Any] = json.loads(event.result)
    return decoded


@callboard.tool(tier="read_only", effect="read")
async def wait(seconds: float) -> float:
    """Waits."""
    await trio.sleep(seconds)
    return seconds


@callboard.tool(tier="workspace", timeout_seconds=10)
async def hang() -> None:
    """Never ends."""
    await trio.sleep_forever()


@callboard.tool(tier="workspace")
async def act(text: str = "") -> str:
    """Acts."""
    await trio.lowlevel.checkpoint()
    return text


# ── side by side ─────────────────────────────────────────────────────────────────────────────────


async def test_progress_comes_up_while_a_call_runs() -> None:
    @callboard.tool(tier="read_only")
    async def talk(context: ToolContext) -> None:
        """Talks."""
        for _ in range(3):
            context.progress("still here")
        await trio.lowlevel.checkpoint()

    scene = Scene(tools=[talk])
    async with dispatching(scene):
        lines = await run_calls(scene, calls("talk"))
    assert lines == [CallProgress("c0", "still here")] * 3
    assert await statuses(scene) == {"c0": "success"}


async def test_a_crash_while_it_is_cancelled_ends_its_batch_alone(
    autojump_clock: MockClock,
) -> None:
    async def clean_up_badly() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise ValueError("while it was cancelled")

    @callboard.tool(tier="read_only")
    async def untidy() -> None:
        """Crashes when it is cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(clean_up_badly)
            await trio.sleep_forever()

    scene = Scene(tools=[wait, untidy])
    await scene.create("s2")
    async with dispatching(scene), trio.open_nursery() as nursery:
        scope = trio.CancelScope()
        other = [Call("other", "wait", '{"seconds": 5}')]
        nursery.start_soon(lambda: run_calls(scene, other, session_id="s2"))
        nursery.start_soon(lambda: run_calls(scene, calls("untidy"), scope=scope))
        await trio.sleep(1)
        scope.cancel()
    (row,) = await scene.store.calls(session_id="s2")
    assert row.status is CallStatus.SUCCESS
    assert await statuses(scene) == {}  # cancelled, which its turn says


async def test_no_tool_runs_longer_than_the_cap(autojump_clock: MockClock) -> None:
    scene = Scene(tools=[hang], limits=Limits(max_tool_seconds=4))
    async with dispatching(scene):
        await run_calls(scene, calls("hang"))
        assert trio.current_time() == 4
    assert await statuses(scene) == {"c0": "timeout"}


# ── what never runs ──────────────────────────────────────────────────────────────────────────────


async def test_each_call_that_can_not_run_gets_its_own_error() -> None:
    ran: list[str] = []

    @callboard.tool(tier="read_only")
    async def note(text: str) -> None:
        """Notes."""
        ran.append(text)
        await trio.lowlevel.checkpoint()

    batch = [
        Call("unknown", "nope", "{}"),
        Call("hidden", "act", "{}"),
        Call("garbled", "note", "{"),
        Call("wrong", "note", '{"text": 3}'),
        Call("right", "note", '{"text": "x"}'),
    ]
    scene = Scene(tools=[note, act])
    async with dispatching(scene):
        await run_calls(scene, batch, agent=Agent(tools=("note",)))
    results = await finished(scene)
    assert {c: result(e).get("error_type") for c, e in results.items()} == {
        "unknown": "tool_not_found",
        "hidden": "tool_not_available",
        "garbled": "validation_error",
        "wrong": "validation_error",
        "right": None,
    }
    assert "note" in result(results["unknown"])["message"]
    assert ran == ["x"]
    assert not any(
        isinstance(e, CallStarted) and e.call_id != "right" for e in await scene.events()
    )


def raising(*_: object) -> Any:
    raise ZeroDivisionError("in a hook")


@pytest.mark.parametrize("hook", ["approval", "raise_tier", "resources"])
async def test_a_crash_in_a_function_that_judges_arguments_is_that_calls_error(hook: str) -> None:
    options: dict[str, Any] = {hook: raising}

    @callboard.tool(tier="read_only", **options)
    async def judged() -> None:
        """Is judged."""
        await trio.lowlevel.checkpoint()

    scene = Scene(tools=[judged, act])
    async with dispatching(scene):
        await run_calls(scene, calls("judged", "act"))
    results = await finished(scene)
    assert {c: e.status for c, e in results.items()} == {"c0": "error", "c1": "success"}
    assert "ZeroDivisionError: in a hook" in result(results["c0"])["message"]


class Count:
    """A tool that takes a second, and how many of its calls ran at once."""

    def __init__(self) -> None:
        self.running = self.most = 0

        @callboard.tool(tier="read_only")
        async def count() -> None:
            """Counts."""
            self.running += 1
            self.most = max(self.most, self.running)
            await trio.sleep(1)
            self.running -= 1

        self.tool = count


async def test_300_calls_of_which_256_run(autojump_clock: MockClock) -> None:
    count = Count()
    scene = Scene(tools=[count.tool])
    async with dispatching(scene):
        await run_calls(scene, calls(*["count"] * 300))
        assert trio.current_time() == 2  # two waves
    results = await finished(scene)
    assert len(results) == 300
    assert sum(event.status is CallStatus.SUCCESS for event in results.values()) == 256
    assert count.most == 128
    assert "number 257" in result(results["c256"])["message"]


async def test_the_sessions_share_the_slots_of_the_runtime(autojump_clock: MockClock) -> None:
    count = Count()
    scene = Scene(tools=[count.tool])
    async with dispatching(scene), trio.open_nursery() as nursery:
        for number in range(6):
            session_id = await scene.create(f"session{number}")
            batch = [Call(f"{session_id}-{n}", "count", "{}") for n in range(128)]
            nursery.start_soon(partial(run_calls, scene, batch, session_id=session_id))
    assert count.most == 512
    done = await scene.store.calls(status=CallStatus.SUCCESS, limit=1000)
    assert len(done) == 6 * 128


# ── keys and records ─────────────────────────────────────────────────────────────────────────────


async def test_started_is_committed_before_the_effect() -> None:
    started_before: dict[str, bool] = {}

    async def look(context: ToolContext) -> None:
        events = await scene.events()
        started = [e.call_id for e in events if isinstance(e, CallStarted)]
        started_before[context.call_id] = context.call_id in started

    @callboard.tool(tier="workspace", effect=Effect.ONCE, resources=lambda _: [Resource("k")])
    async def once(context: ToolContext) -> None:
        """Has an effect."""
        await look(context)

    @callboard.tool(tier="elevated", effect=Effect.IDEMPOTENT)
    async def asked(context: ToolContext) -> None:
        """Has an effect, when allowed."""
        await look(context)

    async def allow(request: ApprovalRequest) -> bool:
        return True

    scene = Scene(tools=[once, asked], approver=allow)
    async with dispatching(scene):
        await run_calls(scene, calls("once", "once", "asked"))  # at once, by key, by approval
    assert started_before == {"c0": True, "c1": True, "c2": True}


# ── permission ───────────────────────────────────────────────────────────────────────────────────


async def test_who_waits_for_a_person_holds_no_slot(autojump_clock: MockClock) -> None:
    @callboard.tool(tier="elevated")
    async def asked() -> None:
        """Is asked about."""
        await trio.lowlevel.checkpoint()

    async def slow(request: ApprovalRequest) -> bool:
        await trio.sleep(100)
        return True

    limits = Limits(max_calls_per_session=1, max_calls_per_runtime=1)
    scene = Scene(tools=[asked, act], approver=slow, limits=limits)
    async with dispatching(scene):
        await run_calls(scene, calls("asked", "asked", "act"))
    results = await finished(scene)
    assert next(iter(results)) == "c2"
    assert results["c2"].duration_ms == 0
    assert set((await statuses(scene)).values()) == {"success"}


# ── results that come together ───────────────────────────────────────────────────────────────────


async def test_results_that_come_together_are_stored_together(autojump_clock: MockClock) -> None:
    store = FakeStore(manner=Manner.AT_ONCE)
    scene = Scene(tools=[wait], store=store)
    batch = [Call(f"c{at}", "wait", f'{{"seconds": {1 + at % 3}}}') for at in range(7)]
    async with dispatching(scene):
        await run_calls(scene, batch)
    appends = [append for commit in store.commits for append in commit]
    groups = [{e.call_id for e in a.events if isinstance(e, CallFinished)} for a in appends]
    assert list(filter(None, groups)) == [{"c0", "c3", "c6"}, {"c1", "c4"}, {"c2", "c5"}]


async def test_a_cancel_behind_a_tool_takes_no_result_away() -> None:
    scope = trio.CancelScope()
    both_run = trio.Event()
    running = 0

    @callboard.tool(tier="read_only")
    async def stop() -> str:  # noqa: ASYNC124  the last one must end in this very step
        """Ends its batch, in the step in which the other one ends too."""
        nonlocal running
        running += 1
        if running < 2:
            await both_run.wait()
        both_run.set()
        scope.cancel()
        return "stopped"

    scene = Scene(tools=[hang, stop], store=FakeStore(manner=Manner.AT_ONCE))
    async with dispatching(scene):
        await run_calls(scene, calls("hang", "stop", "stop"), scope=scope)
    assert await statuses(scene) == {"c1": "success", "c2": "success"}


async def test_who_gets_a_key_finds_the_result_before_it_on_record() -> None:
    go_on = trio.Event()

    @callboard.tool(tier="workspace", resources=lambda arguments: [arguments.key])
    async def use(key: str) -> None:
        """Uses a key."""
        await go_on.wait()

    store = FakeStore(manner=Manner.AT_ONCE)
    scene = Scene(tools=[use, hang], store=store)
    await scene.create("s2")
    first, second = (
        [Call(f"{session}-{at}", "use", f'{{"key": "k{at}"}}') for at in range(9)]
        for session in ("first", "second")
    )
    async with dispatching(scene), trio.open_nursery() as nursery:
        scope = trio.CancelScope()
        nursery.start_soon(lambda: run_calls(scene, [*first, *calls("hang")], scope=scope))
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(lambda: run_calls(scene, second, session_id="s2"))
        await trio.testing.wait_all_tasks_blocked()
        go_on.set()
        await trio.testing.wait_all_tasks_blocked()
        scope.cancel()
    record = [e for commit in store.commits for append in commit for e in append.events]
    places = {
        (type(event), event.call_id): at
        for at, event in enumerate(record)
        if isinstance(event, CallStarted | CallFinished)
    }
    for one, other in zip(first, second, strict=True):
        assert places[CallFinished, one.call_id] < places[CallStarted, other.call_id]


# ── the end of a batch ───────────────────────────────────────────────────────────────────────────


async def test_cancelling_the_scope_ends_every_call(autojump_clock: MockClock) -> None:
    scene = Scene(tools=[hang, act])
    async with dispatching(scene), trio.open_nursery() as nursery:
        scope = trio.CancelScope()
        nursery.start_soon(lambda: run_calls(scene, calls("hang", "act", "hang"), scope=scope))
        await trio.sleep(1)
        scope.cancel()
        await trio.testing.wait_all_tasks_blocked()
        assert trio.current_time() == 1
    # The turn closes those without a result: it knows why.
    assert await statuses(scene) == {"c1": "success"}


async def test_without_a_broker_nothing_runs() -> None:
    scene = Scene(tools=[act])
    scene.broker.close()
    async with dispatching(scene, "broker"):
        await run_calls(scene, calls("act", "nope"))
    results = await finished(scene)
    assert {c: e.status for c, e in results.items()} == {"c0": "denied", "c1": "error"}
    assert "broker failed" in result(results["c0"])["reason"]


async def test_without_a_journal_nothing_runs_and_the_batch_ends() -> None:
    @callboard.tool(tier="read_only")
    async def never() -> None:
        """Must not run."""
        raise AssertionError("it must not run")

    scene = Scene(tools=[never])
    scene.journal.close()
    async with dispatching(scene, "journal"):
        await run_calls(scene, calls("never"))
    assert await finished(scene) == {}


async def test_a_call_whose_start_can_not_be_stored_does_not_run() -> None:
    ran: list[int] = []

    @callboard.tool(tier="elevated")
    async def erase() -> None:
        """Erases."""
        ran.append(1)
        await trio.lowlevel.checkpoint()

    async def allow(request: ApprovalRequest) -> bool:
        return True

    scene = Scene(tools=[erase], approver=allow, store=FakeStore(full_for(CallStarted)))
    async with dispatching(scene):
        await run_calls(scene, calls("erase"))
    assert any(isinstance(e, ApprovalAnswered) for e in await scene.events())
    assert ran == []
    assert await finished(scene) == {}
