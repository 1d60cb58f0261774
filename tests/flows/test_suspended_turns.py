"""A process is killed while a person is asked: the questions wait, and the turn goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

import pytest
import trio

import callboard
from callboard.providers.testing.script import reply
from callboard.runtime.errors import ConflictError
from callboard.runtime.events import (
    ApprovalAnswered,
    ApprovalAsked,
    CallFinished,
    CallStarted,
    DurableEvent,
    TurnEnded,
    TurnResumed,
    TurnSuspended,
)
from callboard.runtime.messages import AppendEvents
from support.stage import check_record, read_result
from support.waiting import go_on, killed_while_waiting, noted, open_on, questions
from support.waits import set_wall_clock_ahead

DONE = [reply("Done."), reply("Hello.")]
ONE, TWO = '{"text":"one"}', '{"text":"two"}'


class Person:
    """Answers as told, and keeps what was asked; a text without an answer waits for ever."""

    def __init__(self, **answers: Literal["allow", "deny"]) -> None:
        self.answers = answers
        self.asked: dict[str, str] = {}

    async def __call__(self, request: callboard.ApprovalRequest) -> Literal["allow", "deny"]:
        self.asked[request.arguments] = request.approval_id
        text = json.loads(request.arguments)["text"]
        if text not in self.answers:
            await trio.sleep_forever()
        return self.answers[text]


async def record(runtime: callboard.Runtime, session_id: str) -> list[DurableEvent]:
    stored = await runtime.store.events(session_id)
    check_record(stored)
    return [each.event for each in stored]


async def test_it_is_asked_again_by_the_same_id_and_runs_once(tmp_path: Path) -> None:
    session_id = killed_while_waiting(tmp_path)
    waiting = await questions(tmp_path)
    assert waiting.keys() == {ONE, TWO}
    person = Person(one="allow", two="deny")
    async with open_on(tmp_path, DONE, person) as runtime:
        assert len(await runtime.approvals()) == 2
        events = await go_on(runtime, session_id)
        assert person.asked == waiting
        assert isinstance(events[0], TurnResumed)
        assert set(events[0].approval_ids) == set(waiting.values())
        assert isinstance(events[-1], TurnEnded)
        assert events[-1].outcome == "answered"
        kept = await record(runtime, session_id)
    assert noted(tmp_path) == ["one"]
    assert [type(e) for e in kept].count(ApprovalAsked) == 2
    assert [type(e) for e in kept].count(TurnSuspended) == 1
    started = [e.approval_id for e in kept if isinstance(e, CallStarted) and e.approval_id]
    assert started == [waiting[ONE]]
    async with open_on(tmp_path, DONE, Person()) as runtime:
        session = await runtime.get_session(session_id)
        assert await session.resume() is None
        assert await session.run("Anything else?") == "Done."
    assert noted(tmp_path) == ["one"]


async def test_answers_given_meanwhile_are_kept(tmp_path: Path) -> None:
    session_id = killed_while_waiting(tmp_path)
    waiting = await questions(tmp_path)
    edited = callboard.ApprovalAnswer(decision="allow", arguments='{"text": "changed"}')
    async with open_on(tmp_path, DONE, Person()) as runtime:
        await runtime.answer(waiting[ONE], "allow")
        with pytest.raises(ConflictError, match="not open"):
            await runtime.answer(waiting[ONE], "deny")
        wrong = callboard.ApprovalAnswer(decision="allow", arguments='{"text": 3}')
        with pytest.raises(callboard.CallboardError, match="text"):
            await runtime.answer(waiting[TWO], wrong)
        await runtime.answer(waiting[TWO], edited)
        assert await runtime.approvals() == []
    assert noted(tmp_path) == []  # an answer alone runs nothing
    nobody = Person()
    async with open_on(tmp_path, DONE, nobody) as runtime:
        events = await go_on(runtime, session_id)
    assert nobody.asked == {}
    assert noted(tmp_path) == ["changed", "one"]
    results = {e.arguments: read_result(e) for e in events if isinstance(e, CallFinished)}
    assert "arguments" not in results[ONE]
    assert results['{"text":"changed"}']["arguments"] == {"text": "changed"}


async def test_a_prompt_waits_behind_the_suspended_turn(tmp_path: Path) -> None:
    session_id = killed_while_waiting(tmp_path)
    person = Person(one="allow", two="allow")
    async with open_on(tmp_path, DONE, person) as runtime:
        session = await runtime.get_session(session_id)
        assert await session.run("And now?") == "Hello."
        kept = await record(runtime, session_id)
    ends = [e.outcome for e in kept if isinstance(e, TurnEnded)]
    assert ends == ["answered", "answered"]
    assert noted(tmp_path) == ["one", "two"]


async def test_time_goes_on_while_nobody_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session_id = killed_while_waiting(tmp_path, seconds=600.0)
    waiting = await questions(tmp_path)
    set_wall_clock_ahead(monkeypatch, 600.0)
    async with open_on(tmp_path, DONE, Person(one="allow", two="allow")) as runtime:
        with pytest.raises(ConflictError, match="expired"):
            await runtime.answer(waiting[ONE], "allow")
        events = await go_on(runtime, session_id)
    finished = [e for e in events if isinstance(e, CallFinished)]
    assert [read_result(e)["error_type"] for e in finished] == ["approval_expired"] * 2
    assert noted(tmp_path) == []


async def test_under_another_policy_it_is_another_question(tmp_path: Path) -> None:
    session_id = killed_while_waiting(tmp_path)
    waiting = await questions(tmp_path)
    async with open_on(tmp_path, DONE, Person()) as runtime:
        await runtime.answer(waiting[ONE], "allow")
    person = Person(one="deny", two="deny")
    async with open_on(tmp_path, DONE, person, policy="strict") as runtime:
        await go_on(runtime, session_id)
        kept = await record(runtime, session_id)
    assert person.asked.keys() == {ONE, TWO}
    assert set(person.asked.values()).isdisjoint(waiting.values())
    answered = {e.approval_id: e.decision for e in kept if isinstance(e, ApprovalAnswered)}
    assert answered[waiting[TWO]] == "withdrawn"
    assert noted(tmp_path) == []


async def test_what_was_allowed_and_not_started_is_asked_anew(tmp_path: Path) -> None:
    """As if the process ended between the answer and the start."""
    session_id = killed_while_waiting(tmp_path)
    waiting = await questions(tmp_path)
    async with open_on(tmp_path, DONE, Person()) as runtime:
        await runtime.answer(waiting[ONE], "allow")
        session = await runtime.store.session(session_id)
        assert session is not None
        (turn,) = await runtime.store.open_turns()
        assert turn.is_suspended
        resumed = TurnResumed(turn_id=turn.turn_id)
        await runtime._host.journal.ask(AppendEvents(session_id=session_id, events=(resumed,)))
    person = Person(one="allow", two="deny")
    async with open_on(tmp_path, DONE, person) as runtime:
        await go_on(runtime, session_id)
        kept = await record(runtime, session_id)
    assert person.asked[ONE] != waiting[ONE]
    assert person.asked[TWO] == waiting[TWO]
    voided = [e for e in kept if isinstance(e, ApprovalAnswered) and e.decision == "void"]
    assert [e.approval_id for e in voided] == [waiting[ONE]]
    assert noted(tmp_path) == ["one"]


async def test_leaving_the_resumed_turn_cancels_it(tmp_path: Path) -> None:
    session_id = killed_while_waiting(tmp_path)
    async with open_on(tmp_path, DONE, Person()) as runtime:
        session = await runtime.get_session(session_id)
        turn = await session.resume()
        assert turn is not None
        async with turn:
            pass
        assert await runtime.approvals() == []
        kept = await record(runtime, session_id)
    assert isinstance(kept[-1], TurnEnded)
    assert kept[-1].outcome == "cancelled"
    assert noted(tmp_path) == []
