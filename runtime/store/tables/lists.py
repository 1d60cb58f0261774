"""Pages of sessions and calls: filters as SQL conditions, and what a reader may see.

A condition that is not wanted is left out of the text. Written as `? is null or …` it would hide from
SQLite which index answers the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from ...errors import NotFoundError
from ..lists import CallFilter, SessionFilter, Visibility

Rows = Callable[[str, tuple[object, ...]], list[tuple[Any, ...]]]
"""The rows of a statement with these values."""
Condition = tuple[str, tuple[object, ...]]
"""A part of a `where`, and its values."""

TREE = (
    "with recursive tree (session_id) as (select session_id from sessions"
    " where session_id in (select value from json_each(?)) union"
    " select s.session_id from sessions s join tree on s.parent_id = tree.session_id)"
)
"""The given sessions and all below them."""

# A call's columns come from its own row: so a `tool_call` shows its present state, and no large text
# is stored twice.
SELECT_MESSAGES = """
select m.message_id, s.session_id, m.position, m.type,
  case when m.type = 'tool_result' and m.is_deleted = 0 then c.display else m.content end,
  m.created_at_ms, m.turn_id, m.thinking, m.call_id, c.name,
  case when m.type = 'tool_call' and m.is_deleted = 0 then c.arguments end,
  case when m.type = 'tool_result' and m.is_deleted = 0 then c.result end,
  c.status, c.duration_ms,
  m.input_tokens, m.output_tokens, m.model, m.provider, m.duration_ms, m.is_set_aside,
  m.stop_reason, m.cached_tokens, m.cache_write_tokens, m.is_deleted, null, m.files
from messages m
join sessions s on s.id = m.session
left join tool_calls c on m.call_id is not null and c.session = m.session and c.call_id = m.call_id
where s.session_id = ? and m.position > ? and m.position < ?
order by m.position"""
SELECT_FIRST_MESSAGES = f"{SELECT_MESSAGES} limit ?"
SELECT_LATEST_MESSAGES = f"{SELECT_MESSAGES} desc limit ?"

_POSITION = (
    "select m.position from messages m join sessions s on s.id = m.session"
    " where s.session_id = ? and m.message_id = ? order by m.position limit 1"
)
"""Where a message stands: read from the session's own messages, some milliseconds of ten thousand."""

_WHOLE_MESSAGES = (
    "select m.message_id from messages m join sessions s on s.id = m.session"
    " where s.session_id = ? and (m.message_id in (select value from json_each(?))"
    " or m.call_id in (select value from json_each(?))) order by m.position"
)
"""Messages by their ids, with the results of calls and the calls of results."""

WAITED_FOR = (
    "select s.parent_call_id from sessions s where s.parent_id = ? and s.is_detached = 0"
    " and (? = 1 or exists (select 1 from turns t"
    " where t.session = s.id and t.is_suspended = 1 and t.ended_at_ms is null)) order by s.id"
)
"""The calls of a session that wait for a session below it, of all sessions there or of suspended ones."""

SELECT_TURN_START = (
    "select t.started_seq, t.ended_at_ms is null from turns t where t.id = (select max(l.id)"
    " from turns l join sessions s on s.id = l.session where l.started_seq is not null and {})"
)

UNUSED_SESSIONS = (
    "where is_active = 0 and deleted_at_ms is null and parent_id is null"
    " and updated_at_ms < ?1 and updated_at_ms >= ?2 and (updated_at_ms > ?2 or id > coalesce("
    "(select b.id from sessions b where b.session_id = ?3), 0)) order by updated_at_ms, id limit ?4"
)
"""Sessions that nothing has changed since a time, a page behind one of them."""


def visible(within: Visibility) -> list[Condition]:
    """Return the conditions that hide sessions `s` from a reader who may not see them."""
    wanted = {"s.agent": within.agents, "s.session_id": within.session_ids}
    return [
        (f"{column} in (select value from json_each(?))", (names(values),))
        for column, values in wanted.items()
        if values is not None
    ]


