from __future__ import annotations

import json
import sys
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import trio
import trio.testing

import callboard
from callboard.config.settings import Limits
from callboard.runtime.definitions import (
    Agent,
    CallStatus,
    Effect,
    ErrorType,
    Preset,
    Resource,
    Tier,
    ToolFailure,
)
from callboard.runtime.errors import StorageError
from callboard.runtime.events import ApprovalAnswered, CallFinished, CallStarted, TurnStarted
from callboard.runtime.history import Call
from callboard.runtime.messages import ApprovalAnswer, ApprovalRequest
from callboard.runtime.store.rows import Append
from callboard.tools.tool import Tool, ToolContext
from support.scene import FakeStore, Scene, assert_sound, open_scene, run_calls

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
    assert scene.running_dispatcher.slots.borrowed_tokens == 0


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


async def test_calls_run_side_by_side_and_each_has_its_result(
    autojump_clock: trio.testing.MockClock,
) -> None:
    scene = Scene(tools=[wait])
    async with dispatching(scene):
        batch = [Call(f"c{n}", "wait", json.dumps({"seconds": n})) for n in (3, 1, 2)]
        await run_calls(scene, batch)
        assert trio.current_time() == 3
    results = await finished(scene)
    assert list(results) == ["c1", "c2", "c3"]
    assert [event.duration_ms for event in results.values()] == [1000, 2000, 3000]
    assert result(results["c2"]) == {"status": "success", "result": 2.0}


async def test_progress_comes_up_while_a_call_runs() -> None:
    @callboard.tool(tier="read_only")
    async def talk(context: ToolContext) -> None:
        """Talks."""
        for _ in range(1000):  # more than wait for a listener: the rest is dropped
            context.progress("still here")
        await trio.lowlevel.checkpoint()

    scene = Scene(tools=[talk])
    async with dispatching(scene):
        lines = await run_calls(scene, calls("talk"))
    assert 0 < len(lines) < 20
    assert {(line.call_id, line.text) for line in lines} == {("c0", "still here")}
    assert await statuses(scene) == {"c0": "success"}


async def boom() -> None:
    await trio.lowlevel.checkpoint()
    raise ValueError("boom")


async def exit_program() -> None:
    await trio.lowlevel.checkpoint()
    sys.exit(3)


async def crash_in_nursery(*crashes: Any) -> None:
    async with trio.open_nursery() as nursery:
        for crash in crashes:
            nursery.start_soon(crash)


@pytest.mark.parametrize(
    "crash",
    [
        [boom],
        [exit_program],
        [crash_in_nursery, boom],
        [crash_in_nursery, boom, boom],
        [crash_in_nursery, exit_program],
        [crash_in_nursery, exit_program, boom],
    ],
    ids=["error", "exit", "group", "group of two", "exit in a group", "mixed group"],
)
async def test_a_crash_touches_no_sibling(
    crash: list[Any], autojump_clock: trio.testing.MockClock
) -> None:
    @callboard.tool(tier="read_only")
    async def crashing() -> None:
        """Crashes."""
        await crash[0](*crash[1:])

    scene = Scene(tools=[wait, crashing])
    async with dispatching(scene):
        sibling = Call("c9", "wait", '{"seconds": 5}')
        await run_calls(scene, [*calls("crashing"), sibling])
    results = await finished(scene)
    assert {c: e.status for c, e in results.items()} == {"c0": "error", "c9": "success"}
    assert result(results["c0"])["error_type"] == "execution_error"
    assert "crashing failed" in result(results["c0"])["message"]


