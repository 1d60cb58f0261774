"""A form of a server at the terminal: field by field, checked at once, and seen whole before it is sent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import trio

import callboard
from callboard.cli.ask.dialogue import Asker
from callboard.cli.terminal.style import Style
from callboard.runtime.event_types.people import FormField, QuestionForm

FIELDS = (
    FormField(name="name", title="Your name", required=True, least=2),
    FormField(name="age", kind="integer", required=True, least=0),
    FormField(name="colour", kind="choice", options=("red", "green"), default="green"),
    FormField(name="note"),
)


class Typist:
    """A keyboard at which these lines are typed; keeps what is shown."""

    def __init__(self, *lines: str) -> None:
        self.lines = [*lines]
        self.shown = ""

    def write(self, text: str) -> None:
        self.shown += text

    async def settle(self) -> None:
        await trio.lowlevel.checkpoint()

    async def line(self, prompt: str) -> str | None:
        await trio.lowlevel.checkpoint()
        self.shown += prompt
        return self.lines.pop(0) if self.lines else None

    async def choice(self, prompt: str) -> str | None:
        typed = await self.line(prompt)
        return None if typed is None else typed.lower()


async def asked(typist: Typist, form: QuestionForm, *options: str) -> callboard.PersonAnswer | None:
    question = callboard.UserQuestion(
        question_id="q",
        session_id="s",
        turn_id="t",
        call_id="c",
        question="The server \x1b[2Jfake asks: Who are you?",
        options=options,
        form=form,
    )
    return await Asker(cast("Any", typist), Path("/nowhere"), Style()).ask(question)


async def test_fields_are_asked_for_one_after_the_other() -> None:
    typist = Typist("y", "", "A", "Ada", "x", "-1", "36", "3", "1", "", "e")
    typist.lines += ["Eve", "7", "", "hello", "y"]
    answer = await asked(typist, QuestionForm(fields=FIELDS), "decline")
    assert answer is not None
    assert json.loads(answer.text) == {"name": "Eve", "age": 7, "colour": "green", "note": "hello"}
    assert typist.lines == []
    assert "at least 2 characters" in typist.shown
    assert "not among the options" in typist.shown
    assert "\x1b[2J" not in typist.shown
    assert typist.shown.rindex("colour: green") < typist.shown.rindex("[y] send")


async def test_a_form_may_be_declined_and_a_page_is_answered_with_an_option_alone() -> None:
    for lines in (["d"], ["y", "Ada", "36", "", "", "d"]):
        answer = await asked(Typist(*lines), QuestionForm(fields=FIELDS), "decline")
        assert answer is not None
        assert (answer.option, answer.text) == (0, "")
    for lines in ([], ["y"], ["y", "Ada"], ["y", "Ada", "36", "", ""]):  # the input ends
        assert await asked(Typist(*lines), QuestionForm(fields=FIELDS), "decline") is None
    page = QuestionForm(url="https://login.example/start")
    typist = Typist("yes", "2")
    answer = await asked(typist, page, "I have opened it", "decline")
    assert answer is not None
    assert answer.option == 1
