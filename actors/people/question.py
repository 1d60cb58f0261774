"""One question to a person while it is open: what is asked, who waits for it, how it is recorded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from ...config.policy.grant_binding import binding_of, lasting_problem
from ...runtime.approval import ApprovalDecision
from ...runtime.definitions import Binding, InputSource
from ...runtime.errors import ValidationError
from ...runtime.events import (
    ApprovalAnswered,
    ApprovalAsked,
    CallDeferred,
    ChildAsks,
    DurableEvent,
    GrantGiven,
    InputAccepted,
)
from ...runtime.history import Call
from ...runtime.identity import new_id
from ...runtime.kernel.mailbox import Reply
from ...runtime.messages import (
    ApprovalAnswer,
    ApprovalRequest,
    CallPlace,
    PermissionQuestion,
    Resolution,
    SessionMarks,
)
from ...runtime.store.interface import ApprovalRow
from ...runtime.store.tables.permissions import LASTING_SCOPES
from ...runtime.text import excerpt
from ..calls.deferral import answered_text, pending_result
from .person_answer import MAX_PATTERN_CHARACTERS, MAX_SHOWN_CHARACTERS, without_memory

SESSION_SCOPES = ("call", "turn", "session")
"""For what every answer can be remembered; `call` is the answer itself."""


class SharedAnswer(NamedTuple):
    """An answer for all who ask the same; `grant_id` is the grant that gave it, if one did."""

    answer: ApprovalAnswer
    grant_id: str


class OpenQuestion:
    """A question, until it is settled.

    Attributes:
        marks: What its session has read, as far as is known; see `ApprovalRecord.refresh`.
        known_marks: The same when it was put to people, who answer with that in mind.
        outcome: Answered once, when the answer is on record.
        shared: The answer as those who ask the same have it, once there is one.
        patience_seconds: How long it waits from when it is put to a person here.
        asked_in: The session whose people are asked, when that is one above; `origin` says so.
        is_deferred: Whether its turn goes on without the answer, which becomes an input.
        followers: Questions of the same answer that ask the same.
    """

    def __init__(
        self,
        approval_id: str,
        place: CallPlace,
        call: Call,
        question: PermissionQuestion,
        *,
        reason: str,
        digest: str,
        policy_version: str,
        expires_at_ms: int,
        patience_seconds: float = 0.0,
        marks: SessionMarks,
        preview: str = "",
        asked_in: str = "",
        origin: str = "",
        is_deferred: bool = False,
    ) -> None:
        self.approval_id = approval_id
        self.place = place
        self.call = call
        self.question = question
        self.reason = reason
        self.digest = digest
        self.policy_version = policy_version
        self.expires_at_ms = expires_at_ms
        self.patience_seconds = patience_seconds
        self.marks = marks
        self.known_marks = marks
        self.preview = preview
        self.asked_in = asked_in
        self.origin = origin
        self.is_deferred = is_deferred
        self.outcome: Reply[Resolution] = Reply()
        self.shared: SharedAnswer | None = None
        self.followers: list[OpenQuestion] = []

    @property
    def granting_place(self) -> CallPlace:
        """Where a grant must hold to answer it: a deferred call runs in another turn."""
        if not self.is_deferred:
            return self.place
        return msgspec.structs.replace(self.place, turn_id="")

    def conclude(self, resolution: Resolution) -> None:
        """It has its answer, which is on record; whoever waits hears it, and only the first."""
        answer = self.answer_for_all(resolution)
        if answer is not None and self.shared is None:
            self.shared = SharedAnswer(answer, resolution.grant_id)
        if not self.outcome.is_done:
            self.outcome.send(resolution)

    def answer_for_all(self, resolution: Resolution) -> ApprovalAnswer | None:
        """The answer for others: with the arguments that it is about, never the model's instead."""
        answer = without_memory(resolution.answer)
        if answer.decision in {"allow", "revised"}:
            changed = resolution.arguments if resolution.digest != self.digest else None
            return msgspec.structs.replace(answer, decision="allow", arguments=changed)
        if answer.decision in {"deny", "expired"}:
            return msgspec.structs.replace(answer, arguments=None)
        return None

    @property
    def scopes(self) -> tuple[str, ...]:
        """For what an answer may be remembered."""
        return self.scopes_for(self.question.arguments)

    def scopes_for(self, arguments: str) -> tuple[str, ...]:
        """The same for an answer with other arguments."""
        definition = self.question.definition
        # The turn that asked is over by then, or nearly.
        scopes = tuple(s for s in SESSION_SCOPES if s != "turn" or not self.is_deferred)
        if definition is None or self.lasting_problem(arguments):
            return scopes
        return (*scopes, "agent", "always")

    def lasting_problem(self, arguments: str) -> str | None:
        """Why an answer that allows can't be remembered beyond the session; `None` when it can."""
        if self.marks.is_tainted:
            return "the session has read untrusted content"
        definition = self.question.definition
        return None if definition is None else lasting_problem(definition, arguments)

    def request(self) -> ApprovalRequest:
        """What a person sees."""
        return ApprovalRequest(
            approval_id=self.approval_id,
            session_id=self.place.session_id,
            turn_id=self.place.turn_id,
            call_id=self.call.call_id,
            tool=self.question.name,
            tier=self.question.tier,
            reason=self.reason,
            arguments=self.question.arguments,
            digest=self.digest,
            expires_at_ms=self.expires_at_ms,
            preview=self.preview,
            scopes=self.scopes,
            asked_in=self.asked_in,
            origin=self.origin,
            is_deferred=self.is_deferred,
        )

    def asked(self, same_as: str) -> ApprovalAsked:
        """The event, ahead of the asking."""
        return ApprovalAsked(
            approval_id=self.approval_id,
            turn_id=self.place.turn_id,
            call_id=self.call.call_id,
            name=self.question.name,
            tier=self.question.tier,
            reason=self.reason,
            arguments=self.question.arguments,
            digest=self.digest,
            expires_at_ms=self.expires_at_ms,
            policy_version=self.policy_version,
            preview=self.preview,
            same_as=same_as,
            asked_in=self.asked_in,
            is_deferred=self.is_deferred,
        )

    def deferred(self) -> CallDeferred:
        """The event that goes with the asking, when the turn goes on without the answer."""
        return CallDeferred(
            turn_id=self.place.turn_id,
            call_id=self.call.call_id,
            name=self.question.name,
            approval_id=self.approval_id,
            result=pending_result(self.approval_id),
        )

    def delivery(self, resolution: Resolution) -> InputAccepted | None:
        """The input that a late answer becomes, on record together with it."""
        if not self.is_deferred or resolution.answer.decision == "revised":
            return None
        return InputAccepted(
            input_id=new_id("input"),
            text=answered_text(self.question.name, self.approval_id, resolution.answer),
            source=InputSource.DEFERRED,
            call_id=self.call.call_id,
            approval_id=self.approval_id,
        )

    def ending(self, resolution: Resolution) -> tuple[DurableEvent, ...]:
        """What goes on record together when it has its answer."""
        late = self.delivery(resolution)
        answered = self.answered(resolution)
        return (answered,) if late is None else (answered, late)

    def asked_above(self) -> ChildAsks:
        """The event for the session whose people are asked, when that is one above."""
        return ChildAsks(
            question_id=self.approval_id,
            child_id=self.place.session_id,
            call_id=self.call.call_id,
            name=self.question.name,
        )

    def _scope_problem(self, scope: str | None, resolution: Resolution) -> str | None:
        if scope in LASTING_SCOPES and resolution.answer.decision == "allow":
            return self.lasting_problem(resolution.arguments)
        if scope == "turn" and self.is_deferred:
            return "its turn goes on without the answer"
        return None if scope in {"turn", "session", *LASTING_SCOPES} else "there is no such scope"

    def resolution(self, answer: ApprovalAnswer) -> Resolution:
        """What an answer makes of it, when it leaves the arguments as they are."""
        return Resolution(
            approval_id=self.approval_id,
            answer=answer,
            arguments=self.question.arguments,
            digest=self.digest,
        )

    def answered(self, resolution: Resolution) -> ApprovalAnswered:
        """The event, ahead of everything that follows from the answer."""
        answer = resolution.answer
        is_changed = resolution.digest != self.digest
        # Of a denial, what the person would have had in the place of the model's arguments.
        refused = answer.arguments if answer.decision == "deny" else None
        return ApprovalAnswered(
            approval_id=self.approval_id,
            call_id=self.call.call_id,
            decision=answer.decision,
            answered_by=answer.answered_by,
            reason=answer.reason,
            arguments=resolution.arguments if is_changed else refused,
            remember=answer.remember,
            digest=resolution.digest if is_changed else None,
            grant_id=resolution.grant_id,
        )

    def grant(self, resolution: Resolution) -> GrantGiven | None:
        """What is remembered of an answer, if it is to be.

        Raises:
            ValidationError: It can't be.
        """
        answer = resolution.answer
        definition = self.question.definition
        if answer.remember in {None, "call"} or answer.decision not in {"allow", "deny"}:
            return None
        problem = self._scope_problem(answer.remember, resolution)
        if definition is None or problem is not None:
            said = excerpt(repr(str(answer.remember)[:MAX_SHOWN_CHARACTERS]), MAX_SHOWN_CHARACTERS)
            why = "the tool is gone" if definition is None else problem
            raise ValidationError(
                f"remember: not for {said}, since {why}; there are: {', '.join(self.scopes)}",
                field="remember",
            )
        return GrantGiven(
            grant_id=new_id("grant"),
            verdict=answer.decision,
            scope=str(answer.remember),
            tool=self.question.name,
            definition=definition.digest,
            tier=self.question.tier,
            binding=self._binding(resolution),
            agent=self.place.agent.name,
            turn_id=self.place.turn_id,
            workspace=self.place.workspace,
            approval_id=self.approval_id,
            given_by=answer.answered_by,
            reason=answer.reason,
            is_tainted=self.known_marks.is_tainted,
        )

    def _binding(self, resolution: Resolution) -> Binding:
        """Which calls an answer is remembered for; raises `ValidationError` for an odd pattern."""
        name, tier, pattern = self.question.name, self.question.tier, resolution.answer.pattern
        if len(pattern or "") > MAX_PATTERN_CHARACTERS:
            raise ValidationError(
                f"pattern: it is longer than {MAX_PATTERN_CHARACTERS} characters", field="pattern"
            )
        try:
            return binding_of(name, resolution.arguments, tier=tier, pattern=pattern)
        except ValueError as error:
            raise ValidationError(str(error), field="pattern") from None


