"""The permission broker: decides about calls, asks a person, denies when in doubt."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import assert_never

import msgspec
import trio

from ..runtime.definitions import ToolFailure
from ..runtime.errors import (
    ActorStopped,
    CallboardError,
    ConflictError,
    OverloadedError,
    StorageError,
    ValidationError,
)
from ..runtime.events import DurableEvent
from ..runtime.identity import now_ms
from ..runtime.mailbox import Mailbox
from ..runtime.messages import (
    AnswerApproval,
    ApprovalAnswer,
    AskPerson,
    BrokerMessage,
    CheckPermissions,
    Decision,
    JournalMessage,
    PermissionQuestion,
    Resolution,
    RevokeGrant,
)
from ..runtime.permission_rows import given_grant
from ..runtime.redaction import redacting_logger
from ..runtime.store import GrantRow
from .approval_record import ApprovalRecord, BrokerServices
from .changed_arguments import ChangedArguments
from .deferral import MAX_DEFERRED
from .grant_book import GrantBook, decided_by_grant, is_covered, is_suspended, said_by
from .open_question import (
    OpenQuestion,
    checked_answer,
    stored_resolution,
    without_memory,
)
from .people import EXPIRED, People
from .session_policy import SessionPolicies, SessionPolicy

logger = redacting_logger(__name__)

MAILBOX_CAPACITY = 256
"""Batches that wait for a verdict: more than sessions can have at once without being queued."""


class PermissionBroker:
    """Decides about every call: by policy, then by what a person had remembered, then by asking.

    Receives: `CheckPermissions`, `AskPerson`, `AnswerApproval`, `RevokeGrant`.
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
        self._questions: dict[str, OpenQuestion] = {}
        self._policies = SessionPolicies(services.policies)
        self._changes = ChangedArguments(
            services.preparation,
            lambda check: _decide(check, self._policies.of(check.place), self._book),
        )
        self._nursery: trio.Nursery

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serves until cancelled."""
        for grant in await self._services.store.grants():
            self._book.add(grant)
        with self._mailbox.open() as messages:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
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
        twin = self._twin(question)
        self._questions[question.approval_id] = question
        try:
            if known is None:
                same_as = twin.approval_id if twin is not None else ""
                await self._record.append(question, question.asked(same_as))
            elif (row := await self._record.row(question)).state != "waiting":
                return stored_resolution(row)  # it was answered while nobody here listened
            await self._find_answer(question, twin)
            return await question.outcome.wait()
        finally:
            self._forget(question)

    def _forget(self, question: OpenQuestion) -> None:
        if self._questions.get(question.approval_id) is question:
            del self._questions[question.approval_id]
        self._close(question)

    # ── deferred questions ───────────────────────────────────────────────────────────────────────

    async def _defer(self, message: AskPerson) -> Resolution:
        """Puts a question on record that nobody waits for, and begins to ask it."""
        session_id = message.place.session_id
        theirs = [q for q in self._questions.values() if q.place.session_id == session_id]
        if sum(each.is_deferred for each in theirs) >= MAX_DEFERRED:
            raise OverloadedError(
                f"{MAX_DEFERRED} calls of this session wait for an answer already; ask again later"
            )
        question = self._record.opened(message, None, self._people.serving(message.place))
        twin = self._twin(question)
        same_as = twin.approval_id if twin is not None else ""
        self._questions[question.approval_id] = question
        try:
            # Shielded: what is on record is asked about, even when its turn is cancelled by now.
            with trio.CancelScope(shield=True):
                await self._record.append(question, question.asked(same_as), question.deferred())
        except CallboardError:
            self._forget(question)
            raise
        self._await_late(question, twin)
        return question.resolution(ApprovalAnswer(decision="deferred", answered_by="callboard"))

    def _await_late(self, question: OpenQuestion, twin: OpenQuestion | None) -> None:
        """Has a question on record answered in the background."""
        self._questions[question.approval_id] = question

        async def wait() -> None:
            try:
                await self._find_answer(question, twin)
                await question.outcome.wait()
            except CallboardError as error:
                logger.error("%s waits on record: %s", question.approval_id, error)
            finally:
                self._forget(question)

        self._nursery.start_soon(wait, name=f"deferred {question.approval_id}")

    async def _take_up_deferred(self) -> None:
        """Asks again what earlier processes deferred, and begins the turns of late answers."""
        try:
            for question, same_as in await self._record.deferred():
                if question.approval_id not in self._questions:
                    self._await_late(question, self._questions.get(same_as))
            await self._record.wake()
        except CallboardError as error:
            logger.error("deferred questions were not taken up: %s", error)

    async def _wake(self, session_id: str) -> None:
        try:
            await self._record.wake(session_id)
        except CallboardError as error:
            logger.error("%s has a late answer and was not woken: %s", session_id, error)

    def _twin(self, question: OpenQuestion) -> OpenQuestion | None:
        """A question of the same answer that asks the same, and is put to a person."""
        mine = question.digest, question.place.turn_id
        others = self._questions.values()
        return next((o for o in others if (o.digest, o.place.turn_id) == mine), None)

    async def _find_answer(self, question: OpenQuestion, twin: OpenQuestion | None) -> None:
        """Sees to it that the question is settled: by a grant, with its twin, or by a person."""
        grant = self._book.find(question.place, question.question, question.marks)
        if grant is not None:
            await self._settle_or_learn(question, said_by(grant))
        elif twin is not None and not twin.outcome.is_done:
            twin.followers.append(question)
        elif twin is not None:
            await self._settle_or_learn(
                question, without_memory((await twin.outcome.wait()).answer)
            )
        else:
            if question.asked_in:
                await self._record.tell_above(question)
            if (answer := await self._people.ask(question)) is not None:
                await self._settle_or_learn(question, answer)

    # ── answers ──────────────────────────────────────────────────────────────────────────────────

    async def _take_answer(self, message: AnswerApproval) -> None:
        """An answer by id, to a question that is open here or only on record."""
        with message.reply:
            try:
                answer = checked_answer(message.answer)
                question = self._questions.get(message.approval_id)
                if question is None or question.outcome.is_done:
                    question = await self._record.question(message.approval_id)
                await self._settle(question, answer)
            except ToolFailure as failure:
                message.reply.fail(ValidationError(f"arguments: {failure}", field="arguments"))
            except CallboardError as error:
                message.reply.fail(error)
            else:
                message.reply.send(None)

    async def _settle_or_learn(self, question: OpenQuestion, answer: ApprovalAnswer) -> None:
        """Settles a question with this answer, or with the one that was first."""
        try:
            if not await self._is_first(question, answer):
                await self._learn(question)
        except CallboardError as error:
            self._close(question, error)

    async def _is_first(self, question: OpenQuestion, answer: ApprovalAnswer) -> bool:
        try:
            try:
                await self._settle(question, answer)
            except ToolFailure as failure:  # what the person made of the arguments can't be
                denial = msgspec.structs.replace(
                    without_memory(answer), decision="deny", reason=str(failure)
                )
                await self._settle(question, denial, failure)
            except ValidationError as problem:  # it holds for this call, and is not remembered
                logger.warning("an answer about %s: %s", question.question.name, problem)
                await self._settle(question, without_memory(answer))
        except ConflictError:
            return False
        return True

    async def _settle(
        self, question: OpenQuestion, answer: ApprovalAnswer, failure: ToolFailure | None = None
    ) -> None:
        """Makes an answer count: on record first, where only one is taken.

        Raises:
            ConflictError: Somebody was first, or it has expired.
            ToolFailure: What the person changed can't be.
            ValidationError: What they want remembered can't be.
        """
        if failure is not None:
            resolution = msgspec.structs.replace(question.resolution(answer), failure=failure)
        else:
            resolution = self._changes.resolution(question, answer)
        given = None if self._book.is_full else question.grant(resolution)
        anew = await self._asked_anew(question, resolution)
        late = question.delivery(resolution)
        asked = anew.asked("") if anew is not None else None
        events: tuple[DurableEvent | None, ...] = (
            question.answered(resolution), given, late, asked,
        )  # fmt: skip
        await self._record.append(question, *(event for event in events if event is not None))
        self._conclude(question, resolution, answer)
        if given is not None:
            grant = given_grant(given, question.place.session_id, now_ms())
            self._book.add(grant)
            self._answer_by(grant)
        if anew is not None:
            self._await_late(anew, None)
        if late is not None:
            self._nursery.start_soon(self._wake, question.place.session_id, name="wake")

    async def _asked_anew(
        self, question: OpenQuestion, resolution: Resolution
    ) -> OpenQuestion | None:
        """The question in the place of a deferred one, when the changed arguments want one."""
        if not question.is_deferred or resolution.answer.decision != "revised":
            return None
        seconds = self._services.deferred_seconds
        return await self._changes.asked_anew(
            question,
            resolution.arguments,
            expires_at_ms=now_ms() + int(seconds * 1000),
            seconds=seconds,
        )

    def _conclude(
        self, question: OpenQuestion, resolution: Resolution, answer: ApprovalAnswer
    ) -> None:
        """The answer is on record: whoever asked hears it, and who asks the same has it too."""
        if question.outcome.is_done:
            return
        question.outcome.send(resolution)
        for follower in question.followers:
            settle = partial(self._settle_or_learn, follower, without_memory(answer))
            self._nursery.start_soon(settle, name=f"answer {follower.approval_id}")

    def _close(self, question: OpenQuestion, error: CallboardError | None = None) -> None:
        """It is no longer asked; without an answer, those who ask the same have none."""
        if question.outcome.is_done:
            return
        question.outcome.fail(error or ActorStopped("the question is no longer asked"))
        for follower in question.followers:
            self._close(follower, error)

    async def _learn(self, question: OpenQuestion) -> None:
        """Somebody else was first, or the store's clock says that the time is over."""
        row = await self._record.row(question)
        if row.state == "waiting":
            with suppress(ConflictError):
                await self._settle(question, EXPIRED)
                return
            row = await self._record.row(question)
        resolution = stored_resolution(row)
        self._conclude(question, resolution, resolution.answer)

    def _answer_by(self, grant: GrantRow) -> None:
        """A new grant answers what waits for the same permission."""
        for other in list(self._questions.values()):
            if (
                not other.outcome.is_done
                and not is_suspended(grant, other.marks)
                and is_covered(grant, other.place, other.question)
            ):
                settle = partial(self._settle_or_learn, other, said_by(grant))
                self._nursery.start_soon(settle, name=f"answer {other.approval_id}")

    async def _revoke(self, message: RevokeGrant) -> None:
        """At once, for calls that are queued too; it holds again only when that can't be stored."""
        with message.reply:
            try:
                grant = await self._record.grant(message.grant_id)
                self._book.remove(grant)
                try:
                    await self._record.revoke(grant, message.revoked_by)
                except StorageError:
                    self._book.add(grant)
                    raise
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
    if decision.verdict == "deny":
        return decision
    grant = book.find(message.place, question, message.marks)
    if grant is None or (decision.verdict == "allow" and grant.verdict == "allow"):
        return decision
    return decided_by_grant(grant, decision)
