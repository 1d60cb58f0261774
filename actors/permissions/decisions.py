"""Whether a call may run: the policy decides, and an answer that a person had remembered speaks next.

Both halves are pure lookups. A decision is made for every call, so both keep what they found: the
policy by all that it follows from, its verdicts by tool and tier, and the grants by tool. A denial
of either half wins; a grant that allows only answers what the policy would have asked.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ...config.policy.grant_binding import covers
from ...config.policy.policy import Policy, PolicyBook, PolicyQuestion
from ...runtime.definitions import Capability, Tier, ToolDefinition, Verdict
from ...runtime.messages import (
    Ancestor,
    ApprovalAnswer,
    CallPlace,
    CheckPermissions,
    Decision,
    PermissionQuestion,
)
from ...runtime.store.rows import GrantRow
from ...runtime.store.tables.permissions import is_suspended_in_tainted
from ...runtime.taint.marks import UNMARKED, SessionMarks

MAX_GRANTS = 10_000
"""More than people give. When so many hold, further answers count for their call alone."""
MAX_KEPT_DECISIONS = 1024
"""Tools times tiers: four for each of a runtime's tools."""
MAX_CACHED_POLICIES = 256
"""Agents times kinds times channels, and those above them. A full cache is emptied."""


class Decisions:
    """Decides about calls; asks nobody.

    Attributes:
        grants: The remembered answers that hold.
    """

    def __init__(self, policies: PolicyBook) -> None:
        self.grants = GrantBook()
        self._policies = SessionPolicies(policies)

    def decide(self, check: CheckPermissions) -> tuple[Decision, ...]:
        """Return a decision for each question, in their order."""
        policy = self._policies.of(check.place)
        return tuple(
            self._decision(policy, check.place, question, check.marks)
            for question in check.questions
        )

    def decision(
        self, place: CallPlace, question: PermissionQuestion, marks: SessionMarks
    ) -> Decision:
        """Return the decision about one call."""
        return self._decision(self._policies.of(place), place, question, marks)

    def _decision(
        self,
        policy: SessionPolicy,
        place: CallPlace,
        question: PermissionQuestion,
        marks: SessionMarks,
    ) -> Decision:
        decision = policy.decision(question, marks)
        if decision.verdict is Verdict.DENY:
            return decision
        grant = self.grants.find(place, question, marks)
        if grant is None or (decision.verdict is Verdict.ALLOW and grant.verdict == "allow"):
            return decision
        return _decided_by(grant, decision)


# ── the policy ───────────────────────────────────────────────────────────────────────────────────


class SessionPolicies:
    """The policies of sessions, each cached by all that it follows from."""

    def __init__(self, book: PolicyBook) -> None:
        self._book = book
        self._made: dict[object, SessionPolicy] = {}

    def of(self, place: CallPlace) -> SessionPolicy:
        """Return the policy of a session: its own, narrowed by that of every session above it.

        A session without people of its own follows the rules for its nearest parent's channel.
        """
        agent = place.agent
        key: tuple[object, ...] = (
            self._book.revision,
            agent.name,
            agent.policy,
            agent.auto_hosts,
        )
        key += place.session_kind, place.channel
        for above in place.lineage:
            its = above.agent
            key += its.name, its.policy, its.auto_hosts, above.kind, above.channel
        policy = self._made.get(key)
        if policy is None:
            if len(self._made) >= MAX_CACHED_POLICIES:
                self._made.clear()
            policy = self._made[key] = SessionPolicy(self._policy(place))
        return policy

    def _policy(self, place: CallPlace) -> Policy:
        found, channel = policy_above(self._book, place.lineage)
        channel = place.channel or channel
        return self._book.policy(
            place.agent, kind=place.session_kind, channel=channel, parent=found
        )


def policy_above(book: PolicyBook, lineage: Sequence[Ancestor]) -> tuple[Policy | None, str | None]:
    """Return the policy of the sessions above one (the parent first), and their nearest channel."""
    found: Policy | None = None
    channel: str | None = None
    for ancestor in reversed(lineage):  # from the main session downwards
        channel = ancestor.channel or channel
        found = book.policy(ancestor.agent, kind=ancestor.kind, channel=channel, parent=found)
    return found, channel


