"""One turn through the front door: a prompt, parallel tools, an answer."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
import trio

import callboard
from callboard.providers.openai_chat.dialect import OPENAI_CHAT
from callboard.providers.provider import ModelRequest
from callboard.providers.testing.script import Step, reply
from callboard.runtime.events import CallStarted, MessageCompleted
from support.stage import (
    Played,
    check_messages,
    messages_of,
    on_both_stores,
    open_local_stage,
    open_stage,
    play,
    play_in,
    read_result,
    run_in,
    tool_contents,
)


@on_both_stores
async def test_tools_run_side_by_side_and_their_results_go_back_in_order(
    tmp_path: Path, store: str
) -> None:
    third_ran = trio.Event()

    @callboard.tool
    async def first() -> str:
        """Waits for the third call, which can't be if calls ran one after the other."""
        await third_ran.wait()
        return "one"

    @callboard.tool
    async def third() -> str:
        """Lets the first one go on."""
        third_ran.set()
        return "three"

    steps = [
        reply(
            "Let me see.",
            calls=[
                ("first", {}),
                ("write_file", {"path": "now.txt", "content": "noon"}),
                ("third", {}),
            ],
        ),
        reply(["It is ", "done."], thinking="So that is that."),
    ]
    async with open_stage(tmp_path, steps, store=store, tools=[first, third]) as stage:
        session, played = await play_in(stage.runtime, "Do three things.")
        assert played.ended.outcome == "answered"
        assert played.text == "Let me see.It is done."
        came = [result.name for result in played.results]
        assert came.index("third") < came.index("first")
        assert (stage.workspace / "now.txt").read_text() == "noon"
        contents = tool_contents(stage.sent[1])
        assert [content["status"] for content in contents] == ["success"] * 3
        assert [contents[0]["result"], contents[2]["result"]] == ["one", "three"]
        streamed = [e.text for e in played.events if isinstance(e, callboard.TextDelta)]
        assert streamed == ["Let me see.", "It is ", "done."]
        thought = [e.text for e in played.events if isinstance(e, callboard.ThinkingDelta)]
        assert thought == ["So that is that."]
        usage = await stage.runtime.store.usage(session.session_id)
        assert [(row.input_tokens, row.output_tokens) for row in usage] == [(10, 5), (10, 5)]


