"""The questions to people that are open in a session, folded from its events."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from ...runtime.events import (
    ApprovalAnswered,
    ApprovalAsked,
    CallFinished,
    ChildAsks,
    QuestionAnswered,
    QuestionAsked,
    TurnResumed,
)
from ..hints import command_line
from .notify import headline_of


class PendingQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """A question that waits for a person.

    Attributes:
        question_id: The id of the approval, or of the model's question.
        call_id: The call that waits for it; empty when a resumed turn asks again.
        tool: The tool that it is about; empty like `call_id`.
        child_id: The session that asks, when that is below the one whose events were read.
    """

    question_id: str
    call_id: str = ""
    tool: str = ""
    child_id: str = ""

    @property
    def is_approval(self) -> bool:
        """Whether it asks about a call; otherwise a model asks something of its own."""
        return self.question_id.startswith("approval_")

    @property
    def headline(self) -> str:
        """One line for a notification."""
        return headline_of(self.tool if self.is_approval else "")

    def how_to_answer(self, session_id: str) -> str:
        """Return the command that answers it elsewhere; `session_id` is the session that is shown."""
        if self.is_approval:
            return command_line(f"callboard approve {self.question_id}")
        return command_line(f"callboard chat --session {session_id}")


def opened_by(event: object) -> tuple[PendingQuestion, ...]:
    """Return the questions that people are asked from this event on.

    A deferred call waits for `callboard approve`, and a question that asks the same as another one
    gets the answer of that: nobody is asked about either.
    """
    match event:
        case ApprovalAsked(same_as="", is_deferred=False):
            return (
                PendingQuestion(
                    question_id=event.approval_id, call_id=event.call_id, tool=event.name
                ),
            )
        case QuestionAsked():
            return (
                PendingQuestion(
                    question_id=event.question_id, call_id=event.call_id, tool="ask_user"
                ),
            )
        case ChildAsks():
            return (
                PendingQuestion(
                    question_id=event.question_id,
                    call_id=event.call_id,
                    tool=event.name,
                    child_id=event.child_id,
                ),
            )
        case TurnResumed(approval_ids=approval_ids):
            return tuple(PendingQuestion(question_id=each) for each in approval_ids)
        case _:
            return ()


def answered_by(event: object) -> tuple[str, str] | None:
    """Return the question that an event answers, and who did; `None` when it answers none."""
    match event:
        case ApprovalAnswered(approval_id=question_id, answered_by=who):
            return question_id, who
        case QuestionAnswered(question_id=question_id, answered_by=who):
            return question_id, who
        case _:
            return None


class PendingQuestions:
    """The questions that wait, folded from the events of a session.

    A question of a session below stands on that session's record, and so does its answer: whoever
    asks it reads that record too (`daemon_questions.wait_answer`).

    Args:
        opened: Called when one more waits.
        closed: Called with the id of one that no longer waits, and whoever answered it (or nothing).
    """

    def __init__(
        self, opened: Callable[[PendingQuestion], None], closed: Callable[[str, str], None]
    ) -> None:
        self.waiting: dict[str, PendingQuestion] = {}
        self._opened = opened
        self._closed = closed

    def see(self, event: object) -> None:
        """Take an event on record."""
        for question in opened_by(event):
            self.add(question)
        if (answer := answered_by(event)) is not None:
            self.remove(*answer)
        elif isinstance(event, CallFinished):
            for question in [*self.waiting.values()]:
                if question.call_id == event.call_id and not question.child_id:
                    self.remove(question.question_id)

    def add(self, question: PendingQuestion) -> None:
        """Note a question; one that is noted already stays as it is."""
        if question.question_id not in self.waiting:
            self.waiting[question.question_id] = question
            self._opened(question)

    def remove(self, question_id: str, who: str = "") -> None:
        """Note that a question no longer waits."""
        self.waiting.pop(question_id, None)
        self._closed(question_id, who)  # also of one that was asked without being noted
