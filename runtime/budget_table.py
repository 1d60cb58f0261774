"""What budgets need on record beside the usage: failed model calls, and how long turns ran."""

from __future__ import annotations

import apsw
import msgspec

from .budget import Budget
from .errors import InternalError
from .events import AttemptCharged, AttemptFailed, TurnEnded, TurnResumed, TurnSuspended
from .usage_table import add_usage


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