async def test_slow_tools_take_as_long_as_the_slowest(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    @callboard.tool
    async def nap(seconds: float) -> float:
        """Sleeps."""
        await trio.sleep(seconds)
        return seconds

    steps = [reply(calls=[("nap", {"seconds": s}) for s in (5, 7, 3, 6)]), reply("Rested.")]
    async with open_local_stage(tmp_path, steps, tools=[nap]) as (runtime, model):
        session = await runtime.create_session()
        began = trio.current_time()
        played = await play(session, "Rest.")
        assert trio.current_time() - began == 7
        assert [result.duration_ms for result in played.results] == [3000, 5000, 6000, 7000]
        assert [c["result"] for c in tool_contents(messages_of(model.requests[1]))] == [5, 7, 3, 6]


@on_both_stores
async def test_no_call_touches_its_siblings(tmp_path: Path, store: str) -> None:
    others_are_over = trio.Event()

    @callboard.tool
    async def fails() -> None:
        """Fails as it expects to."""
        raise callboard.ToolFailure(callboard.ErrorType.NETWORK_ERROR, "No route to the moon.")

    @callboard.tool
    async def crashes() -> None:
        """Has a fault."""
        raise ZeroDivisionError("the moon has\nno mass")

    @callboard.tool
    def exits() -> None:
        """Ends the program, or tries to."""
        raise SystemExit(3)

    @callboard.tool
    async def cancels() -> None:
        """Has a cancel scope of its own, which is not a sibling's."""
        with trio.CancelScope() as scope:
            scope.cancel()
            await trio.sleep_forever()

    @callboard.tool(approval="always")
    async def asks() -> None:
        """Needs somebody who is not there."""

    @callboard.tool(timeout_seconds=0.05)
    async def hangs() -> None:
        """Never ends by itself."""
        try:
            await trio.sleep_forever()
        finally:
            others_are_over.set()

    @callboard.tool
    async def works() -> str:
        """Goes on when all others are over."""
        await others_are_over.wait()
        await trio.testing.wait_all_tasks_blocked()
        return "still here"

    tools = [fails, crashes, exits, cancels, asks, hangs, works]
    asked = [tool.definition.name for tool in tools]
    steps = [reply(calls=[(name, {}) for name in asked]), reply("All seen.")]
    async with open_stage(tmp_path, steps, store=store, tools=tools) as stage:
        session, played = await play_in(stage.runtime, "Try everything.")
        assert played.ended.outcome == "answered"
        assert dict(played.statuses) == {
            "fails": "error",
            "crashes": "error",
            "exits": "error",
            "cancels": "success",
            "asks": "denied",
            "hangs": "timeout",
            "works": "success",
        }
        by_name = {result.name: read_result(result) for result in played.results}
        assert by_name["fails"]["error_type"] == "network_error"
        assert by_name["fails"]["message"] == "No route to the moon."
        assert by_name["crashes"]["error_type"] == "execution_error"
        assert "the moon has no mass" in by_name["crashes"]["message"]
        assert by_name["asks"]["error_type"] == "permission_denied"
        assert by_name["hangs"]["error_type"] == "timeout"
        assert by_name["hangs"]["elapsed_seconds"] == 0.05
        assert by_name["works"]["result"] == "still here"
        assert tool_contents(stage.sent[1]) == [by_name[name] for name in asked]
        rows = await stage.runtime.store.calls(session_id=session.session_id)
        assert {row.name: row.status.value for row in rows} == dict(played.statuses)


async def test_what_was_denied_runs_when_it_is_allowed(tmp_path: Path) -> None:
    ran: list[str] = []

    @callboard.tool(approval="always")
    async def asks() -> None:
        """Needs somebody."""
        ran.append("asks")

    steps = [reply(calls=[("asks", {})]), reply("Done.")]
    async with open_stage(tmp_path, steps, tools=[asks], on_approval="allow") as stage:
        played = await play(await stage.runtime.create_session(), "Go.")
        assert played.statuses == [("asks", "success")]
    assert ran == ["asks"]


@on_both_stores
async def test_several_rounds_and_turns_build_on_one_history(tmp_path: Path, store: str) -> None:
    steps = [
        reply("I write.", calls=[("write_file", {"path": "a.txt", "content": "alpha"})]),
        reply(calls=[("read_file", {"path": "a.txt"}), ("read_file", {"path": "b.txt"})]),
        reply("It says alpha."),
        reply(calls=[("list_directory", {"path": "."})]),
        reply("One file."),
        reply("You are welcome."),
    ]
    async with open_stage(tmp_path, steps, store=store) as stage:
        session = await stage.runtime.create_session()
        answers = [await session.run(text) for text in ("Write and read.", "List.", "Thanks.")]
        assert answers == ["It says alpha.", "One file.", "You are welcome."]
        sent = stage.sent
        for earlier, later in pairwise(sent):
            assert later[: len(earlier)] == earlier
            assert len(later) > len(earlier)
        assert [m["content"] for m in sent[-1] if m["role"] == "user"] == [
            "Write and read.",
            "List.",
            "Thanks.",
        ]
        statuses = [content["status"] for content in tool_contents(sent[-1])]
        assert statuses == ["success", "success", "error", "success"]


async def test_a_finished_round_is_encoded_once(tmp_path: Path) -> None:
    encoded: list[list[bytes]] = []

    def noting(step: Step) -> Callable[[ModelRequest], Step]:
        def take(request: ModelRequest) -> Step:
            OPENAI_CHAT.build(request)
            # One provider in one format: one encoded form, of each round that is finished.
            encoded.append([next(iter(each.encoded.values()), b"") for each in request.rounds])
            return step

        return take

    answers = [
        reply(calls=[("get_current_time", {})]),
        reply("Noon."),
        reply(calls=[("get_current_time", {})]),
        reply("Still noon."),
    ]
    steps = [noting(answer) for answer in answers]
    async with open_local_stage(tmp_path, steps) as (runtime, _):
        session = await run_in(runtime, "What time is it?")
        await session.run("And now?")
    last = encoded[-1]
    assert len(last) == 3
    for finished, rounds in enumerate(encoded):
        assert rounds[:finished] == last[:finished]
        # The same bytes object, not an equal one.
        assert all(rounds[at] is last[at] for at in range(finished))


async def test_the_record_and_the_events_agree(tmp_path: Path) -> None:
    steps = [
        reply(calls=[("write_file", {"path": "x", "content": "y"}), ("read_file", {"path": "no"})]),
        reply("Done."),
    ]
    async with open_stage(tmp_path, steps, store="disk") as stage:
        session = await stage.runtime.create_session()
        async with session.prompt("Go.") as turn:
            played = Played([event async for event in turn])
        record = [stored.event for stored in await stage.record(session)]
        live = [event for event in played.events if event in record]
        assert live == record[1:]
        assert turn.seq == len(record)
        assert turn.ended == played.ended
        kinds = [type(event) for event in record]
        # The answer, its calls and what needs no question are one commit, before any result.
        assert kinds.index(CallStarted) > kinds.index(MessageCompleted)
        rows = await stage.runtime.store.messages(session.session_id)
        assert [row.type for row in rows] == [
            "user",
            "assistant",
            "tool_call",
            "tool_call",
            "tool_result",
            "tool_result",
            "assistant",
        ]


async def test_a_new_runtime_goes_on_with_the_same_history(tmp_path: Path) -> None:
    steps = [reply(calls=[("get_current_time", {})]), reply("Noon.")]
    async with open_stage(tmp_path, steps, store="disk") as stage:
        session = await run_in(stage.runtime, "What time is it?")
        before = [*stage.sent[-1], {"role": "assistant", "content": "Noon."}]
    async with open_stage(tmp_path, [reply("You asked for the time.")], store="disk") as stage:
        again = await stage.runtime.get_session(session.session_id)
        assert await again.run("What did I ask?") == "You asked for the time."
        [messages] = stage.sent
        assert messages == [*before, {"role": "user", "content": "What did I ask?"}]


@pytest.mark.parametrize("chunk", ["all", "bytes:1", "bytes:7"])
async def test_how_the_network_cuts_an_answer_is_no_matter(tmp_path: Path, chunk: str) -> None:
    steps = [
        reply("Grüße.", calls=[("write_file", {"path": "ü", "content": "é😀"})], chunk=chunk),
        reply("Fertig: 😀", chunk=chunk),
    ]
    async with open_stage(tmp_path, steps) as stage:
        session = await stage.runtime.create_session()
        assert await session.run("Los.") == "Fertig: 😀"
        assert (stage.workspace / "ü").read_text() == "é😀"
        check_messages(stage.sent[-1])


@on_both_stores
async def test_calls_that_touch_one_file_take_turns(tmp_path: Path, store: str) -> None:
    lines = [
        ("write_file", {"path": "log", "content": f"{n}\n", "mode": "append"}) for n in range(9)
    ]
    new = [("write_file", {"path": "new", "content": text}) for text in "ab"]
    steps = [reply(calls=[*lines, *new]), reply("Done.")]
    async with open_stage(tmp_path, steps, store=store) as stage:
        await play(await stage.runtime.create_session(), "Go.")
        assert (stage.workspace / "log").read_text() == "".join(f"{n}\n" for n in range(9))
        # Both were decided as new: only one of them can be.
        results = tool_contents(stage.sent[1])[9:]
        assert [result.get("error_type") for result in results] == [None, "already_exists"]
        assert (stage.workspace / "new").read_text() == "a"


async def test_calls_that_build_on_each_other_run_in_the_order_of_the_answer(
    tmp_path: Path,
) -> None:
    calls = [
        ("write_file", {"path": "a", "content": "one"}),
        ("move_file", {"from": "a", "to": "b"}),
        ("edit_file", {"path": "b", "edits": [{"old_text": "one", "new_text": "two"}]}),
        ("read_file", {"path": "b"}),
    ]
    async with open_stage(tmp_path, [reply(calls=calls), reply("Done.")]) as stage:
        await play(await stage.runtime.create_session(), "Go.")
        contents = tool_contents(stage.sent[1])
        assert [content["status"] for content in contents] == ["success"] * 4
        assert contents[3]["result"]["content"] == "two"
