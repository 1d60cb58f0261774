"""Plain programs: the same runtime, with methods that block."""

from __future__ import annotations

import asyncio
import threading
import traceback
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

import callboard
from callboard.portals import plain
from callboard.portals.portal import Portal
from callboard.providers.testing.script import Step, fail, reply, stall
from callboard.runtime.definitions import CallStatus
from callboard.runtime.errors import ConflictError, NotFoundError, ProviderError, ValidationError
from callboard.runtime.events import ApprovalAnswered, TurnEnded
from support.portal.programs import run_program


def start(workspace: Path, *steps: Step, **options: object) -> plain.Runtime:
    """A runtime whose model plays these steps."""
    return callboard.start_in_thread(
        model=callboard.ScriptedModel(steps),
        workspace=workspace,
        environ={},
        strict=True,
        **options,  # type: ignore[arg-type]
    )


def outcome(runtime: plain.Runtime, session: plain.Session) -> str:
    """How the session's last turn ended, as it is on record."""
    [*_, last] = runtime.store.events(session.session_id)
    assert isinstance(last.event, TurnEnded)
    return last.event.outcome


def test_seq_is_that_of_the_event_in_hand_not_of_those_that_wait(tmp_path: Path) -> None:
    with start(tmp_path, reply("Hello.")) as runtime:
        session = runtime.create_session()
        with session.prompt("Hi.") as turn:
            seen: dict[callboard.TurnEvent, int] = {}
            for event in turn:
                seen[event] = turn.seq
        record = runtime.store.events(session.session_id)
        stored: dict[callboard.TurnEvent, int] = {stored.event: stored.seq for stored in record}
    both = seen.keys() & stored.keys()
    assert len(both) >= 4
    assert {event: seen[event] for event in both} == {event: stored[event] for event in both}


def test_exceptions_keep_their_types_and_show_the_lines_of_the_program(tmp_path: Path) -> None:
    with start(tmp_path, fail("It broke.", error_type="provider")) as runtime:
        session = runtime.create_session()
        with pytest.raises(ProviderError, match="It broke"):
            session.run("Hi.")
        with pytest.raises(NotFoundError, match="no session"):
            runtime.get_session("session_none")
        with pytest.raises(ValidationError):
            runtime.create_session(workspace=tmp_path / "missing")
        with pytest.raises(NotFoundError, match="no agent 'nobody'") as caught:
            runtime.create_session(agent="nobody")
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert frames[0].line == 'runtime.create_session(agent="nobody")'
    assert len(frames) <= 3  # and none of the portal's thread


