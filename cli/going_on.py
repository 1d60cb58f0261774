"""What waits in a session that `callboard run --continue` goes on with, and how its person is asked."""

from __future__ import annotations

from collections.abc import Sequence

from ..runtime.identity import now_ms
from ..runtime.messages import ApprovalRequest
from ..runtime.store import ApprovalRow, StoreReader

MAX_WAITING = 1000
"""Questions that are looked through: more than people leave unanswered."""
MAX_NAMED = 10
"""Questions that one line names."""
MAX_DEPTH = 100
"""Sessions between one and the main one above it: far more than limits let there be."""

SCOPES = ("call", "turn", "session")
"""For what a late answer may be remembered wherever its call stands."""


async def open_questions(reader: StoreReader, session_id: str) -> list[ApprovalRow]:
    """The questions that wait in a session, or below it, the oldest first."""
    rows = await reader.approvals(state="waiting", limit=MAX_WAITING)
    now = now_ms()
    waiting = [row for row in reversed(rows) if not 0 < row.expires_at_ms <= now]
    above = {row.session_id: False for row in waiting}
    for below in above:
        above[below] = await _is_below(reader, below, session_id)
    return [row for row in waiting if above[row.session_id] and not row.same_as]


def unanswered(session_id: str, waiting: Sequence[ApprovalRow]) -> str:
    """What to say where nobody can be asked."""
    return (
        f"{_names(waiting)} in {session_id} without an answer. Give it with `callboard approve ID` "
        "or `callboard deny ID`, or run this at a terminal."
    )


def _names(waiting: Sequence[ApprovalRow]) -> str:
    """`approval_… waits`, or `approval_…, approval_… wait`."""
    ids = ", ".join(row.approval_id for row in waiting[:MAX_NAMED])
    more = f" and {len(waiting) - MAX_NAMED} more" if len(waiting) > MAX_NAMED else ""
    return f"{ids}{more} {'waits' if len(waiting) == 1 else 'wait'}"


def late_request(row: ApprovalRow) -> ApprovalRequest:
    """A question on record as it is put to a person who asked for it."""
    return ApprovalRequest(
        approval_id=row.approval_id,
        session_id=row.session_id,
        turn_id=row.turn_id,
        call_id=row.call_id,
        tool=row.tool,
        tier=row.tier,
        reason=row.reason,
        arguments=row.arguments,
        digest=row.digest,
        expires_at_ms=row.expires_at_ms,
        preview=row.preview,
        scopes=SCOPES,
    )


async def _is_below(reader: StoreReader, session_id: str | None, above: str) -> bool:
    """Whether a session is the other one, or one that it delegated to."""
    for _ in range(MAX_DEPTH):
        if session_id is None or session_id == above:
            return session_id is not None
        row = await reader.session(session_id)
        session_id = row.parent_id if row is not None else None
    return False
