"""Tools in processes of their own: however one ends, its call alone is hit and nothing stays."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import tracemalloc
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

import callboard
from callboard.providers.testing.script import reply
from callboard.runtime.events import CallFinished, CallProgress, TurnEnded
from callboard.tools.processes import function_process
from support.environment import finds_support
from support.flows.process_ends import ENDS, FLOOD_BYTES, End, end
from support.stage import messages_of, open_in, open_local_stage, play, tool_contents
from support.tools.workbench import wait_until
from support.waits import leap

each_end = pytest.mark.parametrize("how", ENDS.values(), ids=ENDS)

MAX_PEAK_BYTES = 6 * 1024 * 1024
"""What a flood may cost the runtime: a fraction of it."""


@callboard.tool
async def sibling() -> str:
    """Ends at once."""
    return "done"


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What a consumer and the model got of the call; texts of its progress only as far as short."""

    kinds: list[str]
    ended: TurnEnded
    result: CallFinished
    content: dict[str, Any]
    sibling: CallFinished
    record: list[str]


async def play_end(folder: Path, how: End) -> Seen:
    arguments = {"way": how.way, "folder": str(folder), "timeout": how.timeout}
    steps = [reply(calls=[("end", arguments), ("sibling", {})]), reply("Well.")]
    kinds: list[str] = []
    kept: dict[str, CallFinished] = {}
    ended: TurnEnded | None = None
    async with open_local_stage(folder, steps, tools=[end, sibling]) as (runtime, model):
        session = await runtime.create_session()
        async with session.prompt("Go.") as turn:
            async for event in turn:
                if isinstance(event, CallFinished):
                    kept[event.name] = event
                elif isinstance(event, TurnEnded):
                    ended = event
                elif isinstance(event, CallProgress) and "began" in event.text:
                    kinds.append("began")
                    if how.is_cancelled:
                        await turn.cancel("enough")
                    elif how.status == "timeout":
                        leap(how.timeout)
        if how.is_cancelled:
            assert await session.run("Go on.") == "Well."
        assert ended is not None
        events = [stored.event for stored in await runtime.store.events(session.session_id)]
        its_id = kept["end"].call_id
        return Seen(
            kinds=kinds,
            ended=ended,
            result=kept["end"],
            content=tool_contents(messages_of(model.requests[1]))[0],
            sibling=kept["sibling"],
            record=[
                str(e.__struct_config__.tag) for e in events if getattr(e, "call_id", "") == its_id
            ],
        )


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


@each_end
async def test_end(how: End, tmp_path: Path, leaping_clock: trio.testing.MockClock) -> None:
    """One result; the sibling has its own; the process and its children are gone."""
    seen = await play_end(tmp_path, how)
    pid, child = map(int, (tmp_path / "pids").read_text().split())
    assert is_gone(pid)
    await wait_until(lambda: is_gone(child))  # killed with it; its new parent reaps it
    assert seen.kinds == ["began"]
    assert seen.sibling.status == "success"
    assert (seen.ended.outcome, seen.ended.unreaped) == (
        "cancelled" if how.is_cancelled else "answered",
        (),
    )
    assert seen.record == ["call_proposed", "call_started", "call_finished"]
    assert json.loads(seen.result.result) == seen.content
    assert seen.result.status == how.status
    if how.status == "success":
        assert seen.content == {"status": "success", "result": "done"}
    else:
        assert seen.content["error_type"] == how.error_type
        assert how.words in seen.content["message"]


@pytest.mark.parametrize("name", ["floods", "returns_too_much"])
async def test_memory(name: str, tmp_path: Path) -> None:
    """What a process prints or returns without bound is not kept."""
    await play_end(tmp_path, ENDS["returns"])
    tracemalloc.start()
    try:
        seen = await play_end(tmp_path, ENDS[name])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert seen.result.status == ENDS[name].status
    most = MAX_PEAK_BYTES + (2 * function_process.MAX_ANSWER_BYTES if name != "floods" else 0)
    assert peak < most
    assert FLOOD_BYTES > 3 * MAX_PEAK_BYTES


async def test_more_processes_than_there_may_be_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In their own time; when one of those that run has ended, the next one may."""
    monkeypatch.setattr(function_process, "MAX_FUNCTION_PROCESSES", 2)
    folders = [tmp_path / str(number) for number in range(3)]
    for folder in folders:
        folder.mkdir()
    hang = [("end", {"way": "hang", "folder": str(folder)}) for folder in folders[:2]]
    third = {"way": "return", "folder": str(folders[2])}
    late, again = reply(calls=[("end", {**third, "timeout": 0.3})]), reply(calls=[("end", third)])
    steps = [reply(calls=hang), late, reply("Late."), again, reply("Well.")]
    async with open_local_stage(tmp_path, steps, tools=[end]) as (runtime, _):
        full, waiting = await runtime.create_session(), await runtime.create_session()
        async with full.prompt("Go.") as turn:
            began = 0
            async for event in turn:
                began += isinstance(event, CallProgress)
                if began == 2:
                    break
            assert (await play(waiting, "Go.")).statuses == [("end", "timeout")]
            assert not (folders[2] / "pids").exists()
        assert (await play(waiting, "Again.")).statuses == [("end", "success")]
        assert (folders[2] / "pids").exists()


PROGRAM = """
import sys, callboard, trio
from support.flows.process_ends import end
from callboard.providers.testing.script import reply

async def main():
    step = reply(calls=[("end", {"way": "hang", "folder": sys.argv[1]})])
    async with callboard.open_runtime(
        model=callboard.ScriptedModel([step]), workspace=sys.argv[2], data=sys.argv[3],
        environ={}, tools=[end],
    ) as runtime:
        session = await runtime.create_session()
        async with session.prompt("Go.") as turn:
            async for event in turn:
                if isinstance(event, callboard.CallProgress):
                    sys.stdout.write(session.session_id + "\\n")
                    sys.stdout.flush()

trio.run(main)
"""


async def test_a_killed_runtime_takes_its_processes_along(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    program = [sys.executable, "-c", PROGRAM, str(tmp_path), str(work), str(tmp_path / "data")]

    def run_and_kill() -> str:
        with subprocess.Popen(
            program, env=finds_support(), stdout=subprocess.PIPE, text=True
        ) as process:
            watchdog = threading.Timer(30, process.kill)
            watchdog.start()
            assert process.stdout is not None
            said = process.stdout.readline().strip()
            process.kill()
            watchdog.cancel()
        assert process.returncode == -signal.SIGKILL
        return said

    session_id = await trio.to_thread.run_sync(run_and_kill)
    pid, child = map(int, (tmp_path / "pids").read_text().split())
    await wait_until(lambda: is_gone(pid))
    await wait_until(lambda: is_gone(child))  # what a worker started goes with it
    async with open_in(tmp_path, [reply("Here I am.")], "disk", tools=[end]) as runtime:
        [call] = await runtime.store.calls(session_id=session_id)
        assert call.status == "interrupted"
        assert call.result is not None
        assert "its outcome is unknown" in call.result
        assert await (await runtime.get_session(session_id)).run("Go on.") == "Here I am."
