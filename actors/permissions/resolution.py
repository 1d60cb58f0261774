"""The life of one question: asked, answered once, expired, shared with its twins.

**On record first.** `ApprovalAsked` is in the journal before anybody hears a question, and
`ApprovalAnswered` before anything follows from an answer. What can't be stored isn't allowed.

**An answer counts once.** A person at the channel, a person who answers by id, a grant and the clock
all come to `_settle`, which appends `ApprovalAnswered`. The store takes that event only while the
question's row says `waiting` and its time is not over: a compare-and-swap inside the commit, so no
lock is needed here. The loser gets a `ConflictError`, reads the row, and learns the winner's answer.
`_settle` rechecks what may have changed since the question was put: what the session has read, the
arguments that the person changed, the scope for which it is to be remembered.

**Twins.** Calls of one turn with the same digest ask the same, so only the first of them is put to
people. The others follow it and have its answer in the same commit, or each in its own where that
conflicts. A question that ends without an answer releases its followers: the first of them is
asked in its place.

**Expiry.** People have `patience_seconds` (see `asking`); then the answer is `expired`, a denial. A
question that waits only on record expires by the store's clock, when somebody comes to it.

**After a crash** only the record is left. A question that a turn waited for comes back in
`AskPerson.known` when the turn is resumed, and is asked again under its id if it is still about what
would run; its time went on meanwhile. Deferred questions, which no turn waits for, are taken up at
the start. An answer that was stored and not heard is found on the row.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial

import msgspec
import trio

from ...runtime.definitions import SessionKind, ToolFailure
from ...runtime.errors import (
    ActorStopped,
    CallboardError,
    ConflictError,
    OverloadedError,
    StorageError,
    ValidationError,
)
from ...runtime.events import DurableEvent, GrantGiven, InputAccepted
from ...runtime.identity import now_ms
from ...runtime.messages import ApprovalAnswer, AskPerson, Resolution
from ...runtime.redaction import redacting_logger
from ...runtime.store.rows import ApprovalRow, GrantRow
from ...runtime.store.tables.permissions import given_grant
from .asking import EXPIRED, ask_people, bounded, checked_answer
from .decisions import GrantBook, answer_of, is_covered, is_suspended
from .edited_arguments import EditedArguments
from .question import OpenQuestion, OpenQuestions, stored_resolution, without_memory
from .record import ApprovalRecord, BrokerServices

MAX_DEFERRED = 256
"""Deferred questions of one session; as many as one answer may have calls, and nobody reads more."""


logger = redacting_logger(__name__)

FIRST_RETRY_SECONDS = 1.0
"""Pause before an answer that could not be stored is stored again, when no turn waits for it."""
MAX_RETRY_SECONDS = 60.0
"""Longest of these pauses, each twice the one before: a full disk is no reason to hammer it."""


class Arrival:
    """The place of a question among those of its turn, until the record says whether it is an old one.

    Attributes:
        before: The one ahead of it.
        is_over: Set when it is listed, or will not be.
    """

    __slots__ = ("before", "is_over")

    def __init__(self, before: Arrival | None) -> None:
        self.before = before
        self.is_over = trio.Event()


class QuestionResolver:
    """Finds answers to questions, and makes them count.

    Args:
        services: What the broker works with.
        record: Where only one answer is taken.
        grants: The remembered answers that hold.
        edits: Judges arguments that a person changed.
        nursery: Runs the asking of people, and what follows from answers.
    """

    def __init__(
        self,
        services: BrokerServices,
        record: ApprovalRecord,
        grants: GrantBook,
        edits: EditedArguments,
        nursery: trio.Nursery,
    ) -> None:
        self._services = services
        self._record = record
        self._grants = grants
        self._edits = edits
        self._nursery = nursery
        self._open = OpenQuestions()
        self._arriving: dict[str, Arrival] = {}

    # ── asked ────────────────────────────────────────────────────────────────────────────────────

    def begin(self, message: AskPerson) -> OpenQuestion | Arrival:
        """List a question in the step in which it comes, or note its place for `ask` to list it there."""
        turn_id = message.place.turn_id
        before = self._arriving.get(turn_id)
        if message.known is None and not message.defers and before is None:
            question = self._record.opened(message, None)
            self._open.add(question)
            return question
        self._arriving[turn_id] = arrival = Arrival(before)
        return arrival

    async def ask(self, message: AskPerson, begun: OpenQuestion | Arrival) -> Resolution:
        """Put a question on record, and return its answer; `deferred` when its turn goes on.

        Args:
            message: What is asked.
            begun: What `begin` made of it.
        """
        known = None
        if isinstance(begun, OpenQuestion):
            question = begun
        else:
            question, known = await self._list(message, begun)
            if question.is_deferred:
                return await self._defer(question)
        try:
            twin, before = self._open.twin(question), self._open.before(question)
            if before is not None:
                await before.is_stored.wait()
            question.is_stored.set()  # what follows goes to the journal in this step
            if known is None:
                same_as = twin.approval_id if twin is not None else ""
                await self._record.append(question, question.asked(same_as))
            elif (
                row := await self._record.row(question.approval_id, question.place.session_id)
            ).state != "waiting":
                self._learn(question, stored_resolution(row))  # answered while nobody listened
            if not question.outcome.is_done:
                await self._find_answer(question, twin, before)
            return await question.outcome.wait()
        except CallboardError:
            self._release(question)
            raise
        finally:
            self._forget(question)

    async def _list(
        self, message: AskPerson, arrival: Arrival
    ) -> tuple[OpenQuestion, ApprovalRow | None]:
        """List a question behind those that came before it; return also what an earlier process asked."""
        turn_id = message.place.turn_id
        try:
            grant = self._grants.find(message.place, message.question, message.marks)
            known = await self._record.still_asked(
                message.known, message.digest, is_granted=grant is not None
            )
            if arrival.before is not None:
                await arrival.before.is_over.wait()
            question = self._record.opened(message, known)
            self._open.add(question)
            return question, known
        finally:
            arrival.is_over.set()
            if self._arriving.get(turn_id) is arrival:
                del self._arriving[turn_id]

    async def _defer(self, question: OpenQuestion) -> Resolution:
        """Put a question on record that no turn waits for, and begin to ask it."""
        if self._open.deferred_of(question.place.session_id) > MAX_DEFERRED:
            self._forget(question)
            raise OverloadedError(
                f"{MAX_DEFERRED} calls of this session wait for an answer already; ask again later"
            )
        twin = self._open.twin(question)
        same_as = twin.approval_id if twin is not None else ""
        try:
            # Shielded: what is on record is asked about, even when its turn is cancelled by now.
            with trio.CancelScope(shield=True):
                await self._record.append(question, question.asked(same_as), question.deferred())
        except CallboardError:
            self._release(question)
            self._forget(question)
            raise
        self._await_late(question, twin)
        return question.resolution(ApprovalAnswer(decision="deferred", answered_by="callboard"))

    def _await_late(self, question: OpenQuestion, twin: OpenQuestion | None = None) -> None:
        """Find the answer of a question on record in the background."""
        self._open.add(question)

        async def wait() -> None:
            try:
                await self._find_answer(question, twin)
                await question.outcome.wait()
            except CallboardError as error:
                self._release(question)
                logger.error("%s waits on record: %s", question.approval_id, error)
            finally:
                self._forget(question)

        self._nursery.start_soon(wait, name=f"deferred {question.approval_id}")

    async def take_up_deferred(self) -> None:
        """Ask again what earlier processes deferred, and begin the turns of inputs that wait."""
        try:
            for question, same_as in await self._record.deferred():
                if question.approval_id not in self._open:
                    self._await_late(question, self._open.get(same_as))
            await self._record.wake()
        except CallboardError as error:
            logger.error("deferred questions were not taken up: %s", error)

    async def _find_answer(
        self,
        question: OpenQuestion,
        twin: OpenQuestion | None = None,
        before: OpenQuestion | None = None,
    ) -> None:
        """Settle a question: by a grant, with its twin, or by asking people, after those `before` it."""
        await self._record.refresh(question)
        if before is not None:
            await before.is_put.wait()
        grant = self._grants.find(question.granting_place, question.question, question.marks)
        if grant is not None and await self._settle_by_grant(question, grant):
            return
        if twin is not None and twin.outcome.is_done and twin.shared is None:
            twin = self._open.twin(question)  # that one ended without an answer to share
        if twin is not None and not twin.outcome.is_done:
            twin.followers.append(question)
            question.is_put.set()
        elif twin is not None and twin.shared is not None:
            await self._settle_or_learn(question, *twin.shared)
        else:
            question.is_put.set()
            if question.outcome.is_done:
                return
            question.known_marks = question.marks
            if question.asked_in:
                await self._record.append_above(question)
            served = self._services.channels.serving(question.place)
            if (answer := await ask_people(question, served, self._nursery)) is not None:
                await self._settle_or_learn(question, answer)

    # ── answered ─────────────────────────────────────────────────────────────────────────────────

    async def find(self, approval_id: str) -> OpenQuestion:
        """Return the question of this id that waits, here or only on record.

        Raises:
            NotFoundError: There is none, or its session's agent is gone.
            ConflictError: It does not wait.
        """
        question = self._open.get(approval_id)
        if question is None or question.outcome.is_done:
            question = await self._record.question(approval_id)
        return question

    async def answer(self, approval_id: str, answer: ApprovalAnswer) -> None:
        """Settle a question by a person's answer; on return, its twins have the answer too.

        Raises:
            NotFoundError: There is no such question.
            ConflictError: Somebody was first, or it has expired, or it is a worker's, which nobody answers.
            ToolFailure: A call with the arguments that the person changed is not possible.
            ValidationError: It is not an answer, or can't be remembered so.
        """
        answer = checked_answer(answer)
        question = await self.find(approval_id)
        if question.place.session_kind is SessionKind.WORKER:
            raise ConflictError(
                f"{approval_id} is a worker's: a worker asks nobody, and callboard denies what it may not do",
                kind="answered",
            )
        for follower in await self._settle(question, answer):
            await self._share(question, follower)

    async def _settle_or_learn(
        self, question: OpenQuestion, answer: ApprovalAnswer, grant_id: str = ""
    ) -> bool:
        """Settle a question with this answer, or with the one that was first.

        When the answer can't be stored, whoever waits gets the error; where nobody does, storing is
        tried until it works or the question has expired. Return `False` when a grant gave the
        answer and the store says that it does not hold there.
        """
        pause = FIRST_RETRY_SECONDS
        while not question.outcome.is_done:
            try:
                await self._settle_once(question, answer, grant_id)
                return True
            except StorageError as error:
                if not question.is_deferred:
                    self._close(question, error)
                    return True
                logger.error(
                    "the answer to %s is stored again in %g s: %s",
                    question.approval_id, pause, error,
                )  # fmt: skip
            except CallboardError as error:
                if isinstance(error, ConflictError) and error.kind == "grant":
                    return False
                self._close(question, error)
                return True
            with trio.move_on_after(pause), suppress(CallboardError):
                await question.outcome.wait()
            pause = min(2 * pause, MAX_RETRY_SECONDS)
        return True

    async def _settle_once(
        self, question: OpenQuestion, answer: ApprovalAnswer, grant_id: str
    ) -> None:
        """Settle with this answer, corrected where it can't be taken; or learn the first one."""
        try:
            try:
                left = await self._settle(question, answer, grant_id)
            except ToolFailure as failure:  # no call is possible with the changed arguments
                denial = msgspec.structs.replace(
                    without_memory(answer), decision="deny", reason=str(failure)
                )
                left = await self._settle(question, denial, grant_id, failure)
            except ValidationError as problem:  # it holds for this call, and is not remembered
                logger.warning("an answer about %s: %s", question.question.name, problem)
                left = await self._settle(question, without_memory(answer), grant_id)
        except ConflictError as refused:
            if refused.kind not in {"answered", "expired"}:
                raise
            await self._learn_first(question)
        else:
            self._share_soon(question, left)

    async def _learn_first(self, question: OpenQuestion) -> None:
        """Learn the answer that was first, or that time is over by the store's clock."""
        row = await self._record.row(question.approval_id, question.place.session_id)
        if row.state == "waiting":
            with suppress(ConflictError):
                self._share_soon(question, await self._settle(question, EXPIRED))
                return
            row = await self._record.row(question.approval_id, question.place.session_id)
        self._learn(question, stored_resolution(row))

    async def _settle(
        self,
        question: OpenQuestion,
        answer: ApprovalAnswer,
        grant_id: str = "",
        failure: ToolFailure | None = None,
    ) -> list[OpenQuestion]:
        """Make an answer count; return the twins that don't have it yet. Raises as `answer`."""
        limits = self._services.preparation.limits
        answer = bounded(
            answer,
            max_result_bytes=limits.max_result_bytes,
            max_arguments_bytes=limits.max_arguments_bytes,
        )
        if self._grants.is_full:
            answer = without_memory(answer)
        await self._record.refresh(question)
        resolution = await self._edits.resolution(question, answer)
        resolution = msgspec.structs.replace(resolution, failure=failure, grant_id=grant_id)
        given = question.grant(resolution)
        successor: OpenQuestion | None = None
        if question.is_deferred and resolution.answer.decision == "revised":
            seconds = self._services.limits.deferred_seconds
            successor = await self._edits.successor(question, resolution.arguments, seconds)
        # What is on record is acted on, even when the turn that asked is cancelled by now.
        with trio.CancelScope(shield=True):
            await self._store(question, resolution, given, successor)
        return self._open.followers(question)

    async def _store(
        self,
        question: OpenQuestion,
        resolution: Resolution,
        given: GrantGiven | None,
        successor: OpenQuestion | None,
    ) -> None:
        events: list[DurableEvent] = [*question.ending(resolution)]
        if given is not None:
            events.append(given)
        if successor is not None:
            events.append(successor.asked())
        for each, ending in await self._append(question, resolution, events):
            each.conclude(ending)
            self._open.live(each).conclude(ending)
        if given is not None:
            grant = given_grant(given, question.place.session_id, now_ms())
            self._grants.add(grant)
            self._settle_all_by(grant)
        if successor is not None:
            self._await_late(successor)
        if any(isinstance(event, InputAccepted) for event in events):
            self._nursery.start_soon(self._wake, question.place.session_id, name="wake")

    async def _append(
        self, question: OpenQuestion, resolution: Resolution, own: Sequence[DurableEvent]
    ) -> list[tuple[OpenQuestion, Resolution]]:
        """Store an answer, with that of the twins in the same commit; return what that settled."""
        endings = [(question, resolution)]
        shared = question.answer_for_all(resolution)
        if shared is not None and shared.arguments is None:  # others are judged for each twin
            for twin in self._open.followers(question):
                its = msgspec.structs.replace(twin.resolution(shared), grant_id=resolution.grant_id)
                endings.append((twin, its))
        theirs = [event for twin, its in endings[1:] for event in twin.ending(its)]
        try:
            try:
                await self._record.append(question, *own, *theirs)
            except ConflictError:
                if not theirs:
                    raise
                # One of the twins may be over by itself: each is settled alone.
                await self._record.append(question, *own)
                return endings[:1]
        except ConflictError as refused:
            if refused.kind == "scope":  # the session was tainted just now
                raise ValidationError(f"remember: {refused}", field="remember") from refused
            raise
        return endings

    async def _wake(self, session_id: str) -> None:
        try:
            await self._record.wake(session_id)
        except CallboardError as error:
            logger.error("%s has a late answer and was not woken: %s", session_id, error)

    # ── by a grant ───────────────────────────────────────────────────────────────────────────────

    async def _settle_by_grant(self, question: OpenQuestion, grant: GrantRow) -> bool:
        """Return whether a grant's answer, or another's, counted; the store knows if it holds."""
        return await self._settle_or_learn(question, answer_of(grant), grant.grant_id)

    def _settle_all_by(self, grant: GrantRow) -> None:
        """Answer what waits for the permission that was just given."""
        for other in self._open:
            if (
                not other.outcome.is_done
                and not is_suspended(grant, other.marks)
                and is_covered(grant, other.granting_place, other.question)
            ):
                settle = partial(self._settle_by_grant, other, grant)
                self._nursery.start_soon(settle, name=f"answer {other.approval_id}")

    # ── twins, and the end ───────────────────────────────────────────────────────────────────────

    def _learn(self, question: OpenQuestion, resolution: Resolution) -> None:
        """Send an answer that is on record already to whoever waits, and to the twins."""
        for each in (question, self._open.live(question)):
            each.conclude(resolution)
        if question.shared is None:
            self._release(question)
        else:
            self._share_soon(question, self._open.followers(question))

    def _share_soon(self, question: OpenQuestion, followers: list[OpenQuestion]) -> None:
        for follower in followers:
            name = f"answer {follower.approval_id}"
            self._nursery.start_soon(self._share, question, follower, name=name)

    async def _share(self, question: OpenQuestion, follower: OpenQuestion) -> None:
        """Settle a follower with its leader's answer, or ask about it when that does not hold."""
        assert question.shared is not None
        if not await self._settle_or_learn(follower, *question.shared):
            await self._ask_after_all(follower)

    def _release(self, question: OpenQuestion) -> None:
        """Have people asked about the followers of a question that shares no answer."""
        waiting = self._open.followers(question)
        for each in (question, *waiting):
            each.followers.clear()
        if waiting:
            first, *rest = waiting
            first.followers += rest
            self._nursery.start_soon(self._ask_after_all, first, name="twin")

    async def _ask_after_all(self, question: OpenQuestion) -> None:
        try:
            await self._find_answer(question)
        except CallboardError as error:
            self._close(question, error)

    def _forget(self, question: OpenQuestion) -> None:
        question.is_stored.set()
        question.is_put.set()
        self._open.drop(question)
        self._close(question)

    def _close(self, question: OpenQuestion, error: CallboardError | None = None) -> None:
        """End a question that has no answer, and its followers."""
        if question.outcome.is_done:
            return
        question.outcome.fail(error or ActorStopped("the question is no longer asked"))
        for follower in question.followers:
            self._close(follower, error)
