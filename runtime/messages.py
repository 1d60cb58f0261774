"""What actors of one process say to each other: requests are imperative.

They may hold replies, channels and cancel scopes, and are never encoded; the wire's frames are
other types. Who receives which is said by each actor.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import msgspec
import trio

from .approval import ApprovalAnswer as ApprovalAnswer
from .approval import ApprovalRequest as ApprovalRequest
from .budget import Budget, CallQuota
from .definitions import Agent, InputMode, SessionKind, Tier, ToolDefinition, ToolFailure, Verdict
from .event_types.turns import RerunWay
from .events import CallProgress, DurableEvent, SessionCreated, Stored
from .history import Attachment, Call
from .identity import RequestKey
from .kernel.delivery import Subscription
from .kernel.mailbox import Message, Request
from .store.rows import ApprovalRow
from .taint.marks import UNMARKED, SessionMarks
from .turn_options import TurnOptions
from .turns.live_state import UnderWay


class InputTicket(msgspec.Struct, frozen=True):
    """An input is stored under this id, with this `seq`; `turn_id` is the turn that it began at once."""

    input_id: str
    seq: int
    turn_id: str | None = None


class RerunTurn(Request[InputTicket], frozen=True, kw_only=True, tag="rerun_turn"):
    """Set the last turn aside and give its inputs another; answered when that has begun on record.

    With `message_id`, only when that is a message of the turn. Fails with `ConflictError` or
    `NotFoundError`, and nothing is changed.
    """

    session_id: str
    why: RerunWay
    message_id: str | None = None
    subscription: Subscription | None = None
    request: RequestKey | None = None

    def abandon(self) -> None:
        """Ends the subscription too: nothing will come."""
        if self.subscription is not None:
            self.subscription.close()
        self.reply.abandon()


class ResumeTurn(Request[InputTicket], frozen=True, kw_only=True, tag="resume_turn"):
    """Load the session, whose suspended turn goes on by that, and listen to it.

    Answered with the ticket of the turn's input; `ConflictError` when no turn of it was suspended.
    """

    session_id: str
    subscription: Subscription

    def abandon(self) -> None:
        """Ends the subscription too: nothing will come."""
        self.subscription.close()
        self.reply.abandon()


# ── journal ──────────────────────────────────────────────────────────────────────────────────────


class AppendEvents(Request[tuple[Stored, ...]], frozen=True, kw_only=True, tag="append_events"):
    """Store these events of one session; answered after COMMIT."""

    session_id: str
    events: tuple[DurableEvent, ...]


class PurgeRecords(Request[None], frozen=True, kw_only=True, tag="purge_records"):
    """Remove deleted sessions, none of which is live; answered when nothing of them is on record."""

    session_ids: tuple[str, ...]


class ImportRecords(Request[None], frozen=True, kw_only=True, tag="import_records"):
    """Store the events of new sessions at their own times; all of them, or none."""

    events: tuple[Stored, ...]


JournalMessage = AppendEvents | PurgeRecords | ImportRecords

# ── permission broker ────────────────────────────────────────────────────────────────────────────


class Ancestor(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A session that delegated; `channel` is where its own people are, if it has any."""

    session_id: str
    agent: Agent
    kind: SessionKind
    channel: str | None = None


