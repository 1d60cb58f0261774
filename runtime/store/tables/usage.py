"""The rows of the table `usage`: what each model call took, in tokens. Costs are not stored."""

from __future__ import annotations

import apsw
import msgspec

from ...budget import Budget
from ...errors import InternalError
from ...events import (
    AttemptCharged,
    AttemptFailed,
    HistoryCompacted,
    MessageCompleted,
    TurnEnded,
    TurnResumed,
    TurnSuspended,
)
from ...stream import Usage

_COLUMNS = """
select u.id, s.session_id, s.agent, u.turn_id, u.message_id, u.provider, u.model, u.input_tokens,
  u.output_tokens, u.cached_tokens, u.reasoning_tokens, u.cache_write_tokens, u.created_at_ms,
  u.estimated_input, u.estimated_output
from usage u
join sessions s on s.id = u.session
where u.created_at_ms >= ? and u.id > ?
"""

_OF_SESSION = " and u.session = (select id from sessions where session_id = ?)"

_INSERT = (
    "insert into usage (session, turn_id, message_id, provider, model, input_tokens,"
    " output_tokens, cached_tokens, reasoning_tokens, cache_write_tokens, created_at_ms,"
    " estimated_input, estimated_output) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)

_UNKNOWN = Usage()

Counted = MessageCompleted | HistoryCompacted | AttemptFailed | AttemptCharged
"""What tells of tokens."""


def add_usage(
    connection: apsw.Connection,
    session: int,
    message_id: str,
    event: Counted,
    now_ms: int,
) -> None:
    """The row of one model call; `session` is the key of its row."""
    usage, estimate = event.usage or _UNKNOWN, event.estimate or _UNKNOWN
    connection.execute(
        _INSERT,
        (
            session,
            event.turn_id,
            message_id,
            event.provider,
            event.model,
            usage.input_tokens,
            usage.output_tokens,
            usage.cached_tokens,
            usage.reasoning_tokens,
            usage.cache_write_tokens,
            now_ms,
            estimate.input_tokens,
            estimate.output_tokens,
        ),
    )


def select_usage(
    session_id: str | None, since_ms: int, after: int, limit: int
) -> tuple[str, tuple[object, ...]]:
    """The query for the columns of `UsageRow`, in order of `id`, with its values."""
    # Two texts and not one `? is null or …`, which would look through the calls of all sessions.
    if session_id is None:
        return f"{_COLUMNS} order by u.id limit ?", (since_ms, after, limit)
    values = (since_ms, after, session_id, limit)
    return f"{_COLUMNS}{_OF_SESSION} order by u.id limit ?", values


def budget_text(budget: Budget | None) -> str | None:
    """A budget as its column has it."""
    return None if budget is None else msgspec.json.encode(budget).decode()


def set_budget(connection: apsw.Connection, session: int, budget: Budget | None) -> None:
    """The session has another limit of its own."""
    connection.execute(
        "update sessions set budget = ? where id = ?", (budget_text(budget), session)
    )


def count_attempt(
    connection: apsw.Connection,
    session: int,
    seq: int,
    event: AttemptFailed | AttemptCharged,
    now_ms: int,
) -> None:
    """A model call without an answer: its tokens, or that it was made."""
    if event.usage is not None or event.estimate is not None:
        add_usage(connection, session, f"attempt:{seq}", event, now_ms)
    else:
        connection.execute(
            "update turns set failed_calls = failed_calls + 1 where session = ? and turn_id = ?",
            (session, event.turn_id),
        )


def count_run(
    connection: apsw.Connection,
    session: int,
    event: TurnSuspended | TurnResumed | TurnEnded,
    now_ms: int,
) -> None:
    """How long a turn ran: up to the last commit before its process ended, and on from there.

    Only an internal error may mean that the process ended, and nobody knows when.
    """
    if isinstance(event, TurnResumed):
        connection.execute(
            "update turns set resumed_at_ms = ? where session = ? and turn_id = ?",
            (now_ms, session, event.turn_id),
        )
    elif isinstance(event, TurnSuspended) or event.error_type == InternalError.type:
        connection.execute(
            "update turns set ran_ms = ran_ms + max(0,"
            " (select updated_at_ms from sessions where id = ?1) - coalesce(resumed_at_ms, started_at_ms))"
            " where session = ?1 and turn_id = ?2",
            (session, event.turn_id),
        )
    else:
        connection.execute(
            "update turns set ran_ms = ran_ms + ? where session = ? and turn_id = ?",
            (event.duration_ms, session, event.turn_id),
        )