async def test_a_crash_while_it_is_cancelled_ends_its_batch_alone(
    autojump_clock: trio.testing.MockClock,
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


async def test_a_timeout_is_a_result_and_touches_no_sibling(
    autojump_clock: trio.testing.MockClock,
) -> None:
    scene = Scene(tools=[wait, hang])
    async with dispatching(scene):
        await run_calls(scene, [*calls("hang"), Call("c1", "wait", '{"seconds": 20}')])
        assert trio.current_time() == 20
    results = await finished(scene)
    assert results["c0"].status is CallStatus.TIMEOUT
    assert results["c0"].duration_ms == 10_000
    assert result(results["c0"])["elapsed_seconds"] == 10
    assert results["c1"].status is CallStatus.SUCCESS


async def test_no_tool_runs_longer_than_the_cap(autojump_clock: trio.testing.MockClock) -> None:
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


async def test_a_typed_failure_reaches_the_model_with_its_details() -> None:
    @callboard.tool(tier="read_only")
    async def refuse() -> None:
        """Refuses."""
        await trio.lowlevel.checkpoint()
        raise ToolFailure(ErrorType.FILE_TOO_LARGE, "Too large.", limit=3)

    scene = Scene(tools=[refuse])
    async with dispatching(scene):
        await run_calls(scene, calls("refuse"))
    (event,) = (await finished(scene)).values()
    assert result(event) == {
        "status": "error", "error_type": "file_too_large", "message": "Too large.", "limit": 3,
    }  # fmt: skip


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


async def test_300_calls_of_which_256_run(autojump_clock: trio.testing.MockClock) -> None:
    running = most = 0

    @callboard.tool(tier="read_only")
    async def count() -> None:
        """Counts."""
        nonlocal running, most
        running += 1
        most = max(most, running)
        await trio.sleep(1)
        running -= 1

    scene = Scene(tools=[count])
    async with dispatching(scene):
        await run_calls(scene, calls(*["count"] * 300))
        assert trio.current_time() == 2  # two waves
    results = await finished(scene)
    assert len(results) == 300
    assert sum(event.status is CallStatus.SUCCESS for event in results.values()) == 256
    assert most == 128
    assert "number 257" in result(results["c256"])["message"]


async def test_the_sessions_share_the_slots_of_the_runtime(
    autojump_clock: trio.testing.MockClock,
) -> None:
    running = most = 0

    @callboard.tool(tier="read_only")
    async def count() -> None:
        """Counts."""
        nonlocal running, most
        running += 1
        most = max(most, running)
        await trio.sleep(1)
        running -= 1

    scene = Scene(tools=[count])
    async with dispatching(scene), trio.open_nursery() as nursery:
        for number in range(6):
            session_id = await scene.create(f"session{number}")
            batch = [Call(f"{session_id}-{n}", "count", "{}") for n in range(128)]
            nursery.start_soon(partial(run_calls, scene, batch, session_id=session_id))
    assert most == 512
    done = await scene.store.calls(status=CallStatus.SUCCESS, limit=1000)
    assert len(done) == 6 * 128


# ── keys and records ─────────────────────────────────────────────────────────────────────────────


def by_path(arguments: Any) -> Iterable[Resource]:
    return [Resource(arguments.path, arguments.write)]


@pytest.mark.parametrize(
    ("paths", "seconds"),
    [
        ([("a", True), ("a", True), ("a", True)], 3),
        ([("a", True), ("b", True)], 1),
        ([("a", False), ("a", False)], 1),
        ([("a/x", False), ("a", True), ("a/y", False)], 3),
    ],
)
async def test_calls_on_one_key_take_turns(
    paths: Sequence[tuple[str, bool]], seconds: int, autojump_clock: trio.testing.MockClock
) -> None:
    @callboard.tool(tier="workspace", resources=by_path)
    async def touch(path: str, write: bool) -> None:
        """Touches."""
        await trio.sleep(1)

    scene = Scene(tools=[touch])
    async with dispatching(scene):
        batch = [
            Call(f"c{n}", "touch", json.dumps({"path": path, "write": write}))
            for n, (path, write) in enumerate(paths)
        ]
        await run_calls(scene, batch)
        assert trio.current_time() == seconds
    assert set((await statuses(scene)).values()) == {"success"}


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


@pytest.mark.parametrize(("say", "status"), [("allow", "success"), ("deny", "denied")])
async def test_a_person_decides(say: str, status: str) -> None:
    ran: list[int] = []

    @callboard.tool(tier="elevated")
    async def erase() -> None:
        """Erases everything."""
        ran.append(1)
        await trio.lowlevel.checkpoint()

    async def approver(request: ApprovalRequest) -> str:
        assert (request.tool, request.tier, request.arguments) == ("erase", Tier.ELEVATED, "{}")
        return say

    scene = Scene(tools=[erase, act], approver=approver)
    async with dispatching(scene):
        await run_calls(scene, calls("erase", "act"))
    assert await statuses(scene) == {"c0": status, "c1": "success"}
    assert len(ran) == (say == "allow")


async def test_nobody_to_ask_is_a_denial() -> None:
    @callboard.tool(tier="elevated")
    async def erase() -> None:
        """Erases everything."""
        raise AssertionError("it must not run")

    scene = Scene(tools=[erase])
    async with dispatching(scene):
        await run_calls(scene, calls("erase"))
    (event,) = (await finished(scene)).values()
    assert event.status is CallStatus.DENIED
    assert result(event)["error_type"] == "permission_denied"
    assert "nobody to ask" in result(event)["reason"]


@pytest.mark.parametrize(
    ("edited", "status", "ran"),
    [
        ('{"text": "edited"}', "success", ["edited"]),
        ('{"text": 3}', "error", []),
        ("{", "error", []),
    ],
)
async def test_edited_arguments_are_validated_again(
    edited: str, status: str, ran: list[str]
) -> None:
    seen: list[str] = []

    @callboard.tool(tier="elevated")
    async def say(text: str) -> None:
        """Says."""
        seen.append(text)
        await trio.lowlevel.checkpoint()

    async def approver(request: ApprovalRequest) -> ApprovalAnswer:
        return ApprovalAnswer(decision="allow", arguments=edited)

    scene = Scene(tools=[say], approver=approver)
    async with dispatching(scene):
        await run_calls(scene, calls("say", arguments={"text": "original"}))
    (event,) = (await finished(scene)).values()
    assert event.status == status
    assert seen == ran
    if ran:
        assert event.arguments == edited.replace(" ", "")


async def test_an_edit_that_raises_the_tier_is_asked_about_again() -> None:
    questions: list[tuple[str, Tier]] = []

    def tier_of(arguments: Any) -> Tier:
        return Tier.ELEVATED if arguments.text == "edited" else Tier.SYSTEM

    @callboard.tool(tier="system", approval="always", raise_tier=tier_of)
    async def say(text: str) -> str:
        """Says."""
        await trio.lowlevel.checkpoint()
        return text

    async def approver(request: ApprovalRequest) -> ApprovalAnswer:
        questions.append((request.arguments, request.tier))
        edit = '{"text": "edited"}' if len(questions) == 1 else None
        return ApprovalAnswer(decision="allow", arguments=edit)

    scene = Scene(tools=[say], approver=approver)
    async with dispatching(scene):
        await run_calls(scene, calls("say", arguments={"text": "original"}))
    assert questions == [
        ('{"text":"original"}', Tier.SYSTEM),
        ('{"text":"edited"}', Tier.ELEVATED),
    ]
    (event,) = (await finished(scene)).values()
    assert result(event)["result"] == "edited"


async def test_who_waits_for_a_person_holds_no_slot(autojump_clock: trio.testing.MockClock) -> None:
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


# ── the end of a batch ───────────────────────────────────────────────────────────────────────────


async def test_cancelling_the_scope_ends_every_call(autojump_clock: trio.testing.MockClock) -> None:
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

    def refuse(appends: Sequence[Append]) -> StorageError | None:
        events = [event for append in appends for event in append.events]
        return StorageError("no disk") if any(isinstance(e, CallStarted) for e in events) else None

    async def allow(request: ApprovalRequest) -> bool:
        return True

    scene = Scene(tools=[erase], approver=allow, store=FakeStore(refuse))
    async with dispatching(scene):
        await run_calls(scene, calls("erase"))
    assert any(isinstance(e, ApprovalAnswered) for e in await scene.events())
    assert ran == []
    assert await finished(scene) == {}


def test_the_tools_of_these_tests_use_no_thread() -> None:
    tools: list[Tool] = [wait, hang, act]
    assert all(getattr(tool, "_is_async", False) for tool in tools)


async def test_a_large_result_is_cut_and_kept() -> None:
    @callboard.tool(tier="read_only")
    async def flood() -> str:
        """Floods."""
        await trio.lowlevel.checkpoint()
        return "é" * 100_000

    scene = Scene(tools=[flood], agents=[AUTO])
    async with dispatching(scene):
        await run_calls(scene, calls("flood"), agent=AUTO)
    (event,) = (await finished(scene)).values()
    assert len(event.result.encode()) < 70 * 1024
    assert "artifact:c0" in result(event)["truncated"]
    assert event.full_output == json.dumps("é" * 100_000, ensure_ascii=False)
    assert await scene.store.full_output("s1", "c0") == event.full_output
