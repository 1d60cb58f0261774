"""The policy of a session as the broker asks it: what follows from the tier alone is kept."""

from __future__ import annotations

from ..config.policy import Policy, PolicyQuestion
from ..runtime.definitions import Tier
from ..runtime.messages import Decision, PermissionQuestion

MAX_KEPT_DECISIONS = 1024
"""Tools times tiers: four for each of a runtime's tools."""


class SessionPolicy:
    """The decisions that follow from a policy."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._kept: dict[tuple[str, Tier], Decision] = {}

    def decision(self, question: PermissionQuestion) -> Decision:
        """The verdict about one call; the same object for calls that can't differ in it."""
        if question.approval_reason is not None:
            return self._decided(question)
        kept = self._kept.get((question.name, question.tier))
        if kept is not None:
            return kept
        decided = self._decided(question)
        if question.definition is not None and not self._policy.has_rules_about(question.name):
            if len(self._kept) >= MAX_KEPT_DECISIONS:
                self._kept.clear()
            self._kept[question.name, question.tier] = decided
        return decided

    def _decided(self, question: PermissionQuestion) -> Decision:
        found = self._policy.ruling(
            PolicyQuestion(
                tool=question.name,
                definition=question.definition,
                tier=question.tier,
                arguments=question.arguments,
                approval_reason=question.approval_reason,
            )
        )
        version = self._policy.version
        return Decision(verdict=found.verdict, reason=found.reason, policy_version=version)
