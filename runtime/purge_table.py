"""What is removed for good: a deleted session, and every row that is its own."""

from __future__ import annotations

from collections.abc import Sequence

import apsw

from .errors import ConflictError
from .search_table import forget_words, keep_position

TABLES = (
    "requests",
    "topic_log",
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
"""All that refer to a session, in an order in which they can go."""


def purge_sessions(connection: apsw.Connection, session_ids: Sequence[str]) -> None:
    """Removes them in one transaction; raises `ConflictError`, having removed nothing.

    What is freed is overwritten in the file, so that no page of it keeps what was said; the index
    keeps single words until its next merge.
    """
    connection.pragma("secure_delete", True)
    connection.execute("begin immediate")
    try:
        for session_id in session_ids:
            _purge(connection, session_id)
        keep_position(connection)
        connection.execute("commit")
    finally:
        if connection.in_transaction:
            connection.execute("rollback")


def _purge(connection: apsw.Connection, session_id: str) -> None:
    row = connection.execute(
        "select id, deleted_at_ms is not null from sessions where session_id = ?", (session_id,)
    ).fetchone()
    if row is None:
        return
    key, is_deleted = row
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