def test_what_can_not_be_opened_raises_at_once_and_leaves_no_thread(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        callboard.start_in_thread(model="nobody/nothing", environ={})
    with pytest.raises(TypeError, match="colour"):
        callboard.start_in_thread(colour="red")  # type: ignore[call-arg]
    with callboard.start_in_thread(model="rehearsal", data=tmp_path):
        with pytest.raises(ConflictError, match="in use"):
            callboard.start_in_thread(model="rehearsal", data=tmp_path)
    callboard.start_in_thread(model="rehearsal", data=tmp_path).close()
    assert "callboard" not in {thread.name for thread in threading.enumerate()}


def test_leaving_a_turn_early_cancels_it_and_waits(tmp_path: Path) -> None:
    with start(tmp_path, stall("Well"), reply("Next.")) as runtime:
        session = runtime.create_session()
        with session.prompt("Hi.") as turn:
            for event in turn:
                if isinstance(event, callboard.TextDelta):
                    break
        assert outcome(runtime, session) == "cancelled"
        assert session.run("And now?") == "Next."


def test_a_turn_is_cancelled_from_another_thread_while_it_is_read(tmp_path: Path) -> None:
    with start(tmp_path, stall("Well")) as runtime:
        with runtime.create_session().prompt("Hi.") as turn:
            canceller = threading.Thread(target=partial(turn.cancel, "enough"))
            for event in turn:
                if isinstance(event, callboard.TextDelta):
                    canceller.start()
            canceller.join()
        assert turn.ended is not None
        assert turn.ended.outcome == "cancelled"


INTERRUPTED = """
import os, signal, sys, threading
import callboard
from callboard.providers.testing.script import stall

how, folder = sys.argv[1:]

@callboard.tool(approval="never", tier="read_only")
async def wait() -> None:
    "Waits; in its cleanup too."
    import trio
    timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    try:
        await trio.sleep_forever()
    finally:
        with trio.move_on_after(5, shield=True):
            await trio.sleep(0.1)
        print("cleaned up")

model = callboard.ScriptedModel([callboard.reply(calls=[("wait", {})])])
with callboard.start_in_thread(model=model, workspace=folder, tools=[wait]) as runtime:
    session = runtime.create_session()
    try:
        if how == "run":
            session.run("Wait.")
        elif how == "answer":
            with session.prompt("Wait.") as turn:
                turn.answer()
        else:
            with session.prompt("Wait.") as turn:
                list(turn)
    except KeyboardInterrupt:
        print("interrupted")
    last = runtime.store.events(session.session_id)[-1].event
    print(last.outcome)
"""


@pytest.mark.parametrize("how", ["run", "answer", "iterate"])
def test_an_interrupt_cancels_what_it_waits_for_and_comes_out_when_that_is_gone(
    how: str, tmp_path: Path
) -> None:
    printed = run_program(INTERRUPTED, how, tmp_path)
    assert printed.split("\n") == ["cleaned up", "interrupted", "cancelled", ""]


@pytest.mark.parametrize(("answer", "status"), [(True, "success"), ("deny", "denied")])
def test_a_plain_function_is_asked_in_a_worker_thread(
    answer: bool | str, status: str, tmp_path: Path
) -> None:
    asked = []

    def ask(request: callboard.ApprovalRequest) -> bool | str:
        asked.append((request.tool, threading.current_thread().name))
        return answer

    calls = reply(calls=[("ping", {})])
    with start(tmp_path, calls, reply("Done."), tools=[ping], on_approval=ask) as runtime:
        session = runtime.create_session()
        session.run("Ping.")
        [call] = runtime.store.calls(session_id=session.session_id)
        assert call.status == status
    [(tool, thread)] = asked
    assert tool == "ping"
    assert thread not in {"callboard", threading.current_thread().name}


async def test_an_async_function_is_asked_on_trio(tmp_path: Path) -> None:
    async def ask(request: callboard.ApprovalRequest) -> bool:
        await trio.lowlevel.checkpoint()
        return True

    class Asker:
        """An object that does not look asynchronous."""

        async def __call__(self, request: callboard.ApprovalRequest) -> bool:
            return await ask(request)

    for asker in (ask, Asker(), "allow"):
        calls = reply(calls=[("ping", {})])
        with start(tmp_path, calls, reply("Done."), tools=[ping], on_approval=asker) as runtime:
            session = runtime.create_session()
            session.run("Ping.")
            [call] = runtime.store.calls(status=CallStatus.SUCCESS)
            assert call.name == "ping"
            events = [stored.event for stored in runtime.store.events(session.session_id)]
            assert [e.decision for e in events if isinstance(e, ApprovalAnswered)] == ["allow"]


@callboard.tool(approval="always")
def ping() -> str:
    """Answers."""
    return "pong"


def test_tools_may_use_the_runtime_but_not_from_its_own_thread(tmp_path: Path) -> None:
    @callboard.tool
    def count() -> int:
        """Counts the sessions."""
        return len(runtime.sessions())

    @callboard.tool
    async def count_there() -> int:
        """Counts the sessions; it can't, since it is in the thread that would have to answer."""
        await trio.lowlevel.checkpoint()
        return len(runtime.sessions())

    steps = reply(calls=[("count", {}), ("count_there", {})]), reply("Done.")
    with start(tmp_path, *steps, tools=[count, count_there]) as runtime:
        session = runtime.create_session()
        session.run("Count.")
        results = {c.name: c.result for c in runtime.store.calls(session_id=session.session_id)}
    assert results["count"] == '{"status":"success","result":1}'
    assert "can't wait for itself" in str(results["count_there"])


def test_a_turn_that_was_not_entered_says_how(tmp_path: Path) -> None:
    with start(tmp_path) as runtime:
        turn = runtime.create_session().prompt("Hi.")
        for read in (turn.answer, partial(next, turn), turn.next_events):
            with pytest.raises(ConflictError, match="enter it first, `with turn:`"):
                read()


class Interrupted:
    """A portal whose caller is interrupted just when its call has come back."""

    def __init__(self, portal: Portal) -> None:
        self.turns = portal.turns
        self._portal = portal
        self._times = 0

    def call(self, function: Callable[[], Awaitable[object]]) -> object:
        result = self._portal.call(function)
        self._times += 1
        if self._times == 1:
            raise KeyboardInterrupt
        return result


def test_an_interrupt_in_the_moment_of_entering_leaves_no_turn_behind(tmp_path: Path) -> None:
    with start(tmp_path, stall("Well")) as runtime:
        session = runtime.create_session()
        interrupted: Any = Interrupted(runtime._portal)
        turn = plain.Turn(interrupted, session._inner.prompt("Hi."))
        with pytest.raises(KeyboardInterrupt):
            turn.__enter__()
        assert runtime.store.open_turns() == []
        assert outcome(runtime, session) == "cancelled"


def test_it_works_in_a_thread_that_runs_an_event_loop_or_trio(tmp_path: Path) -> None:
    async def talk() -> str:
        with start(tmp_path, reply("Hello.")) as runtime:
            return runtime.create_session().run("Hi.")

    async def talk_beside() -> str:
        with start(tmp_path, reply("Hello.")) as runtime:
            return await trio.to_thread.run_sync(runtime.create_session().run, "Hi.")

    assert asyncio.run(talk()) == trio.run(talk_beside) == "Hello."
