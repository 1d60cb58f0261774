"""Puts the questions of a session to whoever chats: one after another, until somebody answers."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import trio

from ...client.client import Client
from ...runtime.approval import ApprovalAnswer, ApprovalRequest
from ...runtime.channel import UserQuestion
from ...runtime.errors import CallboardError, ConflictError, NotFoundError
from ...runtime.events import DurableEvent, TurnEnded
from ..ask.daemon_questions import find_question, wait_answer
from ..ask.dialogue import Asker
from ..ask.pending_questions import PendingQuestion, PendingQuestions
from ..terminal.escaping import safe_line
from ..terminal.keyboard import Keyboard
from ..terminal.output import Output
from ..terminal.style import Style

NOT_ASKED = (NotFoundError, ConflictError)
"""Errors by which the daemon says that a question no longer waits."""


class InputEnded(Exception):
    """The person ended the input while a question stood open: it waits on."""


class _Keys(Keyboard):
    """A keyboard that raises `InputEnded` at the end of the input."""

    async def line(self, prompt: str) -> str | None:
        typed = await super().line(prompt)
        if typed is None:
            raise InputEnded
        return typed


class ChatQuestions:
    """Knows what is asked, by the events of a session, and asks it.

    Args:
        output: Where questions are printed; other output is held back meanwhile.
        style: What it can show.
        data: Where arguments are edited; see `Editor`.
        arrived: Called when there is one more.

    Attributes:
        answered: Called with the approval whose answer is given here, ahead of it.
    """

    def __init__(
        self, output: Output, style: Style, data: Path, arrived: Callable[[], None]
    ) -> None:
        self._keyboard = _Keys(0, output)
        self._asker = Asker(self._keyboard, data, style)
        self._arrived = arrived
        self.answered: Callable[[str], None] = lambda _: None
        self._open = PendingQuestions(self._note_opened, self._note_closed)
        self._is_known = False
        self._asking = ""
        self._scope = trio.CancelScope()
        self._is_sending = False
        self._withdrawn_by = ""

    # ── what is asked ────────────────────────────────────────────────────────────────────────────

    def see(self, event: DurableEvent) -> bool:
        """Take an event on record; return whether only the daemon knows what still waits: `settle`.

        The end of a turn ends its own questions. A session below may go on and wait for its answer
        (`delegate` with `wait: false`), or was cancelled with the turn.
        """
        self._open.see(event)
        if not isinstance(event, TurnEnded) or event.outcome == "suspended":
            return False
        for question in [*self._open.waiting.values()]:
            if not question.child_id:
                self._open.remove(question.question_id)
        is_unsure = self._is_known and bool(self._open.waiting)
        self._is_known = self._is_known and not is_unsure
        return is_unsure

    def forget(self) -> None:
        """Note that nothing is asked any more, as far as is known."""
        for question_id in [*self._open.waiting]:
            self._open.remove(question_id)

    def next(self) -> PendingQuestion | None:
        """Return the question to put now; `None` while it is unknown which of those seen still wait."""
        return next(iter(self._open.waiting.values()), None) if self._is_known else None

    def settle(self, waiting: list[PendingQuestion], known: set[str]) -> None:
        """Keep, of the questions seen, those that are `known` to wait; what is seen from now on is new."""
        for question_id in [*self._open.waiting]:
            if question_id not in known:
                self._open.remove(question_id)
        self._is_known = True
        for question in waiting:
            self._open.add(question)
        if self._open.waiting:
            self._arrived()

    def drop(self, question: PendingQuestion) -> None:
        """Leave a question to others."""
        self._open.waiting.pop(question.question_id, None)

    def unsettle(self) -> None:
        """Note that questions that are seen from now on may have been answered long ago."""
        self._is_known = False

    def _note_opened(self, question: PendingQuestion) -> None:
        if self._is_known:
            self._arrived()

    def _note_closed(self, question_id: str, who: str) -> None:
        if self._asking == question_id and not self._is_sending:
            self._withdrawn_by = who
            self._scope.cancel(reason="no longer asked")

    def abandon(self) -> None:
        """Leave the terminal as it was found, before an exit on the spot."""
        self._asker.abandon()

    # ── how it is put ────────────────────────────────────────────────────────────────────────────

    async def put(self, client: Client, question: PendingQuestion) -> None:
        """Ask until an answer is on record, the person's or another's.

        Raises:
            InputEnded: It is left open.
            NetworkError: The daemon is gone.
        """
        self._scope, self._withdrawn_by = trio.CancelScope(), ""
        self._asking = question.question_id
        try:
            with self._scope:
                await self._put_watched(client, question)
            self.drop(question)
        except NOT_ASKED:
            self.drop(question)
            self._keyboard.write("(it is no longer asked)\n")
        finally:
            self._asking, self._is_sending = "", False
            self._keyboard.forget_typed()
        if self._scope.cancelled_caught:
            by = f": {safe_line(self._withdrawn_by)} was first" if self._withdrawn_by else ""
            self._keyboard.write(f"\n(no longer asked{by})\n")

    async def _put_watched(self, client: Client, question: PendingQuestion) -> None:
        raised: BaseException | None = None
        async with trio.open_nursery() as nursery:
            if question.child_id:
                nursery.start_soon(self._watch_child, client, question)
            try:
                if question.is_approval:
                    await self._put_approval(client, question.question_id)
                else:
                    await self._put_question(client, question.question_id)
            except (CallboardError, InputEnded) as error:
                raised = error
            nursery.cancel_scope.cancel(reason="it has ended")
        if raised is not None:
            raise raised

    async def _watch_child(self, client: Client, question: PendingQuestion) -> None:
        if (who := await wait_answer(client, question)) is not None:
            self._open.remove(question.question_id, who)

    async def _put_approval(self, client: Client, approval_id: str) -> None:
        async def submit(answer: ApprovalAnswer) -> None:
            self._is_sending = True  # its own answer comes back as an event, too
            self.answered(approval_id)
            try:
                await client.answer(approval_id, answer)
            finally:
                self._is_sending = False

        await self._asker.approve(
            await client.approval(approval_id),
            lambda arguments: client.approval(approval_id, arguments=arguments),
            submit,
            lambda: self._waiting(client),
        )

    async def _waiting(self, client: Client) -> list[ApprovalRequest]:
        """Return the other questions about calls that wait, as the daemon has them now."""
        found = []
        for each in [*self._open.waiting.values()]:
            if each.is_approval and each.question_id != self._asking:
                with suppress(*NOT_ASKED):
                    found.append(await client.approval(each.question_id))
        return found

    async def _put_question(self, client: Client, question_id: str) -> None:
        answer = await self._asker.ask(await find_question(client, question_id))
        assert answer is not None  # the end of the input is `InputEnded`
        self._is_sending = True
        await client.answer_question(question_id, answer.text, option=answer.option)


async def put_to_nobody(
    client: Client, question: PendingQuestion, session_id: str, *, is_host: bool
) -> str:
    """Answer no where nobody sits and the daemon is the command's own; return what to print.

    Another daemon may have people, so its questions are left open.
    """
    if not is_host:
        await trio.lowlevel.checkpoint()
        return f"{question.tool} waits for an answer: {question.how_to_answer(session_id)}"
    try:
        if question.is_approval:
            answer = ApprovalAnswer(decision="deny", reason="nobody is at a terminal")
            await client.answer(question.question_id, answer)
        else:
            await client.answer_question(question.question_id, "Nobody is here to answer.")
    except CallboardError as error:
        return str(error)
    return ""


async def waiting_questions(
    client: Client, session_id: str
) -> tuple[list[PendingQuestion], set[str]]:
    """Return the questions of a session that wait now, and the ids of all that wait.

    Questions of models below the session, which ask there, are among them.
    """
    rows = await client.approvals()
    found = [
        PendingQuestion(question_id=row.approval_id, call_id=row.call_id, tool=row.tool)
        for row in reversed(rows)
        if row.session_id == session_id and not row.is_deferred and not row.same_as
    ]
    found += [_of_model(each, session_id) for each in await client.questions(session_id=session_id)]
    return found, {row.approval_id for row in rows} | {each.question_id for each in found}


async def listed_questions(
    client: Client, session_id: str
) -> dict[str, tuple[PendingQuestion, str]]:
    """Return all questions that wait, of every session, by id: each with what it is about.

    `session_id` is the session that is shown: of any other one the record says when it is answered.
    """
    found = {
        row.approval_id: (
            PendingQuestion(question_id=row.approval_id, call_id=row.call_id, tool=row.tool),
            row.reason,
        )
        for row in reversed(await client.approvals())
    }
    asked = {
        each.question_id: (_of_model(each, session_id), each.question)
        for each in await client.questions()
    }
    return found | asked


def _of_model(asked: UserQuestion, session_id: str) -> PendingQuestion:
    return PendingQuestion(
        question_id=asked.question_id,
        call_id=asked.call_id,
        tool="ask_user",
        child_id=asked.session_id if asked.session_id != session_id else "",
    )
