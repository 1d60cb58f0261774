"""Servers of MCP that ask for an answer of the model (sampling): a person allows each, and the turn pays for it."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest
import trio

import callboard
from callboard import reply
from callboard.embedding.runtime import Runtime
from callboard.runtime.errors import BudgetError
from callboard.runtime.events import (
    AttemptCharged,
    CallFinished,
    QuestionAnswered,
    QuestionAsked,
)
from callboard.runtime.history import Answer, Input
from support.mcp.stage import accepted, fake, open_stage
from support.sandbox.sandbox_users import needs_sandbox

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the sandbox is Linux's")
SEND = "send it"


@pytest.fixture(autouse=True)
def _sandbox() -> None:
    needs_sandbox()


class People(callboard.Channel):
    """Answers with what it was given; notes what was asked."""

    def __init__(self, *answers: str) -> None:
        self.answers = [*answers]
        self.asked: list[callboard.UserQuestion] = []

    def approve(self, request: callboard.ApprovalRequest) -> bool:
        return True

    async def ask(self, question: callboard.UserQuestion) -> str:
        await trio.lowlevel.checkpoint()
        self.asked.append(question)
        return self.answers.pop(0)


def options_of(model: callboard.ScriptedModel, people: People) -> Any:
    return {"on_approval": None, "channel": people, "model": model}


def calling(how: str, times: int = 1) -> Any:
    return reply(calls=[("fake__ask", {"how": how, "times": times})])


async def events_of(runtime: Runtime, session_id: str) -> list[Any]:
    return [each.event for each in await runtime.store.events(session_id)]


async def said(runtime: Runtime, how: str, times: int = 1) -> Any:
    found = await runtime.call_tool("fake__ask", {"how": how, "times": times})
    return json.loads(found.output) if found.status == "success" else found.error["message"]


@pytest.mark.parametrize("era", ["old", "modern"])
async def test_a_person_sees_all_that_is_sent_and_the_turn_pays_for_the_answer(era: str) -> None:
    people = People(SEND, SEND)
    model = callboard.ScriptedModel(
        [calling("sample", 2), reply("Short."), reply("Hot."), reply("Done.")]
    )
    server = await accepted(fake(f"--era={era}", sampling=True))
    async with open_stage(server, **options_of(model, people)) as runtime:
        session = await runtime.create_session()
        assert await session.run("Go.") == "Done."
        model.assert_complete()
        shown = people.asked[0].question
        for words in ("[system] Be short.", "[user] What is tea?", "[assistant] A drink."):
            assert words in shown
        assert "The server fake wants an answer of the model local/ScriptedModel" in shown
        assert "50 tokens at most" in shown

        request = model.requests[1]
        assert (request.system, request.tools, request.max_output_tokens) == ("Be short.", (), 50)
        items = [item for each in request.rounds for item in each.items]
        assert [type(item) for item in items] == [Input, Answer, Input]
        assert "Go." not in [item.text for item in items if isinstance(item, Input)]

        events = await events_of(runtime, session.session_id)
        paid = [event for event in events if isinstance(event, AttemptCharged)]
        assert [event.answer for event in paid] == ["Short.", "Hot."]
        [call] = [event for event in events if isinstance(event, CallFinished)]
        assert {event.call_id for event in paid} == {call.call_id}
        assert all(event.usage or event.estimate for event in paid)
        assert all(words in call.result for words in ("Short.", "Hot."))
        asked = [event.question for event in events if isinstance(event, QuestionAsked)]
        assert asked == [shown, people.asked[1].question]
        assert [e.answer for e in events if isinstance(e, QuestionAnswered)] == [SEND, SEND]

        report = await runtime.usage()
        assert [each.calls for each in report.sums] == [4]


@pytest.mark.parametrize("era", ["old", "modern"])
async def test_what_a_person_declines_or_nobody_allows_is_not_asked(era: str) -> None:
    model = callboard.ScriptedModel([])
    people = People("decline", "Well, send it")
    server = await accepted(fake(f"--era={era}", sampling=True))
    async with open_stage(server, **options_of(model, people)) as runtime:
        for _ in range(2):  # words that are not the option are no permission
            assert "A person declined." in str(await said(runtime, "sample"))
        assert len(people.asked) == 2
    async with open_stage(server, model=model) as runtime:
        assert "Nobody allowed it." in str(await said(runtime, "sample"))
    assert model.requests == []


@pytest.mark.parametrize("era", ["old", "modern"])
async def test_a_server_without_the_setting_is_told_that_there_is_no_such_method(era: str) -> None:
    model, people = callboard.ScriptedModel([]), People()
    server = await accepted(fake(f"--era={era}"))
    async with open_stage(server, **options_of(model, people)) as runtime:
        declared = json.loads((await runtime.call_tool("fake__declared", {})).output)
        assert "sampling" not in declared
        assert "roots" not in declared
        answer = str(await said(runtime, "sample"))
        assert ("-32601" if era == "old" else "-32600") in answer
        if era == "old":
            assert "-32601" in str(await said(runtime, "roots"))
    assert (people.asked, model.requests) == ([], [])
    allowed = await accepted(fake(f"--era={era}", sampling=True))
    async with open_stage(allowed, model=model) as runtime:
        declared = json.loads((await runtime.call_tool("fake__declared", {})).output)
        assert declared["sampling"] == {}


@pytest.mark.parametrize(
    ("how", "problem"),
    [
        ("sample tools", "gets no tools"),
        ("sample a picture", "no text"),
        ("sample hidden", "hides a character"),
        ("sample long", "more than 16000 characters"),
        ("sample for an assistant", "must be the user's"),
    ],
)
async def test_what_nobody_could_look_at_is_refused_unasked(how: str, problem: str) -> None:
    model, people = callboard.ScriptedModel([]), People()
    async with open_stage(
        await accepted(fake(sampling=True)), **options_of(model, people)
    ) as runtime:
        assert problem in str(await said(runtime, how))
    assert (people.asked, model.requests) == ([], [])


async def test_it_counts_in_the_turns_budget_and_ends_where_that_ends() -> None:
    people = People(SEND, SEND)
    model = callboard.ScriptedModel([calling("sample", 2), reply("One."), reply("Never.")])
    async with open_stage(
        await accepted(fake(sampling=True)), **options_of(model, people)
    ) as runtime:
        session = await runtime.create_session()
        budget = callboard.Budget(model_calls=2)
        with pytest.raises(BudgetError):
            await session.run("Go.", budget=budget)
        assert len(model.requests) == 2
        events = await events_of(runtime, session.session_id)
        [call] = [event for event in events if isinstance(event, CallFinished)]
        assert "The model was not asked" in call.result


async def test_a_model_that_fails_is_said_to_the_server() -> None:
    people = People(SEND)
    model = callboard.ScriptedModel([])  # it has nothing to say
    async with open_stage(
        await accepted(fake(sampling=True)), **options_of(model, people)
    ) as runtime:
        assert "The model failed" in str(await said(runtime, "sample"))
