"""Questions of `ask_user` and of the servers of tools: put to people, answered once, on record.

The task of the asking call stores what happens to its question, so a call that is cancelled leaves
a question without an answer, and its result says so. A turn that waits when its process ends is
suspended: its question can be answered by id meanwhile, and the call of the resumed turn takes that
answer, or asks again by the same id for what is left of the time. A question of a server ends with the
process in which its call runs. Where several nodes share the record, each lists those of all.
"""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Awaitable
from contextlib import suppress
from typing import TypeVar

import msgspec
import trio

from ...config.settings import Limits
from ...runtime.channel import Channel, UserQuestion
from ...runtime.definitions import ErrorType, ToolFailure
from ...runtime.errors import (
    ActorStopped,
    CallboardError,
    ConflictError,
    NotFoundError,
    ValidationError,
)
from ...runtime.event_types.people import QuestionForm
from ...runtime.events import ChildAsks, DurableEvent, QuestionAnswered, QuestionAsked
from ...runtime.handles import PersonAnswer
from ...runtime.history import Call
from ...runtime.identity import new_id, now_ms
from ...runtime.kernel.mailbox import Mailbox, Reply
from ...runtime.kernel.user_code import raise_stop
from ...runtime.messages import AppendEvents, CallPlace, JournalMessage
from ...runtime.redaction import redacting_logger
from ...runtime.store.interface import StoreReader
from ...runtime.store.queries import ASK_USER
from ...runtime.store.rows import AskedQuestion, WaitingQuestion
from ...runtime.text import without_surrogates
from .lineage import Served

logger = redacting_logger(__name__)

MAX_ANSWER_CHARACTERS = 100_000
"""Longest answer of a person; the model reads it whole up to `max_result_bytes`."""
MAX_REMEMBERED = 1024
"""Ended questions that are still known by id: as many as calls may wait at once."""

_Value = TypeVar("_Value")


class OpenUserQuestion:
    """A question until it is over.

    Attributes:
        outcome: The first answer, or why there is none.
        record: Sent when the answer is stored.
    """

    def __init__(self, question: UserQuestion) -> None:
        self.question = question
        self.outcome: Reply[PersonAnswer] = Reply()
        self.record: Reply[None] = Reply()

    def take(self, answer: PersonAnswer) -> bool:
        """Take an answer; return `False` when there is one, or the time is over."""
        if self.outcome.is_done:
            return False
        self.outcome.send(answer)
        return True

    def give_up(self, failure: ToolFailure) -> None:
        """Fail the question, unless it has an answer."""
        if not self.outcome.is_done:
            self.outcome.fail(failure)


