"""The thread itself: it starts and ends as often as one likes, and whoever waits for it is told."""

from __future__ import annotations

import asyncio
import inspect
import os
import sys
import threading
import typing
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, assert_type

import pytest
import trio

import callboard
from callboard.embedding import runtime as embedded
from callboard.portals import aio, plain
from callboard.portals.portal import RuntimeOptions
from callboard.providers.testing.script import Step, reply, stall
from callboard.runtime.errors import ActorStopped, InternalError
from callboard.runtime.store.interface import StoreReader
from callboard.runtime.store.rows import OpenTurn
from support.portal.programs import on_asyncio, run_program


def start(workspace: Path, *steps: Step) -> plain.Runtime:
    model = callboard.ScriptedModel(steps)
    return callboard.start_in_thread(model=model, workspace=workspace, environ={}, strict=True)


def make_workspace(folder: Path) -> Path:
    workspace = folder / "work"
    workspace.mkdir(exist_ok=True)
    return workspace


def own_threads() -> list[str]:
    """The threads but Trio's idle workers, which it keeps for a while to use them again."""
    names = [thread.name for thread in threading.enumerate()]
    return sorted(name for name in names if not name.startswith("Trio thread"))


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_thirty_starts_and_stops_leave_nothing_behind(tmp_path: Path) -> None:
    def once() -> None:
        model = callboard.ScriptedModel([reply("Hello.")])
        options: Any = {"model": model, "workspace": make_workspace(tmp_path), "environ": {}}
        with callboard.start_in_thread(**options, data=tmp_path / "data") as runtime:
            assert runtime.create_session().run("Hi.") == "Hello."

    once()
    threads, files = own_threads(), open_files()
    for _ in range(30):
        once()
    assert own_threads() <= threads
    assert open_files() <= files


@on_asyncio
async def test_thirty_starts_and_stops_beside_one_event_loop_leave_nothing_behind(
    tmp_path: Path,
) -> None:
    async def once() -> None:
        model = callboard.ScriptedModel([reply("Hello.")])
        async with aio.open_runtime(model=model, workspace=tmp_path, environ={}) as runtime:
            assert await (await runtime.create_session()).run("Hi.") == "Hello."

    await once()
    threads, files = own_threads(), open_files()
    for _ in range(30):
        await once()
    assert own_threads() <= threads
    assert open_files() <= files
    assert asyncio.all_tasks() == {asyncio.current_task()}


def test_two_at_once_know_nothing_of_each_other(tmp_path: Path) -> None:
    with start(tmp_path, reply("One.")) as one, start(tmp_path, reply("Two.")) as two:
        assert one.create_session().run("Hi.") == "One."
        assert two.create_session().run("Hi.") == "Two."
        one.close()
        assert len(two.sessions()) == 1
        with pytest.raises(ActorStopped, match="this runtime is closed; open a new one"):
            one.sessions()


def test_closing_again_is_harmless_and_an_exception_of_the_block_comes_out(tmp_path: Path) -> None:
    runtime = start(tmp_path)
    with pytest.raises(KeyError), runtime:
        raise KeyError
    runtime.close()
    runtime.close()


def test_what_was_begun_in_a_runtime_that_is_closed_says_so(tmp_path: Path) -> None:
    with start(tmp_path, stall("Well")) as runtime:
        session = runtime.create_session()
        turn = session.prompt("Hi.").__enter__()
        next(turn)
    [*_, last] = turn
    assert last is turn.ended
    assert list(turn) == turn.next_events() == []
    for call in (
        partial(session.run, "Hi."),
        turn.answer,
        turn.cancel,
        runtime.store.open_turns,
        session.prompt("Hi.").__enter__,
    ):
        with pytest.raises(ActorStopped, match="closed"):
            call()
    turn.__exit__(None, None, None)  # its turn is gone, which is all that leaving it promises


