"""Purging: a deleted session is removed with every row of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ...errors import ConflictError
from ...events import SessionPurged, Stored
from ..codec import encode_event
from .lists import names
from .search import forget_words, keep_position
from .topics import log_purge

if TYPE_CHECKING:
    from .connection import SqlConnection

LOOKED_THROUGH = ("requests", "topic_log")
"""The tables without an index of sessions, which each request and each turn would pay for: they are looked
through once in a purge, for all of its sessions."""

TABLES = (
    "memories",
    "inputs",
    "grants",
    "approvals",
    "usage",
    "tool_calls",
    "messages",
    "turns",
    "events",
)
"""The other tables that refer to a session, in an order that foreign keys allow."""


_KEYS = "select id from sessions where session_id in (select value from json_each(?))"


def purge_sessions(
    connection: SqlConnection,
    session_ids: Sequence[str],
    at_ms: int,
    check: Callable[[SqlConnection], None] = lambda _: None,
) -> list[Stored]:
    """Remove sessions in one transaction; return for each the event that clients get.

    Raises `ConflictError`, having removed nothing, if one of them is not deleted, or `check` raises it inside
    the transaction. Only the fact that they
    are gone stays. Freed pages are overwritten, so the file keeps nothing of what was said; the index
    keeps single words until its next merge.
    """
    connection.execute("pragma secure_delete = true")
    connection.execute("begin immediate")
    try:
        check(connection)
        keys = connection.execute(_KEYS, (names(list(session_ids)),)).fetchall()
        for table in LOOKED_THROUGH:
            connection.execute(
                f"delete from {table} where session in (select cast(value as bigint) from json_each(?))",
                (names([key for (key,) in keys]),),
            )
        purged = [
            stored
            for session_id in session_ids
            if (stored := _purge(connection, session_id, at_ms)) is not None
        ]
        keep_position(connection)
        connection.execute("commit")
    finally:
        if connection.in_transaction:
            connection.execute("rollback")
    return purged


def _purge(connection: SqlConnection, session_id: str, at_ms: int) -> Stored | None:
    row = connection.execute(
        "select id, deleted_at_ms is not null, agent, head_seq from sessions where session_id = ?",
        (session_id,),
    ).fetchone()
    if row is None:
        return None
    key, is_deleted, agent, head_seq = row
    if not is_deleted:
        raise ConflictError(
            f"{session_id} is not deleted, so it is not purged: delete it first "
            "(callboard session delete)"
        )
    forget_words(connection, key)
    connection.execute(
        "delete from memory_words where rowid in (select id from memories where session = ?)",
        (key,),
    )
    for table in TABLES:
        connection.execute(f"delete from {table} where session = ?", (key,))
    connection.execute("delete from sessions where id = ?", (key,))
    event, data = encode_event(SessionPurged())
    stored = Stored(session_id, head_seq + 1, at_ms, event)
    log_purge(connection, agent, stored, data)
    return stored
