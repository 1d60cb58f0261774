"""What models ask people: put to their channel, answered once, on record."""

from __future__ import annotations

from collections import deque
from contextlib import suppress

import msgspec
import trio

from ...runtime.channel import Channel, UserQuestion
from ...runtime.definitions import ErrorType, ToolFailure
from ...runtime.errors import (
    ActorStopped,
    CallboardError,
    ConflictError,
    NotFoundError,
    ValidationError,
)
from ...runtime.events import ChildAsks, DurableEvent, QuestionAnswered, QuestionAsked
from ...runtime.handles import PersonAnswer
from ...runtime.history import Call
from ...runtime.identity import new_id, now_ms
from ...runtime.kernel.mailbox import Mailbox, Reply
from ...runtime.kernel.user_code import raise_stop
from ...runtime.messages import AppendEvents, CallPlace, JournalMessage
from ...runtime.redaction import redacting_logger
from ...runtime.text import without_surrogates
from .approver import said
from .channels import Served

logger = redacting_logger(__name__)

MAX_ANSWER_CHARACTERS = 100_000
"""What a person pastes at most; the model reads it whole up to `max_result_bytes`."""
MAX_REMEMBERED = 1024
"""Questions that are over and still told from unknown ones: as many as calls may wait at once."""


class OpenUserQuestion:
    """A question until it is over.

    Attributes:
        outcome: The first answer, or why there is none.
        record: Answered when the answer is stored.
    """

    def __init__(self, question: UserQuestion) -> None:
        self.question = question
        self.outcome: Reply[PersonAnswer] = Reply()
        self.record: Reply[None] = Reply()

    def take(self, answer: PersonAnswer) -> bool:
        """Takes an answer, unless there is one, or the time is over."""
        if self.outcome.is_done:
            return False
        self.outcome.send(answer)
        return True

    def give_up(self, failure: ToolFailure) -> None:
        """There will be no answer, unless there is one."""
        if not self.outcome.is_done:
            self.outcome.fail(failure)


class UserQuestions:
    """The questions of `ask_user` that are open in this process, and how they are answered.

    The task of the asking call stores what happens to its question: one that is cancelled has no
    answer, and its call says so.

    Attributes:
        seconds: How long a question waits from now on.
    """

    def __init__(self, journal: Mailbox[JournalMessage], seconds: float) -> None:
        self._journal = journal
        self.seconds = seconds
        self._open: dict[str, OpenUserQuestion] = {}
        self._over: deque[str] = deque(maxlen=MAX_REMEMBERED)

    async def ask(
        self, place: CallPlace, call: Call, served: Served, text: str, options: tuple[str, ...]
    ) -> PersonAnswer:
        """Asks, and waits for the first answer, whoever gives it.

        Raises:
            ToolFailure: Nobody answers in time, or the channel has no way to.
        """
        question = UserQuestion(
            question_id=new_id("question"),
            session_id=place.session_id,
            turn_id=place.turn_id,
            call_id=call.call_id,
            question=text,
            options=options,
            expires_at_ms=now_ms() + int(self.seconds * 1000),
            asked_in=served.asked_in,
            origin=served.origin,
        )
        name = question.question_id
        entry = self._open[name] = OpenUserQuestion(question)
        try:
            await self._tell(entry, call)
            await self._find_answer(entry, served.channel)
            return await self._recorded(entry)
        finally:
            del self._open[name]
            self._over.append(name)
            entry.record.abandon()

    def waiting(self) -> list[UserQuestion]:
        """Those without an answer, in the order in which they were asked."""
        return [each.question for each in self._open.values() if not each.outcome.is_done]

    async def answer(self, question_id: str, answer: PersonAnswer | str) -> None:
        """An answer by id; on record on return.

        Raises:
            NotFoundError: There is no such question.
            ConflictError: Somebody was first, or nobody waits for it any more.
            ValidationError: It is no answer; the question stays open.
        """
        entry = self._open.get(question_id)
        over = ConflictError(f"the question {question_id} is not open any more")
        if entry is None:
            raise (
                over
                if question_id in self._over
                else NotFoundError(
                    f"no question {question_id} is open: one that was left by another process is over"
                )
            )
        if not entry.take(checked_answer(answer, entry.question)):
            raise over
        try:
            await entry.record.wait()
        except ActorStopped:
            raise over from None

    async def _tell(self, entry: OpenUserQuestion, call: Call) -> None:
        """On record first, in both sessions."""
        question = entry.question
        asked = QuestionAsked(
            question_id=question.question_id,
            turn_id=question.turn_id,
            call_id=question.call_id,
            question=question.question,
            options=question.options,
            expires_at_ms=question.expires_at_ms,
        )
        await self._store(question.session_id, asked)
        if question.asked_in:
            above = ChildAsks(
                question_id=question.question_id,
                child_id=question.session_id,
                call_id=question.call_id,
                name=call.name,
            )
            await self._store(question.asked_in, above)

    async def _find_answer(self, entry: OpenUserQuestion, channel: Channel) -> None:
        """Sees to it that there is an outcome: the channel's, by id, or that time is over."""
        with trio.move_on_after(self.seconds):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_put, entry, channel, name=f"ask {entry.question.question_id}")
                with suppress(ToolFailure):  # told to the caller, when it is on record
                    await entry.outcome.wait()
                nursery.cancel_scope.cancel(reason="answered")
        entry.give_up(
            ToolFailure(
                ErrorType.APPROVAL_EXPIRED,
                f"Nobody answered within {self.seconds:g} s: go on without, and say what you "
                "have assumed.",
            )
        )

    async def _recorded(self, entry: OpenUserQuestion) -> PersonAnswer:
        """The answer, once it is on record; raises why there is none, once that is."""
        question = entry.question
        answer: PersonAnswer | None = None
        with suppress(ToolFailure):
            answer = await entry.outcome.wait()
        answered = QuestionAnswered(
            question_id=question.question_id,
            call_id=question.call_id,
            answer=answer.text if answer is not None else "",
            answered_by=answer.answered_by if answer is not None else "",
        )
        try:
            await self._store(question.session_id, answered)
        except CallboardError as error:
            entry.record.fail(error)
            raise
        entry.record.send(None)
        return await entry.outcome.wait()

    async def _store(self, session_id: str, event: DurableEvent) -> None:
        await self._journal.ask(AppendEvents(session_id=session_id, events=(event,)))