def test_a_thread_that_dies_wakes_whoever_waits_and_says_why(tmp_path: Path) -> None:
    def die() -> None:
        raise ZeroDivisionError

    runtime = start(tmp_path, stall("Well"))
    session = runtime.create_session()
    token = runtime._portal._token
    assert token is not None
    with session.prompt("Hi.") as turn:
        next(turn)
        token.run_sync_soon(die)
        with pytest.raises(ActorStopped, match="has ended with TrioInternalError"):
            list(turn)
    runtime._portal.join()
    with pytest.raises(ActorStopped, match="has ended with TrioInternalError") as caught:
        session.run("Hi.")
    assert isinstance(caught.value.__cause__, trio.TrioInternalError)
    with pytest.raises(trio.TrioInternalError):
        runtime.close()


async def crash_directory(runtime: embedded.Runtime) -> None:
    unknown: Any = object()
    await runtime._host.directory.tell(unknown)


@pytest.mark.parametrize(
    ("strict", "crashes", "error", "reason"),
    [
        (True, 1, AssertionError, "AssertionError: .*object"),
        (False, 6, InternalError, "InternalError: directory crashed 6 times"),
    ],
)
def test_a_runtime_that_fails_tells_whoever_waits_and_whoever_comes_later(
    strict: bool, crashes: int, error: type[Exception], reason: str, tmp_path: Path
) -> None:
    model = callboard.ScriptedModel([stall("Well")] * 2)
    options: Any = {"model": model, "workspace": tmp_path, "environ": {}, "strict": strict}
    runtime = callboard.start_in_thread(**options)
    session, other = runtime.create_session(), runtime.create_session()
    heard: list[ActorStopped] = []

    def wait() -> None:
        try:
            other.run("Hi.")
        except ActorStopped as stopped:
            heard.append(stopped)

    waiting = threading.Thread(target=wait)
    waiting.start()
    reason = f"this runtime has ended with {reason}"
    with session.prompt("Hi.") as turn:
        [next(turn) for _ in range(3)]
        for _ in range(crashes):
            runtime._portal.call(partial(crash_directory, runtime._inner))
        with pytest.raises(ActorStopped, match=reason):
            list(turn)

        def sessions() -> object:
            runtime._portal.ended.result(20)  # until then the record can be read
            return runtime.sessions()

        for later in (turn.answer, turn.cancel, partial(session.run, "Hi."), sessions):
            with pytest.raises(ActorStopped, match=reason) as caught:
                later()
            assert isinstance(caught.value.__cause__, error)
    waiting.join()
    [told] = heard
    with pytest.raises(ActorStopped, match=reason):
        raise told
    with pytest.raises(error):
        runtime.close()


def test_the_session_that_crashes_alone_says_so_itself(tmp_path: Path) -> None:
    """The control: a part that has ended is not the runtime."""
    model = callboard.ScriptedModel([stall("Well"), reply("Hello.")])
    with callboard.start_in_thread(model=model, workspace=tmp_path, environ={}) as runtime:
        session = runtime.create_session()
        unknown: Any = object()

        async def crash() -> None:
            await runtime._inner._host.live[session.session_id].tell(unknown)

        with session.prompt("Hi.") as turn:
            [next(turn) for _ in range(3)]
            runtime._portal.call(crash)
            with pytest.raises(ActorStopped, match=r"session .* has ended; load it again"):
                list(turn)
        assert session.run("Hi.") == "Hello."


def test_what_needs_no_waiting_is_told_by_a_closed_runtime_too(tmp_path: Path) -> None:
    with start(tmp_path, reply("Hello.")) as runtime:
        before = runtime.model, runtime.model_reason, runtime.tools()
        session = runtime.create_session()
        with session.prompt("Hi.") as turn:
            assert turn.answer() == "Hello."
    assert (runtime.model, runtime.model_reason, runtime.tools()) == before
    assert session.session_id.startswith("session_")
    assert (turn.ended is not None, turn.seq > 0, turn.input_id != "") == (True, True, True)


