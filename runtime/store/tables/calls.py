"""The table `tool_calls`: what an event changes in the row of its call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...definitions import CallStatus
from ...events import (
    ApprovalAnswered,
    ApprovalAsked,
    CallDeferred,
    CallFinished,
    CallProposed,
    CallStarted,
)

if TYPE_CHECKING:
    from .connection import SqlConnection

PROPOSE_CALL = (
    "insert into tool_calls (session, call_id, turn_id, name, status, arguments, display,"
    " proposed_at_ms, started_at_ms) values (?, ?, ?, ?, ?, ?, '', ?, ?)"
    " on conflict do nothing"
)

FINISH_CALL = (
    "insert into tool_calls (session, call_id, turn_id, name, status, arguments, result,"
    " display, proposed_at_ms, finished_at_ms, duration_ms, finished_seq)"
    " values (?1, ?2, ?3, ?4, ?5, coalesce(?6, ''), ?7, ?8, ?9, ?9, ?10, ?11)"
    " on conflict (session, call_id) do update set status = ?5,"
    " arguments = coalesce(?6, tool_calls.arguments),"
    " result = ?7, display = ?8, finished_at_ms = ?9, duration_ms = ?10,"
    " finished_seq = ?11"
    " where tool_calls.finished_at_ms is null"
)


def propose_call(
    connection: SqlConnection, session: int, event: CallProposed, now_ms: int, *, starts: bool
) -> bool:
    """Add a proposed call, which may start at once; return whether it is new."""
    connection.execute(
        PROPOSE_CALL,
        (
            session,
            event.call_id,
            event.turn_id,
            event.name,
            (CallStatus.RUNNING if starts else CallStatus.PENDING).value,
            event.arguments,
            now_ms,
            now_ms if starts else None,
        ),
    )
    return connection.changes() > 0


def mark_call_asked(
    connection: SqlConnection, session: int, event: ApprovalAsked | ApprovalAnswered
) -> None:
    """Set whether a call waits for a person; a deferred call stays deferred until it starts or ends."""
    status = CallStatus.WAITING if isinstance(event, ApprovalAsked) else CallStatus.PENDING
    # The arguments of a denial were the person's wish; the call keeps its own.
    counts = isinstance(event, ApprovalAsked) or event.decision != "deny"
    connection.execute(
        "update tool_calls set status = case when status = 'deferred' then status else ? end,"
        " arguments = coalesce(?, arguments)"
        " where session = ? and call_id = ? and started_at_ms is null"
        " and finished_at_ms is null",
        (status.value, event.arguments if counts else None, session, event.call_id),
    )


def defer_call(connection: SqlConnection, session: int, event: CallDeferred) -> None:
    """Mark a call that waits for a person while its turn goes on."""
    connection.execute(
        "update tool_calls set status = ? where session = ? and call_id = ?"
        " and started_at_ms is null and finished_at_ms is null",
        (CallStatus.DEFERRED.value, session, event.call_id),
    )


def start_call(connection: SqlConnection, session: int, event: CallStarted, now_ms: int) -> None:
    """Mark a call as running."""
    connection.execute(
        "update tool_calls set status = ?, started_at_ms = ?"
        " where session = ? and call_id = ? and started_at_ms is null"
        " and finished_at_ms is null",
        (CallStatus.RUNNING.value, now_ms, session, event.call_id),
    )


def finish_call(
    connection: SqlConnection, session: int, event: CallFinished, now_ms: int, seq: int
) -> bool:
    """Store the result of a call; return `False` if it has one.

    A call that was never proposed gets a row too, because its event is stored.
    """
    connection.execute(
        FINISH_CALL,
        (
            session,
            event.call_id,
            event.turn_id,
            event.name,
            event.status.value,
            event.arguments,
            event.result,
            event.display,
            now_ms,
            event.duration_ms,
            seq,
        ),
    )
    return connection.changes() > 0
