"""The permission broker: decides about calls, asks a person, denies when in doubt."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import assert_never

import trio

from ..config.policy_preset import ruling
from ..runtime.errors import CallboardError
from ..runtime.events import ApprovalAnswered, ApprovalAsked
from ..runtime.identity import new_id, now_ms
from ..runtime.mailbox import Mailbox, Reply
from ..runtime.messages import (
    AnswerApproval,
    AppendEvents,
    ApprovalAnswer,
    ApprovalRequest,
    AskPerson,
    BrokerMessage,
    CheckPermissions,
    Decision,
    JournalMessage,
)
from ..runtime.redaction import redacting_logger

logger = redacting_logger(__name__)

MAILBOX_CAPACITY = 256
"""Batches that wait for a verdict: more than sessions can have at once without being queued."""

Approver = Callable[[ApprovalRequest], Awaitable[ApprovalAnswer | str | bool]]
"""Asks a person, or answers for them: `allow`, `deny`, a bool, or a whole answer."""

NOBODY = ApprovalAnswer(
    decision="deny",
    reason="there is nobody to ask: run in a terminal, choose --policy auto, or (in a program) "
    "pass on_approval",
    answered_by="callboard",
)


class PermissionBroker:
    """Decides about every call, by preset, tier and the tool's own word.

    Receives: `CheckPermissions`, `AskPerson`, `AnswerApproval`.
    Sends: `AppendEvents` to the journal.
    Owns: the questions that wait for a person.
    Ends: when cancelled; questions still open are denied by their turn's end.
    """

    def __init__(
        self,
        mailbox: Mailbox[BrokerMessage],
        journal: Mailbox[JournalMessage],
        approver: Approver | None,
        approval_seconds: float,
    ) -> None:
        self._mailbox = mailbox
        self._journal = journal
        self._approver = approver
        self._approval_seconds = approval_seconds
        self._waiting: dict[str, Reply[ApprovalAnswer]] = {}

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serves until cancelled."""
        with self._mailbox.open() as messages:
            async with trio.open_nursery() as nursery:
                task_status.started()
                async for message in messages:
                    match message:
                        case CheckPermissions():
                            with message.reply:
                                message.reply.send(_decide(message))
                        case AskPerson():
                            nursery.start_soon(
                                self._ask, message, name=f"question {message.question.call_id}"
                            )
                        case AnswerApproval():
                            with message.reply:
                                message.reply.send(self._answer(message))
                        case _:
                            assert_never(message)

    def _answer(self, message: AnswerApproval) -> bool:
        waiting = self._waiting.get(message.approval_id)
        if waiting is None or waiting.is_done:
            return False
        waiting.send(message.answer)
        return True

    async def _ask(self, message: AskPerson) -> None:
        with message.reply, message.scope:
            request = self._request(message)
            try:
                await self._record(message, _asked(request))
                answer = await self._wait_answer(request)
                await self._record(message, _answered(request, answer))
            except CallboardError as error:
                # What can't be recorded isn't allowed.
                message.reply.fail(error)
                return
            message.reply.send(answer)

    def _request(self, message: AskPerson) -> ApprovalRequest:
        question = message.question
        return ApprovalRequest(
            approval_id=new_id("approval"),
            session_id=message.session_id,
            turn_id=message.turn_id,
            call_id=question.call_id,
            tool=question.name,
            tier=question.tier,
            reason=message.reason,
            arguments=question.arguments,
            digest=message.digest,
            expires_at_ms=now_ms() + int(self._approval_seconds * 1000),
        )

    async def _record(self, message: AskPerson, event: ApprovalAsked | ApprovalAnswered) -> None:
        await self._journal.ask(AppendEvents(session_id=message.session_id, events=(event,)))

    async def _wait_answer(self, request: ApprovalRequest) -> ApprovalAnswer:
        """The first answer of whoever gives one; a denial when nobody does in time."""
        if self._approver is None:
            return NOBODY
        reply: Reply[ApprovalAnswer] = Reply()
        self._waiting[request.approval_id] = reply
        try:
            with reply, trio.move_on_after(self._approval_seconds):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(
                        self._call_approver, request, reply, name=f"approver {request.approval_id}"
                    )
                    answer = await reply.wait()
                    nursery.cancel_scope.cancel(reason="answered")
                return answer
            return ApprovalAnswer(
                decision="expired", reason="nobody answered in time", answered_by="callboard"
            )
        finally:
            del self._waiting[request.approval_id]

    async def _call_approver(self, request: ApprovalRequest, reply: Reply[ApprovalAnswer]) -> None:
        assert self._approver is not None
        try:
            answer = _as_answer(await self._approver(request))
        except Exception:  # the application's code: whatever it raises, the answer is no
            logger.exception("on_approval raised for %s; the call is denied", request.tool)
            answer = ApprovalAnswer(
                decision="deny", reason="the approval handler failed", answered_by="callboard"
            )
        if not reply.is_done:
            reply.send(answer)


def _decide(message: CheckPermissions) -> tuple[Decision, ...]:
    decisions = []
    for question in message.questions:
        found = ruling(message.agent.policy, question.tier, question.approval_reason)
        decisions.append(Decision(verdict=found.verdict, reason=found.reason))
    return tuple(decisions)


def _as_answer(answer: object) -> ApprovalAnswer:
    """What an application may say, as an answer; anything unknown is a denial."""
    match answer:
        case ApprovalAnswer(decision="allow" | "deny"):
            return answer
        case True | "allow":
            return ApprovalAnswer(decision="allow")
        case False | "deny":
            return ApprovalAnswer(decision="deny")
        case _:
            return ApprovalAnswer(
                decision="deny",
                reason=f"the approval handler answered {answer!r}, not allow or deny",
                answered_by="callboard",
            )


def _asked(request: ApprovalRequest) -> ApprovalAsked:
    return ApprovalAsked(
        approval_id=request.approval_id,
        turn_id=request.turn_id,
        call_id=request.call_id,
        name=request.tool,
        tier=request.tier,
        reason=request.reason,
        arguments=request.arguments,
        digest=request.digest,
        preview=request.preview,
        expires_at_ms=request.expires_at_ms,
    )


def _answered(request: ApprovalRequest, answer: ApprovalAnswer) -> ApprovalAnswered:
    return ApprovalAnswered(
        approval_id=request.approval_id,
        call_id=request.call_id,
        decision=answer.decision,
        answered_by=answer.answered_by,
        reason=answer.reason,
        arguments=answer.arguments,
        remember=answer.remember,
    )
