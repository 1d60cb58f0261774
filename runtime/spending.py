"""What a session, or one turn of it, has used so far: read off its rows and those below it.

The rows are the whole truth about it: what runs when the process ends is counted again from here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from .budget import Budget
from .stream import Usage


class SpentCall(msgspec.Struct, frozen=True):
    """The tokens of one model call; `estimate` has those that nobody counted."""

    provider: str
    model: str
    usage: Usage
    estimate: Usage

    @property
    def tokens(self) -> tuple[int | None, int | None]:
        """Of the input and of the output, by count or else by estimate."""
        usage, estimate = self.usage, self.estimate
        return (
            estimate.input_tokens if usage.input_tokens is None else usage.input_tokens,
            estimate.output_tokens if usage.output_tokens is None else usage.output_tokens,
        )


class Spending(msgspec.Struct, frozen=True, kw_only=True):
    """What was used, and by whom.

    Attributes:
        agent: The session's.
        budget: The session's own limit.
        parent_id: Who delegated to it, and `parent_turn_id` the turn that did.
        calls: Model calls that took tokens, of all sessions below it too.
        failed_calls: Those that failed before they took any.
        tool_calls: Calls of tools that ran.
        seconds: How long its own turns took; what runs below them runs in their time.
    """

    agent: str
    budget: Budget | None
    parent_id: str | None
    parent_turn_id: str
    calls: tuple[SpentCall, ...] = ()
    failed_calls: int = 0
    tool_calls: int = 0
    seconds: float = 0.0


Rows = Callable[[str, tuple[object, ...]], list[tuple[Any, ...]]]
"""Runs a query."""

_TREE = """
with recursive tree (key, name, is_root) as (
  select id, session_id, 1 from sessions where session_id = ?1
  union
  select s.id, s.session_id, 0 from tree t join sessions s on s.parent_id = t.name
  where ?2 is null or not t.is_root or exists (
    select 1 from tool_calls c
    where c.session = t.key and c.call_id = s.parent_call_id and c.turn_id = ?2)
)
"""
"""The session and all below it; of one turn, those that its calls delegated to."""

_OF_TURN = "(?2 is null or not t.is_root or {}.turn_id = ?2)"

_ORIGIN = """
select s.agent, s.budget, s.parent_id, coalesce((
  select c.turn_id from tool_calls c join sessions p on p.id = c.session
  where p.session_id = s.parent_id and c.call_id = s.parent_call_id), '')
from sessions s where s.session_id = ?
"""

_CALLS = f"""{_TREE}
select u.provider, u.model, u.input_tokens, u.output_tokens, u.cached_tokens, u.reasoning_tokens,
  u.cache_write_tokens, u.estimated_input, u.estimated_output
from tree t join usage u on u.session = t.key where {_OF_TURN.format("u")}
"""

# A call that only reads may run without a start on record.
_TOOL_CALLS = f"""{_TREE}
select count(*) from tree t join tool_calls c on c.session = t.key
where (c.started_at_ms is not null or c.status = 'success') and {_OF_TURN.format("c")}
"""

_TURNS = f"""{_TREE}
select coalesce(sum(r.failed_calls), 0), coalesce(sum(iif(t.is_root, r.ran_ms, 0)), 0)
from tree t join turns r on r.session = t.key where {_OF_TURN.format("r")}
"""


def read_spending(rows: Rows, session_id: str, turn_id: str | None) -> Spending | None:
    """What a session has used, or one turn of it; `None` for an unknown session."""
    origin = rows(_ORIGIN, (session_id,))
    if not origin:
        return None
    [(agent, budget, parent_id, parent_turn_id)] = origin
    values = (session_id, turn_id)
    [(failed_calls, ran_ms)] = rows(_TURNS, values)
    [(tool_calls,)] = rows(_TOOL_CALLS, values)
    return Spending(
        agent=agent,
        budget=msgspec.json.decode(budget, type=Budget) if budget else None,
        parent_id=parent_id,
        parent_turn_id=parent_turn_id,
        calls=tuple(
            SpentCall(provider, model, Usage(*counts[:5]), Usage(*counts[5:]))
            for provider, model, *counts in rows(_CALLS, values)
        ),
        failed_calls=failed_calls,
        tool_calls=tool_calls,
        seconds=ran_ms / 1000,
    )