def equal(wanted: Mapping[str, object]) -> list[Condition]:
    """Return a condition for each value that is not `None`; the keys end with their comparison."""
    return [(f"{left} ?", (value,)) for left, value in wanted.items() if value is not None]


def joined(conditions: Iterable[Condition]) -> Condition:
    """Return one condition for all of these."""
    texts, values = zip(*conditions, strict=True) if (conditions := list(conditions)) else ((), ())
    return " and ".join(texts) or "true", tuple(value for each in values for value in each)


def names(values: object) -> str:
    """Encode a list for `json_each`."""
    return msgspec.json.encode(values).decode()


def session_conditions(wanted: SessionFilter) -> list[Condition]:
    """Return the conditions on sessions `s`; the last activity is their place in the list."""
    found = equal(
        {
            "s.last_event <": wanted.before,
            "s.agent =": wanted.agent,
            "s.kind =": None if wanted.kind is None else wanted.kind.value,
            "s.via =": wanted.via,
            "s.workspace =": wanted.workspace,
            "s.updated_at_ms <": wanted.until_ms,
        }
    )
    if wanted.deleted != "also":
        found.append((f"s.deleted_at_ms is {'not ' * (wanted.deleted == 'only')}null", ()))
    if not wanted.include_children:
        found.append(("s.parent_id is null", ()))
    if words := wanted.words.casefold():
        texts = ("lower(s.title)", "lower(s.last_message_preview)", "s.session_id")
        where = " or ".join(f"instr({text}, ?) > 0" for text in texts)
        found.append((f"({where})", (words,) * len(texts)))
    return [*found, *visible(wanted.within)]


RUNNING = "s.is_active = 1 and s.id in (select o.session from turns o where o.ended_at_ms is null)"
"""Sessions whose turn runs. They have no place in the indexes by activity, which each of their events would
change; they are found by their open turns."""

IDLE = "s.is_active = 0"
"""All others: those that the indexes by activity hold."""


def latest(columns: str, wanted: SessionFilter, limit: int) -> Condition:
    """Return a query for sessions, the latest activity first, and its values.

    The first column is the place in the list.
    """
    where, values = joined(session_conditions(wanted))
    query = f"select s.last_event, {columns} from sessions s where {where}"
    if wanted.deleted == "only":  # they have an index of their own
        return f"{query} order by 1 desc limit ?", (*values, limit)
    # SQLite merges the two parts, and reads of each only what the page takes.
    parts = f"{query} and {RUNNING} union all {query} and {IDLE}"
    return f"{parts} order by 1 desc limit ?", (*values, *values, limit)


def call_conditions(wanted: CallFilter) -> list[Condition]:
    """Return the conditions on calls `c` of sessions `s`; the id is their place in the list."""
    found = equal(
        {
            "c.id <": wanted.before,
            "s.session_id =": wanted.session_id,
            "c.name =": wanted.name,
            "c.status =": wanted.status and str(wanted.status),
            "c.proposed_at_ms >=": wanted.since_ms,
            "c.proposed_at_ms <": wanted.until_ms,
        }
    )
    return [*found, *visible(wanted.within)]


def position_of(rows: Rows, session_id: str, message_id: str) -> int:
    """Return where in its session a message stands.

    Raises:
        NotFoundError: The session has no such message.
    """
    found = rows(_POSITION, (session_id, message_id))
    if not found:
        raise NotFoundError(f"{session_id} has no message {message_id}")
    position: int = found[0][0]
    return position


def whole_messages(rows: Rows, session_id: str, message_ids: Sequence[str]) -> tuple[str, ...]:
    """Return the ids of these messages, with the result of each call and the call of each result.

    Raises:
        NotFoundError: The session has no such message.
    """
    calls = [name.partition(":")[2] for name in message_ids if ":" in name]
    values = (session_id, names(list(message_ids)), names(calls))
    whole = tuple(row[0] for row in rows(_WHOLE_MESSAGES, values))
    if unknown := set(message_ids).difference(whole):
        raise NotFoundError(f"{session_id} has no message {min(unknown)}")
    return whole