LEFT_OPEN = """
import sys, threading
import callboard
from callboard.providers.testing.script import stall

workspace, data, way = sys.argv[1:]
model = callboard.ScriptedModel([stall("Well")])
options = {"model": model, "workspace": workspace, "data": data, "environ": {}}
if way == "plain":
    runtime = callboard.start_in_thread(**options)
    turn = runtime.create_session().prompt("Hi.").__enter__()
    next(turn)
else:
    import asyncio
    async def main():
        runtime = await callboard.aio.open_runtime(**options)
        turn = await (await runtime.create_session()).prompt("Hi.").__aenter__()
        await anext(turn)
        return runtime, turn
    kept = asyncio.run(main())
print([thread.name for thread in threading.enumerate() if thread.name == "callboard"])
"""


@pytest.mark.parametrize("way", ["plain", "asyncio"])
def test_the_programs_end_closes_what_was_left_open(way: str, tmp_path: Path) -> None:
    workspace, data = make_workspace(tmp_path), tmp_path / "data"
    assert run_program(LEFT_OPEN, workspace, data, way) == "['callboard']\n"
    with callboard.start_in_thread(model="rehearsal", data=data) as runtime:
        [session] = runtime.sessions()
        assert runtime.store.open_turns() == []
        [*_, last] = runtime.store.events(session.session_id)
        assert isinstance(last.event, callboard.TurnEnded)
        assert last.event.outcome == "cancelled"


BLOCKED = """
import sys, threading, time
import callboard
from callboard.portals import portal

portal.EXIT_SECONDS = 0.2
stuck = threading.Event()

class Model:
    async def run(self, request, emit):
        stuck.set()
        time.sleep(3600)

runtime = callboard.start_in_thread(model=Model(), workspace=sys.argv[1], environ={})
turn = runtime.create_session().prompt("Hi.").__enter__()
stuck.wait()
print("bye")
"""


def test_the_programs_end_does_not_wait_for_a_thread_that_is_stuck(tmp_path: Path) -> None:
    assert run_program(BLOCKED, tmp_path) == "bye\n"


FORKED = """
import os, sys
import callboard
from callboard.runtime.errors import ActorStopped

with callboard.start_in_thread(model="rehearsal", workspace=sys.argv[1]) as runtime:
    session = runtime.create_session()
    child = os.fork()
    if child == 0:
        try:
            session.run("Hi.")
        except ActorStopped as error:
            print("forked" in str(error), flush=True)
    else:
        os.waitpid(child, 0)
        print(len(runtime.sessions()))
"""


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="Python warns of forks beside threads")
def test_a_forked_child_is_told_that_the_runtime_is_not_its_own(tmp_path: Path) -> None:
    assert run_program(FORKED, tmp_path) == "True\n1\n"


def test_nobody_pays_for_what_he_does_not_use() -> None:
    program = (
        "import sys, callboard\n"
        "later = {'asyncio', 'concurrent.futures', 'callboard.portals.portal', 'callboard.portals.aio'}\n"
        "print(later & set(sys.modules), {'aio', 'start_in_thread'} - set(dir(callboard)))\n"
        "callboard.start_in_thread; print('asyncio' in sys.modules)\n"
        "from callboard import aio; print('asyncio' in sys.modules)\n"
        "print(hasattr(callboard, 'nothing'))"
    )
    assert run_program(program).split("\n") == ["set() set()", "False", "True", "False", ""]


# ── one API in three ways ────────────────────────────────────────────────────────────────────────


def public_methods(kind: type) -> dict[str, Callable[..., Any]]:
    return {
        name: value
        for name, value in inspect.getmembers(kind)
        if callable(value) and name[0] != "_"
    }


def properties(kind: type) -> set[str]:
    return {name for name, value in inspect.getmembers(kind) if isinstance(value, property)}


