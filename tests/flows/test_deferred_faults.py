"""Deferred calls and what goes wrong: grants end, processes end, people change their minds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import trio

import callboard
from callboard.actors.permissions import resolution
from callboard.providers.testing.script import reply
from callboard.runtime.events import (
    ApprovalAnswered,
    ApprovalAsked,
    CallDeferred,
    CallFinished,
    CallStarted,
    DurableEvent,
    InputAccepted,
    InputCancelled,
    TurnEnded,
    TurnResumed,
    TurnStarted,
    TurnSuspended,
)
from callboard.runtime.messages import CancelTurn
from callboard.runtime.store.rows import Append
from callboard.runtime.store.sqlite_store import open_disk_store, open_reader
from support.flows.deferring import (
    ASK,
    LATER,
    Setting,
    ended,
    is_asked,
    killed_in_the_late_turn,
    pending,
    record,
)
from support.waiting import noted

ALLOW = callboard.ApprovalAnswer(decision="allow")
TWICE = reply(calls=[("note", {"text": "one"}), ("note", {"text": "one"})])


async def test_one_answer_is_for_all_calls_that_ask_the_same(tmp_path: Path) -> None:
    setting = Setting(tmp_path)
    async with setting.open([TWICE, *LATER], "wait") as runtime:
        session_id = await pending(runtime)
        rows = await runtime.approvals()
        [leader] = [row for row in rows if not row.same_as]
        assert [row.same_as for row in rows if row.same_as] == [leader.approval_id]
        await runtime.answer(leader.approval_id, "allow")
        await ended(runtime, session_id, 3)
    assert noted(tmp_path) == ["one", "one"]


async def test_a_twin_is_answered_with_its_leader_after_a_restart(tmp_path: Path) -> None:
    setting = Setting(tmp_path)
    async with setting.open([TWICE, *LATER]) as runtime:
        session_id = await pending(runtime)
    asked: list[str] = []

    async def person(request: callboard.ApprovalRequest) -> bool:
        asked.append(request.approval_id)
        return True

    async with setting.open(LATER, person) as runtime:
        await ended(runtime, session_id, 3)
    assert len(asked) == 1
    assert noted(tmp_path) == ["one", "one"]


@pytest.mark.parametrize("is_revoked", [True, False])
async def test_a_revoked_grant_allows_no_deferred_call(tmp_path: Path, is_revoked: bool) -> None:
    setting = Setting(tmp_path)
    other = reply(calls=[("note", {"text": "one"})])
    async with setting.open([ASK, reply("It is pending."), other, *LATER]) as runtime:
        session_id = await pending(runtime)
        session = await runtime.get_session(session_id)
        assert await session.run("Once more.") == "It is pending."
        first, second = reversed(await runtime.approvals())
    remember = callboard.ApprovalAnswer(decision="allow", remember="session")
    async with setting.offline() as runtime:
        await runtime.answer(first.approval_id, remember)
        grant_id = await allowed_by_grant(setting, second.approval_id)
        if is_revoked:
            await runtime.revoke(grant_id, revoked_by="the test")
    async with setting.open(LATER) as runtime:
        events = await ended(runtime, session_id, 4)
    assert noted(tmp_path) == (["one"] if is_revoked else ["one", "one"])
    voided = [
        e.approval_id for e in events if isinstance(e, ApprovalAnswered) if e.decision == "void"
    ]
    assert voided == ([second.approval_id] if is_revoked else [])
    if is_revoked:  # it is asked about anew, and the model knows
        [again] = [e for e in events if isinstance(e, CallDeferred)][2:]
        assert again.call_id == second.call_id
        assert again.approval_id in setting.inputs(-1)[-1]


async def allowed_by_grant(setting: Setting, approval_id: str) -> str:
    """The grant that answers a question, once it has."""
    assert setting.data is not None
    reader = await open_reader(setting.data)
    try:
        while await reader.approvals(approval_id=approval_id, state="waiting"):  # noqa: ASYNC110  as ever
            await trio.sleep(0.01)
        [row] = await reader.approvals(approval_id=approval_id)
        [grant] = await reader.grants()
        assert row.answered_by == f"grant {grant.grant_id}"
        return grant.grant_id
    finally:
        await reader.aclose()


@pytest.mark.parametrize("has_started", [True, False])
async def test_a_crash_in_the_late_turn_repeats_nothing(tmp_path: Path, has_started: bool) -> None:
    """Started: its outcome is unknown. Allowed and not started: it is asked about anew."""
    setting = Setting(tmp_path)
    async with setting.open([ASK, *LATER]) as runtime:
        session_id = await pending(runtime)
        [row] = await runtime.approvals()
    async with setting.offline() as runtime:
        await runtime.answer(row.approval_id, ALLOW)
    await begin_late_turn(setting, session_id, row.approval_id if has_started else "")
    async with setting.open(LATER, None) as runtime:
        events = await ended(runtime, session_id, 2)
        waiting = await runtime.approvals()
    assert noted(tmp_path) == []
    finished = [e for e in events if isinstance(e, CallFinished) and e.name == "note"]
    if has_started:
        assert waiting == []
        assert [e.status for e in finished] == ["interrupted"]
        assert isinstance(events[-1], TurnEnded)
        assert events[-1].outcome == "failed"
        async with setting.open([reply("I see.")]) as runtime:
            await (await runtime.get_session(session_id)).run("Well?")
        assert "was interrupted" in setting.inputs(-1)[1]
    else:
        assert finished == []
        [again] = waiting
        assert again.call_id == row.call_id
        assert again.approval_id != row.approval_id
        assert [type(e) for e in events].count(TurnSuspended) == 1
        assert again.approval_id in setting.inputs(0)[1]
        async with setting.open(LATER) as runtime:
            await runtime.answer(again.approval_id, "allow")
            await ended(runtime, session_id, 3)
        assert noted(tmp_path) == ["one"]


async def begin_late_turn(setting: Setting, session_id: str, started_by: str) -> None:
    """What a process puts on record that is killed in the late turn."""
    assert setting.data is not None
    store = await open_disk_store(setting.data)
    [waiting] = await store.open_inputs(session_id)
    turn = TurnStarted(turn_id="late", input_ids=(waiting.input_id,), provider="p", model="m")
    events: list[DurableEvent] = [turn]
    if started_by:
        [row] = await store.approvals(approval_id=started_by)
        events.append(
            CallStarted(
                turn_id="late", call_id=row.call_id, approval_id=row.approval_id, digest=row.digest
            )
        )
    stored = await store.commit([Append(session_id, tuple(events))])
    assert isinstance(stored[0], tuple)
    await store.aclose()


async def test_a_killed_process_runs_a_deferred_call_once_at_most(tmp_path: Path) -> None:
    session_id = await trio.to_thread.run_sync(killed_in_the_late_turn, tmp_path)
    setting = Setting(tmp_path)
    async with setting.open([reply("I see.")]) as runtime:
        session = await runtime.get_session(session_id)
        assert await session.run("Well?") == "I see."
        events = await record(runtime, session_id)
    assert (tmp_path / "began").read_text() == "began\n"
    [finished] = [e for e in events if isinstance(e, CallFinished)]
    assert finished.status == "interrupted"
    assert "was interrupted" in setting.inputs(0)[1]


async def test_a_late_turn_can_be_followed(tmp_path: Path) -> None:
    setting = Setting(tmp_path)
    async with setting.open([ASK, *LATER]) as runtime:
        session_id = await pending(runtime)
        [row] = await runtime.approvals()
    async with setting.offline() as runtime:
        await runtime.answer(row.approval_id, ALLOW)
    async with setting.open([reply("Done at last.")]) as runtime:
        session = await runtime.get_session(session_id)
        turn = await session.resume()
        assert turn is not None
        async with turn:
            assert await turn.answer() == "Done at last."
        assert await session.resume() is None


async def test_a_cancelled_turn_keeps_its_deferred_questions(tmp_path: Path) -> None:
    setting = Setting(tmp_path)
    steps = [reply(calls=[("note", {"text": "one"}), ("ask", {})]), *LATER[1:]]
    async with setting.open(steps, "wait") as runtime:
        session = await runtime.create_session()
        async with session.prompt("Go.") as turn:
            async for event in turn:
                if isinstance(event, CallDeferred) and event.name == "note":
                    break
        [row] = [row for row in await runtime.approvals() if row.tool == "note"]
        await runtime.answer(row.approval_id, "allow")
        await ended(runtime, session.session_id, 2)
    assert noted(tmp_path) == ["one"]


async def test_an_input_that_is_cancelled_ends_its_call(tmp_path: Path) -> None:
    """While another turn runs, the late answer waits, and is taken back."""
    setting = Setting(tmp_path)
    hold = trio.Event()

    @callboard.tool
    async def busy() -> None:
        """Holds the turn."""
        await hold.wait()

    steps = [ASK, LATER[0], reply(calls=[("busy", {})]), reply("Free.")]
    async with setting.open(steps, "wait", tools=[*setting.tools, busy]) as runtime:
        session_id = await pending(runtime)
        [row] = await runtime.approvals()
        session = await runtime.get_session(session_id)
        async with session.prompt("Be busy.") as turn:
            await runtime.answer(row.approval_id, "allow")
            inputs = await runtime.store.open_inputs(session_id)
            [late] = [each for each in inputs if each.approval_id]
            cancel = CancelTurn(session_id=session_id, reason="no more", input_id=late.input_id)
            assert await runtime._host.directory.ask(cancel)
            hold.set()
            assert await turn.answer() == "Free."
        events = await record(runtime, session_id)
        [kept] = await runtime.approvals(state=None)
        assert await runtime.store.open_inputs(session_id) == []
    assert kept.state == "void"
    assert [e.input_id for e in events if isinstance(e, InputCancelled)] == [late.input_id]
    [finished] = [e for e in events if isinstance(e, CallFinished) and e.name == "note"]
    assert finished.status == "cancelled"
    assert noted(tmp_path) == []


async def test_so_many_may_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resolution, "MAX_DEFERRED", 2)
    setting = Setting(tmp_path)
    calls = [("note", {"text": str(number)}) for number in range(3)]
    async with setting.open([reply(calls=calls), *LATER], "wait") as runtime:
        session_id = await pending(runtime)
        assert len(await runtime.approvals()) == 2
        events = await record(runtime, session_id)
    [refused] = [e for e in events if isinstance(e, CallFinished)]
    assert refused.status == "denied"
    assert "wait for an answer already" in json.loads(refused.result)["message"]


async def test_a_runtime_that_closes_suspends_a_turn_that_waits_for_people(tmp_path: Path) -> None:
    setting = Setting(tmp_path)
    running = trio.Event()

    @callboard.tool
    async def work() -> None:
        """Works for ever."""
        running.set()
        await trio.sleep_forever()

    tools = [*setting.tools, work]
    steps = [reply(calls=[("note", {"text": "one"}), ("work", {})])]
    async with setting.open(steps, "wait", agents=[], tools=tools) as runtime:
        session = await runtime.create_session()
        turn = session.prompt("Go.")
        await turn.__aenter__()
        await running.wait()
        rows = await is_asked(runtime)
    with pytest.raises(callboard.CallboardError, match="suspended"):
        await turn.answer()
    async with setting.open([reply("Done.")], "allow", agents=[], tools=tools) as runtime:
        assert await runtime.approvals() == rows
        session = await runtime.get_session(session.session_id)
        again = await session.resume()
        assert again is not None
        async with again:
            assert await again.answer() == "Done."
        events = await record(runtime, session.session_id)
    assert noted(tmp_path) == ["one"]
    assert sum(isinstance(e, ApprovalAsked) for e in events) == 1
    statuses = {e.name: e.status.value for e in events if isinstance(e, CallFinished)}
    assert statuses == {"work": "cancelled", "note": "success"}
    kinds = [type(e) for e in events]
    assert kinds.index(TurnSuspended) < kinds.index(TurnResumed)


async def test_a_runtime_that_closes_cancels_a_turn_that_waits_for_nobody(tmp_path: Path) -> None:
    """The control; and what was deferred waits on."""
    setting = Setting(tmp_path)

    @callboard.tool
    async def work() -> None:
        """Works for ever."""
        await trio.sleep_forever()

    steps = [reply(calls=[("note", {"text": "one"}), ("work", {})])]
    async with setting.open(steps, tools=[*setting.tools, work]) as runtime:
        session = await runtime.create_session()
        await session.prompt("Go.").__aenter__()
        await is_asked(runtime)
    async with setting.open(LATER) as runtime:
        events = await record(runtime, session.session_id)
        [ended_turn] = [e for e in events if isinstance(e, TurnEnded)]
        assert ended_turn.outcome == "cancelled"
        [row] = await runtime.approvals()
        await runtime.answer(row.approval_id, "allow")
        events = await ended(runtime, session.session_id, 2)
    assert noted(tmp_path) == ["one"]
    assert sum(isinstance(e, InputAccepted) for e in events) == 2