class CallPlace(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Where calls are made: what a permission depends on besides the call.

    Attributes:
        channel: Where the session's own people are; a branch and a worker have none.
        lineage: Who delegated to it, the parent first.
        task: What it was delegated, in short; empty for a main session.
        options: What the turn was given, and what it delegates gets too.
    """

    session_id: str
    turn_id: str
    agent: Agent
    session_kind: SessionKind = SessionKind.MAIN
    workspace: str
    channel: str | None = None
    lineage: tuple[Ancestor, ...] = ()
    task: str = ""
    options: TurnOptions | None = None


class PermissionQuestion(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One call, as far as a permission depends on it.

    `arguments` is canonical JSON; `approval_reason` is the tool's own word, or `None`; `definition`
    is `None` for a tool that nobody knows. `is_redirect` is about a URL that a server sent a call
    to, which itself was decided about.
    """

    call_id: str
    name: str
    tier: Tier
    arguments: str
    approval_reason: str | None
    definition: ToolDefinition | None = None
    is_redirect: bool = False


class Decision(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The broker's decision about one call; `reason` says which rule made it.

    `grant_id` names the remembered answer that decided, if one did. With `defer`, a call that must be
    asked about does not hold its turn up.
    """

    verdict: Verdict
    reason: str
    policy_version: str = ""
    grant_id: str = ""
    defer: bool = False


class CheckPermissions(
    Request[tuple[Decision, ...]], frozen=True, kw_only=True, tag="check_permissions"
):
    """Decide about these calls of one batch, in order; asks nobody."""

    place: CallPlace
    questions: tuple[PermissionQuestion, ...]
    marks: SessionMarks = UNMARKED


class Resolution(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a question.

    Attributes:
        approval_id: The question, which the call's start must name.
        answer: Who said what. Its decision may also be `expired`, `revised` (the changed arguments
            want a question of their own) or `deferred` (the turn goes on without).
        arguments: The canonical JSON of the arguments that were decided about.
        digest: What the answer binds to.
        failure: Why changed arguments can't be, when that is the reason of the denial.
        grant_id: The remembered answer that gave it, if one did.
    """

    approval_id: str
    answer: ApprovalAnswer
    arguments: str
    digest: str
    failure: ToolFailure | None = None
    grant_id: str = ""


class AskPerson(Request[Resolution], frozen=True, kw_only=True, tag="ask_person"):
    """Ask a person about this call; answered when they have, or it expired.

    `digest` names what the answer binds to, `preview` is what would happen. `known` is the question as it was asked before the
    process ended; it keeps its id. The sender cancels `scope` when it no longer needs the answer,
    which withdraws the question. With `defers`, a new question is answered with `deferred` as soon
    as it is on record, and with it a `CallDeferred`; nothing withdraws it then.
    """

    place: CallPlace
    call: Call
    question: PermissionQuestion
    reason: str
    digest: str
    policy_version: str
    scope: trio.CancelScope
    marks: SessionMarks = UNMARKED
    known: ApprovalRow | None = None
    preview: str = ""
    defers: bool = False


class AnswerApproval(Request[None], frozen=True, kw_only=True, tag="answer_approval"):
    """A person answers; replied to once it is on record, for those who ask the same as well.

    Fails with `NotFoundError`, with `ConflictError` when somebody was first or it has expired, and
    with `ValidationError` when the answer can't be taken: the question stays open then.
    """

    approval_id: str
    answer: ApprovalAnswer


class RevokeGrant(Request[None], frozen=True, kw_only=True, tag="revoke_grant"):
    """A remembered answer holds no longer; replied to once that is on record."""

    grant_id: str
    revoked_by: str


class ShowApproval(Request[ApprovalRequest], frozen=True, kw_only=True, tag="show_approval"):
    """A question that waits, as it is put to a person by now; nothing is answered by that.

    With `arguments`, as it would be about these: validated, judged and previewed. Fails with
    `NotFoundError`, with `ConflictError` when it does not wait, and with `ValidationError` when no
    answer with these arguments could be taken.
    """

    approval_id: str
    arguments: str | None = None


BrokerMessage = CheckPermissions | AskPerson | AnswerApproval | ShowApproval | RevokeGrant

# ── tool dispatcher ──────────────────────────────────────────────────────────────────────────────


NO_ATTEMPTS: Mapping[str, int] = MappingProxyType({})
"""Of a turn in which no tool was called wrongly."""


class RunCalls(Message, frozen=True, kw_only=True, tag="run_calls"):
    """Run the calls of one answer, side by side.

    Attributes:
        preamble: Events that go into the same commit, ahead (the answer and its proposed calls).
        outlet: Progress comes up here; its end says that every task of the batch is gone. The
            results are in the journal, one `CallFinished` a call.
        scope: The sender cancels it to end the batch.
        approvals: What was asked about these calls before the process ended, in order.
        marks: What the session has read.
        begun: Calls that an earlier process began and that go on: they are not begun again.
        attempts_left: Of tools that were called wrongly in this turn, how many more answers may do
            so; at 0 the turn goes on without the tool.
        quota: How many calls the budget has room for.
    """

    place: CallPlace
    calls: tuple[Call, ...]
    preamble: tuple[DurableEvent, ...]
    outlet: trio.MemorySendChannel[CallProgress]
    scope: trio.CancelScope
    approvals: tuple[ApprovalRow, ...] = ()
    marks: SessionMarks = UNMARKED
    begun: frozenset[str] = frozenset()
    attempts_left: Mapping[str, int] = NO_ATTEMPTS
    quota: CallQuota | None = None

    def abandon(self) -> None:
        """Ends the outlet: the turn finds its calls without a result."""
        self.outlet.close()


DispatcherMessage = RunCalls

# ── session and directory ────────────────────────────────────────────────────────────────────────


class CreateSession(Request[str], frozen=True, kw_only=True, tag="create_session"):
    """Begin a session; answered with its id once that is stored.

    `inherited` goes into the same commit: the marks of who delegated to it.
    """

    created: SessionCreated
    inherited: tuple[DurableEvent, ...] = ()


class SubmitInput(Request[InputTicket], frozen=True, kw_only=True, tag="submit_input"):
    """Store an input and give it a turn, now or behind the turns that wait.

    `subscription` hears everything from this input on, and pauses its turns when it is full.
    """

    session_id: str
    text: str
    attachments: tuple[Attachment, ...] = ()
    budget: Budget | None = None
    mode: InputMode = InputMode.QUEUE
    subscription: Subscription | None = None
    request: RequestKey | None = None
    options: TurnOptions | None = None
    widens: str = ""

    def abandon(self) -> None:
        """Ends the subscription too: nothing will come."""
        if self.subscription is not None:
            self.subscription.close()
        self.reply.abandon()


class WakeSession(Request[None], frozen=True, kw_only=True, tag="wake_session"):
    """Load the session, if need be, and begin the turn of an input that others gave it on record.

    Answered when that has begun, if there is one.
    """

    session_id: str


class FollowStart(msgspec.Struct, frozen=True):
    """Where a follower joins: the last event on record that it is not told, and what is under way."""

    head_seq: int
    under_way: UnderWay


class FollowSession(Request[FollowStart], frozen=True, kw_only=True, tag="follow_session"):
    """Tell this subscription all that happens in the session, until it is closed."""

    session_id: str
    subscription: Subscription

    def abandon(self) -> None:
        """Ends the subscription too: nothing will come."""
        self.subscription.close()
        self.reply.abandon()


class CancelTurn(Request[bool], frozen=True, kw_only=True, tag="cancel_turn"):
    """Cancel the running turn; answered when everything of it is gone (False: none ran).

    With `input_id`, only the turn of that input, running or waiting, is cancelled. With `loads`, a
    session that is not live is loaded for it, and its turn may be one that is suspended.
    """

    session_id: str
    reason: str
    input_id: str | None = None
    loads: bool = False


class StopSession(Request[bool], frozen=True, kw_only=True, tag="stop_session"):
    """Unload: the running turn is cancelled; with `only_idle`, refused (False) when it is busy.

    With `suspends`, a turn that waits for people is suspended instead.
    """

    session_id: str
    reason: str
    only_idle: bool = False
    suspends: bool = False


SessionMessage = (
    SubmitInput | RerunTurn | ResumeTurn | FollowSession | WakeSession | CancelTurn | StopSession
)


class StopSessions(Request[None], frozen=True, kw_only=True, tag="stop_sessions"):
    """Unload all sessions; answered when their turns have ended, or are suspended."""

    reason: str


class PurgeSessions(Request[None], frozen=True, kw_only=True, tag="purge_sessions"):
    """Unload deleted sessions and remove all that is on record of them."""

    session_ids: tuple[str, ...]


DirectoryMessage = (
    CreateSession
    | PurgeSessions
    | SubmitInput
    | RerunTurn
    | ResumeTurn
    | FollowSession
    | WakeSession
    | CancelTurn
    | StopSessions
)