@pytest.mark.parametrize("way", [plain, aio])
@pytest.mark.parametrize("name", ["Runtime", "Session", "Turn"])
def test_the_ways_have_the_same_methods_and_arguments(way: Any, name: str) -> None:
    original, here = public_methods(getattr(callboard, name)), public_methods(getattr(way, name))
    only_trio = {"fetch_events", "next_event_nowait", "wait_events"}
    only_here = {"close", "aclose"}
    assert original.keys() - here.keys() <= only_trio
    assert here.keys() - original.keys() <= only_here
    for method in original.keys() & here.keys():
        expected = inspect.signature(original[method])
        assert inspect.signature(here[method]).parameters == expected.parameters
        assert getattr(here[method], "__wrapped__", original[method]) is original[method]
    assert properties(getattr(way, name)) >= properties(getattr(callboard, name)) - {"store"}


def test_the_ways_are_opened_with_the_same_options() -> None:
    # Whoever passes none never imports httpx, nor OpenTelemetry.
    later = {"GivenHttp": typing.Any, "SpanProcessor": typing.Any}
    expected = typing.get_type_hints(embedded.open_runtime, localns=later)
    del expected["return"], expected["on_approval"]
    assert typing.get_type_hints(RuntimeOptions, localns=later) == expected


def test_the_ways_read_the_same_records() -> None:
    here, there = (
        {name for name in vars(way.Records) if not name.startswith("_")} for way in (plain, aio)
    )
    assert here == there <= vars(StoreReader).keys()


def test_the_ways_tell_the_same_story(tmp_path: Path) -> None:
    steps = [reply("Let me see.", calls=[("list_directory", {"path": "."})]), reply(["Nothing."])]

    def options() -> dict[str, Any]:
        model = callboard.ScriptedModel(steps)
        return {"model": model, "workspace": tmp_path, "environ": {}}

    async def in_trio() -> list[str]:
        async with callboard.open_runtime(**options()) as runtime:
            async with (await runtime.create_session()).prompt("Look.") as turn:
                return [type(event).__name__ async for event in turn]

    async def in_asyncio() -> list[str]:
        async with callboard.aio.open_runtime(**options()) as runtime:
            async with (await runtime.create_session()).prompt("Look.") as turn:
                return [type(event).__name__ async for event in turn]

    with callboard.start_in_thread(**options()) as runtime:
        with runtime.create_session().prompt("Look.") as turn:
            told = [type(event).__name__ for event in turn]
    assert told[-1] == "TurnEnded"
    assert "CallFinished" in told
    assert told == trio.run(in_trio) == asyncio.run(in_asyncio())


@on_asyncio
async def test_a_checker_knows_the_types_of_both_ways(tmp_path: Path) -> None:
    # mypy and pyright read this; a wrong one that they let pass is an unused ignore.
    with start(tmp_path) as runtime:
        assert_type(runtime, plain.Runtime)
        assert_type(runtime.store.open_turns(), list[OpenTurn])
        assert_type(runtime.create_session().prompt("Hi.").ended, callboard.TurnEnded | None)
        with pytest.raises(TypeError):
            runtime.create_session(colour="red")  # type: ignore[call-arg]
        with pytest.raises(TypeError):
            runtime.store.events("session", behind=3)  # type: ignore[call-arg]
        with pytest.raises(AttributeError):
            callboard.begin_in_thread  # type: ignore[attr-defined]  # ruff: ignore[useless-expression]

    async with aio.open_runtime(model="rehearsal", data=None) as runtime:
        assert_type(runtime, aio.Runtime)
        assert_type(await runtime.store.open_turns(), list[OpenTurn])
        session = await runtime.create_session(workspace=tmp_path)
        async with session.prompt("Hi.") as turn:
            assert_type(turn, aio.Turn)
            assert_type(await anext(turn), callboard.TurnEvent)
    with pytest.raises(TypeError):
        await aio.open_runtime(colour="red")  # type: ignore[call-arg]
