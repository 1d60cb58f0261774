"""Recovery: the events that close, or suspend, a turn that a crash left open.

After a crash the record of a turn just stops. A call with `CallStarted` may have had its effect: its
result says that the outcome is unknown, and it never runs again by itself. A call without had no effect:
`CallStarted` is committed before every effect, and reads need none. A turn that waits for a person is
suspended, not ended, so that the question can still be answered: that about a call, and that of `ask_user`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from ..approval import ApprovalDecision
from ..definitions import CallStatus, ErrorType
from ..errors import InternalError
from ..events import ApprovalAnswered, CallFinished, DurableEvent, TurnEnded, TurnSuspended
from ..history import LOST
from .rows import ApprovalRow, CallRow, OpenTurn

NOT_RUN = msgspec.json.encode(
    {
        "status": "error",
        "error_type": ErrorType.INTERRUPTED,
        "message": "The process stopped before this call began to change anything: it had not "
        "started, or only read. It can be asked for again.",
    }
).decode()
"""The result of a call without `CallStarted`."""


CUT_OFF = "The process ended while this turn ran."
"""The message of a turn's end that a crash left it without."""


def closing_events(turn: OpenTurn, now_ms: int) -> tuple[DurableEvent, ...]:
    """Return the result of each open call, in order, then the end of the turn.

    A turn with a question to a person is suspended instead. Calls that have questions and have not
    started stay open, and so do calls that wait for a suspended session. An answer given before the
    crash becomes void and is asked for again; an answer given while the turn is suspended holds. A turn
    that is suspended already gets only what has changed.

    Durations reach until `now_ms`, because it is unknown when the process ended.
    """
    kept = kept_calls(turn)
    closed = tuple(
        _closed(turn.turn_id, call, now_ms) for call in turn.calls if call.call_id not in kept
    )
    if kept:
        answered = _answered(turn, now_ms)
        if turn.is_suspended:
            return (*closed, *answered)
        suspended = TurnSuspended(turn_id=turn.turn_id, call_ids=tuple(kept))
        return (*closed, *answered, suspended)
    return (
        *closed,
        TurnEnded(
            turn_id=turn.turn_id,
            outcome="failed",
            error_type=InternalError.type,
            message=CUT_OFF,
            duration_ms=max(now_ms - turn.started_at_ms, 0),
        ),
    )


def kept_calls(turn: OpenTurn) -> list[str]:
    """Return the ids of the calls that wait for people, or for a session that does."""
    asked = {approval.call_id for approval in turn.approvals}
    waits = {*turn.delegated, *(question.asked.call_id for question in turn.questions)}
    return [
        call.call_id
        for call in turn.calls
        if call.call_id in waits or (call.call_id in asked and call.started_at_ms is None)
    ]


def deepest_first(turns: Iterable[OpenTurn]) -> list[OpenTurn]:
    """Sort turns so that each comes after those that it may wait for."""
    turns = list(turns)
    parents = {turn.session_id: turn.parent_id for turn in turns}

    def depth(turn: OpenTurn) -> int:
        count, parent = 0, turn.parent_id
        while parent in parents and count < len(parents):
            count, parent = count + 1, parents[parent]
        return count

    return sorted(turns, key=depth, reverse=True)


def _answered(turn: OpenTurn, now_ms: int) -> Iterator[ApprovalAnswered]:
    """Yield the ends of questions since the crash; setting the clock back extends none."""
    now_ms = max(now_ms, turn.seen_at_ms)
    for approval in turn.approvals:
        is_over = 0 < approval.expires_at_ms <= now_ms
        if approval.state == "waiting" and is_over:
            yield _decided(approval, "expired", "nobody answered in time")
        elif approval.state == "allowed" and not turn.is_suspended:
            yield _decided(approval, "void", "the process ended before the call began")


def _decided(approval: ApprovalRow, decision: ApprovalDecision, reason: str) -> ApprovalAnswered:
    return ApprovalAnswered(
        approval_id=approval.approval_id,
        call_id=approval.call_id,
        decision=decision,
        answered_by="callboard",
        reason=reason,
    )


def _closed(turn_id: str, call: CallRow, now_ms: int) -> CallFinished:
    had_started = call.started_at_ms is not None
    since_ms = call.proposed_at_ms if call.started_at_ms is None else call.started_at_ms
    return CallFinished(
        turn_id=turn_id,
        call_id=call.call_id,
        name=call.name,
        status=CallStatus.INTERRUPTED,
        result=LOST if had_started else NOT_RUN,
        display="interrupted: its outcome is unknown"
        if had_started
        else "interrupted: did not run",
        duration_ms=max(now_ms - since_ms, 0),
    )
