"""Deferred approvals: the turn goes on, and a late answer starts a turn of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

import pytest
import trio

import callboard
from callboard.config.policy.rules import PlacedRule, Rule
from callboard.config.settings import Limits, Settings
from callboard.providers.testing.script import reply
from callboard.runtime.definitions import InputSource, Verdict
from callboard.runtime.errors import ConflictError
from callboard.runtime.events import (
    ApprovalAnswered,
    ApprovalAsked,
    CallDeferred,
    CallFinished,
    InputAccepted,
    TurnStarted,
)
from support.flows.deferring import ASK, LATER, Setting, changed, ended, pending, record
from support.stage import messages_of, on_both_stores
from support.waiting import noted
from support.waits import leap, set_wall_clock_ahead


@on_both_stores
@pytest.mark.parametrize("decision", ["allow", "deny"])
async def test_a_late_answer_starts_a_turn_by_itself(
    tmp_path: Path, store: str, decision: Literal["allow", "deny"]
) -> None:
    setting = Setting(tmp_path, store)
    async with setting.open([ASK, *LATER], "wait") as runtime:
        session_id = await pending(runtime)
        assert noted(tmp_path) == []
        [row] = await runtime.approvals()
        assert row.is_deferred
        [call] = await runtime.store.calls(name="note")
        assert call.status == "deferred"
        result = json.loads(messages_of(setting.model.requests[1])[-2]["content"])
        assert (result["status"], result["approval_id"]) == ("pending_approval", row.approval_id)
        await runtime.answer(row.approval_id, decision)
        with pytest.raises(ConflictError):
            await runtime.answer(row.approval_id, "allow")
        events = await ended(runtime, session_id, 2)
    assert noted(tmp_path) == (["one"] if decision == "allow" else [])
    said = setting.inputs(2)
    assert said[0] == "Go."
    assert row.approval_id in said[1]
    assert ("has run" if decision == "allow" else "did not run") in said[1]
    late = [e for e in events if isinstance(e, InputAccepted) and e.source is InputSource.DEFERRED]
    assert [(e.call_id, e.approval_id) for e in late] == [(call.call_id, row.approval_id)]
    finished = [e for e in events if isinstance(e, CallFinished) and e.name == "note"]
    assert [e.status for e in finished] == ["success" if decision == "allow" else "denied"]
    deferred = [e for e in events if isinstance(e, CallDeferred)]
    turns = [e.turn_id for e in events if isinstance(e, TurnStarted)]
    assert (deferred[0].turn_id, finished[0].turn_id) == (turns[0], turns[1])


async def test_a_rule_defers_one_kind_of_call(tmp_path: Path) -> None:
    rule = Rule(verdict=Verdict.ASK, tool="note", defer=True, reason="Notes can wait.")
    settings = Settings(rules=(PlacedRule(rule, "rules[1]"),))
    setting = Setting(tmp_path)
    steps = [reply(calls=[("note", {"text": "one"}), ("ask", {})]), *LATER]
    async with setting.open(steps, asked_now, agents=[], settings=settings) as runtime:
        session_id = await pending(runtime)
        events = await record(runtime, session_id)
    asked = {e.name: e.is_deferred for e in events if isinstance(e, ApprovalAsked)}
    assert asked == {"note": True, "ask": False}


async def asked_now(request: callboard.ApprovalRequest) -> bool:
    if request.is_deferred:
        await trio.sleep_forever()
    return True


async def test_whoever_is_asked_may_answer_later(tmp_path: Path) -> None:
    """The approver is asked meanwhile, and nothing waits for it."""
    may_answer = trio.Event()

    async def person(request: callboard.ApprovalRequest) -> bool:
        assert request.is_deferred
        assert "turn" not in request.scopes
        await may_answer.wait()
        return True

    setting = Setting(tmp_path)
    async with setting.open([ASK, *LATER], person) as runtime:
        session_id = await pending(runtime)
        other = await runtime.create_session()
        assert await other.run("Hello.") == "Now it is done."
        may_answer.set()
        await ended(runtime, session_id, 2)
    assert noted(tmp_path) == ["one"]


@pytest.mark.parametrize("way", ["the same program", "another", "while nothing ran"])
async def test_an_answer_after_a_restart_starts_it_too(tmp_path: Path, way: str) -> None:
    setting = Setting(tmp_path)
    async with setting.open([ASK, *LATER]) as runtime:  # nobody to ask: it waits on record
        session_id = await pending(runtime)
        [row] = await runtime.approvals()
    if way == "while nothing ran":
        async with setting.offline() as runtime:
            await runtime.answer(row.approval_id, callboard.ApprovalAnswer(decision="allow"))
        assert noted(tmp_path) == []
    person: Literal["allow"] | None = "allow" if way == "the same program" else None
    async with setting.open([reply("Done at last.")], person) as runtime:
        if way == "another":
            await runtime.answer(row.approval_id, "allow")
        events = await ended(runtime, session_id, 2)
        assert await runtime.approvals() == []
        assert (await runtime.approvals(state=None))[0].approval_id == row.approval_id
    assert noted(tmp_path) == ["one"]
    assert sum(isinstance(e, ApprovalAsked) for e in events) == 1
    async with setting.open([reply("Hello.")]) as runtime:
        session = await runtime.get_session(session_id)
        assert await session.resume() is None
        assert await session.run("Hello?") == "Hello."
    assert noted(tmp_path) == ["one"]


@pytest.mark.parametrize("is_open", [True, False])
async def test_silence_is_a_denial_that_is_delivered(
    tmp_path: Path,
    is_open: bool,
    monkeypatch: pytest.MonkeyPatch,
    leaping_clock: trio.testing.MockClock,
) -> None:
    settings = Settings(limits=Limits(deferred_seconds=600.0))
    setting = Setting(tmp_path)
    async with setting.open([ASK, *LATER], settings=settings) as runtime:
        session_id = await pending(runtime)
        [row] = await runtime.approvals()
        assert row.expires_at_ms - row.asked_at_ms <= 600_000
        if is_open:
            set_wall_clock_ahead(monkeypatch, 600.0)
            while await runtime.approvals():  # it is asked a little after it stands on record
                leap(600.0)
                await trio.sleep(0.01)
        events = await ended(runtime, session_id, 2 if is_open else 1)
    if not is_open:
        set_wall_clock_ahead(monkeypatch, 600.0)
        async with setting.open([reply("Too late.")]) as runtime:
            events = await ended(runtime, session_id, 2)
    [answer] = [e for e in events if isinstance(e, ApprovalAnswered)]
    assert answer.decision == "expired"
    [denied] = [e for e in events if isinstance(e, CallFinished) and e.name == "note"]
    assert json.loads(denied.result)["error_type"] == "approval_expired"
    assert "did not run" in setting.inputs(-1)[1]
    assert noted(tmp_path) == []


async def test_changed_arguments_of_a_higher_tier_are_asked_about(tmp_path: Path) -> None:
    setting = Setting(tmp_path)
    steps = [reply(calls=[("reach", {"far": 1})]), *LATER]
    async with setting.open(steps, "wait") as runtime:
        session_id = await pending(runtime)
        [first] = await runtime.approvals()
        assert first.tier == "system"
        await runtime.answer(first.approval_id, changed({"far": 9}))
        [second] = await runtime.approvals()
        assert second.approval_id != first.approval_id
        assert (second.tier, second.arguments) == ("elevated", '{"far":9}')
        assert second.is_deferred
        turns = [e for e in await record(runtime, session_id) if isinstance(e, TurnStarted)]
        assert len(turns) == 1  # the model hears nothing of it
        await runtime.answer(second.approval_id, "allow")
        events = await ended(runtime, session_id, 2)
    [finished] = [e for e in events if isinstance(e, CallFinished)]
    assert finished.arguments == '{"far":9}'
    assert json.loads(finished.result)["arguments"] == {"far": 9}
    decisions = [e.decision for e in events if isinstance(e, ApprovalAnswered)]
    assert decisions == ["revised", "allow"]
    assert second.approval_id in setting.inputs(-1)[1]
