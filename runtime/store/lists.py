"""What people look for on record: sessions and calls by page, and words in what was said."""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec

from ..definitions import CallStatus
from .rows import CallRow, SessionRow


class Visibility(msgspec.Struct, frozen=True, kw_only=True):
    """The agents and sessions that a reader may see; `None` is all."""

    agents: tuple[str, ...] | None = None
    session_ids: tuple[str, ...] | None = None


ALL_VISIBLE = Visibility()


class SessionFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which sessions.

    Attributes:
        before: Behind which place of the list; `SessionPage.next_before` of the page before it.
        agent: Of this agent.
        workspace: That work in this folder.
        words: A text that title, preview or id hold, whatever its case; no sign in it counts.
        deleted: Whether deleted ones are left out, are among them, or are all.
        include_children: Those that sessions gave tasks to, too.
        until_ms: Without activity since then.
        within: Which sessions the reader may see.
    """

    limit: int = 100
    before: int | None = None
    agent: str | None = None
    workspace: str | None = None
    words: str = ""
    deleted: Literal["no", "also", "only"] = "no"
    include_children: bool = True
    until_ms: int | None = None
    within: Visibility = ALL_VISIBLE


class SessionPage(msgspec.Struct, frozen=True):
    """Sessions, the latest activity first; `next_before` is where the next page begins, if any does."""

    sessions: list[SessionRow]
    next_before: int | None = None


class CallFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which calls; those of one session, tool and status, proposed since and before a time in ms."""

    limit: int = 100
    before: int | None = None
    session_id: str | None = None
    name: str | None = None
    status: CallStatus | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    within: Visibility = ALL_VISIBLE


class CallPage(msgspec.Struct, frozen=True):
    """Calls, the latest first; `next_before` is where the next page begins, if any does."""

    calls: list[CallRow]
    next_before: int | None = None


class WordSearch(msgspec.Struct, frozen=True, kw_only=True):
    """Words to be found, all of them in one message."""

    query: str
    limit: int = 20
    within: Visibility = ALL_VISIBLE


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    """A session in which words were found: its best message, and how many messages hold them."""

    session: SessionRow
    message_id: str
    type: str
    snippet: str
    created_at_ms: int
    matches: int


class StoreSize(NamedTuple):
    """How large a store is, in bytes: what is on record, and the file with what was freed in it."""

    used_bytes: int
    file_bytes: int
