"""How questions and grants are read back: their state from the tables, their words from the events."""

from __future__ import annotations

from typing import Any

import msgspec

from ...events import ApprovalAnswered, ApprovalAsked, GrantGiven
from ..codec import decode_event
from ..rows import ApprovalRow, GrantRow

SELECT_APPROVALS = """
select s.session_id, a.state, asked.at_ms, asked.event, answered.at_ms, answered.event
from approvals a
join sessions s on s.id = a.session
join events asked on asked.session = a.session and asked.seq = a.asked_seq
left join events answered on answered.session = a.session and answered.seq = a.answered_seq
"""

ASKED_BEFORE = " and (? is null or a.id < (select b.id from approvals b where b.approval_id = ?))"
"""A condition on the question that stands behind in the list; an unknown one has none before it."""

SELECT_GRANTS = """
select s.session_id, given.at_ms, given.event, g.revoked_at_ms
from grants g
join sessions s on s.id = g.session
join events given on given.session = g.session and given.seq = g.given_seq
"""

GRANT_HOLDS = (
    "g.revoked_at_ms is null and (g.scope <> 'turn' or exists (select 1 from turns t where"
    " t.session = g.session and t.turn_id = g.turn_id and t.ended_at_ms is null))"
)


def approval_row(row: tuple[Any, ...]) -> ApprovalRow:
    """The columns of `SELECT_APPROVALS` as one question."""
    session_id, state, asked_at_ms, asked_data, answered_at_ms, answered_data = row
    asked = decode_event(asked_data)
    assert isinstance(asked, ApprovalAsked)
    answered = None if answered_data is None else decode_event(answered_data)
    assert answered is None or isinstance(answered, ApprovalAnswered)
    return ApprovalRow(
        approval_id=asked.approval_id,
        session_id=session_id,
        turn_id=asked.turn_id,
        call_id=asked.call_id,
        state=state,
        tool=asked.name,
        tier=asked.tier,
        reason=asked.reason,
        arguments=asked.arguments,
        digest=asked.digest,
        preview=asked.preview,
        policy_version=asked.policy_version,
        same_as=asked.same_as,
        asked_at_ms=asked_at_ms,
        expires_at_ms=asked.expires_at_ms,
        answered_at_ms=answered_at_ms,
        decision=answered.decision if answered else "",
        answered_by=answered.answered_by if answered else "",
        answer_reason=answered.reason if answered else "",
        remember=answered.remember if answered else None,
        final_arguments=answered.arguments if answered else None,
        final_digest=answered.digest if answered else None,
        is_deferred=asked.is_deferred,
        grant_id=answered.grant_id if answered else "",
    )


def grant_row(row: tuple[Any, ...]) -> GrantRow:
    """The columns of `SELECT_GRANTS` as one grant."""
    session_id, given_at_ms, data, revoked_at_ms = row
    given = decode_event(data)
    assert isinstance(given, GrantGiven)
    return given_grant(given, session_id, given_at_ms, revoked_at_ms)


def given_grant(
    given: GrantGiven, session_id: str, given_at_ms: int, revoked_at_ms: int | None = None
) -> GrantRow:
    """The row of a grant, from its event."""
    return GrantRow(
        session_id=session_id,
        given_at_ms=given_at_ms,
        revoked_at_ms=revoked_at_ms,
        **msgspec.structs.asdict(given),
    )