class SessionPolicy:
    """The decisions that follow from one policy."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._kept: dict[tuple[str, Tier], Decision] = {}

    def decision(self, question: PermissionQuestion, marks: SessionMarks = UNMARKED) -> Decision:
        """Return the decision about one call, cached where only its tool and tier matter."""
        if question.approval_reason is not None:
            return self._decided(question, marks)
        kept = self._kept.get((question.name, question.tier))
        if kept is not None:
            return kept
        decided = self._decided(question, marks)
        if self._follows_from_tier(question):
            if len(self._kept) >= MAX_KEPT_DECISIONS:
                self._kept.clear()
            self._kept[question.name, question.tier] = decided
        return decided

    def _follows_from_tier(self, question: PermissionQuestion) -> bool:
        """Whether nothing but the tier counts. For the network, what the session has read does."""
        definition = question.definition
        if definition is None or Capability.NETWORK in definition.needs:
            return False
        return not self._policy.has_rules_about(question.name)

    def _decided(self, question: PermissionQuestion, marks: SessionMarks) -> Decision:
        found = self._policy.ruling(
            PolicyQuestion(
                tool=question.name,
                definition=question.definition,
                tier=question.tier,
                arguments=question.arguments,
                approval_reason=question.approval_reason,
                hosts=marks.hosts,
                is_exposed=marks.is_exposed,
                is_redirect=question.is_redirect,
            )
        )
        return Decision(
            verdict=found.verdict,
            reason=found.reason,
            policy_version=self._policy.version,
            defer=found.defer,
            is_about_host=found.is_about_host,
        )


# ── grants ───────────────────────────────────────────────────────────────────────────────────────


class GrantBook:
    """The remembered answers that hold, by tool."""

    def __init__(self) -> None:
        self._by_tool: dict[str, dict[str, GrantRow]] = {}

    @property
    def is_full(self) -> bool:
        """Whether no more fit in."""
        return sum(map(len, self._by_tool.values())) >= MAX_GRANTS

    def add(self, grant: GrantRow) -> None:
        """Let a grant hold from now on, and drop those of its session's earlier turns."""
        grants = self._by_tool.setdefault(grant.tool, {})
        for other in tuple(grants.values()):
            is_of_session = other.scope == "turn" and other.session_id == grant.session_id
            if is_of_session and other.turn_id != grant.turn_id:
                del grants[other.grant_id]
        grants[grant.grant_id] = grant

    def all(self) -> list[GrantRow]:
        """Return the grants that hold."""
        return [grant for grants in self._by_tool.values() for grant in grants.values()]

    def remove(self, grant: GrantRow) -> bool:
        """End a grant; return whether it held."""
        return self._by_tool.get(grant.tool, {}).pop(grant.grant_id, None) is not None

    def find(
        self, place: CallPlace, question: PermissionQuestion, marks: SessionMarks
    ) -> GrantRow | None:
        """Return the grant that covers this call; one that denies comes before any that allows."""
        found: GrantRow | None = None
        for grant in self._by_tool.get(question.name, {}).values():
            if not is_suspended(grant, marks) and is_covered(grant, place, question):
                if grant.verdict == "deny":
                    return grant
                found = grant
        return found


def is_suspended(grant: GrantRow, marks: SessionMarks) -> bool:
    """Whether a grant does not hold in a session with these marks."""
    return marks.is_tainted and is_suspended_in_tainted(
        grant.verdict, grant.scope, is_tainted=grant.is_tainted
    )


def is_covered(grant: GrantRow, place: CallPlace, question: PermissionQuestion) -> bool:
    """Whether a grant is about this call in this session."""
    in_scope = {
        "turn": grant.turn_id == place.turn_id,
        "session": grant.session_id == place.session_id,
        "agent": _is_of_agent(grant.agent, place),
        "always": True,
    }
    definition = question.definition
    return (
        in_scope.get(grant.scope, False)
        and grant.workspace == place.workspace
        and definition is not None
        and question.tier.rank <= grant.tier.rank
        and grant.definition == definition.digest
        and covers(grant.binding, question.arguments)
        and (grant.verdict == "deny" or _runs_the_same(grant, question, definition))
    )


def _runs_the_same(
    grant: GrantRow, question: PermissionQuestion, definition: ToolDefinition
) -> bool:
    """Whether a call would run what it would have run when it was allowed, if it runs programs."""
    if question.programs is None:
        return Capability.PROCESSES not in definition.needs
    return bool(grant.binding.programs) and question.programs() == grant.binding.programs


def _is_of_agent(agent: str, place: CallPlace) -> bool:
    """Whether this agent acts in the whole line: no child gets more by a grant than its parent."""
    return place.agent.name == agent and all(a.agent.name == agent for a in place.lineage)


def _decided_by(grant: GrantRow, decision: Decision) -> Decision:
    said = f": {grant.reason}" if grant.reason else ""
    if grant.verdict == "deny":
        reason = (
            f"{grant.given_by} said not to ask again about this{said}. "
            f"`callboard grants revoke {grant.grant_id}` changes that"
        )
    else:
        scopes = {"turn": "this turn", "session": "this session", "agent": f"agent {grant.agent}"}
        reason = f"allowed by {grant.given_by} for {scopes.get(grant.scope, 'good')}{said}"
    return msgspec.structs.replace(
        decision, verdict=Verdict(grant.verdict), reason=reason, grant_id=grant.grant_id
    )


def answer_of(grant: GrantRow) -> ApprovalAnswer:
    """Return a grant's answer to a question that waits; its id goes on record beside it."""
    by = f"grant {grant.grant_id}"
    return ApprovalAnswer(decision=grant.verdict, reason=grant.reason, answered_by=by)
