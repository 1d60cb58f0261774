"""asyncio programs: the same runtime, with methods that are coroutines."""

from __future__ import annotations

import asyncio
import contextvars
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import assert_type

import pytest

import callboard
from callboard.portals import aio
from callboard.portals.event_loop import cross
from callboard.providers.provider import ModelRequest
from callboard.providers.testing.script import Step, fail, reply, stall
from callboard.providers.testing.scripted import ScriptStep
from callboard.runtime.definitions import CallStatus
from callboard.runtime.errors import ActorStopped, ConflictError, NotFoundError, ProviderError
from callboard.runtime.events import TurnEnded
from callboard.runtime.kernel.delivery import MAX_WAITING_UPDATES
from support.portal.programs import PIECES, CountingModel, on_asyncio, wait_quiet


def open_with(workspace: Path, *steps: ScriptStep, **options: object) -> aio.Opening:
    """A runtime whose model plays these steps."""
    return aio.open_runtime(
        model=callboard.ScriptedModel(steps),
        workspace=workspace,
        environ={},
        strict=True,
        **options,  # type: ignore[arg-type]
    )


async def outcome(runtime: aio.Runtime, session: aio.Session) -> str:
    """How the session's last turn ended, as it is on record."""
    [*_, last] = await runtime.store.events(session.session_id)
    assert isinstance(last.event, TurnEnded)
    return last.event.outcome


async def read_to_the_text(turn: aio.Turn) -> None:
    async for event in turn:
        if isinstance(event, callboard.TextDelta):
            return


@on_asyncio
async def test_a_turn_is_read_event_by_event(tmp_path: Path) -> None:
    async with open_with(tmp_path, reply(["Hello", ", you."])) as runtime:
        session = await runtime.create_session(title="Greetings")
        async with session.prompt("Hi.") as turn:
            events = []
            async for event in turn:
                assert_type(event, callboard.TurnEvent)
                events.append(event)
        texts = [event.text for event in events if isinstance(event, callboard.TextDelta)]
        assert texts == ["Hello", ", you."]
        assert turn.ended is events[-1]
        assert turn.seq == len(await runtime.store.events(session.session_id))
        [row] = await runtime.sessions()
        assert (row.session_id, row.title) == (session.session_id, "Greetings")


@on_asyncio
async def test_what_has_come_can_be_taken_at_once(tmp_path: Path) -> None:
    async with open_with(tmp_path, reply("Hello.")) as runtime:
        async with (await runtime.create_session()).prompt("Hi.") as turn:
            events: list[callboard.TurnEvent] = []
            while batch := await turn.next_events():
                events += batch
        assert turn.ended in events
        assert [event async for event in turn] == []


@on_asyncio
async def test_many_sessions_run_side_by_side(tmp_path: Path) -> None:
    async with open_with(tmp_path, *[reply("Hello.")] * 10) as runtime:
        sessions = [await runtime.create_session() for _ in range(10)]
        answers = await asyncio.gather(*(session.run("Hi.") for session in sessions))
    assert answers == ["Hello."] * 10


@on_asyncio
async def test_a_notebook_needs_no_block(tmp_path: Path) -> None:
    runtime = await open_with(tmp_path, reply("One."), reply("Two."))
    session = await runtime.create_session()
    assert await session.run("Count.") == "One."
    async with (await runtime.get_session(session.session_id)).prompt("Go on.") as turn:
        assert await turn.answer() == "Two."
    await runtime.aclose()
    await runtime.aclose()
    with pytest.raises(ActorStopped, match="closed"):
        await runtime.create_session()


def test_exceptions_keep_their_types(tmp_path: Path) -> None:
    async def main() -> None:
        async with open_with(tmp_path, fail("It broke.", error_type="provider")) as runtime:
            session = await runtime.create_session()
            with pytest.raises(ProviderError, match="It broke"):
                await session.run("Hi.")
            with pytest.raises(NotFoundError, match="no session"):
                await runtime.get_session("session_none")
            with pytest.raises(KeyError):
                async with session.prompt("Hi."):
                    raise KeyError
        with pytest.raises(NotFoundError):
            async with aio.open_runtime(model="nobody/nothing", environ={}):
                pass
        async with aio.open_runtime(model="rehearsal", data=tmp_path / "data"):
            with pytest.raises(ConflictError, match="in use"):
                await aio.open_runtime(model="rehearsal", data=tmp_path / "data")

    asyncio.run(main())
    assert "callboard" not in {thread.name for thread in threading.enumerate()}


