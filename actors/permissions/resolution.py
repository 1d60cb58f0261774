"""How a question gets its answer: on record first, then for whoever waits for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

import msgspec
import trio

from ...runtime.definitions import ToolFailure
from ...runtime.errors import (
    ActorStopped,
    CallboardError,
    ConflictError,
    StorageError,
    ValidationError,
)
from ...runtime.events import DurableEvent, GrantGiven, InputAccepted
from ...runtime.identity import now_ms
from ...runtime.messages import ApprovalAnswer, Resolution
from ...runtime.redaction import redacting_logger
from ...runtime.store.interface import GrantRow
from ...runtime.store.tables.permission_rows import given_grant
from ..people.approver import EXPIRED, People
from ..people.person_answer import bounded, without_memory
from ..people.question import OpenQuestion, OpenQuestions, stored_resolution
from .edited_arguments import ChangedArguments
from .grants import GrantBook, is_covered, is_suspended, said_by
from .record import ApprovalRecord, BrokerServices

logger = redacting_logger(__name__)

FIRST_RETRY_SECONDS = 1.0
"""Until an answer that could not be stored is stored again, when its turn does not wait for it."""
MAX_RETRY_SECONDS = 60.0
"""The longest of these pauses, each twice the one before: a full disk is no reason to hammer it."""

Ending = tuple[OpenQuestion, Resolution]


class Settlement:
    """Finds answers, and makes them count.

    Args:
        services: What the broker works with.
        record: Where only one answer is taken.
        book: The grants that hold.
        changes: What a person makes of arguments.
        questions: Those that are open here.
        people: Who is asked.
        nursery: Where people are asked, and what follows from an answer is done.
        take_up: Has a question answered that took the place of a deferred one.
    """

    def __init__(
        self,
        services: BrokerServices,
        record: ApprovalRecord,
        book: GrantBook,
        changes: ChangedArguments,
        questions: OpenQuestions,
        people: People,
        nursery: trio.Nursery,
        take_up: Callable[[OpenQuestion], None],
    ) -> None:
        self._services = services
        self._record = record
        self._book = book
        self._changes = changes
        self._questions = questions
        self._people = people
        self._nursery = nursery
        self._take_up = take_up

    async def find_answer(self, question: OpenQuestion, twin: OpenQuestion | None = None) -> None:
        """Sees to it that a question is settled: by a grant, with its twin, or by a person."""
        await self._record.refresh(question)
        grant = self._book.find(question.granting_place, question.question, question.marks)
        if grant is not None and await self._by_grant(question, grant):
            return
        if twin is not None and twin.outcome.is_done and twin.shared is None:
            twin = self._questions.twin(question)  # that one has no answer to share
        if twin is not None and not twin.outcome.is_done:
            twin.followers.append(question)
        elif twin is not None and twin.shared is not None:
            await self.settle_or_learn(question, *twin.shared)
        else:
            question.known_marks = question.marks
            if question.asked_in:
                await self._record.tell_above(question)
            if (answer := await self._people.ask(question, self._nursery)) is not None:
                await self.settle_or_learn(question, answer)

    async def answer(self, question: OpenQuestion, answer: ApprovalAnswer) -> None:
        """A person's answer by id; on return, those who ask the same have it too.

        Raises:
            ConflictError: Somebody was first, or it has expired.
            ToolFailure: What the person changed can't be.
            ValidationError: What they want remembered can't be.
        """
        for follower in await self._settle(question, answer):
            await self._share(question, follower)

    async def settle_or_learn(
        self, question: OpenQuestion, answer: ApprovalAnswer, grant_id: str = ""
    ) -> bool:
        """Settles a question with this answer, or with the one that was first.

        What can't be stored fails whoever waits; where nobody does, it is tried until it is stored,
        or has expired. Gives `False` when a grant said so that does not hold there.
        """
        pause = FIRST_RETRY_SECONDS
        while not question.outcome.is_done:
            try:
                await self._settle_once(question, answer, grant_id)
                return True
            except StorageError as error:
                if not question.is_deferred:
                    self.close(question, error)
                    return True
                logger.error(
                    "the answer to %s is stored again in %g s: %s",
                    question.approval_id, pause, error,
                )  # fmt: skip
            except CallboardError as error:
                if isinstance(error, ConflictError) and error.kind == "grant":
                    return False
                self.close(question, error)
                return True
            with trio.move_on_after(pause), suppress(CallboardError):
                await question.outcome.wait()
            pause = min(2 * pause, MAX_RETRY_SECONDS)
        return True

    def learn(self, question: OpenQuestion, resolution: Resolution) -> None:
        """The answer is on record already: whoever asked hears it, and who asks the same has it."""
        for each in (question, self._questions.live(question)):
            each.conclude(resolution)
        if question.shared is None:
            self.release(question)
        else:
            self._share_soon(question, self._questions.followers(question))

    def release(self, question: OpenQuestion) -> None:
        """It will share no answer: those who ask the same are asked about themselves."""
        waiting = self._questions.followers(question)
        for each in (question, *waiting):
            each.followers.clear()
        if waiting:
            first, *rest = waiting
            first.followers += rest
            self._nursery.start_soon(self._ask_after_all, first, name="twin")

    def close(self, question: OpenQuestion, error: CallboardError | None = None) -> None:
        """It is no longer asked; without an answer, those who ask the same have none."""
        if question.outcome.is_done:
            return
        question.outcome.fail(error or ActorStopped("the question is no longer asked"))
        for follower in question.followers:
            self.close(follower, error)

    # ── one answer ───────────────────────────────────────────────────────────────────────────────

    async def _settle_once(
        self, question: OpenQuestion, answer: ApprovalAnswer, grant_id: str
    ) -> None:
        """Settles with this answer, made bearable; or learns the one that was first."""
        try:
            try:
                left = await self._settle(question, answer, grant_id)
            except ToolFailure as failure:  # what the person made of the arguments can't be
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
            await self._learn_of(question)
        else:
            self._share_soon(question, left)

    async def _learn_of(self, question: OpenQuestion) -> None:
        """Somebody else was first, or the store's clock says that the time is over."""
        row = await self._record.row(question)
        if row.state == "waiting":
            with suppress(ConflictError):
                self._share_soon(question, await self._settle(question, EXPIRED))
                return
            row = await self._record.row(question)
        self.learn(question, stored_resolution(row))

    async def _settle(
        self,
        question: OpenQuestion,
        answer: ApprovalAnswer,
        grant_id: str = "",
        failure: ToolFailure | None = None,
    ) -> list[OpenQuestion]:
        """Makes an answer count; gives those who ask the same and don't have it yet.

        Raises what `answer` does.
        """
        limits = self._services.preparation.limits
        answer = bounded(
            answer,
            max_result_bytes=limits.max_result_bytes,
            max_arguments_bytes=limits.max_arguments_bytes,
        )
        if self._book.is_full:
            answer = without_memory(answer)
        await self._record.refresh(question)
        resolution = self._changes.resolution(question, answer)
        resolution = msgspec.structs.replace(resolution, failure=failure, grant_id=grant_id)
        given = question.grant(resolution)
        anew = await self._asked_anew(question, resolution)
        # What is on record is acted on, even when the turn that asked is cancelled by now.
        with trio.CancelScope(shield=True):
            await self._store(question, resolution, given, anew)
        return self._questions.followers(question)

    async def _store(
        self,
        question: OpenQuestion,
        resolution: Resolution,
        given: GrantGiven | None,
        anew: OpenQuestion | None,
    ) -> None:
        asked = anew.asked("") if anew is not None else None
        own = (*question.ending(resolution), *(each for each in (given, asked) if each is not None))
        endings = await self._append(question, resolution, own)
        for each, ending in endings:
            each.conclude(ending)
            self._questions.live(each).conclude(ending)
        if given is not None:
            grant = given_grant(given, question.place.session_id, now_ms())
            self._book.add(grant)
            self._answer_by(grant)
        if anew is not None:
            self._take_up(anew)
        if any(isinstance(event, InputAccepted) for event in own):
            self._nursery.start_soon(self._wake, question.place.session_id, name="wake")

    async def _append(
        self, question: OpenQuestion, resolution: Resolution, own: Sequence[DurableEvent]
    ) -> list[Ending]:
        """Stores an answer, for all who ask the same at once; gives what is settled by that."""
        ending = (question, resolution)
        others = self._endings(question, resolution)
        theirs = [event for other, its in others for event in other.ending(its)]
        try:
            try:
                await self._record.append(question, *own, *theirs)
            except ConflictError:
                if not others:
                    raise
                # One of the others may be over by itself: each is settled alone.
                await self._record.append(question, *own)
                return [ending]
        except ConflictError as refused:
            if refused.kind == "scope":  # the session was tainted just now
                raise ValidationError(f"remember: {refused}", field="remember") from refused
            raise
        return [ending, *others]

    def _endings(self, question: OpenQuestion, resolution: Resolution) -> list[Ending]:
        """What an answer is for those who ask the same; changed arguments are judged for each."""
        shared = question.answer_for_all(resolution)
        if shared is None or shared.arguments is not None:
            return []
        return [
            (
                other,
                msgspec.structs.replace(other.resolution(shared), grant_id=resolution.grant_id),
            )
            for other in self._questions.followers(question)
        ]

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

    # ── what follows from an answer ──────────────────────────────────────────────────────────────

    def _share_soon(self, question: OpenQuestion, followers: list[OpenQuestion]) -> None:
        for follower in followers:
            name = f"answer {follower.approval_id}"
            self._nursery.start_soon(self._share, question, follower, name=name)

    async def _share(self, question: OpenQuestion, follower: OpenQuestion) -> None:
        """A question has the answer of the one that it follows, or is asked about itself."""
        assert question.shared is not None
        if not await self.settle_or_learn(follower, *question.shared):
            await self._ask_after_all(follower)

    async def _ask_after_all(self, question: OpenQuestion) -> None:
        try:
            await self.find_answer(question)
        except CallboardError as error:
            self.close(question, error)

    async def _by_grant(self, question: OpenQuestion, grant: GrantRow) -> bool:
        """Whether a grant's answer counted, or another's did; the store knows whether it holds."""
        return await self.settle_or_learn(question, said_by(grant), grant.grant_id)

    def _answer_by(self, grant: GrantRow) -> None:
        """A new grant answers what waits for the same permission."""
        for other in self._questions:
            if (
                not other.outcome.is_done
                and not is_suspended(grant, other.marks)
                and is_covered(grant, other.granting_place, other.question)
            ):
                settle = partial(self._by_grant, other, grant)
                self._nursery.start_soon(settle, name=f"answer {other.approval_id}")

    async def _wake(self, session_id: str) -> None:
        try:
            await self._record.wake(session_id)
        except CallboardError as error:
            logger.error("%s has a late answer and was not woken: %s", session_id, error)
