"""A session, and a tool call, as lists of them have them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import starmap
from typing import Any

import msgspec

from ..budget import Budget
from ..definitions import CallStatus, SessionKind
from ..errors import ConflictError, NotFoundError, StorageFull, ValidationError
from ..events import DurableEvent, Stored
from ..stream import Usage


class Append(msgspec.Struct, frozen=True):
    """Events to append to one session, all or none of them."""

    session_id: str
    events: tuple[DurableEvent, ...]


Refusal = NotFoundError | ConflictError | ValidationError | StorageFull
"""Why one append of a commit was left out, alone, and nothing of it stored."""

CommitResult = tuple[Stored, ...] | Refusal


class SessionRow(msgspec.Struct, frozen=True, kw_only=True):
    """A session in a list. Times are Unix milliseconds.

    `parent_id` is the session that delegated to it, by the call `parent_call_id`; `is_detached`
    says that nobody waited for its answer, and that the parent does not have it yet.
    """

    session_id: str
    title: str
    agent: str
    kind: SessionKind
    workspace: str
    model: str | None
    parent_id: str | None
    message_count: int
    last_message_preview: str
    is_active: bool
    head_seq: int
    created_at_ms: int
    updated_at_ms: int
    deleted_at_ms: int | None
    is_tainted: bool = False
    parent_call_id: str = ""
    is_detached: bool = False
    has_private: bool = False


class CallRow(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call, for the history of calls."""

    call_id: str
    session_id: str
    turn_id: str
    name: str
    status: CallStatus
    arguments: str
    result: str | None
    display: str
    proposed_at_ms: int
    started_at_ms: int | None
    finished_at_ms: int | None
    duration_ms: int | None


class SpentCall(msgspec.Struct, frozen=True):
    """The tokens of one model call; `estimate` has those that nobody counted."""

    turn_id: str
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


class SpentTurn(msgspec.Struct, frozen=True):
    """What a turn used beside tokens: model calls that failed before they took any, and its time.

    The time of a turn that ran within another one's is none.
    """

    turn_id: str
    failed_calls: int
    seconds: float


class Spending(msgspec.Struct, frozen=True, kw_only=True):
    """What was used, and by whom.

    Attributes:
        agent: The session's.
        budget: The session's own limit.
        parent_id: Who delegated to it, and `parent_turn_id` the turn that did.
        runs_apart: Whether nobody waited for it then.
        calls: Model calls that took tokens, of all sessions below it too.
        turns: The turns, of all sessions below it too.
        ran: Calls of tools that ran, each by its session and its id.
    """

    agent: str
    budget: Budget | None
    parent_id: str | None
    parent_turn_id: str
    runs_apart: bool = False
    calls: tuple[SpentCall, ...] = ()
    turns: tuple[SpentTurn, ...] = ()
    ran: tuple[tuple[str, str], ...] = ()

    @property
    def failed_calls(self) -> int:
        """Model calls that failed before they took any tokens."""
        return sum(turn.failed_calls for turn in self.turns)

    @property
    def tool_calls(self) -> int:
        """How many calls of tools ran."""
        return len(self.ran)

    @property
    def seconds(self) -> float:
        """How long its own turns took, and those of sessions below that nobody waited for.

        What is waited for runs within the time of the turn that waits.
        """
        return sum(turn.seconds for turn in self.turns)


Rows = Callable[[str, tuple[object, ...]], list[tuple[Any, ...]]]
"""Runs a query."""

_TREE = """
with recursive tree (key, name, is_root, has_time) as (
  select id, session_id, 1, 1 from sessions where session_id = ?1
  union
  select s.id, s.session_id, 0, s.runs_apart from tree t join sessions s on s.parent_id = t.name
  where ?2 is null or not t.is_root or exists (
    select 1 from tool_calls c
    where c.session = t.key and c.call_id = s.parent_call_id and c.turn_id = ?2)
)
"""
"""The session and all below it; of one turn, those that its calls delegated to. Those that were not
waited for have a time of their own."""

_OF_TURN = "(?2 is null or not t.is_root or {}.turn_id = ?2)"

_ORIGIN = """
select s.agent, s.budget, s.parent_id, coalesce((
  select c.turn_id from tool_calls c join sessions p on p.id = c.session
  where p.session_id = s.parent_id and c.call_id = s.parent_call_id), ''), s.runs_apart
from sessions s where s.session_id = ?
"""

_CALLS = f"""{_TREE}
select u.turn_id, u.provider, u.model, u.input_tokens, u.output_tokens, u.cached_tokens, u.reasoning_tokens,
  u.cache_write_tokens, u.estimated_input, u.estimated_output
from tree t join usage u on u.session = t.key where {_OF_TURN.format("u")}
"""

# A call that only reads may run without a start on record.
_TOOL_CALLS = f"""{_TREE}
select t.name, c.call_id from tree t join tool_calls c on c.session = t.key
where (c.started_at_ms is not null or c.status = 'success') and {_OF_TURN.format("c")}
"""

_TURNS = f"""{_TREE}
select r.turn_id, r.failed_calls, iif(t.has_time, r.ran_ms, 0) / 1000.0
from tree t join turns r on r.session = t.key where {_OF_TURN.format("r")}
"""


def read_spending(rows: Rows, session_id: str, turn_id: str | None) -> Spending | None:
    """What a session has used, or one turn of it; `None` for an unknown session."""
    origin = rows(_ORIGIN, (session_id,))
    if not origin:
        return None
    [(agent, budget, parent_id, parent_turn_id, runs_apart)] = origin
    values = (session_id, turn_id)
    return Spending(
        agent=agent,
        budget=msgspec.json.decode(budget, type=Budget) if budget else None,
        parent_id=parent_id,
        parent_turn_id=parent_turn_id,
        runs_apart=bool(runs_apart),
        calls=tuple(
            SpentCall(turn, provider, model, Usage(*counts[:5]), Usage(*counts[5:]))
            for turn, provider, model, *counts in rows(_CALLS, values)
        ),
        turns=tuple(starmap(SpentTurn, rows(_TURNS, values))),
        ran=tuple((name, call_id) for name, call_id in rows(_TOOL_CALLS, values)),
    )