class UserQuestions:
    """The questions that are open in this process or at another node, or were left open by an earlier process.

    Args:
        journal: Takes their events.
        store: The record.
        limits: Say how long questions wait that are asked from now on.
    """

    def __init__(
        self, journal: Mailbox[JournalMessage], store: StoreReader, limits: Limits
    ) -> None:
        self._journal = journal
        self._store = store
        self._limits = limits
        self._open: dict[str, OpenUserQuestion] = {}
        self._late: dict[str, PersonAnswer] = {}
        self._over: deque[str] = deque(maxlen=MAX_REMEMBERED)

    async def ask(
        self,
        place: CallPlace,
        call: Call,
        served: Served,
        text: str,
        options: tuple[str, ...],
        form: QuestionForm | None = None,
        *,
        is_one_of_many: bool = False,
    ) -> PersonAnswer:
        """Ask, and wait for the first answer, whoever gives it.

        A call that asks several times is never made again after a restart.

        Raises:
            ToolFailure: Nobody answers in time, or the channel takes no questions.
        """
        seconds = self._limits.approval_seconds
        left = None if is_one_of_many else await self._left(place.session_id, call.call_id)
        if left is not None:
            question = _known(left.asked, place.session_id, served.asked_in, served.origin)
            late = self._late.get(question.question_id)
            if late is not None or left.answered is not None:
                return late or _said(left)
            seconds = max(0.0, (question.expires_at_ms - now_ms()) / 1000)
        else:
            question = UserQuestion(
                question_id=new_id("question"),
                session_id=place.session_id,
                turn_id=place.turn_id,
                call_id=call.call_id,
                question=text,
                options=options,
                expires_at_ms=now_ms() + int(seconds * 1000),
                asked_in=served.asked_in,
                origin=served.origin,
                form=form,
            )
        name = question.question_id
        entry = self._open[name] = OpenUserQuestion(question)
        try:
            if left is None:
                await self._store_asked(entry, call)
            await self._find_answer(entry, served.channel, seconds)
            return await self._recorded(entry)
        finally:
            del self._open[name]
            self._over.append(name)
            entry.record.abandon()

    def waiting(self) -> list[UserQuestion]:
        """Return the questions without an answer, in the order in which they were asked."""
        return [each.question for each in self._open.values() if not each.outcome.is_done]

    async def listed(self) -> list[UserQuestion]:
        """Return the same, and before them those of an earlier process, which an answer by id reaches too.

        Their turns are suspended, or are resumed and have not come to the call yet. A call that ended
        in this process asks no more, unless its turn was suspended, too. Those of other nodes are among
        them: what a server asks there can be answered there alone.
        """
        now = now_ms()
        left = [
            _known(each.asked, each.session_id, each.parent_id or "")
            for each in await self._store.open_questions()
            if self._is_left(each)
        ]
        return [*(each for each in left if each.expires_at_ms > now), *self.waiting()]

    def _is_left(self, question: WaitingQuestion) -> bool:
        """Whether a question on record, which is not open in this process, can be answered all the same."""
        name = question.asked.question_id
        if name in self._open or (not question.is_suspended and name in self._over):
            return False
        return question.tool == ASK_USER or not self._store.owns(question.session_id)

    async def answer(self, question_id: str, answer: PersonAnswer | str) -> None:
        """Answer a question by its id; the answer is on record on return.

        Raises:
            NotFoundError: There is no such question.
            ConflictError: Somebody was first, or nobody waits for it any more.
            ValidationError: The answer can't be taken; the question stays open.
        """
        over = ConflictError(f"the question {question_id} is not open any more")
        if question_id not in self._open:
            known = {each.question_id: each for each in await self.listed()}
            if question_id in self._late or (
                question_id not in known and question_id in self._over
            ):
                raise over
            if question_id not in known:
                raise NotFoundError(f"no question {question_id} is open")
            if question_id not in self._open:  # by now: its turn may have been resumed
                await self._answer_left(known[question_id], answer, over)
                return
        entry = self._open[question_id]
        if not entry.take(checked_answer(answer, entry.question)):
            raise over
        try:
            await entry.record.wait()
        except ActorStopped:
            raise over from None

    async def _answer_left(
        self, question: UserQuestion, answer: PersonAnswer | str, over: ConflictError
    ) -> None:
        """Store the answer to a question of an earlier process, whose call takes it when it goes on."""
        name = question.question_id
        if name in self._late:
            raise over
        given = self._late[name] = checked_answer(answer, question)
        try:
            await self._append(question.session_id, _answered(question, given))
        except BaseException:
            del self._late[name]
            raise
        if len(self._late) > MAX_REMEMBERED:
            del self._late[next(iter(self._late))]

    async def _left(self, session_id: str, call_id: str) -> AskedQuestion | None:
        """Return the question that this call asked before its turn was suspended."""
        for turn in await self._store.open_turns(session_id):
            for each in turn.questions:
                if each.asked.call_id == call_id:
                    return each
        return None

    async def _store_asked(self, entry: OpenUserQuestion, call: Call) -> None:
        """Put the question on record in its session, and in the one whose people are asked."""
        question = entry.question
        asked = QuestionAsked(
            question_id=question.question_id,
            turn_id=question.turn_id,
            call_id=question.call_id,
            question=question.question,
            options=question.options,
            expires_at_ms=question.expires_at_ms,
            form=question.form,
        )
        await self._append(question.session_id, asked)
        if question.asked_in:
            above = ChildAsks(
                question_id=question.question_id,
                child_id=question.session_id,
                call_id=question.call_id,
                name=call.name,
            )
            await self._append(question.asked_in, above)

    async def _find_answer(self, entry: OpenUserQuestion, channel: Channel, seconds: float) -> None:
        """Wait until there is an outcome: the channel's answer, one by id, or that time is over."""
        with trio.move_on_after(seconds):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_put, entry, channel, name=f"ask {entry.question.question_id}")
                with suppress(ToolFailure):  # raised by `_recorded`
                    await entry.outcome.wait()
                nursery.cancel_scope.cancel(reason="answered")
        entry.give_up(_nobody(f" within {self._limits.approval_seconds:g} s"))

    async def _recorded(self, entry: OpenUserQuestion) -> PersonAnswer:
        """Store the outcome; return the answer, or raise why there is none."""
        question = entry.question
        answer: PersonAnswer | None = None
        with suppress(ToolFailure):
            answer = await entry.outcome.wait()
        try:
            await self._append(question.session_id, _answered(question, answer))
        except CallboardError as error:
            entry.record.fail(error)
            raise
        entry.record.send(None)
        return await entry.outcome.wait()

    async def _append(self, session_id: str, event: DurableEvent) -> None:
        await self._journal.ask(AppendEvents(session_id=session_id, events=(event,)))


