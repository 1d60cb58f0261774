"""What a person makes of a call's arguments, judged as if the model had said so."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from ...runtime.definitions import ErrorType, ToolFailure, Verdict
from ...runtime.errors import ValidationError
from ...runtime.identity import new_id
from ...runtime.messages import (
    ApprovalAnswer,
    ApprovalRequest,
    CheckPermissions,
    Decision,
    Resolution,
)
from ...tools.schema.validation import without_advice
from ..calls.call import ReadyCall
from ..calls.preparation import CallPreparation
from ..calls.preview import preview_of
from ..people.person_answer import without_memory
from ..people.question import OpenQuestion


class ChangedArguments:
    """Makes of an answer what it means for its question.

    Args:
        preparation: Validates them.
        decide: Gives the verdicts.
    """

    def __init__(
        self,
        preparation: CallPreparation,
        decide: Callable[[CheckPermissions], tuple[Decision, ...]],
    ) -> None:
        self._preparation = preparation
        self._decide = decide

    def resolution(self, question: OpenQuestion, answer: ApprovalAnswer) -> Resolution:
        """What the answer makes of the question; raises `ToolFailure` for what can't be."""
        if answer.decision != "allow" or answer.arguments is None:
            return question.resolution(answer)
        changed, decision = self._judged(question, answer.arguments)
        if _is_higher(changed, question):
            answer = without_memory(msgspec.structs.replace(answer, decision="revised"))
        return Resolution(
            approval_id=question.approval_id,
            answer=answer,
            arguments=changed.arguments.canonical,
            digest=changed.digest(question.place, decision.policy_version),
        )

    async def request(self, question: OpenQuestion, arguments: str) -> ApprovalRequest:
        """The question as it would be about other arguments; raises `ToolFailure` as above."""
        changed, decision = self._judged(question, arguments)
        canonical = changed.arguments.canonical
        # Of a higher tier it is asked about itself, and only that answer can be remembered.
        is_higher = _is_higher(changed, question)
        return msgspec.structs.replace(
            question.request(),
            tier=changed.tier,
            reason=decision.reason,
            arguments=canonical,
            digest=changed.digest(question.place, decision.policy_version),
            preview=await preview_of(changed),
            scopes=("call",) if is_higher else question.scopes_for(canonical),
        )

    async def asked_anew(
        self, question: OpenQuestion, arguments: str, *, expires_at_ms: int, seconds: float
    ) -> OpenQuestion:
        """The question about arguments of a higher tier, which takes the place of a deferred one."""
        changed, decision = self._judged(question, arguments)
        before = question.question.tier
        return OpenQuestion(
            new_id("approval"),
            question.place,
            question.call,
            changed.question,
            reason=f"a person changed the arguments, which made it {changed.tier} instead of {before}",
            digest=changed.digest(question.place, decision.policy_version),
            policy_version=decision.policy_version,
            expires_at_ms=expires_at_ms,
            patience_seconds=seconds,
            marks=question.marks,
            preview=await preview_of(changed),
            is_deferred=True,
        )

    def _judged(self, question: OpenQuestion, arguments: str) -> tuple[ReadyCall, Decision]:
        place = question.place
        changed = self._preparation.ready(place, question.call, arguments)
        check = CheckPermissions(place=place, questions=(changed.question,), marks=question.marks)
        (decision,) = self._decide(check)
        if decision.verdict is Verdict.DENY:
            raise ToolFailure(
                ErrorType.PERMISSION_DENIED,
                f"Not run: {decision.reason}",
                tier=changed.tier,
                reason=decision.reason,
            )
        return changed, decision


def told_to_person(failure: ToolFailure) -> ValidationError:
    """Why changed arguments can't be, for whoever changed them: the model's advice is left out."""
    return ValidationError(f"arguments: {without_advice(str(failure))}", field="arguments")


def _is_higher(changed: ReadyCall, question: OpenQuestion) -> bool:
    return changed.tier.rank > question.question.tier.rank
