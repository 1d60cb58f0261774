"""The messages between the actors of one process.

They may hold replies, channels and cancel scopes, so they are never encoded: frames of the wire are
other types. Each actor's docstring says which messages it receives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import trio

from .approval import ApprovalAnswer as ApprovalAnswer
from .approval import ApprovalRequest as ApprovalRequest
from .budget import Budget, CallQuota
from .definitions import Agent, InputMode, SessionKind, Tier, ToolDefinition, ToolFailure, Verdict
from .event_types.calls import CalledServer
from .event_types.turns import RerunWay
from .events import CallProgress, ChildCall, DurableEvent, SessionCreated, Stored
from .handles import ModelHandle
from .history import Attachment, Call
from .identity import RequestKey, TraceContext
from .kernel.delivery import Subscription
from .kernel.mailbox import Message, Request
from .store.rows import ApprovalRow
from .taint.marks import UNMARKED, SessionMarks
from .turn_options import ClientContext, TurnOptions
from .turns.live_state import UnderWay

if TYPE_CHECKING:
    from .telemetry.context import TurnTrace


class InputTicket(msgspec.Struct, frozen=True):
    """The id and `seq` of a stored input; `turn_id` is its turn, if that began at once."""

    input_id: str
    seq: int
    turn_id: str | None = None


class RerunTurn(Request[InputTicket], frozen=True, kw_only=True, tag="rerun_turn"):
    """Set the last turn aside and run its inputs again; answered when the new turn is on record.

    With `message_id`, only if that is a message of the turn. `command` is as in `SubmitInput`. Fails with
    `ConflictError` or `NotFoundError`, having changed nothing.
    """

    session_id: str
    why: RerunWay
    command: str = ""
    message_id: str | None = None
    subscription: Subscription | None = None
    request: RequestKey | None = None

    def abandon(self) -> None:
        """Close the subscription too: nothing will come."""
        if self.subscription is not None:
            self.subscription.close()
        self.reply.abandon()


class ResumeTurn(Request[InputTicket], frozen=True, kw_only=True, tag="resume_turn"):
    """Load a session, which resumes its suspended turn, and subscribe to it.

    Answered with the ticket of the turn's input; fails with `ConflictError` if no turn is suspended.
    """

    session_id: str
    subscription: Subscription

    def abandon(self) -> None:
        """Close the subscription too: nothing will come."""
        self.subscription.close()
        self.reply.abandon()


# ── journal ──────────────────────────────────────────────────────────────────────────────────────


class AppendEvents(Request[tuple[Stored, ...]], frozen=True, kw_only=True, tag="append_events"):
    """Store events of one session; answered after COMMIT.

    With `ahead`, nobody hears of these events before that but the session itself, which may go on with
    them: then this is answered at once, with nothing, and the session learns what becomes of them.
    """

    session_id: str
    events: tuple[DurableEvent, ...]
    ahead: bool = False


class PurgeRecords(Request[None], frozen=True, kw_only=True, tag="purge_records"):
    """Remove deleted sessions, none of which is live; answered when their records are gone."""

    session_ids: tuple[str, ...]


class ImportRecords(Request[None], frozen=True, kw_only=True, tag="import_records"):
    """Store the events of new sessions with their own times, all or none."""

    events: tuple[Stored, ...]


JournalMessage = AppendEvents | PurgeRecords | ImportRecords

# ── permission broker ────────────────────────────────────────────────────────────────────────────


class Ancestor(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A session that delegated; `channel` leads to its own people, if it has any."""

    session_id: str
    agent: Agent
    kind: SessionKind
    channel: str | None = None


