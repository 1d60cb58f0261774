"""The permission broker: decides about calls, asks a person, denies when in doubt."""

from __future__ import annotations

from typing import assert_never

import msgspec
import trio

from ...runtime.definitions import ToolFailure, Verdict
from ...runtime.errors import CallboardError, OverloadedError, StorageError
from ...runtime.kernel.mailbox import Mailbox
from ...runtime.messages import (
    AnswerApproval,
    ApprovalAnswer,
    ApprovalRequest,
    AskPerson,
    BrokerMessage,
    CheckPermissions,
    Decision,
    JournalMessage,
    PermissionQuestion,
    Resolution,
    RevokeGrant,
    ShowApproval,
)
from ...runtime.redaction import redacting_logger
from ..calls.deferral import MAX_DEFERRED
from ..people.approver import People
from ..people.person_answer import checked_answer
from ..people.question import OpenQuestion, OpenQuestions, stored_resolution
from .edited_arguments import ChangedArguments, told_to_person
from .grants import GrantBook, decided_by_grant
from .policy import SessionPolicies, SessionPolicy
from .record import ApprovalRecord, BrokerServices
from .resolution import Settlement


class QuestionView:
    """Shows questions; it answers none, and stores nothing.

    Args:
        record: Where those are that are not open here.
        people: Who is asked, which says where a question comes from.
        changes: Judges other arguments.
    """

    def __init__(self, record: ApprovalRecord, people: People, changes: ChangedArguments) -> None:
        self._record = record
        self._people = people
        self._changes = changes

    async def show(self, message: ShowApproval, question: OpenQuestion | None) -> None:
        """Replies; `question` is the one that is meant, if it is open here."""
        with message.reply:
            try:
                if question is None or question.outcome.is_done:
                    question = await self._record.question(message.approval_id)
                await self._record.refresh(question)
                message.reply.send(await self._request(question, message.arguments))
            except ToolFailure as failure:
                message.reply.fail(told_to_person(failure))
            except CallboardError as error:
                message.reply.fail(error)

    async def _request(self, question: OpenQuestion, arguments: str | None) -> ApprovalRequest:
        request = question.request()
        if arguments is not None:
            request = await self._changes.request(question, arguments)
        served = self._people.serving(question.place)
        if request.origin or served is None:
            return request
        return msgspec.structs.replace(request, origin=served.origin)


logger = redacting_logger(__name__)

MAILBOX_CAPACITY = 256
"""Batches that wait for a verdict: more than sessions can have at once without being queued."""


