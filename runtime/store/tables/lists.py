"""Pages of sessions and calls: filters as SQL conditions, and what a reader may see."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ..lists import CallFilter, SessionFilter, Visibility

Query = tuple[str, tuple[object, ...]]

VISIBLE = (
    " and (? is null or s.agent in (select value from json_each(?)))"
    " and (? is null or s.session_id in (select value from json_each(?)))"
)
"""The condition that hides sessions from a reader who may not see them; `visible` has its values."""

TREE = (
    "with recursive tree (session_id) as (select session_id from sessions"
    " where session_id in (select value from json_each(?)) union"
    " select s.session_id from sessions s join tree on s.parent_id = tree.session_id)"
)
"""The given sessions and all below them."""


def visible(within: Visibility) -> tuple[object, ...]:
    """Return the values of `VISIBLE`."""
    encoded = [
        None if each is None else names(each) for each in (within.agents, within.session_ids)
    ]
    return encoded[0], encoded[0], encoded[1], encoded[1]


def filtered(wanted: Mapping[str, str | None]) -> tuple[str, tuple[str, ...]]:
    """Return a condition on the columns whose value is not `None`, and the values."""
    filters = {column: value for column, value in wanted.items() if value is not None}
    where = " and ".join(f"{column} = ?" for column in filters) or "true"
    return where, tuple(map(str, filters.values()))


def names(values: object) -> str:
    """Encode a list for `json_each`."""
    return msgspec.json.encode(values).decode()


def session_condition(wanted: SessionFilter) -> Query:
    """Return the condition on sessions `s`; the last activity is their place in the list."""
    words = wanted.words.casefold()
    where = (
        "(? is null or s.last_event < ?) and (? is null or s.agent = ?)"
        " and (? is null or s.workspace = ?)"
        " and (? = 'also' or (s.deleted_at_ms is not null) = (? = 'only'))"
        " and (? or s.parent_id is null) and (? is null or s.updated_at_ms < ?)"
        " and (? = '' or instr(lower(s.title), ?) or instr(lower(s.last_message_preview), ?)"
        " or instr(s.session_id, ?))"
    )
    values = (
        *(wanted.before, wanted.before, wanted.agent, wanted.agent),
        *(wanted.workspace, wanted.workspace),
        *(wanted.deleted, wanted.deleted, wanted.include_children),
        *(wanted.until_ms, wanted.until_ms),
        *(words, words, words, words),
        *visible(wanted.within),
    )
    return where + VISIBLE, values


def call_condition(wanted: CallFilter) -> Query:
    """Return the condition on calls `c` of sessions `s`; the id is their place in the list."""
    status = None if wanted.status is None else wanted.status.value
    where = (
        "(? is null or c.id < ?) and (? is null or s.session_id = ?) and (? is null or c.name = ?)"
        " and (? is null or c.status = ?) and (? is null or c.proposed_at_ms >= ?)"
        " and (? is null or c.proposed_at_ms < ?)"
    )
    filters = (
        *(wanted.before, wanted.session_id, wanted.name),
        *(status, wanted.since_ms, wanted.until_ms),
    )
    doubled = tuple(value for value in filters for _ in range(2))
    return where + VISIBLE, (*doubled, *visible(wanted.within))
