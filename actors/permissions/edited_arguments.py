"""What an answer comes to: the policy of the moment judges what a person, or a grant, allows.

A person can allow less than the policy, never more. Arguments that they changed are validated, and
judged as if the model had said them.

Changed arguments of a higher tier are a new question: the answer is then `revised`, and whoever
asked asks again with them. For a deferred question, which nobody waits for, a successor is asked.
"""

from __future__ import annotations

import msgspec

from ...runtime.definitions import Verdict
from ...runtime.errors import ValidationError
from ...runtime.identity import new_id, now_ms
from ...runtime.messages import (
    ApprovalAnswer,
    ApprovalRequest,
    Decision,
    PermissionQuestion,
    Resolution,
)
from ..calls.call import CallPreparation, ReadyCall
from ..calls.outcome import denial
from .decisions import Decisions
from .question import OpenQuestion, runs_programs, without_memory


class EditedArguments:
    """Judges the arguments of answers. Each method raises `ToolFailure` for a call that can't be."""

    def __init__(self, preparation: CallPreparation, decisions: Decisions) -> None:
        self._preparation = preparation
        self._decisions = decisions

    async def resolution(self, question: OpenQuestion, answer: ApprovalAnswer) -> Resolution:
        """Return what the answer comes to; a rule may have come since the question was put."""
        if answer.decision != "allow":
            return question.resolution(answer)
        is_remembered = answer.remember not in {None, "call"} and runs_programs(question.question)
        if answer.arguments is None:
            self._decided(question, question.question)
            resolution = question.resolution(answer)
            if not is_remembered:
                return resolution
            same, _ = await self._judged(question, question.question.arguments)
            return _bound(resolution, same, question)
        changed, _ = await self._judged(question, answer.arguments)
        if is_higher := _is_higher(changed, question):
            answer = without_memory(msgspec.structs.replace(answer, decision="revised"))
        resolution = Resolution(
            approval_id=question.approval_id,
            answer=answer,
            arguments=changed.arguments.canonical,
            digest=changed.digest(question.place, question.policy_version),
        )
        return (
            _bound(resolution, changed, question) if is_remembered and not is_higher else resolution
        )

    async def request(self, question: OpenQuestion, arguments: str) -> ApprovalRequest:
        """Return the question as it would be about other arguments."""
        changed, decision = await self._judged(question, arguments)
        canonical = changed.arguments.canonical
        # Of a higher tier they are asked about again, and only that answer can be remembered.
        is_higher = _is_higher(changed, question)
        return msgspec.structs.replace(
            question.request(),
            tier=changed.tier,
            reason=decision.reason,
            arguments=canonical,
            digest=changed.digest(question.place, question.policy_version),
            preview=await changed.preview(),
            scopes=("call",) if is_higher else question.scopes_for(canonical),
        )

    async def successor(
        self, question: OpenQuestion, arguments: str, seconds: float
    ) -> OpenQuestion:
        """Return the question that takes the place of a deferred one, with `seconds` to answer."""
        changed, decision = await self._judged(question, arguments)
        before = question.question.tier
        return OpenQuestion(
            approval_id=new_id("approval"),
            place=question.place,
            call=question.call,
            question=changed.question,
            reason=f"a person changed the arguments, which made it {changed.tier} instead of {before}",
            digest=changed.digest(question.place, decision.policy_version),
            policy_version=decision.policy_version,
            expires_at_ms=now_ms() + int(seconds * 1000),
            patience_seconds=seconds,
            marks=question.marks,
            preview=await changed.preview(),
            is_deferred=True,
        )

    async def _judged(self, question: OpenQuestion, arguments: str) -> tuple[ReadyCall, Decision]:
        await self._preparation.wait_tested((question.call,))
        changed = self._preparation.ready(question.place, question.call, arguments)
        return changed, self._decided(question, changed.question)

    def _decided(self, question: OpenQuestion, call: PermissionQuestion) -> Decision:
        """Return the decision of this moment about what would run; raise when it is denied."""
        decision = self._decisions.decision(question.place, call, question.marks)
        if decision.verdict is Verdict.DENY:
            raise denial(decision.reason, call.tier)
        return decision


def _bound(resolution: Resolution, call: ReadyCall, question: OpenQuestion) -> Resolution:
    """Return the resolution with what the call runs, to which the remembered answer binds.

    Raises:
        ValidationError: It can't be told, or is not what the person was asked about.
    """
    if call.context.processes is None:
        return resolution  # and a grant without it holds for no such call
    programs = call.programs()
    if call.digest(question.place, question.policy_version) != resolution.digest or not programs:
        why = "has changed since it was asked about" if programs else "can't be told from its words"
        raise ValidationError(f"remember: what the command runs {why}", field="remember")
    return msgspec.structs.replace(resolution, programs=programs)


def _is_higher(changed: ReadyCall, question: OpenQuestion) -> bool:
    return changed.tier.rank > question.question.tier.rank
