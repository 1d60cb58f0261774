"""Own tools: a typed function is all it takes."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Literal

import msgspec
import pytest
import trio

import callboard
from callboard.config.settings import Limits, Settings
from callboard.providers.testing.script import ScriptedReply, reply
from callboard.providers.testing.scripted_server import ScriptedRequest, ServerStep
from support.stage import (
    on_both_stores,
    open_stage,
    play,
    play_in,
    read_result,
    run_in,
    tool_contents,
)
from support.tools import process_tools


class Point(msgspec.Struct):
    """A place on the map."""

    x: int
    y: int = 0


@callboard.tool
async def measure(points: list[Point], unit: Literal["m", "km"] = "m") -> dict[str, object]:
    """Measures a path.

    Args:
        points: Where it leads.
        unit: In which unit.
    """
    return {"unit": unit, "steps": [abs(p.x) + abs(p.y) for p in points]}


@callboard.tool(tier="read_only", effect="read")
def where() -> str:
    """Says in which thread it runs."""
    return threading.current_thread().name


async def test_an_async_function_and_a_plain_one(tmp_path: Path) -> None:
    steps = [
        reply(calls=[("measure", {"points": [{"x": 3, "y": 4}, {"x": 1}]}), ("where", {})]),
        reply("Measured."),
    ]
    async with open_stage(tmp_path, steps, tools=[measure, where]) as stage:
        played = await play(await stage.runtime.create_session(), "Go.")
        assert played.statuses == [("measure", "success"), ("where", "success")]
        measured, place = tool_contents(stage.sent[1])
        assert measured["result"] == {"unit": "m", "steps": [7, 1]}
        assert place["result"] != threading.current_thread().name
        offered = {
            t["function"]["name"]: t["function"] for t in stage.server.requests[0].body["tools"]
        }
        assert offered["measure"]["description"] == "Measures a path."
        parameters = offered["measure"]["parameters"]
        assert parameters["required"] == ["points"]
        assert parameters["properties"]["unit"]["enum"] == ["km", "m"]


async def test_the_context_and_progress(tmp_path: Path) -> None:
    seen: list[callboard.ToolContext] = []

    @callboard.tool
    async def report(context: callboard.ToolContext, times: int) -> str:
        """Reports."""
        seen.append(context)
        for number in range(times):
            context.progress(f"line {number}")
            await trio.lowlevel.checkpoint()
        return "reported"

    @callboard.tool
    def report_from_thread(times: int, context: callboard.ToolContext) -> str:
        """Reports from a worker thread."""
        for number in range(times):
            context.progress(f"thread {number}")
        return "reported"

    calls = [("report", {"times": 3}), ("report_from_thread", {"times": 2})]
    steps = [reply(calls=calls), reply("Reported.")]
    async with open_stage(tmp_path, steps, tools=[report, report_from_thread]) as stage:
        session, played = await play_in(stage.runtime, "Go.")
        lines = [event for event in played.events if isinstance(event, callboard.CallProgress)]
        assert [e.text for e in lines if "line" in e.text] == ["line 0", "line 1", "line 2"]
        assert [e.text for e in lines if "thread" in e.text] == ["thread 0", "thread 1"]
        [context] = seen
        ids = {result.name: result.call_id for result in played.results}
        assert (context.session_id, context.call_id) == (session.session_id, ids["report"])
        assert context.agent.name == "general"
        # It is the runtime's to give, not the model's to ask for.
        offered = str(stage.server.requests[0].body["tools"])
        assert "times" in offered
        assert "context" not in offered


async def test_progress_that_nobody_takes_is_dropped_and_the_result_is_not(tmp_path: Path) -> None:
    @callboard.tool
    async def chatter(context: callboard.ToolContext) -> str:
        """Says a lot at once."""
        for number in range(100_000):
            context.progress(str(number))
        return "said"

    steps = [reply(calls=[("chatter", {})]), reply("Heard.")]
    async with open_stage(tmp_path, steps, tools=[chatter]) as stage:
        played = await play(await stage.runtime.create_session(), "Go.")
        lines = [event for event in played.events if isinstance(event, callboard.CallProgress)]
        assert 0 < len(lines) < 1000
        assert read_result(played.results[0])["result"] == "said"


async def test_what_a_tool_may_return(tmp_path: Path) -> None:
    @callboard.tool
    async def nothing() -> None:
        """Returns nothing."""

    @callboard.tool
    async def split() -> callboard.ToolResult:
        """Returns a result for the model and a line for people."""
        return callboard.ToolResult(output={"n": 1}, display="One thing.")

    @callboard.tool
    async def struct() -> Point:
        """Returns a struct."""
        return Point(1, 2)

    @callboard.tool
    async def unreadable() -> object:
        """Returns what is no JSON."""
        return object()

    @callboard.tool
    async def fails() -> None:
        """Fails with details."""
        raise callboard.ToolFailure(callboard.ErrorType.NOT_EMPTY, "Three left.", left=3)

    tools = [nothing, split, struct, unreadable, fails]
    steps = [reply(calls=[(tool.definition.name, {}) for tool in tools]), reply("Done.")]
    async with open_stage(tmp_path, steps, tools=tools) as stage:
        played = await play(await stage.runtime.create_session(), "Go.")
        contents = tool_contents(stage.sent[1])
        assert [c.get("result") for c in contents[:3]] == [None, {"n": 1}, {"x": 1, "y": 2}]
        assert contents[3]["error_type"] == "execution_error"
        assert contents[4] == {
            "status": "error",
            "error_type": "not_empty",
            "message": "Three left.",
            "left": 3,
        }
        assert "One thing." in [result.display for result in played.results]


@on_both_stores
async def test_an_oversized_result_is_cut_and_can_be_paged(tmp_path: Path, store: str) -> None:
    text = "".join(f"{number}é😀;" for number in range(20_000))
    pages: list[str] = []

    @callboard.tool
    async def flood() -> str:
        """Returns more than a model can take."""
        return text

    def page(request: ScriptedRequest) -> ScriptedReply:
        content = json.loads(request.body["messages"][-1]["content"])
        if "truncated" in content:
            call_id = request.body["messages"][-1]["tool_call_id"]
            pages.append(content["result"])
            offset = len(content["result"].encode())
            assert f"artifact:{call_id}" in content["truncated"]
            assert f"offset={offset}" in content["truncated"]
            path = f"artifact:{call_id}"
        else:
            pages.append(content["result"]["content"])
            if (offset := content["result"].get("next_offset", 0)) == 0:
                return reply("All read.")
            first = request.body["messages"][2]["tool_calls"][0]["id"]
            path = f"artifact:{first}"
        return reply(calls=[("read_file", {"path": path, "offset": offset, "limit": 60_000})])

    steps: list[ServerStep] = [reply(calls=[("flood", {})]), *[page] * 12]
    async with open_stage(tmp_path, steps, store=store, tools=[flood], complete=False) as stage:
        session = await stage.runtime.create_session()
        assert await session.run("Flood me.") == "All read."
        assert len(pages) >= 4
        assert all(len(page.encode()) <= 66_000 for page in pages)
        assert json.loads("".join(pages)) == text
        # Another session's artifacts are not there.
        call_id = stage.sent[1][2]["tool_calls"][0]["id"]
        other = await stage.runtime.create_session()
        assert await stage.runtime.store.full_output(other.session_id, call_id) is None
        assert await stage.runtime.store.full_output(session.session_id, call_id)


async def test_a_thread_that_outlives_its_timeout_has_its_result_at_once(tmp_path: Path) -> None:
    end = threading.Event()

    @callboard.tool(timeout_seconds=0.05)
    def slow() -> str:
        """Can't be stopped."""
        end.wait(30)
        return "too late"

    steps = [reply(calls=[("slow", {}), ("where", {})]), reply("Too slow."), reply("Again.")]
    async with open_stage(tmp_path, steps, tools=[slow, where]) as stage:
        session, played = await play_in(stage.runtime, "Go.")
        assert played.statuses == [("slow", "timeout"), ("where", "success")]
        [call_id] = [result.call_id for result in played.results if result.name == "slow"]
        assert played.ended.unreaped == (f"thread of slow ({call_id})",)
        end.set()
        # It is another turn's thread, whether it still runs or not.
        assert (await play(session, "Go on.")).ended.unreaped == ()


