"""A process ends while a person is asked by `ask_user`: the question waits, and the turn goes on."""

from __future__ import annotations

import shutil
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

import callboard
from callboard.cli.approvals.list import _show_approvals
from callboard.cli.run.pending import check_answered
from callboard.config.settings import Limits, Settings
from callboard.providers.testing.script import reply
from callboard.runtime.channel import UserQuestion
from callboard.runtime.errors import ConflictError, NotFoundError
from callboard.runtime.events import (
    CallFinished,
    QuestionAnswered,
    QuestionAsked,
    Stored,
    TurnEnded,
    TurnResumed,
    TurnSuspended,
)
from callboard.runtime.store.sqlite_store import open_reader
from callboard.runtime.wire.approvals import AnswerQuestion, ListQuestions, QuestionList
from callboard.runtime.wire.fields import Nothing
from support.gateway.daemon_scene import open_client, open_daemon
from support.stage import check_record, open_in, read_result
from support.waiting import go_on
from support.waits import set_wall_clock_ahead

WHICH = ("ask_user", {"question": "Which door?", "options": ["left", "right"]})
ASKS = [reply(calls=[WHICH])]
DONE = [reply("In.")]


class Desk(callboard.Channel):
    """Answers as told, or thinks for ever."""

    def __init__(self, answer: str = "") -> None:
        self.answer = answer
        self.asked: list[UserQuestion] = []
        self.is_asked = trio.Event()

    async def ask(self, question: UserQuestion) -> str:
        self.asked.append(question)
        self.is_asked.set()
        if not self.answer:
            await trio.sleep_forever()
        return self.answer


@asynccontextmanager
async def asking(
    folder: Path, seconds: float = 600.0
) -> AsyncGenerator[tuple[callboard.Runtime, callboard.Session, UserQuestion]]:
    """A runtime whose model has asked, until the block ends."""
    desk = Desk()
    settings = Settings(limits=Limits(approval_seconds=seconds))
    async with trio.open_nursery() as nursery:
        async with open_in(folder, ASKS, "disk", channel=desk, settings=settings) as runtime:
            session = await runtime.create_session()
            nursery.start_soon(prompt, session)
            await desk.is_asked.wait()
            yield runtime, session, desk.asked[0]


async def prompt(session: callboard.Session) -> None:
    with trio.CancelScope() as scope:  # noqa: ASYNC912
        try:
            async with session.prompt("Go in.") as turn:
                async for _ in turn:
                    pass
        except ConflictError:  # suspended
            scope.cancel("over")


async def left_by_a_stop(folder: Path, seconds: float = 600.0) -> UserQuestion:
    async with asking(folder, seconds) as (_, _, question):
        pass
    return question


async def left_by_a_crash(folder: Path, seconds: float = 600.0) -> UserQuestion:
    """What a process that is killed leaves: its data as they are while it asks."""
    async with asking(folder, seconds) as (_, _, question):
        shutil.copytree(folder / "data", folder / "killed")
    shutil.rmtree(folder / "data")
    (folder / "killed").rename(folder / "data")
    return question


async def kinds(runtime: callboard.Runtime, session_id: str) -> list[type]:
    stored = await runtime.store.events(session_id)
    check_record(stored)
    return [type(each.event) for each in stored]


@pytest.mark.parametrize("leave", [left_by_a_stop, left_by_a_crash], ids=["stop", "crash"])
async def test_it_is_asked_again_by_the_same_id_and_answered_once(
    tmp_path: Path, leave: Callable[[Path], Awaitable[UserQuestion]]
) -> None:
    question = await leave(tmp_path)
    desk = Desk("right")
    async with open_in(tmp_path, DONE, "disk", channel=desk) as runtime:
        events = await go_on(runtime, question.session_id)
        kept = await kinds(runtime, question.session_id)
    assert [each.question_id for each in desk.asked] == [question.question_id]
    [resumed] = [each for each in events if isinstance(each, TurnResumed)]
    assert resumed.approval_ids == (question.question_id,)
    [result] = [each for each in events if isinstance(each, CallFinished)]
    assert read_result(result)["result"] == {"answer": "right", "option": 1}
    assert isinstance(events[-1], TurnEnded)
    assert events[-1].outcome == "answered"
    for kind in (QuestionAsked, QuestionAnswered, TurnSuspended):
        assert kept.count(kind) == 1


