"""Many sessions, many prompts, many runtimes: each goes its way and leaves nothing behind."""

from __future__ import annotations

import gc
import os
import threading
from pathlib import Path

import pytest
import trio

import callboard
from callboard.providers.testing.script import Step, reply, stall
from callboard.providers.testing.scripted import ScriptedModel
from callboard.providers.testing.scripted_server import ScriptedRequest
from callboard.runtime.events import InputAccepted, MessageCompleted, TurnStarted
from support.stage import (
    heard,
    messages_of,
    on_both_stores,
    open_in,
    open_local_stage,
    open_stage,
    text_of,
)


def user_text(request: ScriptedRequest) -> str:
    """The last thing that a person said."""
    said: list[str] = [m["content"] for m in request.body["messages"] if m["role"] == "user"]
    return said[-1]


SESSIONS = 50 if os.environ.get("CALLBOARD_SOAK") else 20


@on_both_stores
async def test_many_sessions_at_once_do_not_mix(tmp_path: Path, store: str) -> None:
    def answer(request: ScriptedRequest) -> Step:
        name = user_text(request)
        if request.body["messages"][-1]["role"] == "tool":
            return reply(["Done: ", name], piece_seconds=0.001)
        call = ("write_file", {"path": f"{name}.txt", "content": name})
        return reply(calls=[call, ("get_current_time", {})])

    async def run(number: int) -> None:
        session = await stage.runtime.create_session()
        answers[number] = await session.run(f"task {number}")

    answers: dict[int, str] = {}
    async with open_stage(tmp_path, [answer] * (2 * SESSIONS), store=store) as stage:
        async with trio.open_nursery() as nursery:
            for number in range(SESSIONS):
                nursery.start_soon(run, number)
        assert answers == {number: f"Done: task {number}" for number in range(SESSIONS)}
        files = {path.stem: path.read_text() for path in stage.workspace.iterdir()}
        assert files == {f"task {number}": f"task {number}" for number in range(SESSIONS)}
        assert len(await stage.runtime.sessions()) == SESSIONS
        for messages in stage.sent:
            assert sum(message["role"] == "user" for message in messages) == 1


@on_both_stores
async def test_prompts_of_one_session_run_in_their_order(tmp_path: Path, store: str) -> None:
    def answer(request: ScriptedRequest) -> Step:
        return reply(f"re: {user_text(request)}", delay_seconds=0.02)

    async with open_stage(tmp_path, [answer] * 3, store=store) as stage:
        session = await stage.runtime.create_session()
        async with (
            session.prompt("one") as one,
            session.prompt("two") as two,
            session.prompt("three") as three,
        ):
            # Read in another order than they run.
            assert [await turn.answer() for turn in (three, one, two)] == [
                "re: three",
                "re: one",
                "re: two",
            ]
        events = [stored.event for stored in await stage.record(session)]
        inputs = {e.input_id: e.text for e in events if isinstance(e, InputAccepted)}
        started = [e.input_ids for e in events if isinstance(e, TurnStarted)]
        assert [inputs[input_id] for (input_id,) in started] == ["one", "two", "three"]
        answers = [text_of(e) for e in events if isinstance(e, MessageCompleted)]
        assert answers == ["re: one", "re: two", "re: three"]
        assert [m["role"] for m in stage.sent[2][1:]] == [
            *("user", "assistant"),
            *("user", "assistant"),
            "user",
        ]


async def test_each_consumer_hears_its_own_turn(tmp_path: Path) -> None:
    async with open_stage(tmp_path, [reply("first"), reply("second")]) as stage:
        session = await stage.runtime.create_session()
        async with session.prompt("one") as one, session.prompt("two") as two:
            heard = [
                "".join(
                    e.text for e in [e async for e in turn] if isinstance(e, callboard.TextDelta)
                )
                for turn in (one, two)
            ]
        assert heard == ["first", "second"]


@on_both_stores
async def test_lists_titles_and_lookups(tmp_path: Path, store: str) -> None:
    async with open_stage(tmp_path, [reply("Hi.")] * 3, store=store) as stage:
        runtime = stage.runtime
        named = await runtime.create_session(title="Errands")
        unnamed = await runtime.create_session()
        await named.run("Hello there.")
        await unnamed.run("What is the weather like in Lisbon?")
        rows = await runtime.sessions()
        assert [row.session_id for row in rows] == [unnamed.session_id, named.session_id]
        assert rows[0].title.startswith("What is the weather")
        assert (rows[1].title, rows[1].last_message_preview) == ("Errands", "Hi.")
        assert [row.message_count for row in rows] == [2, 2]
        again = await runtime.get_session(named.session_id)
        assert await again.run("And again.") == "Hi."
        assert [row.session_id for row in await runtime.sessions(limit=1)] == [named.session_id]