async def test_a_thread_that_outlives_its_turn_is_named(tmp_path: Path) -> None:
    end = threading.Event()

    @callboard.tool
    def slow(context: callboard.ToolContext) -> None:
        """Can't be stopped."""
        context.progress("started")
        end.wait(30)

    async with open_stage(tmp_path, [reply(calls=[("slow", {})])], tools=[slow]) as stage:
        session = await stage.runtime.create_session()
        events: list[callboard.TurnEvent] = []
        async with session.prompt("Go.") as turn:
            async for event in turn:
                events.append(event)
                if isinstance(event, callboard.CallProgress):
                    await turn.cancel()
        [ended] = [event for event in events if isinstance(event, callboard.TurnEnded)]
        [result] = [event for event in events if isinstance(event, callboard.CallFinished)]
        assert (ended.outcome, result.status) == ("cancelled", "cancelled")
        assert ended.unreaped == (f"thread of slow ({result.call_id})",)
        end.set()


async def test_lines_of_a_process_come_while_it_runs_and_a_timeout_kills_it(tmp_path: Path) -> None:
    arguments = {"folder": str(tmp_path)}
    steps = [reply(calls=[("hang", {**arguments, "timeout": 2}), ("talk", {})]), reply("Over.")]
    tools = [process_tools.hang, process_tools.talk]
    async with open_stage(tmp_path, steps, tools=tools) as stage:
        played = await play(await stage.runtime.create_session(), "Go.")
        assert played.statuses == [("hang", "timeout"), ("talk", "success")]
        lines = [event.text for event in played.events if isinstance(event, callboard.CallProgress)]
        assert [line for line in lines if not line.startswith("x")].count("hanging") == 1
        assert [line for line in lines if line in {"one", "two", "three", "four"}] == [
            "one",
            "two",
            "three",
            "four",
        ]
        assert played.ended.unreaped == ()
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pids").read_text().split()[0]), 0)


