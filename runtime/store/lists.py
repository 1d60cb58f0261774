"""What people look for on record: sessions and calls by page, and words in what was said."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol

import msgspec

from ..definitions import CallStatus
from ..events import Stored
from .rows import CallRow, SessionRow


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """To whom some agents or sessions alone exist; `None` is all."""

    agents: tuple[str, ...] | None = None
    session_ids: tuple[str, ...] | None = None


NO_LIMITS = Limits()


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
        agents, session_ids: Only of these; `None` is all.
    """

    limit: int = 100
    before: int | None = None
    agent: str | None = None
    workspace: str | None = None
    words: str = ""
    deleted: Literal["no", "also", "only"] = "no"
    include_children: bool = True
    until_ms: int | None = None
    agents: tuple[str, ...] | None = None
    session_ids: tuple[str, ...] | None = None


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
    agents: tuple[str, ...] | None = None
    session_ids: tuple[str, ...] | None = None


class CallPage(msgspec.Struct, frozen=True):
    """Calls, the latest first; `next_before` is where the next page begins, if any does."""

    calls: list[CallRow]
    next_before: int | None = None


class Search(msgspec.Struct, frozen=True, kw_only=True):
    """Words to be found, all of them in one message."""

    query: str
    limit: int = 20
    agents: tuple[str, ...] | None = None
    session_ids: tuple[str, ...] | None = None


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


class RecordReader(Protocol):
    """A part of `StoreReader`. Every method raises `StorageError` when the database fails."""

    async def session_page(self, wanted: SessionFilter) -> SessionPage:
        """Sessions by page."""
        ...

    async def call_page(self, wanted: CallFilter) -> CallPage:
        """Calls by page."""
        ...

    async def hits(self, search: Search) -> list[Hit]:
        """Sessions in which words were found, the best first; as far as `index_words` has come."""
        ...

    async def session_tree(self, session_ids: Sequence[str]) -> list[str]:
        """These sessions, as far as they exist, and all below them."""
        ...

    async def expired_sessions(self, before_ms: int) -> list[str]:
        """Sessions that were deleted before a time, in Unix milliseconds; the first deleted first."""
        ...

    async def size(self) -> StoreSize:
        """How large the store is."""
        ...


class RecordUpkeep(Protocol):
    """A part of `Store`. Every method raises `StorageError` when the database fails."""

    async def index_words(self) -> bool:
        """Takes the next messages into the index of words; whether there may be more.

        A step of some milliseconds, in a transaction of its own.
        """
        ...

    async def bring_in(self, events: Sequence[Stored]) -> list[Stored]:
        """Stores the events of new sessions, each in its own order and at its own time; all or none.

        No permission is looked at: whoever calls it has seen to it that nothing in them acts.
        """
        ...

    async def purge(self, session_ids: Sequence[str]) -> list[Stored]:
        """Removes deleted sessions and all that is on record of them; gives what is told of each.

        Raises `ConflictError`, having removed nothing, when one of them is not deleted.
        """
        ...
