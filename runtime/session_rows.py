"""A session, and a tool call, as lists of them have them."""

from __future__ import annotations

import msgspec

from .definitions import CallStatus, SessionKind


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