async def test_an_answer_by_id_is_kept_until_the_turn_goes_on(tmp_path: Path) -> None:
    question = await left_by_a_stop(tmp_path)
    async with open_in(tmp_path, DONE, "disk", channel=Desk()) as runtime:
        assert [each.question for each in await runtime.questions()] == ["Which door?"]
        with pytest.raises(callboard.CallboardError, match="there is no 7"):
            await runtime.answer_question(
                question.question_id, callboard.PersonAnswer(text="", option=7)
            )
        await runtime.answer_question(question.question_id, "left")
        assert await runtime.questions() == []
        with pytest.raises(ConflictError, match="not open"):
            await runtime.answer_question(question.question_id, "right")
    desk = Desk("right")
    async with open_in(tmp_path, DONE, "disk", channel=desk) as runtime:
        with pytest.raises(NotFoundError):
            await runtime.answer_question(question.question_id, "right")
        events = await go_on(runtime, question.session_id)
        kept = await kinds(runtime, question.session_id)
    assert desk.asked == []
    [result] = [each for each in events if isinstance(each, CallFinished)]
    assert read_result(result)["result"] == {"answer": "left", "option": 0}
    assert kept.count(QuestionAnswered) == 1


async def test_time_goes_on_while_nobody_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    question = await left_by_a_stop(tmp_path, seconds=600.0)
    set_wall_clock_ahead(monkeypatch, 600.0)
    async with open_in(tmp_path, DONE, "disk", channel=Desk()) as runtime:
        assert await runtime.questions() == []
        events = await go_on(runtime, question.session_id)
    [result] = [each for each in events if isinstance(each, CallFinished)]
    assert read_result(result)["error_type"] == "approval_expired"


async def test_a_turn_that_a_person_cancels_leaves_no_question(tmp_path: Path) -> None:
    async with asking(tmp_path) as (runtime, session, question):
        await session.cancel("no more")
        assert await runtime.questions() == []
        with pytest.raises(ConflictError):
            await runtime.answer_question(question.question_id, "left")
        assert TurnSuspended not in await kinds(runtime, session.session_id)


async def test_a_daemon_lists_it_and_goes_on_with_an_answer(tmp_path: Path) -> None:
    question = await left_by_a_stop(tmp_path)
    data, work = tmp_path / "data", tmp_path / "work"
    async with (
        open_daemon(callboard.ScriptedModel(DONE), data=data, workspace=work) as daemon,
        open_client(daemon) as client,
    ):
        listed = await client.request("question/list", ListQuestions(), QuestionList)
        assert [each.question_id for each in listed.questions] == [question.question_id]
        async with client.events(question.session_id) as events:
            params = AnswerQuestion(question_id=question.question_id, option=1)
            await client.request("question/answer", params, Nothing)
            async for each in events:
                if isinstance(each, Stored) and isinstance(each.event, TurnEnded):
                    break
        listed = await client.request("question/list", ListQuestions(), QuestionList)
        assert listed.questions == []


async def test_the_command_line_lists_it_and_asks_nobody_without_a_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    question = await left_by_a_stop(tmp_path)
    name, session_id = question.question_id, question.session_id
    assert await _show_approvals(tmp_path / "data", None, False, False) == 0
    assert capsys.readouterr().out == f"{name}  waiting  ask_user  {session_id}  Which door?\n"
    reader = await open_reader(tmp_path / "data")
    with pytest.raises(ConflictError, match=f"{name} in {session_id} waits"):
        await check_answered(reader, session_id)
    await reader.aclose()