def stored_resolution(row: ApprovalRow) -> Resolution:
    """What is on record of a question that has its answer."""
    decision: ApprovalDecision = row.decision or "withdrawn"
    if row.state == "allowed":
        decision = "allow"
    elif row.state in {"used", "void"}:
        decision = "withdrawn"
    answer = ApprovalAnswer(
        decision=decision,
        reason=row.answer_reason,
        answered_by=row.answered_by or "callboard",
        remember=row.remember,
    )
    return Resolution(
        approval_id=row.approval_id,
        answer=answer,
        arguments=row.final_arguments or row.arguments,
        digest=row.final_digest or row.digest,
        grant_id=row.grant_id,
    )


class OpenQuestions:
    """Who waits for which answer; an answer by an id is told to whoever stands here under it."""

    def __init__(self) -> None:
        self._by_id: dict[str, OpenQuestion] = {}

    def __iter__(self) -> Iterator[OpenQuestion]:
        return iter(tuple(self._by_id.values()))

    def __contains__(self, approval_id: str) -> bool:
        return approval_id in self._by_id

    def get(self, approval_id: str) -> OpenQuestion | None:
        """The question that is listened to under this id."""
        return self._by_id.get(approval_id)

    def live(self, question: OpenQuestion) -> OpenQuestion:
        """The one that is listened to under its id; itself when nobody listens."""
        return self._by_id.get(question.approval_id, question)

    def add(self, question: OpenQuestion) -> None:
        """From here on it is listened to."""
        self._by_id[question.approval_id] = question

    def drop(self, question: OpenQuestion) -> None:
        """Nobody listens to it any more."""
        if self._by_id.get(question.approval_id) is question:
            del self._by_id[question.approval_id]

    def deferred_of(self, session_id: str) -> int:
        """How many of a session its turns don't wait for."""
        return sum(q.is_deferred and q.place.session_id == session_id for q in self)

    def twin(self, question: OpenQuestion) -> OpenQuestion | None:
        """One of the same answer that asks the same and was there before, if there is one.

        One that ended without an answer is none: there is nothing to share.
        """
        for other in self:
            if other is question:
                break
            is_over = other.outcome.is_done and other.shared is None
            if not is_over and _asks(other) == _asks(question):
                return other
        return None

    def followers(self, question: OpenQuestion) -> list[OpenQuestion]:
        """Those that have this one's answer, and theirs, as far as they wait for it."""
        found: dict[str, OpenQuestion] = {}
        leaders = [question, self.live(question)]
        while leaders:
            for each in leaders.pop().followers:
                if each.approval_id not in found:
                    found[each.approval_id] = self.live(each)
                    leaders.append(found[each.approval_id])
        return [each for each in found.values() if not each.outcome.is_done]


def _asks(question: OpenQuestion) -> tuple[str, str, bool]:
    return question.digest, question.place.turn_id, question.is_deferred
