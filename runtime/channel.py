"""Where the people of a session are, and what is put to them there."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TypeAlias

import msgspec

from .approval import ApprovalAnswer, ApprovalRequest
from .definitions import ErrorType, ToolFailure
from .handles import PersonAnswer

ApprovalSaid: TypeAlias = ApprovalAnswer | str | bool
"""`allow`, `deny`, a bool, or a whole answer."""
AnswerSaid: TypeAlias = PersonAnswer | str
"""A text, one of the options among them, or a whole answer."""


class UserQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """What a model asks the people of its session, through `ask_user`.

    Attributes:
        question_id: Names it; `Runtime.answer_question` takes it.
        session_id: The session that asks; `turn_id` and `call_id` say where in it.
        question: A text of the model: show it whole, with control characters made visible.
        options: Answers to choose from, of the model too; any other text is an answer as well.
        expires_at_ms: When nobody is waited for any more, in Unix milliseconds.
        asked_in: The session that has this channel, when a branch of it asks.
        origin: That a branch asks, and its task, in words; empty otherwise.

    Example:
        class Here(callboard.Channel):
            async def ask(self, question: callboard.UserQuestion) -> str:
                print(question.question, question.options)
                return "left"

        question = {"question": "Which door?", "options": ["left", "right"]}
        script = [callboard.reply(calls=[("ask_user", question)]), callboard.reply("Left it is.")]
        model = callboard.ScriptedModel(script)
        async with callboard.open_runtime(model=model, channel=Here()) as runtime:
            print(await (await runtime.create_session()).run("Go in."))
    """

    question_id: str
    session_id: str
    turn_id: str
    call_id: str
    question: str
    options: tuple[str, ...] = ()
    expires_at_ms: int = 0
    asked_in: str = ""
    origin: str = ""


class ChannelMessage(msgspec.Struct, frozen=True, kw_only=True):
    """What a model says to people, through `message`.

    Attributes:
        session_id: The session that has the channel.
        from_session: The session that says it: the same, or a branch of it.
        call_id: Its call.
        text: A text of the model: show it with control characters made visible.
        origin: That a branch says it, and its task, in words; empty otherwise.

    Example:
        class Here(callboard.Channel):
            async def tell(self, message: callboard.ChannelMessage) -> None:
                print(message.origin, message.text)

        script = [callboard.reply(calls=[("message", {"text": "The kettle is on."})])]
        model = callboard.ScriptedModel([*script, callboard.reply("Told.")])
        async with callboard.open_runtime(model=model, channel=Here()) as runtime:
            print(await (await runtime.create_session()).run("Put the kettle on."))
    """

    session_id: str
    from_session: str
    call_id: str
    text: str
    origin: str = ""

    @property
    def is_from_branch(self) -> bool:
        """Whether a branch of the session says it."""
        return self.from_session != self.session_id


class Channel:
    """Where the people of a runtime's sessions are: subclass it, and override what they can do.

    What is not overridden is refused. A method may be an `async def`, or a `def` that gives its
    answer at once. While it waits for a person the question may be answered by its id
    (`Runtime.answer`, `Runtime.answer_question`), and the method is cancelled. One that raises has
    not answered: the call is denied, or fails.

    Attributes:
        name: What policies call it: `channel = "…"` in a rule.
        is_connected: Whether somebody is there, as of when a question comes. While nobody is,
            questions wait for an answer by id, until they expire.

    Example:
        class Here(callboard.Channel):
            name = "here"

            async def approve(self, request: callboard.ApprovalRequest) -> bool:
                print(request.tool, request.arguments, request.reason)
                return request.tier is not callboard.Tier.ELEVATED

        async with callboard.open_runtime(model="rehearsal", channel=Here()) as runtime:
            session = await runtime.create_session()
            await session.run("Write 'buy milk' to list.txt, then delete list.txt.")
    """

    name: str = "application"
    is_connected: bool = True

    def approve(self, request: ApprovalRequest) -> Awaitable[ApprovalSaid] | ApprovalSaid:
        """Whether a call may run."""
        return ApprovalAnswer(
            decision="deny",
            reason=f"nobody is asked about calls on the channel {self.name!r}",
            answered_by="callboard",
        )

    def ask(self, question: UserQuestion) -> Awaitable[AnswerSaid] | AnswerSaid:
        """What a person says to a model's question."""
        raise ToolFailure(
            ErrorType.PERMISSION_DENIED,
            f"The people on the channel {self.name!r} take no questions: go on without an answer.",
        )

    def tell(self, message: ChannelMessage) -> Awaitable[None] | None:
        """Shows a message; it is delivered when this returns, and is not when it raises."""
        raise ToolFailure(
            ErrorType.PERMISSION_DENIED,
            f"The channel {self.name!r} takes no messages: say it in the answer.",
        )
