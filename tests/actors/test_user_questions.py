"""Questions that an earlier process left open, while their turn is resumed."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
import trio
import trio.testing

from callboard.actors.people.lineage import Served
from callboard.actors.people.user_questions import UserQuestions
from callboard.config.settings import Limits
from callboard.runtime.channel import Channel, UserQuestion
from callboard.runtime.errors import ConflictError, NotFoundError
from callboard.runtime.events import QuestionAnswered, QuestionAsked
from callboard.runtime.history import Call
from callboard.runtime.identity import now_ms
from callboard.runtime.kernel.mailbox import Mailbox
from callboard.runtime.messages import JournalMessage
from callboard.runtime.store.interface import StoreReader
from callboard.runtime.store.rows import AskedQuestion, OpenTurn, WaitingQuestion
from support.scene import FakeStore, place_of


def asked(question_id: str, call_id: str) -> AskedQuestion:
    return AskedQuestion(
        QuestionAsked(
            question_id=question_id,
            turn_id="t",
            call_id=call_id,
            question="Which door?",
            options=("left", "right"),
            expires_at_ms=now_ms() + 600_000,
        )
    )


class ResumedStore(FakeStore):
    """A record with a turn that was suspended, is resumed, and has not come to its calls again."""

    asks = asked("q1", "c1"), asked("q2", "c2")
    of_servers: tuple[tuple[str, AskedQuestion], ...] = ()

    async def open_turns(self, session_id: str | None = None) -> list[OpenTurn]:
        await trio.lowlevel.checkpoint()
        return [
            OpenTurn(session_id="s1", turn_id="t", started_at_ms=0, calls=(), questions=self.asks)
        ]

    async def open_questions(self, session_id: str | None = None) -> list[WaitingQuestion]:
        await trio.lowlevel.checkpoint()
        of_models = [("s1", "ask_user", each) for each in self.asks]
        return [
            WaitingQuestion(
                session_id=name, parent_id=None, is_suspended=False, tool=tool, asked=each.asked
            )
            for name, tool, each in (
                *of_models,
                *((name, "fake__ask", each) for name, each in self.of_servers),
            )
        ]

    def owns(self, session_id: str) -> bool:
        return session_id != "of another node"


class Silent(Channel):
    """Never answers."""

    async def ask(self, question: UserQuestion) -> str:
        await trio.sleep_forever()
        raise AssertionError


@asynccontextmanager
async def resumed(
    *of_servers: tuple[str, AskedQuestion],
) -> AsyncGenerator[tuple[UserQuestions, list[Any]]]:
    """The questions of a process that resumes the turn, and what it puts on record."""
    journal = Mailbox[JournalMessage]("journal", 8)
    stored: list[Any] = []

    async def store() -> None:
        with journal.open() as messages:
            while True:
                message: Any = await messages.receive()
                stored.extend(message.events)
                message.reply.send(None)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(store)
        record = ResumedStore()
        record.of_servers = of_servers
        questions = UserQuestions(journal, cast(StoreReader, record), Limits())
        yield questions, stored  # ruff: ignore[fallible-context-manager] a test that failed is over
        nursery.cancel_scope.cancel()


async def ask(questions: UserQuestions, call_id: str) -> str:
    call = Call(call_id=call_id, name="ask_user", arguments="{}")
    served = Served("s1", Silent())
    answer = await questions.ask(place_of(), call, served, "Which door?", ("left", "right"))
    return answer.text


async def test_an_answer_that_comes_before_the_call_is_taken_by_it() -> None:
    async with resumed() as (questions, stored):
        assert [each.question_id for each in await questions.listed()] == ["q1", "q2"]
        await questions.answer("q1", "left")
        assert [(each.question_id, each.answer) for each in stored] == [("q1", "left")]
        assert await ask(questions, "c1") == "left"
        assert len(stored) == 1
        with pytest.raises(ConflictError, match="not open"):
            await questions.answer("q1", "right")
        with pytest.raises(NotFoundError):
            await questions.answer("q3", "right")


async def test_a_call_that_was_cancelled_leaves_no_question() -> None:
    async with resumed() as (questions, stored):
        with trio.move_on_after(0):
            await ask(questions, "c1")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, questions, "c1")
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        assert [each.question_id for each in await questions.listed()] == ["q2"]
        with pytest.raises(ConflictError, match="not open"):
            await questions.answer("q1", "left")
        assert not any(isinstance(each, QuestionAnswered) for each in stored)


async def test_what_servers_ask_at_other_nodes_is_listed_and_here_it_ends_with_its_process() -> (
    None
):
    here, there = ("s1", asked("q3", "c3")), ("of another node", asked("q4", "c4"))
    async with resumed(here, there) as (questions, stored):
        assert [each.question_id for each in await questions.listed()] == ["q1", "q2", "q4"]
        with pytest.raises(NotFoundError):
            await questions.answer("q3", "left")
        assert not stored
