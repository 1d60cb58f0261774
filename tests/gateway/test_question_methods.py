"""What models ask people is listed for clients while it waits, and answered by them."""

from __future__ import annotations

import pytest

import callboard
from callboard.runtime.errors import ConflictError, NotFoundError
from callboard.runtime.events import QuestionAsked, Stored
from callboard.runtime.wire.approvals import ListQuestions, QuestionList
from callboard.runtime.wire.fields import Role
from support.gateway.daemon_scene import View, open_client, open_daemon

ASK = ("ask_user", {"question": "Which door?", "options": ["left", "right"]})


async def test_a_question_is_listed_until_it_is_answered() -> None:
    model = callboard.ScriptedModel([callboard.reply(calls=[ASK]), callboard.reply("In.")])
    async with open_daemon(model) as daemon, open_client(daemon) as client:
        session = await client.create_session()
        limited = daemon.new_token("limited", Role.OPERATOR, sessions=("session_other",))
        view = View()
        async with client.events(session.session_id) as events:
            await client.prompt(session.session_id, "Go in.")
            async for event in events:
                view.take(event)
                asked = event.event if isinstance(event, Stored) else None
                if isinstance(asked, QuestionAsked):
                    found = await client.request("question/list", ListQuestions(), QuestionList)
                    (question,) = found.questions
                    assert (question.question, question.options) == (
                        "Which door?",
                        ("left", "right"),
                    )
                    elsewhere = ListQuestions(session_id="session_other")
                    none = await client.request("question/list", elsewhere, QuestionList)
                    assert none.questions == []
                    async with open_client(daemon, limited) as other:
                        none = await other.request("question/list", ListQuestions(), QuestionList)
                        assert none.questions == []
                        with pytest.raises(NotFoundError):
                            await other.answer_question(asked.question_id, "left")
                    await client.answer_question(asked.question_id, option=1)
                    with pytest.raises(ConflictError):
                        await client.answer_question(asked.question_id, "left")
                if view.has_ended:
                    break
        assert (
            await client.request("question/list", ListQuestions(), QuestionList)
        ).questions == []
        (call,) = await client.calls()
        assert '"right"' in (call.result or "")