# ── cancelling ───────────────────────────────────────────────────────────────────────────────────


async def iterate(session: aio.Session, reached: asyncio.Event) -> None:
    async with session.prompt("Wait.") as turn:
        async for event in turn:
            if isinstance(event, callboard.TextDelta):
                reached.set()


async def run(session: aio.Session, reached: asyncio.Event) -> None:
    await session.run("Wait.")  # `reached` when the model is asked


async def read_answer(session: aio.Session, reached: asyncio.Event) -> None:
    async with session.prompt("Wait.") as turn:
        await read_to_the_text(turn)
        reached.set()
        await turn.answer()


async def sleep_in_the_block(session: aio.Session, reached: asyncio.Event) -> None:
    async with session.prompt("Wait.") as turn:
        await read_to_the_text(turn)
        reached.set()
        await asyncio.sleep(60)


Consumer = Callable[[aio.Session, asyncio.Event], Awaitable[None]]
CONSUMERS = [iterate, run, read_answer, sleep_in_the_block]


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("consumer", CONSUMERS)
@on_asyncio
async def test_cancelling_the_task_cancels_the_turn_and_waits_for_it(
    consumer: Consumer, times: int, tmp_path: Path
) -> None:
    loop, reached = asyncio.get_running_loop(), asyncio.Event()

    def ponder(request: ModelRequest) -> Step:
        if consumer is run:
            loop.call_soon_threadsafe(reached.set)
        return stall("Well")

    async with open_with(tmp_path, ponder, reply("Next.")) as runtime:
        session = await runtime.create_session()
        task = asyncio.ensure_future(consumer(session, reached))
        await reached.wait()
        for _ in range(times):
            task.cancel()
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await runtime.store.open_turns() == []
        assert await outcome(runtime, session) == "cancelled"
        assert await session.run("And now?") == "Next."


@on_asyncio
async def test_a_timeout_is_a_cancel_too(tmp_path: Path) -> None:
    async with open_with(tmp_path, stall("Well")) as runtime:
        session = await runtime.create_session()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await session.run("Wait.")
        assert await runtime.store.open_turns() == []
        assert await outcome(runtime, session) == "cancelled"
        task = asyncio.current_task()
        assert task is not None
        assert not task.cancelling()


@on_asyncio
async def test_a_cancel_at_any_moment_leaves_no_turn_behind(tmp_path: Path) -> None:
    async with open_with(tmp_path, *[reply("Hello.")] * 40) as runtime:
        session = await runtime.create_session()
        for ticks in range(40):
            task = asyncio.ensure_future(session.run("Hi."))
            for _ in range(ticks):
                await asyncio.sleep(0)
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            assert await runtime.store.open_turns() == []


@on_asyncio
async def test_entering_is_cancelled_at_any_moment_and_leaves_no_turn_behind(
    tmp_path: Path,
) -> None:
    async def hold(session: aio.Session) -> None:
        async with session.prompt("Wait."):
            await asyncio.sleep(60)

    async with open_with(tmp_path, *[stall()] * 20) as runtime:
        session = await runtime.create_session()
        for milliseconds in range(0, 20, 1):
            task = asyncio.ensure_future(hold(session))
            await asyncio.sleep(milliseconds / 1000)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await runtime.store.open_turns() == []


def test_opening_is_cancelled_and_leaves_no_thread(tmp_path: Path) -> None:
    async def main() -> None:
        task = asyncio.ensure_future(open_with(tmp_path).__aenter__())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert "callboard" not in {thread.name for thread in threading.enumerate()}


@on_asyncio
async def test_a_turn_of_a_runtime_that_closes_is_told_how_it_ends(tmp_path: Path) -> None:
    runtime = await open_with(tmp_path, stall("Well"))
    async with (await runtime.create_session()).prompt("Hi.") as turn:
        await read_to_the_text(turn)
        closing = asyncio.create_task(runtime.aclose())
        events = [event async for event in turn]
        await closing
    assert events[-1] is turn.ended
    assert turn.ended is not None
    assert turn.ended.outcome == "cancelled"


@on_asyncio
async def test_a_consumer_that_stops_reading_holds_its_own_turn_up(tmp_path: Path) -> None:
    model = CountingModel()

    async with aio.open_runtime(model=model, workspace=tmp_path, environ={}) as runtime:
        async with (await runtime.create_session()).prompt("Count.") as turn:
            await read_to_the_text(turn)
            await cross(runtime._portal, wait_quiet)
            assert 0 < model.emitted <= 3 * MAX_WAITING_UPDATES < PIECES
            rest = [e async for e in turn if isinstance(e, callboard.TextDelta)]
        assert len(rest) == model.emitted - 1 == PIECES - 1


