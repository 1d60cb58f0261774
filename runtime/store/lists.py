"""Filters and pages: how people look for sessions, calls and words."""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec

from ..definitions import CallStatus, SessionKind
from .rows import CallRow, SessionRow


class Visibility(msgspec.Struct, frozen=True, kw_only=True):
    """The agents and sessions that a reader may see; `None` is all."""

    agents: tuple[str, ...] | None = None
    session_ids: tuple[str, ...] | None = None


ALL_VISIBLE = Visibility()


class SessionFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which sessions to list.

    Attributes:
        before: Where the page begins: `SessionPage.next_before` of the page before it.
        agent: Only those of this agent.
        kind: Only those of this kind.
        via: Only those that this has begun (`SessionRow.via`); empty for callboard's own clients.
        workspace: Only those that work in this folder.
        words: Only those with this text in title, preview or id, in any case; no wildcards.
        deleted: Whether to leave deleted sessions out, include them, or list them alone.
        include_children: Whether to include sessions that others delegated to.
        until_ms: Only those without activity since this time.
        within: What the reader may see.
    """

    limit: int = 100
    before: int | None = None
    agent: str | None = None
    kind: SessionKind | None = None
    via: str | None = None
    workspace: str | None = None
    words: str = ""
    deleted: Literal["no", "also", "only"] = "no"
    include_children: bool = True
    until_ms: int | None = None
    within: Visibility = ALL_VISIBLE


class SessionPage(msgspec.Struct, frozen=True):
    """Sessions, the latest activity first; `next_before` is where the next page begins, if there is one."""

    sessions: list[SessionRow]
    next_before: int | None = None


class CallFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which calls to list: of a session, tool or status, proposed from `since_ms` to `until_ms`."""

    limit: int = 100
    before: int | None = None
    session_id: str | None = None
    name: str | None = None
    status: CallStatus | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    within: Visibility = ALL_VISIBLE


class CallPage(msgspec.Struct, frozen=True):
    """Calls, the latest first; `next_before` is where the next page begins, if there is one."""

    calls: list[CallRow]
    next_before: int | None = None


class WordSearch(msgspec.Struct, frozen=True, kw_only=True):
    """Words to find, all of them in one message; `offset` hits, those of earlier pages, are left out.

    In the session `session_id` every message with the words is a hit of its own. The other fields are those of
    `SessionFilter`.
    """

    query: str
    limit: int = 20
    offset: int = 0
    session_id: str | None = None
    agent: str | None = None
    kind: SessionKind | None = None
    via: str | None = None
    workspace: str | None = None
    include_children: bool = True
    within: Visibility = ALL_VISIBLE


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    """A session in which the words were found: its best message, and the number of matches.

    `position` is the message's place in its session. Words that thousands of messages hold are looked for in the latest of these.
    """

    session: SessionRow
    message_id: str
    position: int
    type: str
    snippet: str
    created_at_ms: int
    matches: int


class StoreSize(NamedTuple):
    """The size of a store.

    Attributes:
        used_bytes: What it holds; in PostgreSQL about that.
        file_bytes: That, and the room in its files that purged sessions have left, which is used again.
        can_shrink: Whether `callboard compact` gives that room back to the disk.
    """

    used_bytes: int
    file_bytes: int
    can_shrink: bool = True
