"""One question to a person while it is open: what is asked, who waits for it, how it is recorded."""

from __future__ import annotations

import msgspec

from ..config.grant_binding import binding_of, lasting_problem
from ..runtime.definitions import InputSource
from ..runtime.errors import ValidationError
from ..runtime.events import (
    ApprovalAnswered,
    ApprovalAsked,
    CallDeferred,
    ChildAsks,
    GrantGiven,
    InputAccepted,
)
from ..runtime.history import Call
from ..runtime.identity import new_id
from ..runtime.mailbox import Reply
from ..runtime.messages import (
    ApprovalAnswer,
    ApprovalRequest,
    CallPlace,
    PermissionQuestion,
    Resolution,
    SessionMarks,
)
from ..runtime.permission_table import LASTING_SCOPES
from ..runtime.store import ApprovalRow
from .deferral import answered_text, pending_result

SESSION_SCOPES = ("call", "turn", "session")
"""For what every answer can be remembered; `call` is the answer itself."""


class OpenQuestion:
    """A question, until it is settled.

    Attributes:
        outcome: Answered once, when the answer is on record.
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
        self.preview = preview
        self.asked_in = asked_in
        self.origin = origin
        self.is_deferred = is_deferred
        self.outcome: Reply[Resolution] = Reply()
        self.followers: list[OpenQuestion] = []

    @property
    def scopes(self) -> tuple[str, ...]:
        """For what an answer may be remembered."""
        definition = self.question.definition
        # The turn that asked is over by then, or nearly.
        scopes = tuple(s for s in SESSION_SCOPES if s != "turn" or not self.is_deferred)
        if definition is None or self.lasting_problem(self.question.arguments):
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
        )

    def grant(self, resolution: Resolution) -> GrantGiven | None:
        """What is remembered of an answer, if it is to be.

        Raises:
            ValidationError: It can't be.
        """
        answer = resolution.answer
        scope = answer.remember
        if scope in {None, "call"} or answer.decision not in {"allow", "deny"}:
            return None
        definition = self.question.definition
        problem = self._scope_problem(scope, resolution)
        if definition is None or problem is not None:
            known = ", ".join(self.scopes)
            raise ValidationError(
                f"remember: not for {scope!r}, since {problem or 'the tool is gone'}; there are: "
                f"{known}",
                field="remember",
            )
        tier = self.question.tier
        try:
            binding = binding_of(
                self.question.name, resolution.arguments, tier=tier, pattern=answer.pattern
            )
        except ValueError as error:
            raise ValidationError(str(error), field="pattern") from None
        return GrantGiven(
            grant_id=new_id("grant"),
            verdict=answer.decision,
            scope=str(scope),
            tool=self.question.name,
            definition=definition.digest,
            tier=tier,
            binding=binding,
            agent=self.place.agent.name,
            turn_id=self.place.turn_id,
            workspace=self.place.workspace,
            approval_id=self.approval_id,
            given_by=answer.answered_by,
            reason=answer.reason,
            is_tainted=self.marks.is_tainted,
        )


def stored_resolution(row: ApprovalRow) -> Resolution:
    """What is on record of a question that has its answer."""
    decision = {"allowed": "allow", "used": "withdrawn", "void": "withdrawn"}.get(
        row.state, row.decision
    )
    answer = ApprovalAnswer(
        decision=decision or "withdrawn",
        reason=row.answer_reason,
        answered_by=row.answered_by or "callboard",
        remember=row.remember,
    )
    return Resolution(
        approval_id=row.approval_id,
        answer=answer,
        arguments=row.final_arguments or row.arguments,
        digest=row.final_digest or row.digest,
    )


def without_memory(answer: ApprovalAnswer) -> ApprovalAnswer:
    """The answer, for this call alone."""
    return msgspec.structs.replace(answer, remember=None, pattern=None)


def checked_answer(answer: ApprovalAnswer) -> ApprovalAnswer:
    """The answer, if it is one that a client may give; raises `ValidationError` otherwise."""
    if (problem := _odd(answer)) is not None:
        raise ValidationError(f"the answer is none: {problem}")
    if answer.decision not in {"allow", "deny"}:
        raise ValidationError(
            f"decision: {answer.decision!r} is neither allow nor deny", field="decision"
        )
    return answer


def as_answer(answer: object) -> ApprovalAnswer:
    """What an application may say, as an answer; anything unknown is a denial."""
    match answer:
        case ApprovalAnswer(decision="allow" | "deny") if _odd(answer) is None:
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


def _odd(answer: ApprovalAnswer) -> str | None:
    """What is of a wrong type in it: nothing checks that when it is made."""
    try:
        msgspec.convert(msgspec.structs.asdict(answer), ApprovalAnswer)
    except msgspec.ValidationError as error:
        return str(error)
    return None