def _known(asked: QuestionAsked, session_id: str, asked_in: str, origin: str = "") -> UserQuestion:
    """Return a question on record as people see it."""
    return UserQuestion(
        question_id=asked.question_id,
        session_id=session_id,
        turn_id=asked.turn_id,
        call_id=asked.call_id,
        question=asked.question,
        options=asked.options,
        expires_at_ms=asked.expires_at_ms,
        asked_in=asked_in,
        origin=origin,
        form=asked.form,
    )


def _answered(question: UserQuestion, answer: PersonAnswer | None) -> QuestionAnswered:
    return QuestionAnswered(
        question_id=question.question_id,
        call_id=question.call_id,
        answer=answer.text if answer is not None else "",
        answered_by=answer.answered_by if answer is not None else "",
    )


def _said(left: AskedQuestion) -> PersonAnswer:
    """Return the answer on record; raise `ToolFailure` for an end without one."""
    answered, options = left.answered, left.asked.options
    if answered is None or not answered.answered_by:
        raise _nobody("")
    text = answered.answer
    option = options.index(text.strip()) if text.strip() in options else None
    return PersonAnswer(text=text, option=option, answered_by=answered.answered_by)


def _nobody(when: str) -> ToolFailure:
    return ToolFailure(
        ErrorType.APPROVAL_EXPIRED,
        f"Nobody answered{when}: go on without, and say what you have assumed.",
    )


async def _put(entry: OpenUserQuestion, channel: Channel) -> None:
    """Ask the people of a channel; where nobody is, the question waits for an answer by id."""
    try:
        if channel.is_connected:
            answer = await awaited(channel.ask(entry.question))
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
    """Return what was said as an answer to this question; raise `ValidationError`."""
    given = PersonAnswer(text=answer) if isinstance(answer, str) else answer
    try:
        if not isinstance(given, PersonAnswer):
            raise msgspec.ValidationError(f"{answer!r:.80} is not a text")
        given = msgspec.convert(msgspec.structs.asdict(given), PersonAnswer)
    except msgspec.ValidationError as error:
        raise ValidationError(f"the answer has a wrong type: {error}", field="answer") from None
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
    if question.form is not None and option is None:
        if question.form.url:
            raise ValidationError("answer with one of the options", field="answer")
        from ...runtime.event_types.form import form_answer  # servers of tools alone ask with forms

        form_answer(question.form.fields, text)
    if len(text) > MAX_ANSWER_CHARACTERS:
        raise ValidationError(
            f"the answer has {len(text)} characters; {MAX_ANSWER_CHARACTERS} may be given",
            field="answer",
        )
    answered_by = without_surrogates(given.answered_by) or "application"
    return PersonAnswer(text=text, option=option, answered_by=answered_by)


async def awaited(answer: Awaitable[_Value] | _Value) -> _Value:
    """Return what an application's function gave, awaited if need be."""
    if inspect.isawaitable(answer):
        return await answer
    await trio.lowlevel.checkpoint()
    return answer
