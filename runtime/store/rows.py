"""A session, and a tool call, as lists of them have them."""

from __future__ import annotations

from typing import Literal

import msgspec

from ..approval import ApprovalDecision, GrantVerdict
from ..budget import Budget
from ..definitions import Binding, CallStatus, InputSource, SessionKind, Tier
from ..errors import ConflictError, NotFoundError, StorageFull, ValidationError
from ..events import DurableEvent, Stored
from ..stream import Usage


class Append(msgspec.Struct, frozen=True):
    """Events to append to one session, all or none of them."""

    session_id: str
    events: tuple[DurableEvent, ...]


Refusal = NotFoundError | ConflictError | ValidationError | StorageFull
"""Why one append of a commit was left out, alone, and nothing of it stored."""

CommitResult = tuple[Stored, ...] | Refusal


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

    `final_arguments` are those that a person changed; `grant_id` is the remembered answer that
    answered it.
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


class SpentCall(msgspec.Struct, frozen=True):
    """The tokens of one model call; `estimate` has those that nobody counted."""

    turn_id: str
    provider: str
    model: str
    usage: Usage
    estimate: Usage

    @property
    def tokens(self) -> tuple[int | None, int | None]:
        """Of the input and of the output, by count or else by estimate."""
        usage, estimate = self.usage, self.estimate
        return (
            estimate.input_tokens if usage.input_tokens is None else usage.input_tokens,
            estimate.output_tokens if usage.output_tokens is None else usage.output_tokens,
        )


class SpentTurn(msgspec.Struct, frozen=True):
    """What a turn used beside tokens: model calls that failed before they took any, and its time.

    The time of a turn that ran within another one's is none.
    """

    turn_id: str
    failed_calls: int
    seconds: float


class Spending(msgspec.Struct, frozen=True, kw_only=True):
    """What was used, and by whom.

    Attributes:
        agent: The session's.
        budget: The session's own limit.
        parent_id: Who delegated to it, and `parent_turn_id` the turn that did.
        runs_apart: Whether nobody waited for it then.
        calls: Model calls that took tokens, of all sessions below it too.
        turns: The turns, of all sessions below it too.
        ran: Calls of tools that ran, each by its session and its id.
    """

    agent: str
    budget: Budget | None
    parent_id: str | None
    parent_turn_id: str
    runs_apart: bool = False
    calls: tuple[SpentCall, ...] = ()
    turns: tuple[SpentTurn, ...] = ()
    ran: tuple[tuple[str, str], ...] = ()

    @property
    def failed_calls(self) -> int:
        """Model calls that failed before they took any tokens."""
        return sum(turn.failed_calls for turn in self.turns)

    @property
    def tool_calls(self) -> int:
        """How many calls of tools ran."""
        return len(self.ran)

    @property
    def seconds(self) -> float:
        """How long its own turns took, and those of sessions below that nobody waited for.

        What is waited for runs within the time of the turn that waits.
        """
        return sum(turn.seconds for turn in self.turns)
