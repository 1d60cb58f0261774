"""How programs end: with their call, with their session, with the runtime; and what is told of it."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest
import trio

import callboard
from callboard.portals import aio
from callboard.providers.testing.script import reply
from callboard.runtime.events import CallFinished, CallProgress
from support.flows.program_calls import Call, count, new_tag, results, tagged
from support.stage import (
    messages_of,
    open_local_stage,
    play,
    play_in,
    read_result,
    run_in,
    tool_contents,
)
from support.tools.workbench import wait_until

CANCELS = 500 if os.environ.get("CALLBOARD_SOAK") else 25

LEAVES = "echo begun; (setsid sh -c 'trap \"\" TERM; sleep {tag}' &); sleep {tag}"


pytestmark = pytest.mark.usefixtures("sandbox")


def sleeps_beside(tag: str) -> Call:
    return "shell", {"command": f"(setsid sleep {tag} &); exec sleep {tag}", "background": True}


# ── with their call ──────────────────────────────────────────────────────────────────────────────


async def test_case_46_a_cancel_says_how_many_are_gone_when_they_are(tmp_path: Path) -> None:
    tag = new_tag()
    call = ("shell", {"command": LEAVES.format(tag=tag)})
    async with open_local_stage(tmp_path, [reply(calls=[call]), reply("So.")]) as (runtime, model):
        session = await runtime.create_session()
        finished: CallFinished | None = None
        async with session.prompt("Go.") as turn:
            async for event in turn:
                if isinstance(event, CallProgress):
                    await wait_until(lambda: count(tag) >= 2)
                    await turn.cancel("enough")
                elif isinstance(event, CallFinished):
                    assert not tagged(tag)
                    finished = event
        assert finished is not None
        told = read_result(finished)
        assert (finished.status, told["error_type"]) == ("cancelled", "cancelled")
        assert told["killed"] >= 2  # what sleeps in the shell, and beside it
        assert told["message"].endswith(f"{told['killed']} processes were killed; none is left.")
        await session.run("What happened?")
        [shown] = tool_contents(messages_of(model.requests[-1]))
        assert shown == told  # the model reads it as well


async def test_a_cancelled_call_that_ran_nothing_tells_of_no_processes(tmp_path: Path) -> None:
    """The control of the one above: the count is there for calls that ran a program."""

    @callboard.tool(tier="read_only")
    async def hang(context: callboard.ToolContext) -> None:
        """Hangs."""
        context.progress("begun")
        await trio.sleep_forever()

    steps = [reply(calls=[("hang", {})])]
    async with open_local_stage(tmp_path, steps, tools=[hang]) as (runtime, _):
        async with (await runtime.create_session()).prompt("Go.") as turn:
            async for event in turn:
                if isinstance(event, CallProgress):
                    await turn.cancel("enough")
                elif isinstance(event, CallFinished):
                    assert "killed" not in read_result(event)


async def test_case_46_a_timeout_says_how_many_are_gone(tmp_path: Path) -> None:
    tag = new_tag()
    [told] = await results(tmp_path, ("shell", {"command": LEAVES.format(tag=tag), "timeout": 5}))
    assert told["error_type"] == "timeout"
    assert told["killed"] >= 2
    assert told["stdout"] == "begun\n"
    assert not tagged(tag)


async def test_case_46_a_normal_end_takes_what_was_left_along(tmp_path: Path) -> None:
    tag = new_tag()
    command = f"(setsid sleep {tag} >/dev/null 2>&1 &); (setsid sleep {tag} &); echo done"
    [told] = await results(tmp_path, ("shell", {"command": command}))
    assert (told["result"]["exit_code"], told["result"]["stdout"]) == (0, "done\n")
    assert "killed_by" not in told["result"]
    assert not tagged(tag)


async def test_case_47_cancels_while_it_starts_leave_nothing(tmp_path: Path) -> None:
    """500 of them in `make soak`, else some; each moment of a start is hit by several."""
    rng = random.Random(47)
    tag = new_tag()
    steps = [reply(calls=[("shell", {"command": ["sleep", tag]})]) for _ in range(CANCELS)]
    statuses = set()
    async with open_local_stage(tmp_path, steps) as (runtime, _):
        session = await runtime.create_session()
        for _ in range(CANCELS):
            async with session.prompt("Go.") as turn:
                async for event in turn:
                    if isinstance(event, callboard.CallStarted):
                        await trio.sleep(rng.random() * 0.03)
                        await turn.cancel("enough")
                    elif isinstance(event, CallFinished):
                        statuses.add(event.status.value)
                        assert not tagged(tag)
    assert statuses == {"cancelled"}
    assert os.listdir(tmp_path / "work") == []


# ── with their session ───────────────────────────────────────────────────────────────────────────


def child_that(*steps: Any, wait: bool = True) -> list[Any]:
    task = {"kind": "branch", "task": "Start it.", "wait": wait}
    return [reply(calls=[("delegate", task)]), *steps]


async def test_what_a_child_started_ends_with_its_answer(tmp_path: Path) -> None:
    own, childs = new_tag(), new_tag()
    seen: list[bool] = []

    @callboard.tool(tier="read_only")
    async def look() -> None:
        """Looks whether they run."""
        if not seen:
            await wait_until(lambda: tagged(own) and tagged(childs))
        seen.append(tagged(childs))

    steps = [
        reply(calls=[sleeps_beside(own)]),
        *child_that(
            reply(calls=[sleeps_beside(childs)]), reply(calls=[("look", {})]), reply("It runs.")
        ),
        reply(calls=[("look", {})]),
        reply("Done."),
    ]
    async with open_local_stage(tmp_path, steps, tools=[look]) as (runtime, _):
        session = await run_in(runtime, "Go.")
        assert seen == [True, False]  # in the child, and when its answer is there
        assert tagged(own)  # the control: the one above it is no child, and goes on
        [still] = (await runtime.status()).background
        assert still.session_id == session.session_id
    assert not tagged(own)


async def test_what_a_child_started_ends_when_its_parent_is_cancelled(tmp_path: Path) -> None:
    tag = new_tag()
    hang = ("shell", {"command": "echo here; sleep 600"})
    steps = child_that(reply(calls=[sleeps_beside(tag)]), reply(calls=[hang]))
    async with open_local_stage(tmp_path, steps) as (runtime, _):
        async with (await runtime.create_session()).prompt("Go.") as turn:
            async with trio.open_nursery() as nursery:

                async def cancel() -> None:
                    await wait_until(lambda: tagged(tag) and tagged("600"))
                    assert len((await runtime.status()).turns) == 2
                    await turn.cancel("enough")

                nursery.start_soon(cancel)
                async for event in turn:
                    if isinstance(event, callboard.TurnEnded):
                        assert not tagged(tag)
                        assert event.outcome == "cancelled"
        assert (await runtime.status()).background == ()


async def test_what_a_session_started_ends_when_it_is_deleted(tmp_path: Path) -> None:
    deleted, other = new_tag(), new_tag()
    steps = [
        step
        for tag in (deleted, other)
        for step in (reply(calls=[sleeps_beside(tag)]), reply("So."))
    ]
    async with open_local_stage(tmp_path, steps) as (runtime, _):
        first, second = await runtime.create_session(), await runtime.create_session()
        await first.run("Go.")
        await second.run("Go.")
        await wait_until(lambda: tagged(deleted) and tagged(other))
        await first.delete()
        assert not tagged(deleted)
        assert tagged(other)  # the control
        [still] = (await runtime.status()).background
        assert still.session_id == second.session_id


async def test_case_24_a_workspace_that_leads_elsewhere_now_is_not_worked_in(
    tmp_path: Path,
) -> None:
    private = tmp_path / "private"
    private.mkdir()
    (private / "kept").write_text("canary")
    calls: list[Call] = [
        ("shell", {"command": "cat kept"}),
        ("read_file", {"path": "kept"}),
        ("write_file", {"path": "new", "content": "x"}),
    ]
    steps = [reply(calls=calls), reply("So.")] * 2
    async with open_local_stage(tmp_path, steps) as (runtime, _):
        folder = tmp_path / "work"
        (folder / "kept").write_text("own")
        session, before = await play_in(runtime, "Go.")
        assert {each.status for each in before.results} == {"success"}
        folder.rename(tmp_path / "moved")
        folder.symlink_to(private)
        after = await play(session, "Go.")
        for each in after.results:
            told = read_result(each)
            assert told["error_type"] == "access_denied"
            assert "leads to" in told["message"]
        assert [each.name for each in private.iterdir()] == ["kept"]


# ── the status ───────────────────────────────────────────────────────────────────────────────────


async def test_the_status_says_what_runs(tmp_path: Path) -> None:
    tag = new_tag()
    seen: list[callboard.RuntimeStatus] = []

    @callboard.tool(tier="read_only")
    async def look() -> None:
        """Looks at the status."""
        seen.append(await runtime.status())

    steps = [reply(calls=[sleeps_beside(tag)]), reply(calls=[("look", {})]), reply("Done.")]
    async with open_local_stage(tmp_path, steps, tools=[look]) as (runtime, _):
        idle = await runtime.status()
        assert idle == callboard.RuntimeStatus(sessions=(), actors=idle.actors)
        session, played = await play_in(runtime, "Go.")
        after = await runtime.status()
    [status] = seen
    assert status.sessions == (session.session_id,)
    [turn], [call], [program] = status.turns, status.calls, status.background
    assert (turn.session_id, turn.turn_id) == (session.session_id, played.ended.turn_id)
    assert (call.tool, call.call_id) == ("look", played.results[1].call_id)
    assert (program.session_id, program.process_id) == (session.session_id, "p1")
    assert tag in program.command
    assert min(turn.seconds, call.seconds, program.seconds) >= 0
    assert (after.turns, after.calls, len(after.background)) == ((), (), 1)


def test_the_status_is_there_for_all_kinds_of_programs(tmp_path: Path) -> None:
    import asyncio  # ruff: ignore[banned-api] one of the kinds

    options: dict[str, Any] = {"model": "rehearsal", "workspace": tmp_path, "environ": {}}
    with callboard.start_in_thread(**options) as runtime:
        session_id = runtime.create_session().session_id
        assert runtime.status().sessions == ()
        runtime.get_session(session_id).run("What time is it in Tokyo?")
        assert runtime.status().sessions == (session_id,)

    async def main() -> None:
        async with aio.open_runtime(**options) as runtime:
            assert (await runtime.status()).sessions == ()

    asyncio.run(main())
