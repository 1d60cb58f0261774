"""The people behind a question, and what they say in time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress

import trio

from ..runtime.errors import CallboardError
from ..runtime.foreign_crash import raise_stop
from ..runtime.messages import ApprovalAnswer, ApprovalRequest
from ..runtime.redaction import redacting_logger
from .open_question import OpenQuestion, as_answer

logger = redacting_logger(__name__)

Approver = Callable[[ApprovalRequest], Awaitable[ApprovalAnswer | str | bool]]
"""Asks a person, or answers for them: `allow`, `deny`, a bool, or a whole answer."""

NOBODY = ApprovalAnswer(
    decision="deny",
    reason="there is nobody to ask: run in a terminal, choose --policy auto, or (in a program) "
    "pass on_approval",
    answered_by="callboard",
)
EXPIRED = ApprovalAnswer(
    decision="expired", reason="nobody answered in time", answered_by="callboard"
)
CRASHED = ApprovalAnswer(
    decision="deny", reason="the approval handler failed", answered_by="callboard"
)


class People:
    """Puts questions to people.

    Args:
        approver: Asks a person, or `None` when there is nobody to ask.
    """

    def __init__(self, approver: Approver | None) -> None:
        self._approver = approver

    async def ask(self, question: OpenQuestion) -> ApprovalAnswer | None:
        """What they answer, or that time is over; `None` when others settled it meanwhile."""
        approver = self._approver
        if approver is None:
            return NOBODY
        answers: list[ApprovalAnswer] = []

        async def call() -> None:
            answers.append(await _answer_of(approver, question))
            nursery.cancel_scope.cancel(reason="answered")

        with trio.move_on_after(question.patience_seconds):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(call, name=f"approver {question.approval_id}")
                with suppress(CallboardError):  # told to whoever asked
                    await question.outcome.wait()
                nursery.cancel_scope.cancel(reason="answered by others")
            return answers[0] if answers else None
        return EXPIRED


async def _answer_of(approver: Approver, question: OpenQuestion) -> ApprovalAnswer:
    try:
        return as_answer(await approver(question.request()))
    except BaseException as crash:  # noqa: ASYNC103  the application's: the answer is no
        raise_stop(crash)
        tool = question.question.name
        logger.exception("on_approval raised for %s; the call is denied", tool)
        return CRASHED  # noqa: ASYNC104
