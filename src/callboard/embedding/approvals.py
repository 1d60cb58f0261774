"""What a runtime asks of people: its questions, their answers, and what is remembered of those."""

from __future__ import annotations

from typing import Literal

from ..runtime.handles import PersonAnswer
from ..runtime.messages import (
    AnswerApproval,
    ApprovalAnswer,
    ApprovalRequest,
    RevokeGrant,
    ShowApproval,
)
from ..runtime.store.rows import ApprovalRow, GrantRow
from .host import Host


class ApprovalAccess:
    """The part of a runtime by which people answer.

    Args:
        host: The running actors.
    """

    def __init__(self, host: Host) -> None:
        self._host = host

    async def approvals(self, *, state: str | None = "waiting") -> list[ApprovalRow]:
        """Questions to a person, the latest first.

        Args:
            state: Those that wait, by default; `None` is all on record.

        Example:
            for question in await runtime.approvals():
                await runtime.answer(question.approval_id, "deny")
        """
        return await self._host.plan.store.approvals(state=state)

    async def approval(self, approval_id: str, *, arguments: str | None = None) -> ApprovalRequest:
        """A question that waits, as it is put to a person by now; nothing is answered by that.

        Args:
            approval_id: The question.
            arguments: Other arguments, as a JSON object: it is shown as it would be about these,
                validated and judged by the policy, with a preview of their own.

        Raises:
            NotFoundError: There is no such question.
            ConflictError: It has its answer, or has expired.
            ValidationError: No answer with these arguments could be taken.

        Example:
            for question in await runtime.approvals():
                request = await runtime.approval(question.approval_id)
                print(request.tool, request.reason, request.preview, request.scopes)
        """
        showing = ShowApproval(approval_id=approval_id, arguments=arguments)
        request: ApprovalRequest = await self._host.broker.ask(showing)
        return request

    async def answer(
        self, approval_id: str, answer: ApprovalAnswer | Literal["allow", "deny"]
    ) -> None:
        """Answers a question, of a running turn or of a suspended one; on record on return.

        Raises:
            NotFoundError: There is no such question.
            ConflictError: Somebody was first, or it has expired.
            ValidationError: The answer can't be taken; the question stays open.
        """
        whole = answer if isinstance(answer, ApprovalAnswer) else ApprovalAnswer(decision=answer)
        await self._host.broker.ask(AnswerApproval(approval_id=approval_id, answer=whole))

    async def answer_question(self, question_id: str, answer: PersonAnswer | str) -> None:
        """Answers a model's question (`ask_user`) that is open; on record on return.

        Raises:
            NotFoundError: There is no such question.
            ConflictError: Somebody was first, or nobody waits for it any more.
            ValidationError: It is no answer; the question stays open.
        """
        await self._host.questions.answer(question_id, answer)

    async def grants(self) -> list[GrantRow]:
        """The remembered answers that hold, in the order in which they were given."""
        return await self._host.plan.store.grants()

    async def revoke(self, grant_id: str, *, revoked_by: str = "application") -> None:
        """Ends a remembered answer, at once and for queued calls too.

        Raises:
            NotFoundError: There is no such grant.
            ConflictError: It is revoked already.
        """
        await self._host.broker.ask(RevokeGrant(grant_id=grant_id, revoked_by=revoked_by))
