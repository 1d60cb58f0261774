"""A session that goes on from a message of another one."""

from __future__ import annotations

from pathlib import Path

import pytest

import callboard
from callboard.providers.testing.script import Step, reply
from callboard.runtime.definitions import CallStatus
from callboard.runtime.errors import ConflictError, NotFoundError
from callboard.runtime.store.rows import MessageRow
from support.stage import Messages, Stage, on_both_stores, open_stage

CLOCK: tuple[str, dict[str, str]] = ("get_current_time", {})


def said(messages: Messages) -> list[tuple[str, object]]:
    """Who said what, behind the prompt of the agent."""
    return [(message["role"], message["content"]) for message in messages[1:]]


async def rows_of(session: callboard.Session) -> dict[str, MessageRow]:
    return {row.content: row for row in await session.messages()}


@on_both_stores
async def test_another_question_is_asked_in_the_place_of_one(tmp_path: Path, store: str) -> None:
    steps: list[Step] = [reply("One."), reply("Two."), reply("Other.")]
    async with open_stage(tmp_path, steps, store=store) as stage:
        session = await stage.runtime.create_session(title="Numbers")
        await session.run("Say one.")
        await session.run("Say two.")
        asked = (await rows_of(session))["Say two."]
        fork = await session.fork(asked.message_id)
        assert await fork.run("Say other.") == "Other."
        assert said(stage.sent[2]) == [
            ("user", "Say one."),
            ("assistant", "One."),
            ("user", "Say other."),
        ]
        assert [row.content for row in await session.messages()] == [
            *("Say one.", "One.", "Say two.", "Two."),
        ]
        row = await stage.runtime.store.session(fork.session_id)
        assert row is not None
        assert (row.title, row.forked_from) == ("Numbers", session.session_id)


@pytest.mark.parametrize("which", ["call", "result", "answer"])
async def test_it_goes_on_behind_an_answer_and_the_results_of_its_calls(
    tmp_path: Path, which: str
) -> None:
    """Whichever message of them is named, no call is left without its result."""
    steps: list[Step] = [reply("I look.", calls=[CLOCK, CLOCK]), reply("Noon."), reply("Thanks.")]
    async with open_stage(tmp_path, steps) as stage:
        session = await stage.runtime.create_session()
        await session.run("What time is it?")
        types = {"call": "tool_call", "result": "tool_result", "answer": "assistant"}
        named = next(row for row in await session.messages() if row.type == types[which])
        fork = await session.fork(named.message_id)
        assert await fork.run("Enough.") == "Thanks."
        roles = [message["role"] for message in stage.sent[2][1:]]
        assert roles == ["user", "assistant", "tool", "tool", "user"]
        kept = await fork.messages()
        assert [row.tool_status for row in kept if row.type == "tool_result"] == [
            CallStatus.SUCCESS,
            CallStatus.SUCCESS,
        ]
        assert [turn.session_id for turn in await stage.runtime.store.open_turns()] == []


async def _forked_while_it_runs(stage: Stage, session: callboard.Session) -> list[str]:
    async with session.prompt("Say two.") as turn:
        async for event in turn:
            if isinstance(event, callboard.CallProposed):
                fork = await session.fork()
                return [row.content for row in await fork.messages()]
    raise AssertionError("no call came")


async def test_without_a_message_it_goes_on_from_the_end_of_the_last_turn(tmp_path: Path) -> None:
    steps: list[Step] = [reply("One."), reply(calls=[CLOCK]), reply("Two.")]
    async with open_stage(tmp_path, steps) as stage:
        session = await stage.runtime.create_session()
        await session.run("Say one.")
        assert await _forked_while_it_runs(stage, session) == ["Say one.", "One."]


async def test_what_it_cost_is_counted_where_it_ran(tmp_path: Path) -> None:
    async with open_stage(tmp_path, [reply("One."), reply("Two.")]) as stage:
        session = await stage.runtime.create_session()
        await session.run("Say one.")
        fork = await session.fork()
        before = (await fork.usage()).total
        assert before.calls == 0
        await fork.run("Say two.")
        assert (await fork.usage()).total.calls == 1
        assert (await stage.runtime.usage()).total.calls == 2
        tokens = [row.input_tokens for row in await fork.messages() if row.type == "assistant"]
        assert None not in tokens


async def test_what_taints_a_session_taints_its_fork(tmp_path: Path) -> None:
    async with open_stage(tmp_path, [reply("One."), reply("Two.")]) as stage:
        session = await stage.runtime.create_session()
        await session.run("Say one.")
        clean = await session.fork()
        async with session.prompt("What strangers wrote.", is_untrusted=True) as turn:
            await turn.answer()
        tainted = await session.fork()
        rows = [
            await stage.runtime.store.session(each.session_id) for each in (clean, tainted, session)
        ]
        assert [row is not None and row.is_tainted for row in rows] == [False, True, True]


async def test_nobody_is_asked_again_and_nothing_runs_again(tmp_path: Path) -> None:
    asked: list[str] = []

    async def person(request: callboard.ApprovalRequest) -> bool:
        asked.append(request.tool)
        return True

    call = ("write_file", {"path": "a.txt", "content": "a"})
    steps: list[Step] = [reply(calls=[call]), reply("Done."), reply("Fine.")]
    async with open_stage(tmp_path, steps, on_approval=person, policy="strict") as stage:
        session = await stage.runtime.create_session()
        await session.run("Write a.")
        (stage.workspace / "a.txt").unlink()
        fork = await session.fork()
        await fork.run("And now?")
        assert asked == ["write_file"]
        assert not (stage.workspace / "a.txt").exists()
        assert await fork.changes() == []
        assert len(await session.changes()) == 1


async def test_what_can_not_be_forked_is_said(tmp_path: Path) -> None:
    async with open_stage(tmp_path, [reply("One.")]) as stage:
        session = await stage.runtime.create_session()
        await session.run("Say one.")
        with pytest.raises(NotFoundError, match="no message nothing"):
            await session.fork("nothing")
        await session.delete()
        with pytest.raises(ConflictError, match="restore it first"):
            await session.fork()
        await session.restore()
        assert await (await session.fork()).messages()
