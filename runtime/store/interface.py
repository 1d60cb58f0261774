"""What a store can do, whichever database is under it.

Events go in through `commit` alone: one transaction that assigns `seq`, writes the events and
updates the rows below, or raises `StorageError` having changed nothing. Only the journal calls it.
Reads never wait for writes. Whoever only reads opens a `StoreReader`, which needs no lock.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

import msgspec

from ..approval import ApprovalDecision, GrantVerdict
from ..definitions import Binding, CallStatus, InputSource, Tier
from ..events import Stored
from ..memory.memories import Memory
from .disk_room import DiskRoom
from .feeds import FeedReader
from .lists import NO_LIMITS, Limits, RecordReader, RecordUpkeep
from .rows import Append, CommitResult, Spending
from .rows import CallRow as CallRow
from .rows import SessionRow as SessionRow

ApprovalState = Literal[
    "waiting", "allowed", "used", "denied", "expired", "revised", "withdrawn", "void"
]
"""Where a question stands: it waits, its call may start (`allowed`) or has started (`used`), or it
ended without a start, as `ApprovalDecision` explains."""


class MessageRow(msgspec.Struct, frozen=True, kw_only=True):
    """A message of a session, with the columns of RFC-000.

    `type` is `user`, `assistant`, `tool_call`, `tool_result`, `error` or `system`; `position` orders
    the messages of a session. `is_set_aside` says that the model reads it no more, since its turn was
    run again.
    """

    message_id: str
    session_id: str
    position: int
    type: str
    content: str
    created_at_ms: int
    turn_id: str | None = None
    thinking: str | None = None
    call_id: str | None = None
    tool_name: str | None = None
    tool_input: str | None = None
    tool_output: str | None = None
    tool_status: CallStatus | None = None
    tool_duration_ms: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    model: str | None = None
    provider: str | None = None
    duration_ms: int | None = None
    is_set_aside: bool = False


class UsageRow(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens of one model call; `None` is unknown, never zero.

    `position` orders the calls of all sessions; `agent` is who the session is of now. What is
    estimated stands where nobody counted.
    """

    position: int
    session_id: str
    agent: str
    turn_id: str
    message_id: str
    provider: str
    model: str
    input_tokens: int | None
    output_tokens: int | None
    cached_tokens: int | None
    reasoning_tokens: int | None
    cache_write_tokens: int | None
    created_at_ms: int
    estimated_input: int | None = None
    estimated_output: int | None = None


class ApprovalRow(msgspec.Struct, frozen=True, kw_only=True):
    """A question to a person about one call, and its answer once there is one.

    `final_arguments` are those that a person changed;
    `grant_id` is the remembered answer that answered it.
    """

    approval_id: str
    session_id: str
    turn_id: str
    call_id: str
    state: ApprovalState
    tool: str
    tier: Tier
    reason: str
    arguments: str
    digest: str
    preview: str = ""
    policy_version: str = ""
    same_as: str = ""
    asked_at_ms: int = 0
    expires_at_ms: int = 0
    answered_at_ms: int | None = None
    decision: ApprovalDecision | Literal[""] = ""
    answered_by: str = ""
    answer_reason: str = ""
    remember: str | None = None
    final_arguments: str | None = None
    final_digest: str | None = None
    is_deferred: bool = False
    grant_id: str = ""


class InputRow(msgspec.Struct, frozen=True, kw_only=True):
    """An input whose turn is not over; see `InputAccepted`. `turn_id` is its turn's, once it has one."""

    session_id: str
    input_id: str
    source: InputSource
    call_id: str
    approval_id: str
    turn_id: str | None


class GrantRow(msgspec.Struct, frozen=True, kw_only=True):
    """A remembered answer, in force until it is revoked; see `GrantGiven`."""

    grant_id: str
    session_id: str
    verdict: GrantVerdict
    scope: str
    tool: str
    definition: str
    tier: Tier
    binding: Binding
    agent: str
    turn_id: str
    workspace: str
    approval_id: str
    given_by: str
    reason: str
    given_at_ms: int
    revoked_at_ms: int | None = None
    is_tainted: bool = False


class OpenTurn(msgspec.Struct, frozen=True, kw_only=True):
    """A turn that has no end yet, with its calls that have no result, in their order.

    A deferred call is open only in the turn that runs it after all. `approvals` are the questions
    about those calls, in the order in which they were asked.
    `seen_at_ms` is the latest time on record since the first of them. `delegated` are the calls that
    wait for a suspended session; of a suspended turn, those that waited for one: it may have gone on
    by itself. The rest says whose turn it is, as in `SessionRow`.
    """

    session_id: str
    turn_id: str
    started_at_ms: int
    calls: tuple[CallRow, ...]
    is_suspended: bool = False
    approvals: tuple[ApprovalRow, ...] = ()
    seen_at_ms: int = 0
    parent_id: str | None = None
    parent_call_id: str = ""
    is_detached: bool = False
    delegated: tuple[str, ...] = ()


