"""The table `messages`: what is left of those that a person has deleted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ...errors import ConflictError, NotFoundError
from ...events import DurableEvent, MessagesDeleted
from .lists import names
from .search import forget_messages

if TYPE_CHECKING:
    from .connection import SqlConnection

_NAMED = "session = ? and message_id in (select value from json_each(?))"
_LATEST = (
    "select content from messages where session = ? and content <> ''"
    " order by position desc limit 1"
)


def delete_messages(
    connection: SqlConnection, session: int, message_ids: Sequence[str]
) -> tuple[list[str], str]:
    """Remove what messages said; return that, and what was said last of all that is left."""
    values = (session, names(list(message_ids)))
    removed = connection.execute(f"select content from messages where {_NAMED}", values).fetchall()
    forget_messages(connection, session, values[1])
    connection.execute(
        f"update messages set is_deleted = 1, content = '', thinking = null, files = null"
        f" where {_NAMED}",
        values,
    )
    return [str(row[0]) for row in removed], connection.execute(_LATEST, (session,)).get or ""


def undeletable(
    events: Iterable[DurableEvent], connection: SqlConnection, session: int | None
) -> ConflictError | NotFoundError | None:
    """Return why messages can't be deleted: a turn runs, a call waits, or one of them does not exist."""
    for event in events:
        if not isinstance(event, MessagesDeleted):
            continue
        if connection.execute(
            "select 1 from turns where session = ? and ended_at_ms is null", (session,)
        ).fetchone():
            return ConflictError(
                "a turn of the session runs, or waits for a person, and the model reads its messages: wait "
                "for its end, or cancel it, and delete them then"
            )
        found = connection.execute(
            f"select message_id from messages where {_NAMED}",
            (session, names(list(event.message_ids))),
        )
        if unknown := set(event.message_ids).difference(row[0] for row in found):
            return NotFoundError(f"the session has no message {min(unknown)}")
        if open_call := connection.execute(
            "select c.call_id from messages m join tool_calls c"
            " on c.session = m.session and c.call_id = m.call_id and c.finished_at_ms is null"
            " where m.session = ? and m.message_id in (select value from json_each(?))",
            (session, names(list(event.message_ids))),
        ).fetchone():
            return ConflictError(
                f"the call {open_call[0]} waits for an answer, and its result is still to come: answer it first"
            )
    return None
