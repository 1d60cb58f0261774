"""Channels: how a session reaches its people, with approvals, questions and messages."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Literal, TypeAlias

import msgspec

from .approval import ApprovalAnswer, ApprovalRequest
from .definitions import ErrorType, ToolFailure
from .event_types.people import QuestionForm
from .handles import PersonAnswer

ApprovalSaid: TypeAlias = ApprovalAnswer | Literal["allow", "deny"] | bool
"""What `Channel.approve` may return: `allow`, `deny`, a bool, or a whole answer."""
AnswerSaid: TypeAlias = PersonAnswer | str
"""What `Channel.ask` may return: a text, perhaps one of the options, or a whole answer."""


class UserQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """A question to the people of a session, from its model (`ask_user`) or from the server of a tool.

    Attributes:
        question_id: The id for `Runtime.answer_question`.
        session_id: The session that asks; `turn_id` and `call_id` say where in it.
        question: The model's text: show it whole, with control characters made visible.
        options: The model's suggested answers; any other text is an answer too.
        expires_at_ms: When the question expires, in Unix milliseconds.
        asked_in: The session that has this channel, if one of its branches asks.
        origin: If a branch asks: that it does, and its task, in words. Empty otherwise.
        form: What a server wants: fields, or that an address is opened. Then an answer is one of the options,
            or, as its text, a JSON object with the values of the fields.

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
    form: QuestionForm | None = None


class ChannelMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message from a model to people, sent with the tool `message`.

    Attributes:
        session_id: The session that has the channel.
        from_session: The session that sends it: the same, or one of its branches.
        text: The model's text: show it with control characters made visible.
        origin: If a branch sends it: that it does, and its task, in words. Empty otherwise.

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
        """Whether a branch of the session sends it."""
        return self.from_session != self.session_id


class Channel:
    """The way to the people of a runtime's sessions: subclass it and override what they can do.

    Methods that are not overridden refuse. A method may be an `async def`, or a `def` that returns its
    answer at once. If the question is answered by its id (`Runtime.answer`,
    `Runtime.answer_question`) while a method waits for a person, the method is cancelled. If a method
    raises, the call is denied or fails.

    Attributes:
        name: Its name in rules of a policy: `channel = "…"`.
        is_connected: Whether somebody is there; read when a question comes. If not, the question waits
            for an answer by id until it expires.

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
        """Ask a person whether a call may run, and return the answer."""
        return ApprovalAnswer(
            decision="deny",
            reason=f"nobody is asked about calls on the channel {self.name!r}",
            answered_by="callboard",
        )

    def ask(self, question: UserQuestion) -> Awaitable[AnswerSaid] | AnswerSaid:
        """Ask a person a model's question, and return the answer."""
        raise ToolFailure(
            ErrorType.PERMISSION_DENIED,
            f"The people on the channel {self.name!r} take no questions: go on without an answer.",
        )

    def tell(self, message: ChannelMessage) -> Awaitable[None] | None:
        """Show a message. It counts as delivered if this returns, and as not delivered if it raises."""
        raise ToolFailure(
            ErrorType.PERMISSION_DENIED,
            f"The channel {self.name!r} takes no messages: say it in the answer.",
        )