class StoreReader(FeedReader, RecordReader, Protocol):
    """What can be read. Every method raises `StorageError` when the database fails."""

    async def events(
        self, session_id: str, *, after_seq: int = 0, limit: int | None = None
    ) -> list[Stored]:
        """The events of a session behind `after_seq`, in order."""
        ...

    async def session(self, session_id: str) -> SessionRow | None:
        """One session, deleted or not."""
        ...

    async def sessions(
        self, *, limit: int = 100, include_deleted: bool = False, include_children: bool = True
    ) -> list[SessionRow]:
        """Sessions, the latest activity first."""
        ...

    async def children(
        self,
        parent_id: str | None = None,
        *,
        call_id: str | None = None,
        is_detached: bool | None = None,
    ) -> list[SessionRow]:
        """Sessions that were delegated to, in their order, deleted ones too.

        Args:
            parent_id: Those of this session; `None` is all.
            call_id: Those of this call.
            is_detached: Those whose answer their parent does not have yet, or the others.
        """
        ...

    async def messages(
        self, session_id: str, *, after: int = 0, limit: int | None = None
    ) -> list[MessageRow]:
        """Messages of a session whose position is behind `after`, in order."""
        ...

    async def calls(
        self,
        *,
        session_id: str | None = None,
        name: str | None = None,
        status: CallStatus | None = None,
        limit: int = 100,
    ) -> list[CallRow]:
        """Tool calls, the latest first."""
        ...

    async def usage(
        self,
        session_id: str | None = None,
        *,
        since_ms: int = 0,
        after: int = 0,
        limit: int | None = None,
    ) -> list[UsageRow]:
        """Tokens of each model call whose position is behind `after`, in order.

        Of one session, or of all, deleted ones too; since a time in Unix milliseconds.
        """
        ...

    async def spending(self, session_id: str, turn_id: str | None = None) -> Spending | None:
        """What a session, or one turn of it, has used, with all that it delegated."""
        ...

    async def approvals(
        self,
        *,
        session_id: str | None = None,
        approval_id: str | None = None,
        state: str | None = None,
        before: str | None = None,
        within: Limits = NO_LIMITS,
        limit: int = 100,
    ) -> list[ApprovalRow]:
        """Questions to a person, the latest first; those asked before the one named `before`."""
        ...

    async def grants(
        self, *, grant_id: str | None = None, include_ended: bool = False, limit: int | None = None
    ) -> list[GrantRow]:
        """Remembered answers, in the order in which they were given.

        Those that hold: not revoked, and the turn of a turn's grant has not ended.
        """
        ...

    async def full_output(self, session_id: str, call_id: str) -> str | None:
        """The whole output of a call whose result was cut, as JSON text."""
        ...

    async def open_turns(self) -> list[OpenTurn]:
        """Turns without an end: what a crash left behind."""
        ...

    async def open_inputs(self, session_id: str) -> list[InputRow]:
        """Inputs of a session whose turns have not ended, in order."""
        ...

    async def waking_sessions(self) -> list[str]:
        """Sessions with an input whose turn begins next, and that nobody holds up."""
        ...

    async def memories(
        self,
        *,
        agent: str | None = None,
        memory_id: str | None = None,
        before: str | None = None,
        within: Limits = NO_LIMITS,
        limit: int = 100,
    ) -> list[Memory]:
        """Memories, the latest first, or those stored before that one; see `MemoryStore`."""
        ...

    async def found_memories(
        self, agent: str, query: str, *, within: Limits = NO_LIMITS, limit: int
    ) -> list[Memory]:
        """Memories of an agent that hold a word of the query, the best first."""
        ...

    async def marked_files(self) -> list[str]:
        """What holds the words of tainted sessions; see `FilesMarked`."""
        ...

    async def aclose(self) -> None:
        """Closes the database, and gives up the lock if it holds one. Not cancellable."""
        ...


class Store(StoreReader, RecordUpkeep, Protocol):
    """A journal with its tables: a reader that also writes, alone on its data directory.

    Attributes:
        disk: Whether there is room for what begins.
    """

    disk: DiskRoom

    async def commit(self, appends: Sequence[Append]) -> list[CommitResult]:
        """Appends in one transaction, in order; gives for each what was stored, or its refusal.

        A second `CallFinished` of one call, a second `TurnEnded` of one turn, and a second input
        with the answer of one child, is left out: the first one holds, and the rest of that append
        is stored. Refused, alone: an append to an unknown session (not begun by its `SessionCreated`) with `NotFoundError`, a second
        `SessionCreated` with `ConflictError`, what can't be stored (too large, an integer beyond
        64 bits) with `ValidationError`, a question that is answered though it does not wait, a
        start that no answer allows, and whatever else the permission tables are against with
        `ConflictError`. A lone surrogate in a text is stored, and returned, as
        U+FFFD. What begins something is refused with `StorageFailed` while the disk has room for ends
        alone. Raises `StorageError` (`StorageFull`: try again later) having changed nothing.
        Shielded: neither cancellable nor a point of cancellation, so that a loop of nothing but
        commits can't be cancelled.
        """
        ...
