"""Many at once, and many times: nothing is mixed up, and nothing is left behind."""

from __future__ import annotations

import gc
import os
import tempfile
import threading
from pathlib import Path

import pytest
import trio
import trio.testing

import callboard
from callboard.providers.provider import Emit, ModelRequest
from callboard.providers.testing.script import ScriptedReply, reply
from callboard.providers.testing.scripted_server import ScriptedRequest, open_scripted_server
from callboard.runtime.history import Input
from callboard.runtime.stream import Done, StopReason
from support.stage import check_record, open_in
from support.tools import process_tools

SOAK = bool(os.environ.get("CALLBOARD_SOAK"))
SESSIONS = 1_000 if SOAK else 300
ON_A_SERVER = 200 if SOAK else 80
OPENED = 200 if SOAK else 25
"""Whatever one time leaves behind is seen; more of them find what happens seldom."""
OPENED_ON_DISK = 200 if SOAK else 10
"""Fewer: each time is six commits and an orderly end, for which a disk takes its time."""
A_PROCESS_EVERY = 50 if SOAK else 25
"""Of the times that it is opened, one has a tool in a process of its own, which takes longest."""


class Echo:
    """A model that answers with what it was asked, in two pieces."""

    def __init__(self) -> None:
        self.at_once = 0
        self.most_at_once = 0
        self._all_here = trio.Event()

    async def run(self, request: ModelRequest, emit: Emit) -> None:
        item = request.rounds[-1].items[-1]
        assert isinstance(item, Input)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await emit([callboard.TextDelta("You said: ")])
        if self.at_once == SESSIONS:
            self._all_here.set()
        await self._all_here.wait()
        await emit([callboard.TextDelta(item.text), Done(StopReason.END)])
        self.at_once -= 1


async def prompt_all(runtime: callboard.Runtime, count: int) -> None:
    """So many sessions are made and prompted at once; each hears its own answer."""
    sessions: dict[str, str] = {}

    async def prompt(number: int) -> None:
        session = await runtime.create_session()
        sessions[session.session_id] = await session.run(f"I am {number}.")

    async with trio.open_nursery() as nursery:
        for number in range(count):
            nursery.start_soon(prompt, number)
    expected = sorted(f"You said: I am {number}." for number in range(count))
    assert sorted(sessions.values()) == expected
    for session_id in sessions:
        record = await runtime.store.events(session_id)
        check_record(record)
        assert len(record) == 5  # created, input, turn started, answer, turn ended
    assert await runtime.store.open_turns() == []


async def test_hundreds_of_sessions_at_once_are_all_answered(tmp_path: Path) -> None:
    """300 of them, or a thousand with `CALLBOARD_SOAK=1`."""
    model = Echo()
    async with open_in(tmp_path, model) as runtime:
        await prompt_all(runtime, SESSIONS)
    assert model.most_at_once == SESSIONS


async def test_many_sessions_at_once_on_a_server_are_all_answered(tmp_path: Path) -> None:
    def echo(request: ScriptedRequest) -> ScriptedReply:
        return reply(["You said: ", request.body["messages"][-1]["content"]])

    async with open_scripted_server([echo] * ON_A_SERVER) as server:
        async with open_in(tmp_path, "scripted", base_url=server.base_url) as runtime:
            await prompt_all(runtime, ON_A_SERVER)
            assert runtime._host.http.statistics().active == 0
        server.assert_complete()


class TaskCount(trio.abc.Instrument):
    """How many tasks began and did not end."""

    def __init__(self) -> None:
        self.running = 0
        self.spawned = 0

    def task_spawned(self, task: trio.lowlevel.Task) -> None:
        self.running += 1
        self.spawned += 1

    def task_exited(self, task: trio.lowlevel.Task) -> None:
        self.running -= 1


async def process_state() -> dict[str, object]:
    """What a leak would show in, beside memory; taken when the system has closed what was closed."""
    gc.collect()
    await trio.testing.wait_all_tasks_blocked(0.05)
    children = _children()
    # Trio keeps idle worker threads for ten seconds, in case there is more to do.
    names = [thread.name for thread in threading.enumerate()]
    threads = [name for name in names if not name.startswith("Trio ")]
    files = [_target(name) for name in os.listdir("/proc/self/fd")]
    return {"files": sorted(files), "children": children, "threads": sorted(threads)}


def _children() -> list[str]:
    """Processes, of all threads: trio starts them from a worker."""
    return [pid for file in Path("/proc/self/task").glob("*/children") for pid in _words(file)]


def _words(file: Path) -> list[str]:
    try:
        return file.read_text().split()
    except (FileNotFoundError, ProcessLookupError):
        return []  # the thread has ended


def _target(descriptor: str) -> str:
    """What a file descriptor leads to, without what differs from socket to socket."""
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}").partition(":[")[0]
    except FileNotFoundError:
        return ""  # the listing itself


@pytest.mark.parametrize(("store", "times"), [("memory", OPENED), ("disk", OPENED_ON_DISK)])
async def test_a_runtime_opened_again_and_again_leaves_nothing(
    tmp_path: Path, store: str, times: int
) -> None:
    calls = [("list_directory", {"path": "."}), ("get_current_time", {}), ("in_thread", {})]
    asked = 0

    @callboard.tool
    def in_thread() -> int:
        """Runs in a worker thread."""
        return threading.get_ident()

    def answer(request: ScriptedRequest) -> ScriptedReply:
        nonlocal asked
        results = [m["content"] for m in request.body["messages"] if m["role"] == "tool"]
        if results:
            assert all('"status":"success"' in result for result in results)
            return reply("It is there.")
        asked += 1
        with_process = asked % A_PROCESS_EVERY == 1
        return reply(calls=[*calls, ("doubled", {"x": 2})] if with_process else calls)

    async with open_scripted_server([answer] * (2 * (times + 1))) as server:

        async def live() -> None:
            async with open_in(
                tmp_path,
                "scripted",
                store=store,
                base_url=server.base_url,
                tools=[in_thread, process_tools.doubled],
            ) as runtime:
                session = await runtime.create_session()
                assert await session.run("What is here?") == "It is there."

        await live()  # what is made once: caches, modules, trio's threads
        before = await process_state()
        tasks = TaskCount()
        trio.lowlevel.add_instrument(tasks)
        for _ in range(times):
            await live()
        assert await process_state() == before
        trio.lowlevel.remove_instrument(tasks)
        assert tasks.spawned > 10 * times
        assert tasks.running == 0
        server.assert_complete()
    if store == "disk":  # and no log of the database beside it, as after a crash
        assert sorted(os.listdir(tmp_path / "data")) == [
            "callboard.db",
            "callboard.db-last",
            "callboard.lock",
            "callboard.sandbox.json",
        ]


async def wait_in_thread(stop: threading.Event) -> None:
    await trio.to_thread.run_sync(stop.wait)


async def test_what_a_leak_would_be_is_seen() -> None:
    """The control."""
    before = await process_state()
    tasks = TaskCount()
    trio.lowlevel.add_instrument(tasks)
    stop = threading.Event()
    process = await trio.lowlevel.open_process(["sleep", "60"])
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            nursery.start_soon(wait_in_thread, stop)
            with tempfile.TemporaryFile():
                after = await process_state()
                running = tasks.running
            stop.set()
            nursery.cancel_scope.cancel()
        assert running >= 2
    finally:
        stop.set()
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()
        trio.lowlevel.remove_instrument(tasks)
    assert [key for key in before if after[key] != before[key]] == list(before)
    assert await process_state() == before
