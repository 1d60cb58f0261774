"""ask_user and message, as far as they judge their arguments by themselves."""

from __future__ import annotations

from typing import Any

import pytest

from callboard.runtime.definitions import ToolFailure, ToolResult
from callboard.runtime.handles import PersonAnswer
from callboard.tools.agent.people import (
    MAX_MESSAGE_CHARACTERS,
    MAX_OPTION_CHARACTERS,
    MAX_OPTIONS,
    MAX_QUESTION_CHARACTERS,
    ask_user,
    message,
)
from callboard.tools.tool import Tool
from support.tools.workbench import context_of, result_of


class Line:
    """A channel handle that keeps what came."""

    def __init__(self) -> None:
        self.came: list[object] = []

    async def ask(self, question: str, options: tuple[str, ...] = ()) -> PersonAnswer:
        self.came.append((question, options))
        return PersonAnswer(text="two\nlines", answered_by="Ada", option=None)

    async def tell(self, text: str, channel: str | None = None) -> str:
        self.came.append((text, channel))
        return channel or "desk"


async def run(tool: Tool, line: Line | None = None, **arguments: Any) -> ToolResult:
    return await result_of(tool, context_of(channel=line), **arguments)


async def test_a_question_and_its_answer() -> None:
    line = Line()
    result = await run(ask_user, line, question="Which?", options=["left", "right"])
    assert line.came == [("Which?", ("left", "right"))]
    assert result.output == {"answer": "two\nlines", "option": None}
    assert result.display == "Ada: two lines"
    assert (await run(ask_user, line, question="Which?")).output == result.output
    assert line.came[1:] == [("Which?", ())]


async def test_a_message() -> None:
    line = Line()
    result = await run(message, line, text="Hello.")
    assert line.came == [("Hello.", None)]
    assert result.output == {"delivered": True, "channel": "desk"}
    assert (await run(message, line, text="Hello.", channel="web")).output["channel"] == "web"


MOST = ["x" * MAX_OPTION_CHARACTERS, *(str(number) for number in range(MAX_OPTIONS - 1))]


@pytest.mark.parametrize(
    ("tool", "fits", "wrong", "field"),
    [
        (ask_user, {}, {"question": "x" * (MAX_QUESTION_CHARACTERS + 1)}, "question"),
        (ask_user, {}, {"question": ""}, "question"),
        (ask_user, {}, {"question": " \n"}, "question"),
        (ask_user, {"options": MOST}, {"options": [*MOST, "y"]}, "options"),
        (ask_user, {"options": MOST}, {"options": ["x" * (MAX_OPTION_CHARACTERS + 1)]}, "options"),
        (ask_user, {"options": []}, {"options": ["a", "a"]}, "options"),
        (ask_user, {"options": ["a"]}, {"options": [" "]}, "options"),
        (message, {}, {"text": "x" * (MAX_MESSAGE_CHARACTERS + 1)}, "text"),
        (message, {}, {"text": " "}, "text"),
    ],
)
async def test_what_can_be_said(
    tool: Tool, fits: dict[str, Any], wrong: dict[str, Any], field: str
) -> None:
    required = (
        {"question": "x" * MAX_QUESTION_CHARACTERS}
        if tool is ask_user
        else {"text": "x" * MAX_MESSAGE_CHARACTERS}
    )
    line = Line()
    await run(tool, line, **{**required, **fits})
    assert len(line.came) == 1
    with pytest.raises(ToolFailure) as failure:
        await run(tool, line, **{**required, **wrong})
    assert failure.value.error_type == "validation_error"
    assert str(failure.value.details["field"]).startswith(field)
    assert len(line.came) == 1


@pytest.mark.parametrize(("tool", "text"), [(ask_user, "question"), (message, "text")])
async def test_without_a_channel_it_is_denied(tool: Tool, text: str) -> None:
    with pytest.raises(ToolFailure) as failure:
        await run(tool, None, **{text: "Hello."})
    assert failure.value.error_type == "permission_denied"
    await run(tool, Line(), **{text: "Hello."})


def test_who_waits_for_a_person_takes_no_slot() -> None:
    assert ask_user.waits
    assert not message.waits
