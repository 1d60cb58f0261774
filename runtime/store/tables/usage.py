"""The table `usage`: tokens of each model call, and what turns and session trees have spent.

Costs are not stored: prices change, and they follow from tokens and models.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import starmap
from typing import TYPE_CHECKING, Any

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
from ..rows import Spending, SpentCall, SpentTurn
from .lists import equal, joined

if TYPE_CHECKING:
    from .connection import SqlConnection

# At import, since readers are threads: two that decode a type for the first time at once crash the interpreter.
_BUDGET = msgspec.json.Decoder(Budget)

_SELECT = """
select u.id, s.session_id, s.agent, u.turn_id, u.message_id, u.provider, u.model, u.input_tokens,
  u.output_tokens, u.cached_tokens, u.reasoning_tokens, u.cache_write_tokens, u.created_at_ms,
  u.estimated_input, u.estimated_output
from usage u
join sessions s on s.id = u.session
"""

_INSERT = (
    "insert into usage (session, turn_id, message_id, provider, model, input_tokens,"
    " output_tokens, cached_tokens, reasoning_tokens, cache_write_tokens, created_at_ms,"
    " estimated_input, estimated_output) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)

_UNKNOWN = Usage()

Counted = MessageCompleted | HistoryCompacted | AttemptFailed | AttemptCharged
"""Events that report tokens."""


def add_usage(
    connection: SqlConnection,
    session: int,
    message_id: str,
    event: Counted,
    now_ms: int,
) -> None:
    """Add the row of one model call."""
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


DAY_MS = 86_400_000

_SINCE = "u.id >= max(?, (select min(d.first_id) from usage_days d where d.day >= ?))"
"""A trigger keeps for each day the first row that may be of it. An index by time would cost every model call
a page of the log; ids and times go up together, but for imported sessions and clocks that were set back."""


def select_usage(
    session_id: str | None, since_ms: int, after: int, limit: int
) -> tuple[str, tuple[object, ...]]:
    """Return the query for `UsageRow`s, and its values."""
    conditions = equal({"s.session_id =": session_id, "u.created_at_ms >=": since_ms or None})
    conditions.append(("u.model <> ''", ()))  # what a program or callboard itself said took none
    if session_id is None and since_ms > 0:
        conditions.append((_SINCE, (after + 1, since_ms // DAY_MS)))
    else:
        conditions.append(("u.id > ?", (after,)))
    where, values = joined(conditions)
    return f"{_SELECT} where {where} order by u.id limit ?", (*values, limit)


def budget_text(budget: Budget | None) -> str | None:
    """Encode a budget for its column."""
    return None if budget is None else msgspec.json.encode(budget).decode()


def set_budget(connection: SqlConnection, session: int, budget: Budget | None) -> None:
    """Set the session's own limit."""
    connection.execute(
        "update sessions set budget = ? where id = ?", (budget_text(budget), session)
    )


def count_attempt(
    connection: SqlConnection,
    session: int,
    seq: int,
    event: AttemptFailed | AttemptCharged,
    now_ms: int,
) -> None:
    """Count a model call without an answer: its tokens, or only that it failed."""
    if event.usage is not None or event.estimate is not None:
        add_usage(connection, session, f"attempt:{seq}", event, now_ms)
    else:
        connection.execute(
            "update turns set failed_calls = failed_calls + 1 where session = ? and turn_id = ?",
            (session, event.turn_id),
        )


def count_run(
    connection: SqlConnection,
    session: int,
    event: TurnSuspended | TurnResumed | TurnEnded,
    now_ms: int,
) -> None:
    """Add to the time that a turn has run.

    After an internal error the process may have ended, nobody knows when: time counts up to the
    session's last commit.
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


Rows = Callable[[str, tuple[object, ...]], list[tuple[Any, ...]]]
"""Runs a query."""

_TREE = """
with recursive tree (key, name, is_root, has_time) as (
  select id, session_id, 1, 1 from sessions where session_id = ?1
  union
  select s.id, s.session_id, 0, s.runs_apart from tree t join sessions s on s.parent_id = t.name
  where cast(?2 as text) is null or t.is_root = 0 or exists (
    select 1 from tool_calls c
    where c.session = t.key and c.call_id = s.parent_call_id and c.turn_id = ?2)
)
"""
"""The session and all below it; for one turn, the sessions that its calls delegated to. Only sessions
that no turn waited for have a time of their own. What is joined to it is joined by `cross join`: SQLite,
which does not know how small the tree is, would begin with all rows of the other table."""

_OF_TURN = "(cast(?2 as text) is null or t.is_root = 0 or {}.turn_id = ?2)"

_ORIGIN = """
select s.agent, s.budget, s.parent_id, coalesce((
  select c.turn_id from tool_calls c join sessions p on p.id = c.session
  where p.session_id = s.parent_id and c.call_id = s.parent_call_id), ''), s.runs_apart
from sessions s where s.session_id = ?
"""

_CALLS = f"""{_TREE}
select u.turn_id, u.provider, u.model, u.input_tokens, u.output_tokens, u.cached_tokens, u.reasoning_tokens,
  u.cache_write_tokens, u.estimated_input, u.estimated_output
from tree t cross join usage u on u.session = t.key where {_OF_TURN.format("u")}
"""

# A call that only reads may run without a start on record.
_TOOL_CALLS = f"""{_TREE}
select t.name, c.call_id from tree t cross join tool_calls c on c.session = t.key
where (c.started_at_ms is not null or c.status = 'success') and {_OF_TURN.format("c")}
"""

_TURNS = f"""{_TREE}
select r.turn_id, r.failed_calls, case when t.has_time = 1 then r.ran_ms else 0 end / cast(1000 as double precision)
from tree t cross join turns r on r.session = t.key where {_OF_TURN.format("r")}
"""


def read_spending(rows: Rows, session_id: str, turn_id: str | None) -> Spending | None:
    """Return what a session, or one turn of it, has used; `None` for an unknown session."""
    origin = rows(_ORIGIN, (session_id,))
    if not origin:
        return None
    [(agent, budget, parent_id, parent_turn_id, runs_apart)] = origin
    values = (session_id, turn_id)
    return Spending(
        agent=agent,
        budget=_BUDGET.decode(budget) if budget else None,
        parent_id=parent_id,
        parent_turn_id=parent_turn_id,
        runs_apart=bool(runs_apart),
        calls=tuple(
            SpentCall(turn, provider, model, Usage(*counts[:5]), Usage(*counts[5:]))
            for turn, provider, model, *counts in rows(_CALLS, values)
            if model  # else it is what a program or callboard itself said
        ),
        turns=tuple(starmap(SpentTurn, rows(_TURNS, values))),
        ran=tuple((name, call_id) for name, call_id in rows(_TOOL_CALLS, values)),
    )
