"""Which grants hold where: in tainted sessions, and in the session tree."""

from __future__ import annotations

from typing import Any

import pytest

from callboard.actors.permissions.decisions import GrantBook, is_suspended
from callboard.runtime.definitions import Agent, Binding, SessionKind, Tier, ToolDefinition
from callboard.runtime.messages import Ancestor, CallPlace, PermissionQuestion
from callboard.runtime.store.rows import GrantRow
from callboard.runtime.taint.marks import UNMARKED, SessionMarks

LAUNCH = ToolDefinition(name="launch", description="", parameters={})
QUESTION = PermissionQuestion(
    call_id="c", name="launch", tier=Tier.SYSTEM, arguments="{}", approval_reason="it asks",
    definition=LAUNCH,
)  # fmt: skip
TAINTED = SessionMarks(is_tainted=True)


def grant(scope: str, **changed: Any) -> GrantRow:
    fields: dict[str, Any] = {
        "grant_id": "g", "session_id": "s1", "verdict": "allow", "scope": scope,
        "tool": "launch", "definition": LAUNCH.digest, "tier": Tier.SYSTEM,
        "binding": Binding(arguments="{}"), "agent": "a", "turn_id": "t1", "workspace": "/work",
        "approval_id": "q", "given_by": "me", "reason": "", "given_at_ms": 0,
    }  # fmt: skip
    return GrantRow(**{**fields, **changed})


def place(*agents: str, session_id: str = "s1", turn_id: str = "t1") -> CallPlace:
    """A session of the first agent, below sessions of the others."""
    own, *above = (Agent(name=name) for name in agents)
    lineage = tuple(
        Ancestor(session_id=f"above{n}", agent=agent, kind=SessionKind.MAIN)
        for n, agent in enumerate(above)
    )
    return CallPlace(
        session_id=session_id, turn_id=turn_id, agent=own, workspace="/work", lineage=lineage
    )


@pytest.mark.parametrize(
    ("scope", "is_tainted", "marks", "suspended"),
    [
        *((scope, False, UNMARKED, False) for scope in ("turn", "session", "agent", "always")),
        *((scope, False, TAINTED, True) for scope in ("turn", "session", "agent", "always")),
        ("turn", True, TAINTED, False),
        ("session", True, TAINTED, False),
        ("agent", True, TAINTED, True),
        ("always", True, TAINTED, True),
        ("session", False, SessionMarks(has_private=True), False),
    ],
)
def test_which_grants_a_tainted_session_suspends(
    scope: str, is_tainted: bool, marks: SessionMarks, suspended: bool
) -> None:
    given = grant(scope, is_tainted=is_tainted)
    assert is_suspended(given, marks) is suspended
    assert not is_suspended(grant(scope, is_tainted=is_tainted, verdict="deny"), marks)
    book = GrantBook()
    book.add(given)
    assert (book.find(place("a"), QUESTION, marks) is None) is suspended


@pytest.mark.parametrize(
    ("scope", "where", "holds"),
    [
        ("session", place("a"), True),
        ("session", place("a", "a", session_id="child"), False),
        ("turn", place("a"), True),
        ("turn", place("a", "a", session_id="child", turn_id="t2"), False),
        ("agent", place("a", session_id="other"), True),
        ("agent", place("a", "a", session_id="child"), True),
        ("agent", place("b", "a", session_id="child"), False),
        ("agent", place("a", "b", session_id="child"), False),
        ("agent", place("a", "a", "b", session_id="child"), False),
        ("always", place("a", "b", session_id="child"), True),
    ],
)
def test_how_far_a_grant_reaches_down_the_tree(scope: str, where: CallPlace, holds: bool) -> None:
    book = GrantBook()
    book.add(grant(scope))
    assert (book.find(where, QUESTION, UNMARKED) is not None) is holds


def test_a_grant_counts_once_and_is_taken_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("callboard.actors.permissions.decisions.MAX_GRANTS", 2)
    book = GrantBook()
    book.add(grant("session"))
    book.add(grant("session"))
    assert not book.is_full
    book.add(grant("session", grant_id="h"))
    assert book.is_full
    assert [book.remove(grant("session")) for _ in range(2)] == [True, False]
    assert not book.is_full
