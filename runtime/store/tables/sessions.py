"""The table `sessions`: how a row begins, and what is known there of the session tree."""

from __future__ import annotations

import apsw

from ...events import InputAccepted, SessionCreated, TitleSet
from .usage import budget_text


def insert_session(
    connection: apsw.Connection, session_id: str, event: SessionCreated, now_ms: int
) -> int:
    """Adds a session that begins; gives its key."""
    connection.execute(
        "insert into sessions (session_id, title, agent, kind, workspace, model, parent_id,"
        " parent_call_id, is_detached, runs_apart, budget, message_count, last_message_preview, is_active, head_seq,"
        " last_event, created_at_ms, updated_at_ms, is_named)"
        " values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?9, ?11, 0, '', 0, 0, 0, ?10, ?10, ?12)",
        (
            session_id,
            event.title,
            event.agent,
            event.kind.value,
            event.workspace,
            event.model,
            event.parent_id,
            event.parent_call_id,
            event.is_detached,
            now_ms,
            budget_text(event.budget),
            bool(event.title),
        ),
    )
    return connection.last_insert_rowid()


def is_delivered(connection: apsw.Connection, event: InputAccepted) -> bool:
    """Whether an input brings the answer of a child that its parent has already.

    If not, it has it from here on: whoever brings it again, in this process or the next, is late.
    """
    if not event.child_id:
        return False
    connection.execute(
        "update sessions set is_detached = 0 where session_id = ? and is_detached",
        (event.child_id,),
    )
    return connection.changes() == 0


def mark_private(connection: apsw.Connection, session: int) -> None:
    """The session has read what is not for strangers."""
    connection.execute("update sessions set has_private = 1 where id = ?", (session,))


def set_title(connection: apsw.Connection, session: int, event: TitleSet) -> bool:
    """Whether the session gets this title: a model's never takes the place of a person's."""
    if event.is_by_model:
        return not connection.execute("select is_named from sessions where id = ?", (session,)).get
    connection.execute("update sessions set is_named = 1 where id = ?", (session,))
    return True
