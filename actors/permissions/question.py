"""A question about one call while it is open: what it says, and the events that record it.

`OpenQuestion` makes every event of its life, so that what goes on record about a question is read
in one place. It stores nothing and asks nobody. `OpenQuestions` lists those of this process, and
finds twins: questions that have the same answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec
import trio

from ...config.policy.grant_binding import binding_of, lasting_problem
from ...runtime.approval import ApprovalDecision
from ...runtime.definitions import Binding, Capability, InputSource
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
)
from ...runtime.store.rows import ApprovalRow
from ...runtime.store.tables.permissions import LASTING_SCOPES
from ...runtime.taint.marks import UNMARKED, SessionMarks
from ...runtime.text import excerpt
from ..calls.call import commands_in

PENDING_TEXT = (
    "Not run yet: a person is asked about this call, and nobody waits for the answer. Go on without "
    "it, and don't ask for the same again. What comes of it is told later, as an input that names "
    "this approval_id."
)

SESSION_SCOPES = ("call", "turn", "session")
"""Scopes that every answer may be remembered for; `call` means that it is not remembered."""
MAX_PATTERN_CHARACTERS = 4096
"""Longest pattern of paths: as long as a path can be."""
MAX_SHOWN_CHARACTERS = 100
"""Characters of a wrong value that an error repeats."""


class SharedAnswer(NamedTuple):
    """An answer for all twins; `grant_id` is the grant that gave it, if one did."""

    answer: ApprovalAnswer
    grant_id: str


class OpenQuestion(msgspec.Struct, eq=False, kw_only=True):
    """A question, until it has its answer.

    Attributes:
        marks: What its session has read, as far as known; `ApprovalRecord.refresh` updates it.
        known_marks: The marks when people were asked, who answer with those in mind.
        patience_seconds: How long people have, from when they are asked here.
        asked_in: The session above whose people are asked, if any; `origin` says so in words.
        is_deferred: Whether its turn goes on without the answer, which becomes an input.
        number: Which of the `count` questions of one answer it is.
        outcome: Sent once, when the answer is on record.
        is_stored: Set when it is on its way to the record, or over: the next one may follow.
        is_put: Set when people are asked, or nobody is.
        shared: The answer for its twins, once there is one.
        followers: Twins that wait for this question's answer.
    """

    approval_id: str
    place: CallPlace
    call: Call
    question: PermissionQuestion
    reason: str
    digest: str
    policy_version: str
    expires_at_ms: int
    marks: SessionMarks
    known_marks: SessionMarks = UNMARKED
    patience_seconds: float = 0.0
    preview: str = ""
    asked_in: str = ""
    origin: str = ""
    is_deferred: bool = False
    number: int = 1
    count: int = 1
    is_stored: trio.Event = msgspec.field(default_factory=trio.Event)
    is_put: trio.Event = msgspec.field(default_factory=trio.Event)
    outcome: Reply[Resolution] = msgspec.field(default_factory=Reply)
    shared: SharedAnswer | None = None
    followers: list[OpenQuestion] = msgspec.field(default_factory=list)

    def __post_init__(self) -> None:
        self.known_marks = self.marks

    # ── what people see ──────────────────────────────────────────────────────────────────────────

    def request(self) -> ApprovalRequest:
        """Return the question as a person sees it."""
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
            scopes=self.scopes_for(self.question.arguments),
            asked_in=self.asked_in,
            origin=self.origin,
            is_deferred=self.is_deferred,
            number=self.number,
            count=self.count,
        )

    def scopes_for(self, arguments: str) -> tuple[str, ...]:
        """Return the scopes for which an answer with these arguments may be remembered."""
        # A deferred call runs in another turn.
        if self._is_unread(arguments):
            return ("call",)
        scopes = tuple(s for s in SESSION_SCOPES if s != "turn" or not self.is_deferred)
        if self.question.definition is None or self._lasting_problem(arguments):
            return scopes
        return (*scopes, "agent", "always")

    def _is_unread(self, arguments: str) -> bool:
        """Whether the call runs programs, and which can't be told from its words."""
        if not runs_programs(self.question):
            return False
        from ...tools.sandbox.named_programs import leads_on  # here: few calls run programs

        return any(map(leads_on, commands_in(msgspec.json.decode(arguments))))

    def _lasting_problem(self, arguments: str) -> str | None:
        """Return why an `allow` can't be remembered beyond the session, or `None` when it can."""
        if self.marks.is_tainted:
            return "the session has read untrusted content"
        definition = self.question.definition
        return None if definition is None else lasting_problem(definition, arguments)

    # ── its answer ───────────────────────────────────────────────────────────────────────────────

    @property
    def granting_place(self) -> CallPlace:
        """Where a grant must hold to answer it: a deferred call runs in another turn."""
        if not self.is_deferred:
            return self.place
        return msgspec.structs.replace(self.place, turn_id="")

    def resolution(self, answer: ApprovalAnswer) -> Resolution:
        """Return what an answer comes to that leaves the arguments as they are."""
        return Resolution(
            approval_id=self.approval_id,
            answer=answer,
            arguments=self.question.arguments,
            digest=self.digest,
        )

    def answer_for_all(self, resolution: Resolution) -> ApprovalAnswer | None:
        """Return the answer for its twins: with the arguments that it is about, if they changed."""
        answer = without_memory(resolution.answer)
        if answer.decision in {"allow", "revised"}:
            changed = resolution.arguments if resolution.digest != self.digest else None
            return msgspec.structs.replace(answer, decision="allow", arguments=changed)
        if answer.decision in {"deny", "expired"}:
            return msgspec.structs.replace(answer, arguments=None)
        return None

    def conclude(self, resolution: Resolution) -> None:
        """Send the answer that is on record to whoever waits; later ones are ignored."""
        answer = self.answer_for_all(resolution)
        if answer is not None and self.shared is None:
            self.shared = SharedAnswer(answer, resolution.grant_id)
        if not self.outcome.is_done:
            self.outcome.send(resolution)

    # ── what goes on record ──────────────────────────────────────────────────────────────────────

    def asked(self, same_as: str = "") -> ApprovalAsked:
        """Return the event that goes on record before anybody is asked."""
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

    def asked_above(self) -> ChildAsks:
        """Return the event for the session above whose people are asked."""
        return ChildAsks(
            question_id=self.approval_id,
            child_id=self.place.session_id,
            call_id=self.call.call_id,
            name=self.question.name,
        )

    def deferred(self) -> CallDeferred:
        """Return the event that goes with `asked` when the turn goes on without the answer."""
        return CallDeferred(
            turn_id=self.place.turn_id,
            call_id=self.call.call_id,
            name=self.question.name,
            approval_id=self.approval_id,
            result=_pending_result(self.approval_id),
        )

    def ending(self, resolution: Resolution) -> tuple[DurableEvent, ...]:
        """Return the events of an answer: itself, and the input that a late one becomes."""
        answer = resolution.answer
        is_changed = resolution.digest != self.digest
        # A denial may say which arguments the person would have allowed.
        wished = answer.arguments if answer.decision == "deny" else None
        answered = ApprovalAnswered(
            approval_id=self.approval_id,
            call_id=self.call.call_id,
            decision=answer.decision,
            answered_by=answer.answered_by,
            reason=answer.reason,
            arguments=resolution.arguments if is_changed else wished,
            remember=answer.remember,
            digest=resolution.digest if is_changed else None,
            grant_id=resolution.grant_id,
        )
        if not self.is_deferred or answer.decision == "revised":
            return (answered,)
        late = InputAccepted(
            input_id=new_id("input"),
            text=_answered_text(self.question.name, self.approval_id, answer),
            source=InputSource.DEFERRED,
            call_id=self.call.call_id,
            approval_id=self.approval_id,
        )
        return answered, late

    def grant(self, resolution: Resolution) -> GrantGiven | None:
        """Return the event that remembers an answer, or `None` when nobody wants it remembered.

        Raises:
            ValidationError: It can't be remembered so.
        """
        answer = resolution.answer
        definition = self.question.definition
        verdict = answer.decision
        if answer.remember in {None, "call"} or (verdict != "allow" and verdict != "deny"):
            return None
        problem = self._scope_problem(answer.remember, resolution)
        if definition is None or problem is not None:
            said = excerpt(repr(str(answer.remember)[:MAX_SHOWN_CHARACTERS]), MAX_SHOWN_CHARACTERS)
            why = "the tool is gone" if definition is None else problem
            scopes = ", ".join(self.scopes_for(self.question.arguments))
            raise ValidationError(
                f"remember: not for {said}, since {why}; there are: {scopes}", field="remember"
            )
        return GrantGiven(
            grant_id=new_id("grant"),
            verdict=verdict,
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

    def _scope_problem(self, scope: str | None, resolution: Resolution) -> str | None:
        if resolution.answer.decision == "allow" and self._is_unread(resolution.arguments):
            return "what it runs can't be told from its words"
        if scope in LASTING_SCOPES and resolution.answer.decision == "allow":
            return self._lasting_problem(resolution.arguments)
        if scope == "turn" and self.is_deferred:
            return "its turn goes on without the answer"
        return None if scope in {"turn", "session", *LASTING_SCOPES} else "there is no such scope"

    def _binding(self, resolution: Resolution) -> Binding:
        name, tier, pattern = self.question.name, self.question.tier, resolution.answer.pattern
        if len(pattern or "") > MAX_PATTERN_CHARACTERS:
            raise ValidationError(
                f"pattern: it is longer than {MAX_PATTERN_CHARACTERS} characters", field="pattern"
            )
        try:
            return binding_of(
                name, resolution.arguments, tier=tier, pattern=pattern, programs=resolution.programs
            )
        except ValueError as error:
            raise ValidationError(str(error), field="pattern") from None


def runs_programs(question: PermissionQuestion) -> bool:
    """Whether a call of the tool runs programs."""
    definition = question.definition
    return definition is not None and Capability.PROCESSES in definition.needs


def without_memory(answer: ApprovalAnswer) -> ApprovalAnswer:
    """Return the answer for this call alone."""
    return msgspec.structs.replace(answer, remember=None, pattern=None)


def _pending_result(approval_id: str) -> str:
    """Return what the model gets in place of a deferred call's result, as JSON text."""
    result = {"status": "pending_approval", "approval_id": approval_id, "message": PENDING_TEXT}
    return msgspec.json.encode(result).decode()


def _answered_text(name: str, approval_id: str, answer: ApprovalAnswer) -> str:
    """Return the text of the input that a late answer becomes; the model reads more."""
    said = f": {answer.reason}" if answer.reason else ""
    what = {
        "allow": f"{answer.answered_by} allowed the call of {name}{said}",
        "deny": f"{answer.answered_by} denied the call of {name}{said}",
    }.get(answer.decision, f"nobody answered in time about the call of {name}")
    return f"{approval_id}: {what}"


def stored_resolution(row: ApprovalRow) -> Resolution:
    """Return the answer of a question whose row has one."""
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
    """The questions that somebody in this process waits for, in the order in which they came."""

    def __init__(self) -> None:
        self._by_id: dict[str, OpenQuestion] = {}

    def __iter__(self) -> Iterator[OpenQuestion]:
        return iter(tuple(self._by_id.values()))

    def __contains__(self, approval_id: str) -> bool:
        return approval_id in self._by_id

    def get(self, approval_id: str) -> OpenQuestion | None:
        """Return the open question of this id."""
        return self._by_id.get(approval_id)

    def live(self, question: OpenQuestion) -> OpenQuestion:
        """Return the open question of the same id, or this one: it may have been read from rows."""
        return self._by_id.get(question.approval_id, question)

    def add(self, question: OpenQuestion) -> None:
        """List a question."""
        self._by_id[question.approval_id] = question

    def before(self, question: OpenQuestion) -> OpenQuestion | None:
        """Return the question of the same turn that came last before this one, of those it waits for."""
        found = None
        for other in self._by_id.values():
            if other is question:
                break
            if other.place.turn_id == question.place.turn_id and not other.is_deferred:
                found = other
        return found

    def drop(self, question: OpenQuestion) -> None:
        """Take a question off the list, unless another object has taken its place."""
        if self._by_id.get(question.approval_id) is question:
            del self._by_id[question.approval_id]

    def deferred_of(self, session_id: str) -> int:
        """Count a session's deferred questions."""
        return sum(q.is_deferred and q.place.session_id == session_id for q in self)

    def twin(self, question: OpenQuestion) -> OpenQuestion | None:
        """Return an earlier question of the same turn about the same, if one can share its answer."""
        for other in self:
            if other is question:
                break
            is_over = other.outcome.is_done and other.shared is None
            if not is_over and _asks(other) == _asks(question):
                return other
        return None

    def followers(self, question: OpenQuestion) -> list[OpenQuestion]:
        """Return the twins that wait for this question's answer, and those that wait for theirs."""
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
