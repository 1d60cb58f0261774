"""The table `sessions`: how a row begins, and what it says about the session tree."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...events import InputAccepted, SessionCreated, TitleSet
from .usage import budget_text

if TYPE_CHECKING:
    from .connection import SqlConnection

UNATTENDED = frozenset({"schedule", "hook"})
"""What begins sessions without a person: the first word of the senders of their requests."""


def insert_session(
    connection: SqlConnection, session_id: str, event: SessionCreated, now_ms: int
) -> int:
    """Add a new session and return its key."""
    key: int = connection.execute(
        "insert into sessions (session_id, title, agent, kind, workspace, model, parent_id,"
        " parent_call_id, is_detached, runs_apart, budget, message_count, last_message_preview, is_active, head_seq,"
        " last_event, created_at_ms, updated_at_ms, is_named, forked_from, via)"
        " values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?9, ?11, 0, '', 0, 0, 0, ?10, ?10, ?12, ?13, ?14) returning id",
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
            event.forked_from,
            _began_by(event),
        ),
    ).get
    return key


def _began_by(event: SessionCreated) -> str:
    """Return which protocol it was begun over, or whether a schedule or a hook has begun it; empty for callboard's own clients."""
    sender = "" if event.request is None else event.request.sender
    kind, colon, _ = sender.partition(":")
    return kind if colon and kind in UNATTENDED else event.via


def is_delivered(connection: SqlConnection, event: InputAccepted) -> bool:
    """Whether an input brings the answer of a child that its parent has already.

    If not, mark it as delivered, so that a second one, from this process or the next, is left out.
    """
    if not event.child_id:
        return False
    connection.execute(
        "update sessions set is_detached = 0 where session_id = ? and is_detached = 1",
        (event.child_id,),
    )
    return connection.changes() == 0


def mark_private(connection: SqlConnection, session: int) -> None:
    """Note that the session has read private data."""
    connection.execute("update sessions set has_private = 1 where id = ?", (session,))


def set_title(connection: SqlConnection, session: int, event: TitleSet) -> bool:
    """Return whether the session gets a title: a model's never replaces a person's."""
    if event.is_by_model:
        return not connection.execute("select is_named from sessions where id = ?", (session,)).get
    connection.execute("update sessions set is_named = 1 where id = ?", (session,))
    return True