# ── the program's own functions ──────────────────────────────────────────────────────────────────

caller: contextvars.ContextVar[str] = contextvars.ContextVar("caller", default="nobody")


@on_asyncio
async def test_async_tools_run_on_the_programs_event_loop(tmp_path: Path) -> None:
    here = asyncio.get_running_loop()
    caller.set("the program")

    @callboard.tool
    async def look() -> str:
        """Looks where it runs."""
        await asyncio.sleep(0)
        assert asyncio.get_running_loop() is here
        return caller.get()

    @callboard.tool
    def look_too() -> Awaitable[str]:
        """Looks where it runs, and does not look asynchronous."""
        return look.function()  # type: ignore[no-any-return]

    @callboard.tool
    def work() -> bool:
        """Looks where it runs, without asyncio."""
        return threading.current_thread() is not threading.main_thread()

    @callboard.tool
    async def stumble() -> None:
        """Fails."""
        await asyncio.sleep(0)
        raise callboard.ToolFailure(callboard.ErrorType.NETWORK_ERROR, "The line is dead.")

    @callboard.tool
    async def give_up() -> None:
        """Ends in a way that only asyncio knows."""
        await asyncio.sleep(0)
        raise asyncio.CancelledError

    tools = [look, look_too, work, stumble, give_up]
    calls = reply(calls=[(tool.definition.name, {}) for tool in tools])
    async with open_with(tmp_path, calls, reply("Done."), tools=tools) as runtime:
        await (await runtime.create_session()).run("Look.")
        results = {call.name: str(call.result) for call in await runtime.store.calls()}
    assert results["look"] == '{"status":"success","result":"the program"}'
    assert results["look_too"] == results["look"]
    assert results["work"] == '{"status":"success","result":true}'
    assert "The line is dead." in results["stumble"]
    assert "network_error" in results["stumble"]
    assert "cancelled on the program's event loop" in results["give_up"]
    assert "execution_error" in results["give_up"]


@pytest.mark.parametrize("how", ["timeout", "cancel"])
@on_asyncio
async def test_a_tool_is_cancelled_on_its_event_loop_and_awaited(how: str, tmp_path: Path) -> None:
    begun, told = asyncio.Event(), list[str]()

    @callboard.tool(timeout_seconds=0.2 if how == "timeout" else 60.0)
    async def wait() -> None:
        """Waits, and takes its time to clean up."""
        begun.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            await asyncio.sleep(0.05)
            told.append("cleaned up")
            raise

    calls = reply(calls=[("wait", {})])
    async with open_with(tmp_path, calls, reply("Done."), tools=[wait]) as runtime:
        session = await runtime.create_session()
        task = asyncio.ensure_future(session.run("Wait."))
        await begun.wait()
        if how == "cancel":
            task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        told.append("the turn ended")
        [call] = await runtime.store.calls(session_id=session.session_id)
        assert call.status == ("timeout" if how == "timeout" else "cancelled")
    assert told == ["cleaned up", "the turn ended"]


async def ask_later(tool: str) -> bool:
    await asyncio.sleep(0)
    return tool == "ping"


def ask_now(tool: str) -> str:
    asyncio.get_running_loop()
    return "allow" if tool == "ping" else "deny"


async def stumble(tool: str) -> bool:
    await asyncio.sleep(0)
    raise KeyError(tool)


@callboard.tool(approval="always")
def ping() -> str:
    """Answers."""
    return "pong"


@callboard.tool(approval="always")
def explode() -> str:
    """Does what nobody should allow."""
    return "bang"


@pytest.mark.parametrize(
    ("asker", "pings"), [(ask_later, "success"), (ask_now, "success"), (stumble, "denied")]
)
@on_asyncio
async def test_questions_are_asked_on_the_programs_event_loop(
    asker: Callable[[str], Awaitable[bool] | str], pings: str, tmp_path: Path
) -> None:
    asked = []

    def ask(request: callboard.ApprovalRequest) -> Awaitable[bool] | str:
        asked.append((request.tool, asyncio.get_running_loop()))
        return asker(request.tool)

    calls = reply(calls=[("ping", {}), ("explode", {})])
    options = {"tools": [ping, explode], "on_approval": ask}
    async with open_with(tmp_path, calls, reply("Done."), **options) as runtime:
        await (await runtime.create_session()).run("Ping.")
        states = {call.name: call.status for call in await runtime.store.calls()}
    assert states == {"ping": pings, "explode": CallStatus.DENIED}
    assert sorted(asked, key=str) == sorted(
        [(name, asyncio.get_running_loop()) for name in ("ping", "explode")], key=str
    )


