"""The policy of a session as the broker asks it: what follows from the tier alone is kept."""

from __future__ import annotations

from ...config.policy.policy import Policy, PolicyBook, PolicyQuestion
from ...runtime.definitions import Capability, Tier
from ...runtime.messages import UNMARKED, CallPlace, Decision, PermissionQuestion, SessionMarks

MAX_KEPT_DECISIONS = 1024
"""Tools times tiers: four for each of a runtime's tools."""
MAX_CACHED_POLICIES = 256
"""Agents times kinds times channels, and those above them; beyond it the cache starts anew rather
than grow."""


class SessionPolicy:
    """The decisions that follow from a policy."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._kept: dict[tuple[str, Tier], Decision] = {}

    def decision(self, question: PermissionQuestion, marks: SessionMarks = UNMARKED) -> Decision:
        """The verdict about one call; the same object for calls that can't differ in it."""
        if question.approval_reason is not None:
            return self._decided(question, marks)
        kept = self._kept.get((question.name, question.tier))
        if kept is not None:
            return kept
        decided = self._decided(question, marks)
        if self._may_be_kept(question):
            if len(self._kept) >= MAX_KEPT_DECISIONS:
                self._kept.clear()
            self._kept[question.name, question.tier] = decided
        return decided

    def _may_be_kept(self, question: PermissionQuestion) -> bool:
        """Whether nothing but the tier counts; with the network, what the session has read does."""
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
        version = self._policy.version
        return Decision(
            verdict=found.verdict,
            reason=found.reason,
            policy_version=version,
            defer=found.defer,
        )


class SessionPolicies:
    """The policies of sessions, by all that they follow from.

    Args:
        book: All rules.
    """

    def __init__(self, book: PolicyBook) -> None:
        self._book = book
        self._made: dict[object, SessionPolicy] = {}

    def of(self, place: CallPlace) -> SessionPolicy:
        """The policy of a session: its own, and that of every session above it.

        A session without people of its own is judged by the rules for its nearest parent's channel.
        """
        agent = place.agent
        key: tuple[object, ...] = (self._book.revision, agent.name, agent.policy)
        key += place.session_kind, place.channel
        for above in place.lineage:
            key += above.agent.name, above.agent.policy, above.kind, above.channel
        policy = self._made.get(key)
        if policy is None:
            if len(self._made) >= MAX_CACHED_POLICIES:
                self._made.clear()
            policy = self._made[key] = SessionPolicy(self._policy(place))
        return policy

    def _policy(self, place: CallPlace) -> Policy:
        found: Policy | None = None
        channel: str | None = None
        for ancestor in reversed(place.lineage):  # whoever began it all comes first
            channel = ancestor.channel or channel
            found = self._book.policy(
                ancestor.agent, kind=ancestor.kind, channel=channel, parent=found
            )
        channel = place.channel or channel
        return self._book.policy(
            place.agent, kind=place.session_kind, channel=channel, parent=found
        )
