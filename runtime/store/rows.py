"""What goes into a commit and comes out of a query: appends, their results, and the rows."""

from __future__ import annotations

from typing import Literal

import msgspec

from ..approval import ApprovalDecision, GrantVerdict
from ..budget import Budget
from ..definitions import Binding, CallStatus, InputSource, SessionKind, Tier
from ..errors import ConflictError, NotFoundError, StorageFull, ValidationError
from ..events import DurableEvent, QuestionAnswered, QuestionAsked, Stored
from ..stream import Usage


class Append(msgspec.Struct, frozen=True):
    """Events to append to one session, all or none of them; `encoded` if they have been already."""

    session_id: str
    events: tuple[DurableEvent, ...]
    encoded: tuple[tuple[DurableEvent, bytes], ...] = ()


Refusal = NotFoundError | ConflictError | ValidationError | StorageFull
"""Why nothing of one append was stored, while the others of its commit were."""

CommitResult = tuple[Stored, ...] | Refusal


class SessionRow(msgspec.Struct, frozen=True, kw_only=True):
    """A session. Times are Unix milliseconds.

    `parent_id` is the session that delegated to it, in the call `parent_call_id`. `is_detached` says
    that no call waited for its answer, and that the parent does not have it yet. `forked_from` is the
    session from whose history it began. `budget` is its own limit, without those of its agent and the settings.
    `via` is what began it, where that was no client of callboard's own: a protocol (`openai`, `ag-ui`, `mcp`), a
    `schedule` or a `hook`.
    `waiting_for` is, in lists and of one session over the wire, the root of a session that waits for a node with that
    (waiting_for_node); see `StoreReader.with_waiting`.
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
    forked_from: str = ""
    budget: Budget | None = None
    waiting_for: str = ""
    via: str = ""


class CallRow(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call in its present state."""

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


class MessageFile(msgspec.Struct, frozen=True):
    """What a file is that came with a message; its bytes are read one by one (`Queries.message_file`)."""

    name: str
    media_type: str
    size_bytes: int


class MessageRow(msgspec.Struct, frozen=True, kw_only=True):
    """A message of a session, with the columns of RFC-000.

    `type` is `user`, `assistant`, `tool_call`, `tool_result`, `error` or `system`; `position` orders
    the messages of a session. `is_set_aside` says that the model no longer reads it, because its turn
    was run again. Of one that `is_deleted`, nothing of what it said is here. An answer's `stop_reason` is
    one of `stream.StopReason`, or `incomplete` if it was stopped or broke off. `cost` is in US dollars at
    present prices, where these are known. `files` came with an input, or with the result of a call.
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
    stop_reason: str | None = None
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    is_deleted: bool = False
    cost: float | None = None
    files: tuple[MessageFile, ...] = ()


class UsageRow(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens of one model call; `None` is unknown, never zero.

    `position` orders the calls of all sessions; `agent` is the session's present agent. Estimates
    are for tokens that the provider did not count.
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
    """A question to a person about one call, with its answer if there is one.

    `final_arguments` are the arguments as a person changed them; `grant_id` names the grant that
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
    """An input whose turn has not ended; see `InputAccepted`. Without a turn yet, `turn_id` is `None`."""

    session_id: str
    input_id: str
    source: InputSource
    call_id: str
    approval_id: str
    turn_id: str | None


class NamedInputRow(msgspec.Struct, frozen=True, kw_only=True):
    """An input that came with an idempotency key, and what became of it.

    `state` is `waiting`, `running`, or how its turn has ended (see `TurnEnded.outcome`); `message` says why, when it
    was not answered.
    """

    sender: str
    method: str
    key: str
    session_id: str
    input_id: str
    seq: int
    at_ms: int
    state: str
    message: str = ""


class GrantRow(msgspec.Struct, frozen=True, kw_only=True):
    """A remembered answer; see `GrantGiven`."""

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


class AskedQuestion(msgspec.Struct, frozen=True):
    """A question of a call of `ask_user` that has no result, and its answer, if one is on record."""

    asked: QuestionAsked
    answered: QuestionAnswered | None = None


class WaitingQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """A question to people that has no answer, of a call that has no result; `tool` is the call's."""

    session_id: str
    parent_id: str | None
    is_suspended: bool
    tool: str
    asked: QuestionAsked


class OpenTurn(msgspec.Struct, frozen=True, kw_only=True):
    """A turn that has not ended, with its calls that have no result.

    A deferred call is open only in the turn that runs it in the end. `approvals` are the questions
    about the open calls, in the order in which they were asked, and `seen_at_ms` is the latest time on
    record since the first of them. `delegated` are the calls that wait for a suspended session; of a
    suspended turn, those that waited for one, which may have continued by itself. `questions` are those
    that open calls of `ask_user` have put to people. The parent's fields are as in `SessionRow`.
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
    questions: tuple[AskedQuestion, ...] = ()


class TurnPlace(msgspec.Struct, frozen=True):
    """The `seq` of a turn's start, and whether it has no end."""

    seq: int
    is_open: bool


class SpentCall(msgspec.Struct, frozen=True):
    """The tokens of one model call; `estimate` has those that the provider did not count."""

    turn_id: str
    provider: str
    model: str
    usage: Usage
    estimate: Usage

    @property
    def tokens(self) -> tuple[int | None, int | None]:
        """Input and output tokens, counted or else estimated."""
        usage, estimate = self.usage, self.estimate
        return (
            estimate.input_tokens if usage.input_tokens is None else usage.input_tokens,
            estimate.output_tokens if usage.output_tokens is None else usage.output_tokens,
        )


class SpentTurn(msgspec.Struct, frozen=True):
    """What a turn used beside tokens: model calls that failed before they used any, and its time.

    A turn that ran within the time of another one counts no time of its own.
    """

    turn_id: str
    failed_calls: int
    seconds: float


class Spending(msgspec.Struct, frozen=True, kw_only=True):
    """What a session and all sessions below it have used.

    Attributes:
        agent: The session's agent.
        budget: The session's own limit.
        parent_id: The session that delegated to it, and `parent_turn_id` the turn.
        runs_apart: Whether that turn did not wait for it.
        calls: Model calls that used tokens.
        turns: The turns.
        ran: Tool calls that ran, each by its session and its id.
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
        """Model calls that failed before they used tokens."""
        return sum(turn.failed_calls for turn in self.turns)

    @property
    def tool_calls(self) -> int:
        """How many tool calls ran."""
        return len(self.ran)

    @property
    def seconds(self) -> float:
        """The time of its own turns, and of turns below that no other turn waited for."""
        return sum(turn.seconds for turn in self.turns)