class CallPlace(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The place of a call: what its permission depends on besides the call itself.

    Attributes:
        channel: The channel to the session's own people; branches and workers have none.
        lineage: The sessions that delegated to it, the parent first.
        task: Its delegated task, in short; empty for a main session.
        options: The options of the turn, which delegated sessions get too.
        trace: Where the turn stands in a trace; `None` without telemetry.
        client_tools: Tools that the program which sent the input runs itself.
        command: The command of whose input the turn came, if that gave options here.
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
    client_tools: tuple[ToolDefinition, ...] = ()
    trace: TurnTrace | None = None
    command: str = ""


class PermissionQuestion(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One call, as far as its permission depends on it.

    `arguments` is canonical JSON; `approval_reason` is the tool's own reason to ask, or `None`;
    `definition` is `None` for an unknown tool. `is_redirect` says that the question is about the target of
    a redirect, in a call that was decided before. `programs` finds the digest of what a call runs that runs
    programs (empty when that can't be told), for remembered answers; from then on only that may run.
    """

    call_id: str
    name: str
    tier: Tier
    arguments: str
    approval_reason: str | None
    definition: ToolDefinition | None = None
    is_redirect: bool = False
    programs: Callable[[], str] | None = None


class Decision(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The broker's decision about one call; `reason` names the rule that made it.

    `grant_id` is the remembered answer that decided, if one did. With `defer`, the turn does not wait
    for the answer to a question. `is_about_host`: it asks about nothing but a host, once a session.
    """

    verdict: Verdict
    reason: str
    policy_version: str = ""
    grant_id: str = ""
    defer: bool = False
    is_about_host: bool = False


class CheckPermissions(
    Request[tuple[Decision, ...]], frozen=True, kw_only=True, tag="check_permissions"
):
    """Decide about the calls of one batch, in order, without asking anybody."""

    place: CallPlace
    questions: tuple[PermissionQuestion, ...]
    marks: SessionMarks = UNMARKED


class Resolution(msgspec.Struct, frozen=True, kw_only=True):
    """How a question ended.

    Attributes:
        approval_id: The question, which the call's start must name.
        answer: The answer. Its decision may also be `expired`, `revised` (the changed arguments need a
            question of their own) or `deferred` (the turn continues without it).
        arguments: The arguments that were decided about, as canonical JSON.
        digest: The digest to which the answer binds.
        failure: Why changed arguments are invalid, if the call was denied for that.
        grant_id: The remembered answer that decided, if one did.
        programs: A digest of what the call runs, if the answer is remembered and it runs programs.
    """

    approval_id: str
    answer: ApprovalAnswer
    arguments: str
    digest: str
    failure: ToolFailure | None = None
    grant_id: str = ""
    programs: str = ""


class AskPerson(Request[Resolution], frozen=True, kw_only=True, tag="ask_person"):
    """Ask a person about a call; answered when they have answered, or the question has expired.

    The answer binds to `digest`; `preview` shows what the call would do. `known` is the question of an
    earlier process, which keeps its id. The sender cancels `scope` when it no longer needs the answer,
    which withdraws the question. With `defers`, a new question is answered with `deferred` as soon as it
    is on record together with a `CallDeferred`; nothing withdraws it then. Of the `count` questions of one
    answer this is the `number`th.
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
    number: int = 1
    count: int = 1


class AnswerApproval(Request[None], frozen=True, kw_only=True, tag="answer_approval"):
    """Answer a question, and those that ask the same; answered once that is on record.

    Fails with `NotFoundError`, with `ConflictError` if it was answered before or has expired, and with
    `ValidationError` if the answer is invalid: then the question stays open.
    """

    approval_id: str
    answer: ApprovalAnswer


class RevokeGrant(Request[None], frozen=True, kw_only=True, tag="revoke_grant"):
    """Revoke a remembered answer; answered once that is on record."""

    grant_id: str
    revoked_by: str


class TakeUpQuestions(Request[None], frozen=True, kw_only=True, tag="take_up_questions"):
    """Take up what other processes left of sessions that came to this one: their grants and deferred questions."""


class ReloadGrants(Request[None], frozen=True, kw_only=True, tag="reload_grants"):
    """Read the grants that hold again: another node of the cluster may have given or revoked some."""


class ShowApproval(Request[ApprovalRequest], frozen=True, kw_only=True, tag="show_approval"):
    """Return an open question as a person sees it now, without answering it.

    With `arguments`, as it would be with these: validated, judged and previewed. Fails with
    `NotFoundError`, with `ConflictError` if it is not open, and with `ValidationError` for arguments that
    no answer could have.
    """

    approval_id: str
    arguments: str | None = None


BrokerMessage = (
    CheckPermissions
    | AskPerson
    | AnswerApproval
    | ShowApproval
    | RevokeGrant
    | TakeUpQuestions
    | ReloadGrants
)

# ── tool dispatcher ──────────────────────────────────────────────────────────────────────────────


NO_ATTEMPTS: Mapping[str, int] = MappingProxyType({})
"""The `attempts_left` of a turn in which no tool was called wrongly."""


class BrokenOff(NamedTuple):
    """How far a call had come that is broken off.

    Attributes:
        began_at: When it began, in Trio's time.
        server: The MCP server that was told to stop, which may have done it all the same.
    """

    began_at: float
    server: CalledServer | None = None


class RunCalls(Message, frozen=True, kw_only=True, tag="run_calls"):
    """Run the calls of one answer in parallel.

    Attributes:
        preamble: Events to store first in the same commit (the answer and its proposed calls).
        show: Takes the progress of calls, and the calls of sessions below, without waiting.
        outlet: Closed when every task of the batch is gone. The results are in the journal, one
            `CallFinished` for each call.
        scope: The sender cancels it to end the batch.
        approvals: The questions that an earlier process asked about these calls, in order.
        marks: What the session has read.
        begun: Calls that an earlier process began; they continue and are not begun again.
        attempts_left: For tools that were called wrongly in this turn, how many more answers may do
            so; at 0 the turn continues without the tool.
        quota: How many calls the budget allows.
        since: Gets how far each call had come that is broken off.
        lend_model: Returns the turn's model, for calls that may ask it.
    """

    place: CallPlace
    calls: tuple[Call, ...]
    preamble: tuple[DurableEvent, ...]
    show: Callable[[CallProgress | ChildCall], None]
    outlet: trio.MemorySendChannel[None]
    scope: trio.CancelScope
    approvals: tuple[ApprovalRow, ...] = ()
    marks: SessionMarks = UNMARKED
    begun: frozenset[str] = frozenset()
    attempts_left: Mapping[str, int] = NO_ATTEMPTS
    quota: CallQuota | None = None
    since: dict[str, BrokenOff] | None = None
    lend_model: Callable[[], ModelHandle] | None = None

    def abandon(self) -> None:
        """Close the outlet: the turn finds its calls without a result."""
        self.outlet.close()


DispatcherMessage = RunCalls

# ── session and directory ────────────────────────────────────────────────────────────────────────


class CreateSession(Request[str], frozen=True, kw_only=True, tag="create_session"):
    """Create a session; answered with its id once that is stored.

    `inherited` goes into the same commit: the marks of the session that delegates to it, or a history that came along.
    """

    created: SessionCreated
    inherited: tuple[DurableEvent, ...] = ()


class SubmitInput(Request[InputTicket], frozen=True, kw_only=True, tag="submit_input"):
    """Store an input and give it a turn, now or after the turns that wait.

    `subscription` gets everything from this input on, and pauses its turns while it is full. With
    `is_untrusted`, strangers may have written the text, which taints the session. `widens` names the agent
    whose policy the options may exceed; `None` is whichever the session has. `command` names the command whose input
    it is, if that gave options here. The rest is as in `InputAccepted`.
    """

    session_id: str
    text: str
    attachments: tuple[Attachment, ...] = ()
    budget: Budget | None = None
    mode: InputMode = InputMode.QUEUE
    subscription: Subscription | None = None
    request: RequestKey | None = None
    options: TurnOptions | None = None
    widens: str | None = ""
    is_untrusted: bool = False
    via: str = ""
    client: ClientContext | None = None
    trace: TraceContext | None = None
    command: str = ""

    def abandon(self) -> None:
        """Close the subscription too: nothing will come."""
        if self.subscription is not None:
            self.subscription.close()
        self.reply.abandon()


class WakeSession(Request[None], frozen=True, kw_only=True, tag="wake_session"):
    """Load the session, if necessary, and begin the turn of an input that another actor stored.

    Answered when that turn has begun, if there is one.
    """

    session_id: str


class FollowStart(msgspec.Struct, frozen=True):
    """Where a subscription starts: after the event `head_seq`, with what is under way."""

    head_seq: int
    under_way: UnderWay


class FollowSession(Request[FollowStart], frozen=True, kw_only=True, tag="follow_session"):
    """Send all events of the session to a subscription until that is closed."""

    session_id: str
    subscription: Subscription

    def abandon(self) -> None:
        """Close the subscription too: nothing will come."""
        self.subscription.close()
        self.reply.abandon()


class CancelTurn(Request[bool], frozen=True, kw_only=True, tag="cancel_turn"):
    """Cancel the running turn; answered when all its tasks are gone (`False`: none ran).

    With `input_id`, only the turn of that input, running or waiting, is cancelled. With `loads`, a
    session that is not live is loaded first, so that its suspended turn can be cancelled.
    """

    session_id: str
    reason: str
    input_id: str | None = None
    loads: bool = False


class StopSession(Request[bool], frozen=True, kw_only=True, tag="stop_session"):
    """Unload the session and cancel its turn; with `only_idle`, refuse (`False`) if it is busy.

    With `suspends`, a turn that waits for people is suspended instead of cancelled.
    """

    session_id: str
    reason: str
    only_idle: bool = False
    suspends: bool = False


SessionMessage = (
    SubmitInput | RerunTurn | ResumeTurn | FollowSession | WakeSession | CancelTurn | StopSession
)


SERVER_STOPPED, RUNTIME_CLOSED = "the server stopped", "the runtime closed"
"""Why turns are cancelled that nobody called off."""


class StopSessions(Request[None], frozen=True, kw_only=True, tag="stop_sessions"):
    """Unload all sessions; answered when their turns have ended, or are suspended."""

    reason: str


class PurgeSessions(Request[None], frozen=True, kw_only=True, tag="purge_sessions"):
    """Unload deleted sessions and remove their records."""

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