class PermissionBroker:
    """Decides about every call: by policy, then by what a person had remembered, then by asking.

    Receives: `CheckPermissions`, `AskPerson`, `AnswerApproval`, `ShowApproval`, `RevokeGrant`.
    Sends: `AppendEvents` to the journal: each question before anybody hears it, each answer before
        anything follows from it. Who answered first is decided there. `WakeSession` to the
        directory, from child tasks, when a late answer is on record.
    Owns: the questions that are open in this process, the grants that hold.
    Ends: when cancelled; what is open then waits on record.
    """

    def __init__(
        self,
        mailbox: Mailbox[BrokerMessage],
        journal: Mailbox[JournalMessage],
        services: BrokerServices,
    ) -> None:
        self._mailbox = mailbox
        self._record = ApprovalRecord(journal, services)
        self._people = People(services.channels)
        self._services = services
        self._book = GrantBook()
        self._questions = OpenQuestions()
        self._policies = SessionPolicies(services.policies)
        self._changes = ChangedArguments(
            services.preparation,
            lambda check: _decide(check, self._policies.of(check.place), self._book),
        )
        self._view = QuestionView(self._record, self._people, self._changes)
        self._revoking = trio.Lock()
        self._nursery: trio.Nursery
        self._settlement: Settlement

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serves until cancelled."""
        for grant in await self._services.store.grants():
            self._book.add(grant)
        with self._mailbox.open() as messages:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                self._settlement = Settlement(
                    self._services,
                    self._record,
                    self._book,
                    self._changes,
                    self._questions,
                    self._people,
                    nursery,
                    self._await_late,
                )
                nursery.start_soon(self._take_up_deferred, name="deferred questions")
                task_status.started()
                async for message in messages:
                    match message:
                        case CheckPermissions():
                            with message.reply:
                                policy = self._policies.of(message.place)
                                message.reply.send(_decide(message, policy, self._book))
                        case AskPerson():
                            name = f"question {message.question.call_id}"
                            nursery.start_soon(self._ask, message, name=name)
                        case AnswerApproval():
                            nursery.start_soon(self._take_answer, message, name="answer")
                        case ShowApproval():
                            asked = self._questions.get(message.approval_id)
                            nursery.start_soon(self._view.show, message, asked, name="show")
                        case RevokeGrant():
                            nursery.start_soon(self._revoke, message, name="revoke")
                        case _:
                            assert_never(message)

    # ── asking ───────────────────────────────────────────────────────────────────────────────────

    async def _ask(self, message: AskPerson) -> None:
        with message.reply, message.scope:
            try:
                resolution = await self._resolve(message)
            except CallboardError as error:
                # What can't be recorded isn't allowed.
                message.reply.fail(error)
                return
            message.reply.send(resolution)

    async def _resolve(self, message: AskPerson) -> Resolution:
        """One question from its record to its answer's."""
        grant = self._book.find(message.place, message.question, message.marks)
        known = await self._record.still_asked(
            message.known, message.digest, is_granted=grant is not None
        )
        if known is None and message.defers:
            return await self._defer(message)
        question = self._record.opened(message, known, self._people.serving(message.place))
        twin = self._questions.twin(question)
        self._questions.add(question)
        try:
            if known is None:
                same_as = twin.approval_id if twin is not None else ""
                await self._record.append(question, question.asked(same_as))
            elif (row := await self._record.row(question)).state != "waiting":
                # It was answered while nobody here listened.
                self._settlement.learn(question, stored_resolution(row))
            if not question.outcome.is_done:
                await self._settlement.find_answer(question, twin)
            return await question.outcome.wait()
        except CallboardError:
            self._settlement.release(question)
            raise
        finally:
            self._forget(question)

    def _forget(self, question: OpenQuestion) -> None:
        self._questions.drop(question)
        self._settlement.close(question)

    # ── deferred questions ───────────────────────────────────────────────────────────────────────

    async def _defer(self, message: AskPerson) -> Resolution:
        """Puts a question on record that nobody waits for, and begins to ask it."""
        if self._questions.deferred_of(message.place.session_id) >= MAX_DEFERRED:
            raise OverloadedError(
                f"{MAX_DEFERRED} calls of this session wait for an answer already; ask again later"
            )
        question = self._record.opened(message, None, self._people.serving(message.place))
        twin = self._questions.twin(question)
        same_as = twin.approval_id if twin is not None else ""
        self._questions.add(question)
        try:
            # Shielded: what is on record is asked about, even when its turn is cancelled by now.
            with trio.CancelScope(shield=True):
                await self._record.append(question, question.asked(same_as), question.deferred())
        except CallboardError:
            self._settlement.release(question)
            self._forget(question)
            raise
        self._await_late(question, twin)
        return question.resolution(ApprovalAnswer(decision="deferred", answered_by="callboard"))

    def _await_late(self, question: OpenQuestion, twin: OpenQuestion | None = None) -> None:
        """Has a question on record answered in the background."""
        self._questions.add(question)

        async def wait() -> None:
            try:
                await self._settlement.find_answer(question, twin)
                await question.outcome.wait()
            except CallboardError as error:
                self._settlement.release(question)
                logger.error("%s waits on record: %s", question.approval_id, error)
            finally:
                self._forget(question)

        self._nursery.start_soon(wait, name=f"deferred {question.approval_id}")

    async def _take_up_deferred(self) -> None:
        """Asks again what earlier processes deferred, and begins the turns of inputs that wait."""
        try:
            for question, same_as in await self._record.deferred():
                if question.approval_id not in self._questions:
                    self._await_late(question, self._questions.get(same_as))
            await self._record.wake()
        except CallboardError as error:
            logger.error("deferred questions were not taken up: %s", error)

    # ── answers ──────────────────────────────────────────────────────────────────────────────────

    async def _take_answer(self, message: AnswerApproval) -> None:
        """An answer by id, to a question that is open here or only on record."""
        with message.reply:
            try:
                answer = checked_answer(message.answer)
                question = self._questions.get(message.approval_id)
                if question is None or question.outcome.is_done:
                    question = await self._record.question(message.approval_id)
                await self._settlement.answer(question, answer)
            except ToolFailure as failure:
                message.reply.fail(told_to_person(failure))
            except CallboardError as error:
                message.reply.fail(error)
            else:
                message.reply.send(None)

    async def _revoke(self, message: RevokeGrant) -> None:
        """At once, for calls that are queued too; it holds again only when that can't be stored."""
        with message.reply:
            try:
                # One by one: what one takes out and puts back, no other has revoked meanwhile.
                async with self._revoking:
                    grant = await self._record.grant(message.grant_id)
                    held = self._book.remove(grant)
                    try:
                        await self._record.revoke(grant, message.revoked_by)
                    except StorageError:
                        if held:
                            self._book.add(grant)
                        raise
                    self._book.remove(grant)  # it may have been given just now
                await self._record.void_answers_of(grant)
            except CallboardError as error:
                message.reply.fail(error)
            else:
                message.reply.send(None)


def _decide(
    message: CheckPermissions, policy: SessionPolicy, book: GrantBook
) -> tuple[Decision, ...]:
    """The verdicts: the policy's, then what a person had remembered; a denial of either wins."""
    return tuple(
        _decided(message, question, policy.decision(question, message.marks), book)
        if book.has(question.name)
        else policy.decision(question, message.marks)
        for question in message.questions
    )


def _decided(
    message: CheckPermissions, question: PermissionQuestion, decision: Decision, book: GrantBook
) -> Decision:
    if decision.verdict is Verdict.DENY:
        return decision
    grant = book.find(message.place, question, message.marks)
    if grant is None or (decision.verdict is Verdict.ALLOW and grant.verdict == "allow"):
        return decision
    return decided_by_grant(grant, decision)
