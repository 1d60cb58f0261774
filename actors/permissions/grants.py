"""The grants that hold, as the broker asks for them: a remembered answer that covers a call."""

from __future__ import annotations

import msgspec

from ...config.policy.grant_binding import covers
from ...runtime.definitions import Verdict
from ...runtime.messages import (
    ApprovalAnswer,
    CallPlace,
    Decision,
    PermissionQuestion,
    SessionMarks,
)
from ...runtime.store.interface import GrantRow
from ...runtime.store.tables.permissions import is_suspended_in_tainted

MAX_GRANTS = 10_000
"""More than people give; past it, answers hold for their call alone."""


class GrantBook:
    """Remembered answers, by tool."""

    def __init__(self) -> None:
        self._by_tool: dict[str, dict[str, GrantRow]] = {}
        self._count = 0

    @property
    def is_full(self) -> bool:
        """Whether no more fit in."""
        return self._count >= MAX_GRANTS

    def add(self, grant: GrantRow) -> None:
        """From here on it holds; those of turns of its session that are over are dropped."""
        grants = self._by_tool.setdefault(grant.tool, {})
        over = [
            other.grant_id
            for other in grants.values()
            if other.scope == "turn"
            and other.session_id == grant.session_id
            and other.turn_id != grant.turn_id
        ]
        for grant_id in over:
            del grants[grant_id]
        before = len(grants)
        grants[grant.grant_id] = grant
        self._count += len(grants) - before - len(over)

    def remove(self, grant: GrantRow) -> bool:
        """From here on it does not hold; whether it did."""
        grants = self._by_tool.get(grant.tool, {})
        if grants.pop(grant.grant_id, None) is None:
            return False
        self._count -= 1
        if not grants:
            del self._by_tool[grant.tool]
        return True

    def has(self, tool: str) -> bool:
        """Whether anything is remembered about this tool."""
        return tool in self._by_tool

    def find(
        self, place: CallPlace, question: PermissionQuestion, marks: SessionMarks
    ) -> GrantRow | None:
        """The grant that covers this call; one that denies before any that allows."""
        found: GrantRow | None = None
        for grant in self._by_tool.get(question.name, {}).values():
            if is_suspended(grant, marks):
                continue
            if is_covered(grant, place, question):
                if grant.verdict == "deny":
                    return grant
                found = grant
        return found


def is_suspended(grant: GrantRow, marks: SessionMarks) -> bool:
    """Whether it does not hold in a session with these marks."""
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
    )


def _is_of_agent(agent: str, place: CallPlace) -> bool:
    """Whether all who act there are this agent: a child gets no more by a grant than its parent."""
    return place.agent.name == agent and all(a.agent.name == agent for a in place.lineage)


def decided_by_grant(grant: GrantRow, decision: Decision) -> Decision:
    """What a grant makes of the policy's word."""
    said = f": {grant.reason}" if grant.reason else ""
    if grant.verdict == "deny":
        reason = (
            f"{grant.given_by} said not to ask again about this{said}. "
            f"`callboard grants revoke {grant.grant_id}` changes that"
        )
    else:
        reason = f"allowed by {grant.given_by} for {words_of(grant)}{said}"
    return msgspec.structs.replace(
        decision, verdict=Verdict(grant.verdict), reason=reason, grant_id=grant.grant_id
    )


def said_by(grant: GrantRow) -> ApprovalAnswer:
    """A grant's answer to a question that waits; that it is one is said beside it, by its id."""
    by = f"grant {grant.grant_id}"
    return ApprovalAnswer(decision=grant.verdict, reason=grant.reason, answered_by=by)


def words_of(grant: GrantRow) -> str:
    """The scope in words."""
    return {
        "turn": "this turn",
        "session": "this session",
        "agent": f"agent {grant.agent}",
    }.get(grant.scope, "good")