async def test_a_runtime_that_is_opened_and_closed_leaves_nothing_behind(tmp_path: Path) -> None:
    def open_files() -> int:
        return len(os.listdir("/proc/self/fd"))

    def tasks() -> int:
        return trio.lowlevel.current_statistics().tasks_living

    async def once(number: int) -> None:
        calls = [
            ("write_file", {"path": f"{number}", "content": "x"}),
            ("list_directory", {"path": "."}),
        ]
        steps: list[Step] = [reply(calls=calls), reply("Done."), stall("So")]
        async with open_stage(tmp_path, steps, store="disk") as stage:
            session = await stage.runtime.create_session()
            assert await session.run("Go.") == "Done."
            async with session.prompt("Go on.") as turn:
                await heard(turn, callboard.TextDelta)

    await once(0)
    gc.collect()
    before = (open_files(), tasks())
    threads = threading.active_count()
    for number in range(1, 11):
        await once(number)
    gc.collect()
    assert (open_files(), tasks()) == before
    # Trio keeps idle worker threads for a while; what counts is that they do not add up.
    assert threading.active_count() <= threads + 8


async def test_closing_with_turns_in_flight_ends_them_in_order(tmp_path: Path) -> None:
    turns: list[callboard.Turn] = []
    async with open_in(tmp_path, [stall("So")] * 5, "disk") as runtime:
        for _ in range(5):
            session = await runtime.create_session()
            turns.append(await session.prompt("Go.").__aenter__())
            await heard(turns[-1], callboard.TextDelta)
    for turn in turns:
        # What was told before the end can still be read.
        assert [event async for event in turn][-1] == turn.ended
        assert turn.ended is not None
        assert (turn.ended.outcome, turn.ended.message) == ("cancelled", "the runtime closed")


async def test_what_the_program_raises_comes_out_as_it_is(tmp_path: Path) -> None:
    async def crash() -> None:
        async with open_in(tmp_path, [stall("So")]) as runtime:
            session = await runtime.create_session()
            async with session.prompt("Go.") as turn:
                async for event in turn:
                    if isinstance(event, callboard.TextDelta):
                        raise LookupError("the program's own")

    with pytest.raises(LookupError, match="the program's own"):
        await crash()


async def test_a_session_of_a_closed_runtime_says_so(tmp_path: Path) -> None:
    async with open_stage(tmp_path, [reply("Hi.")]) as stage:
        session = await stage.runtime.create_session()
        assert await session.run("Hello.") == "Hi."
    for _ in range(2):
        with trio.fail_after(20), pytest.raises(callboard.CallboardError, match="closed"):
            await session.run("Hello?")
    with pytest.raises(callboard.CallboardError, match="closed"):
        await stage.runtime.create_session()


async def test_a_workspace_never_holds_the_data(tmp_path: Path) -> None:
    async with open_in(tmp_path, [], "disk", workspace=tmp_path) as runtime:
        with pytest.raises(callboard.CallboardError, match="data"):
            await runtime.create_session()
        await runtime.create_session(workspace=tmp_path / "work")


async def test_a_session_that_was_unloaded_is_loaded_with_its_history(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    steps = [reply("Hi."), reply("Again.")]
    async with open_local_stage(tmp_path, steps) as (runtime, model):
        session = await runtime.create_session()
        assert await session.run("Hello.") == "Hi."
        assert list(runtime._host.live) == [session.session_id]
        await trio.sleep(3600)
        assert list(runtime._host.live) == []
        assert await session.run("Hello.") == "Again."
        roles = [message["role"] for message in messages_of(model.requests[1])]
        assert roles == ["system", "user", "assistant", "user"]


async def test_models_of_session_program_and_agent_win_in_this_order(tmp_path: Path) -> None:
    agents = [callboard.Agent(name="x", model="rehearsal")]
    chosen = ScriptedModel([reply("Chosen.")])
    async with open_in(tmp_path, chosen, agents=agents) as runtime:
        session = await runtime.create_session(agent="x")
        assert await session.run("Hello.") == "Chosen."
        own = await runtime.create_session(agent="x", model="rehearsal")
        assert await own.run("Hello.") != "Chosen."
    chosen.assert_complete()
