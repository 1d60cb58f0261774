"""The rows of the table `usage`: what each model call took, in tokens. Costs are not stored."""

from __future__ import annotations

import apsw

from .events import AttemptCharged, AttemptFailed, HistoryCompacted, MessageCompleted
from .stream import Usage

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
