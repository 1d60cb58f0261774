"""ask_user and message: a model reaches the people of its session."""

from __future__ import annotations

from typing import Annotated, TypedDict

import msgspec

from ...config.settings import MAX_SECONDS
from ...runtime.definitions import Capability, Tier, ToolResult
from ..failures import invalid
from ..tool import FunctionTool, ToolContext, tool

MAX_QUESTION_CHARACTERS = 10_000
"""Three screens of a terminal: more than a person reads before an answer."""
MAX_OPTIONS = 20
"""What fits one screen, a line each."""
MAX_OPTION_CHARACTERS = 500
"""Six lines of a terminal."""
MAX_MESSAGE_CHARACTERS = 20_000
"""A long letter; a longer text belongs in a file."""

Question = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_QUESTION_CHARACTERS)]
Option = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_OPTION_CHARACTERS)]
Options = Annotated[list[Option], msgspec.Meta(max_length=MAX_OPTIONS)]
Message = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_MESSAGE_CHARACTERS)]


class AnswerOutput(TypedDict):
    """What ask_user returns: the text, and which option it is."""

    answer: str
    option: int | None


class Told(TypedDict):
    """What message returns."""

    delivered: bool
    channel: str


async def _ask_user(
    context: ToolContext, question: Question, options: Options | None = None
) -> ToolResult:
    """Asks a person a question and waits for the answer: one of the options, or any text.

    Args:
        question: What to ask, in full: the person sees nothing else of the conversation for sure.
        options: Answers to choose from; the result's `option` is the chosen one, counted from 0.
    """
    assert context.channel is not None  # or `needs` would have refused the call
    offered = tuple(options or ())
    if not question.strip():
        raise invalid("question", "ask_user: question: it is empty.")
    if not all(option.strip() for option in offered):
        raise invalid("options", "ask_user: options: one of them is empty.")
    if len(set(offered)) < len(offered):
        raise invalid("options", "ask_user: options: one is offered twice.")
    answer = await context.channel.ask(question, offered)
    output = {"answer": answer.text, "option": answer.option}
    return ToolResult(output=output, display=f"{answer.answered_by}: {_line(answer.text)}")


ask_user = FunctionTool(
    _ask_user,
    name="ask_user",
    tier=Tier.READ_ONLY,
    needs=[Capability.CHANNEL],
    # The channel's deadline is `approval_seconds` of the limits, which is at most this.
    timeout_seconds=MAX_SECONDS,
    output=AnswerOutput,
    waits=True,
)


@tool(tier=Tier.SYSTEM, needs=[Capability.CHANNEL], timeout_seconds=10, output=Told)
async def message(context: ToolContext, text: Message, channel: str | None = None) -> ToolResult:
    """Says something to a person at once, ahead of the answer; waits for no reply.

    Args:
        text: What to say.
        channel: The name of a channel; default: where the person is who gave the task.
    """
    assert context.channel is not None  # or `needs` would have refused the call
    if not text.strip():
        raise invalid("text", "message: text: it is empty.")
    name = await context.channel.tell(text, channel)
    return ToolResult(
        output={"delivered": True, "channel": name}, display=f"to {name}: {_line(text)}"
    )


def _line(text: str) -> str:
    return " ".join(text.split())[:100]