async def test_a_tool_whose_name_is_taken_is_refused(tmp_path: Path) -> None:
    @callboard.tool(name="read_file")
    async def mine() -> None:
        """Has the name of a built-in one."""

    with pytest.raises(callboard.CallboardError, match="read_file"):
        async with callboard.open_runtime(workspace=tmp_path, tools=[mine], environ={}):
            pass


async def test_an_agent_has_the_tools_that_it_names(tmp_path: Path) -> None:
    agent = callboard.Agent(name="measurer", prompt="You measure.", tools=("measure",))
    steps = [reply(calls=[("where", {}), ("measure", {"points": []})]), reply("Measured.")]
    async with open_stage(tmp_path, steps, tools=[measure, where], agents=[agent]) as stage:
        played = await play(await stage.runtime.create_session(agent="measurer"), "Go.")
        by_name = {result.name: read_result(result) for result in played.results}
        assert by_name["where"]["error_type"] == "tool_not_available"
        assert by_name["measure"]["status"] == "success"
        offered = [t["function"]["name"] for t in stage.server.requests[0].body["tools"]]
        assert offered == ["measure"]
        assert stage.sent[0][0] == {"role": "system", "content": "You measure."}


async def test_the_limit_of_a_result_is_a_setting(tmp_path: Path) -> None:
    settings = Settings(limits=Limits(max_result_bytes=1024))
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "long.txt").write_text("x" * 5000)
    steps = [reply(calls=[("read_file", {"path": "long.txt"})]), reply("Long.")]
    async with open_stage(tmp_path, steps, settings=settings) as stage:
        played = await play(await stage.runtime.create_session(), "Go.")
        [content] = tool_contents(stage.sent[1])
        assert 1000 < len(json.dumps(content["result"], separators=(",", ":"))) <= 1024
        assert content["result"]["next_offset"] == len(content["result"]["content"])
        assert played.results[0].artifacts == ()


async def test_a_workspace_that_was_made_anew_is_found_again(tmp_path: Path) -> None:
    steps = [
        step
        for _ in range(2)
        for step in (reply(calls=[("list_directory", {"path": "."})]), reply("Done."))
    ]
    folder = tmp_path / "work"
    folder.mkdir()
    model = callboard.ScriptedModel(steps)
    async with callboard.open_runtime(model=model, workspace=folder, environ={}) as runtime:
        session = await run_in(runtime, "List.")
        folder.rmdir()
        folder.mkdir()
        (folder / "new.txt").write_text("new")
        await session.run("List again.")
        calls = await runtime.store.calls(session_id=session.session_id)
    assert [call.status for call in calls] == ["success", "success"]
    assert "new.txt" in (calls[0].result or "")