async def _put(entry: OpenUserQuestion, channel: Channel) -> None:
    """Puts a question to the people of a channel; where nobody is, it waits for an answer by id."""
    try:
        if channel.is_connected:
            answer = await said(channel.ask(entry.question))
            entry.take(checked_answer(answer, entry.question))
    except ToolFailure as failure:
        entry.give_up(failure)
    except BaseException as crash:  # noqa: ASYNC103  the application's: nobody was asked
        raise_stop(crash)
        logger.exception("the channel %s failed to ask a question of a model", channel.name)
        entry.give_up(  # noqa: ASYNC104
            ToolFailure(
                ErrorType.EXECUTION_ERROR,
                f"The channel {channel.name!r} failed, and nobody was asked: go on without.",
            )
        )


def checked_answer(answer: object, question: UserQuestion) -> PersonAnswer:
    """What was said, as an answer to this question; raises `ValidationError` for what is none."""
    given = PersonAnswer(text=answer) if isinstance(answer, str) else answer
    try:
        if not isinstance(given, PersonAnswer):
            raise msgspec.ValidationError(f"it is {answer!r:.80}, and no text")
        given = msgspec.convert(msgspec.structs.asdict(given), PersonAnswer)
    except msgspec.ValidationError as error:
        raise ValidationError(f"the answer is none: {error}", field="answer") from None
    options, option = question.options, given.option
    if option is not None and not 0 <= option < len(options):
        raise ValidationError(
            f"option: there is no {option}; there are {len(options)}, counted from 0",
            field="option",
        )
    text = without_surrogates(given.text)
    if option is None and text.strip() in options:
        option = options.index(text.strip())
    if option is not None and not text:
        text = options[option]
    if len(text) > MAX_ANSWER_CHARACTERS:
        raise ValidationError(
            f"the answer has {len(text)} characters; {MAX_ANSWER_CHARACTERS} may be given",
            field="answer",
        )
    answered_by = without_surrogates(given.answered_by) or "application"
    return PersonAnswer(text=text, option=option, answered_by=answered_by)