@on_asyncio
async def test_a_question_that_nobody_needs_any_more_is_cancelled_on_the_event_loop(
    tmp_path: Path,
) -> None:
    asking, told = asyncio.Event(), list[str]()

    async def ask(request: callboard.ApprovalRequest) -> bool:
        asking.set()
        try:
            await asyncio.sleep(60)
        finally:
            told.append("withdrawn")
        return True

    calls = reply(calls=[("ping", {})])
    async with open_with(tmp_path, calls, tools=[ping], on_approval=ask) as runtime:
        task = asyncio.ensure_future((await runtime.create_session()).run("Ping."))
        await asking.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert told == ["withdrawn"]


def test_a_runtime_outlives_the_event_loop_that_opened_it_but_not_its_functions(
    tmp_path: Path,
) -> None:
    @callboard.tool
    async def look() -> str:
        """Looks."""
        await asyncio.sleep(0)
        return "seen"

    calls = reply(calls=[("look", {})])

    async def begin() -> aio.Runtime:
        return await open_with(tmp_path, calls, reply("Done."), tools=[look])

    async def go_on(runtime: aio.Runtime) -> None:
        assert await (await runtime.create_session()).run("Look.") == "Done."
        [call] = await runtime.store.calls()
        assert "the event loop that opened this runtime is closed" in str(call.result)
        await runtime.aclose()

    asyncio.run(go_on(asyncio.run(begin())))


@on_asyncio
async def test_any_number_of_tasks_may_share_a_runtime_of_another_loop(tmp_path: Path) -> None:
    async with open_with(tmp_path, reply("Hello.")) as runtime:
        session = await runtime.create_session()
        elsewhere = partial(asyncio.run, session.run("Hi."))
        assert await asyncio.to_thread(elsewhere) == "Hello."


@on_asyncio
async def test_a_turn_is_entered_once(tmp_path: Path) -> None:
    async with open_with(tmp_path, reply("Hello."), reply("Next.")) as runtime:
        session = await runtime.create_session()
        async with session.prompt("Hi.") as turn:
            with pytest.raises(ConflictError, match=r"entered once.*call session.prompt again"):
                await turn.__aenter__()
            assert await turn.answer() == "Hello."  # and the second try left it as it was
        with pytest.raises(ConflictError, match="entered once"):
            async with turn:
                pytest.fail("it can't be entered")
        inputs = [row.content for row in await runtime.store.messages(session.session_id)]
        assert inputs == ["Hi.", "Hello."]
        assert await session.run("And now?") == "Next."


@on_asyncio
async def test_a_second_reader_of_a_turn_is_refused_and_the_first_goes_on(tmp_path: Path) -> None:
    async with open_with(tmp_path, stall("Well")) as runtime:
        async with (await runtime.create_session()).prompt("Hi.") as turn:
            await read_to_the_text(turn)
            readers = {asyncio.ensure_future(anext(turn)) for _ in range(2)}
            done, waiting = await asyncio.wait(readers, return_when="FIRST_COMPLETED")
            [refused], [first] = done, waiting
            with pytest.raises(ConflictError, match="is being read already"):
                refused.result()
            await turn.cancel()
            told = [await first, *[event async for event in turn]]
            assert told[-1] is turn.ended


@on_asyncio
async def test_a_cancel_in_the_moment_of_entering_leaves_no_turn_behind(tmp_path: Path) -> None:
    async with open_with(tmp_path, stall("Well")) as runtime:
        session = await runtime.create_session()
        turn = session.prompt("Hi.")
        task = asyncio.ensure_future(turn.__aenter__())
        await asyncio.sleep(0)  # it is on its way, and this loop will not hear that it arrived
        while not turn.input_id:
            time.sleep(0.001)  # noqa: ASYNC251  ruff: ignore[blocking-sleep-in-async-function]
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await runtime.store.open_turns() == []
        assert await outcome(runtime, session) == "cancelled"


def test_it_is_a_module_to_import_as_well() -> None:
    words = (
        "import callboard.aio, sys; from callboard.aio import open_runtime; import callboard;"
        "assert callboard.aio.open_runtime is open_runtime and callboard.aio is sys.modules['callboard.portals.aio']"
    )
    subprocess.run([sys.executable, "-c", words], check=True)
