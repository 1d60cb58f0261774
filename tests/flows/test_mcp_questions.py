"""Servers of the Model Context Protocol ask people while a call runs: forms, and pages to open."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest
import trio

import callboard
from callboard.embedding.runtime import Runtime, host_of
from callboard.runtime.definitions import SessionKind
from callboard.runtime.errors import ValidationError
from callboard.runtime.event_types.form import form_answer, read_value
from callboard.runtime.event_types.people import FormField
from callboard.runtime.events import QuestionAnswered, QuestionAsked
from support.mcp.stage import accepted, fake, open_stage
from support.sandbox.sandbox_users import needs_sandbox
from support.waits import until

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the sandbox is Linux's")
NAMED = '{"name": "Ada", "age": 36}'


class People(callboard.Channel):
    """Answers with what it was given; notes what was asked."""

    def __init__(self, *answers: str) -> None:
        self.answers = [*answers]
        self.asked: list[callboard.UserQuestion] = []

    def approve(self, request: callboard.ApprovalRequest) -> bool:
        return True

    async def ask(self, question: callboard.UserQuestion) -> str:
        self.asked.append(question)
        if not self.answers:
            await trio.sleep_forever()
        await trio.lowlevel.checkpoint()
        return self.answers.pop(0)


@pytest.fixture(autouse=True)
def _sandbox() -> None:
    needs_sandbox()


async def asked(runtime: Runtime, how: str = "", times: int = 1) -> Any:
    found = await runtime.call_tool("fake__ask", {"how": how, "times": times})
    return json.loads(found.output) if found.status == "success" else found


@pytest.mark.parametrize("era", ["old", "modern"])
async def test_a_form_and_an_address_are_put_to_people_and_answered(era: str) -> None:
    people = People(NAMED, "decline", "I have opened it", "decline", NAMED, NAMED)
    options: Any = {"on_approval": None, "channel": people}
    async with open_stage(await accepted(fake(f"--era={era}")), **options) as runtime:
        session = await runtime.create_session()
        found = await runtime.call_tool("fake__ask", {}, session=session)
        values = {"name": "Ada", "age": 36, "colour": "green"}
        assert json.loads(found.output) == [{"action": "accept", "content": values}]
        question = people.asked[0]
        assert question.question.startswith("The server fake asks: Who are you?")
        assert "may be a secret (api_key)" in question.question
        assert question.form is not None
        assert [field.kind for field in question.form.fields] == [
            "text",
            "integer",
            "choice",
            "text",
        ]
        events = [each.event for each in await runtime.store.events(session.session_id)]
        [on_record] = [event for event in events if isinstance(event, QuestionAsked)]
        assert on_record.form == question.form
        assert [e.answer for e in events if isinstance(e, QuestionAnswered)] == [NAMED]

        assert await asked(runtime) == [{"action": "decline"}]
        assert await asked(runtime, "url") == [{"action": "accept"}]
        assert "page of login.example: https://login.example/start?id=1" in people.asked[2].question
        assert await asked(runtime, "url") == [{"action": "decline"}]
        assert len(await asked(runtime, times=2)) == 2  # a second question has its own answer
        assert people.answers == []


@pytest.mark.parametrize("era", ["old", "modern"])
async def test_what_nobody_should_be_asked_is_refused(era: str) -> None:
    people = People()
    options: Any = {"on_approval": None, "channel": people}
    async with open_stage(await accepted(fake(f"--era={era}")), **options) as runtime:
        pages = ("page of this machine", "page of a user", "page of two hosts")
        for how in ("deep", "wide", "hidden", *pages):
            found = await asked(runtime, how)
            text = str(found.error if era == "modern" else found)
            assert "-32600" in text
        assert people.asked == []
    async with open_stage(await accepted(fake(f"--era={era}"))) as runtime:
        assert await asked(runtime) == [{"action": "decline"}]  # nobody is there


async def test_a_server_that_asks_without_end_is_told_no() -> None:
    people = People(*40 * ["decline"])
    options: Any = {"on_approval": None, "channel": people}
    async with open_stage(await accepted(fake()), **options) as runtime:
        assert len(await asked(runtime, times=30)) == 30
        assert len(people.asked) == 20
    people = People(*40 * ["decline"])
    options = {"on_approval": None, "channel": people}
    async with open_stage(await accepted(fake("--era=modern")), **options) as runtime:
        found = await asked(runtime, times=30)
        assert "again and again" in found.error["message"]
        assert len(people.asked) == 10


async def test_a_question_is_open_by_its_id_and_ends_with_its_call() -> None:
    people = People()
    options: Any = {"on_approval": None, "channel": people}
    async with open_stage(await accepted(fake()), **options) as runtime:
        found: list[Any] = []

        async def call() -> None:
            found.extend(await asked(runtime))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(call)
            await until(lambda: len(people.asked) == 1)
            name = people.asked[0].question_id
            for text, problem in (("Ada", "JSON object"), ('{"age": 3}', "name: it must be said")):
                with pytest.raises(ValidationError, match=problem):
                    await runtime.answer_question(name, text)
            await runtime.answer_question(name, NAMED)
        assert found[0]["content"]["name"] == "Ada"
        async with trio.open_nursery() as nursery:
            nursery.start_soon(call)
            await until(lambda: len(people.asked) == 2)
            nursery.cancel_scope.cancel()
        await until(lambda: not host_of(runtime).questions.waiting())


async def test_the_time_of_people_is_not_the_calls(autojump_clock: Any) -> None:
    from callboard.tools.context import ToolContext

    agent = callboard.Agent(name="a", prompt="")
    context: Any = ToolContext(
        session_id="s", turn_id="t", call_id="c", session_kind=SessionKind.MAIN, agent=agent
    )
    with trio.move_on_after(10) as scope:
        context.run_in(scope)
        await trio.sleep(4)
        with context.outside_deadline():
            async with trio.open_nursery() as nursery:
                for seconds in (11, 12):
                    nursery.start_soon(_wait, context, seconds)
        await trio.sleep(5)
        assert scope.deadline == trio.current_time() + 1
        await trio.sleep_forever()
    assert scope.cancelled_caught


async def _wait(context: Any, seconds: float) -> None:
    with context.outside_deadline():
        await trio.sleep(seconds)


def test_values_of_fields() -> None:
    fields = (
        FormField(name="a", kind="choices", options=("x", "y"), labels=("An x", "A y"), most=1),
        FormField(name="b", kind="number", least=0, most=1),
        FormField(name="c", kind="yes_no"),
        FormField(name="d", kind="text", most=3),
    )
    assert form_answer(fields, '{"a": ["y", "y"], "b": 0.5, "c": true, "d": "abc"}') == {
        "a": ("y",), "b": 0.5, "c": True, "d": "abc"
    }  # fmt: skip
    wrong = (
        '{"a": ["z"]}',
        '{"a": ["x", "y"]}',
        '{"b": 2}',
        '{"b": true}',
        '{"c": 1}',
        '{"d": "abcd"}',
    )
    for text in (*wrong, '{"e": 1}', "[]", "{", '{"b": "1"}'):
        with pytest.raises(ValidationError):
            form_answer(fields, text)
    assert [read_value(fields[0], "2"), read_value(fields[0], "A y"), read_value(fields[1], "1"), read_value(fields[2], "Y")] == [
        ("y",), ("y",), 1.0, True
    ]  # fmt: skip
    for field, typed in (
        (fields[0], "3"),
        (fields[1], "nan"),
        (fields[1], "x"),
        (fields[2], "maybe"),
        (FormField(name="large", kind="integer"), str(2**63)),
    ):
        with pytest.raises(ValidationError):
            read_value(field, typed)
