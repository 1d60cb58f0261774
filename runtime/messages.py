"""What actors of one process say to each other: requests are imperative.

They may hold replies, channels and cancel scopes, and are never encoded; the wire's frames are
other types. Who receives which is said by each actor.
"""

from __future__ import annotations

import msgspec
import trio

from .definitions import Agent, SessionKind, Tier, ToolDefinition, ToolFailure
from .events import CallProgress, DurableEvent, SessionCreated, Stored
from .history import Attachment, Call
from .mailbox import Message, Request
from .store import ApprovalRow
from .subscription import Subscription

# ── journal ──────────────────────────────────────────────────────────────────────────────────────


class AppendEvents(Request[tuple[Stored, ...]], frozen=True, kw_only=True, tag="append_events"):
    """Store these events of one session; answered after COMMIT."""

    session_id: str
    events: tuple[DurableEvent, ...]


JournalMessage = AppendEvents

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
    """

    session_id: str
    turn_id: str
    agent: Agent
    session_kind: SessionKind = SessionKind.MAIN
    workspace: str
    channel: str | None = None
    lineage: tuple[Ancestor, ...] = ()


class SessionMarks(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a session has read, as far as a permission depends on it.

    Attributes:
        is_tainted: It has read what strangers may have written, since `tainted_at_ms`.
        has_private: It has read what is not for strangers.
        hosts: Where it has connected.
    """

    is_tainted: bool = False
    tainted_at_ms: int = 0
    has_private: bool = False
    hosts: frozenset[str] = frozenset()


UNMARKED = SessionMarks()
"""Of a session that has read nothing."""


class PermissionQuestion(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One call, as far as a permission depends on it.

    `arguments` is canonical JSON; `approval_reason` is the tool's own word, or `None`; `definition`
    is `None` for a tool that nobody knows.
    """

    call_id: str
    name: str
    tier: Tier
    arguments: str
    approval_reason: str | None
    definition: ToolDefinition | None = None


class Decision(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The broker's answer: `verdict` is `allow`, `ask` or `deny`; `reason` says which rule.

    `grant_id` names the remembered answer that decided, if one did.
    """

    verdict: str
    reason: str
    policy_version: str = ""
    grant_id: str = ""


class CheckPermissions(
    Request[tuple[Decision, ...]], frozen=True, kw_only=True, tag="check_permissions"
):
    """Decide about these calls of one batch, in order; asks nobody."""

    place: CallPlace
    questions: tuple[PermissionQuestion, ...]
    marks: SessionMarks = UNMARKED


class ApprovalRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a person is asked.

    Attributes:
        arguments: Every argument, as canonical JSON.
        reason: Why this call asks.
        preview: What would happen (a diff, a command line); may be empty.
        expires_at_ms: When silence becomes a denial, in Unix milliseconds.
        scopes: For what an answer may be remembered: `call`, `turn`, `session`, `agent`, `always`.

    Example:
        async def ask(request: callboard.ApprovalRequest) -> bool:
            print(request.tool, request.arguments, request.reason)
            return request.tier is not callboard.Tier.ELEVATED

        async with callboard.open_runtime(model="rehearsal", on_approval=ask) as runtime:
            session = await runtime.create_session()
            await session.run("Write 'buy milk' to list.txt, then delete list.txt.")
    """

    approval_id: str
    session_id: str
    turn_id: str
    call_id: str
    tool: str
    tier: Tier
    reason: str
    arguments: str
    digest: str
    expires_at_ms: int
    preview: str = ""
    scopes: tuple[str, ...] = ()


class ApprovalAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What the person said.

    Attributes:
        decision: `allow` or `deny` (`expired` comes from the broker alone).
        arguments: Other arguments, as a JSON object, when the person changed them.
        remember: The scope for which to remember it: one of the question's `scopes`.
        pattern: With `remember`, a pattern of paths in the place of the one that was asked about.
        reason: Why, for the model.
        answered_by: Who said it.

    Example:
        async def ask(request: callboard.ApprovalRequest) -> callboard.ApprovalAnswer:
            print("asked about", request.tool)
            return callboard.ApprovalAnswer(decision="deny", reason="Keep that file.")

        async with callboard.open_runtime(model="rehearsal", on_approval=ask) as runtime:
            session = await runtime.create_session()
            await session.run("Write 'buy milk' to list.txt, then delete list.txt.")
    """

    decision: str
    arguments: str | None = None
    remember: str | None = None
    reason: str = ""
    answered_by: str = "application"
    pattern: str | None = None


class Resolution(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a question.

    Attributes:
        approval_id: The question, which the call's start must name.
        answer: Who said what. Its decision may also be `expired`, or `revised`: the changed
            arguments want a question of their own.
        arguments: The canonical JSON of the arguments that were decided about.
        digest: What the answer binds to.
        failure: Why changed arguments can't be, when that is the reason of the denial.
    """

    approval_id: str
    answer: ApprovalAnswer
    arguments: str
    digest: str
    failure: ToolFailure | None = None


class AskPerson(Request[Resolution], frozen=True, kw_only=True, tag="ask_person"):
    """Ask a person about this call; answered when they have, or it expired.

    `digest` names what the answer binds to. `known` is the question as it was asked before the
    process ended; it keeps its id. The sender cancels `scope` when it no longer needs the answer,
    which withdraws the question.
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


class AnswerApproval(Request[None], frozen=True, kw_only=True, tag="answer_approval"):
    """A person answers; replied to once it is on record.

    Fails with `NotFoundError`, with `ConflictError` when somebody was first or it has expired, and
    with `ValidationError` when the answer can't be taken: the question stays open then.
    """

    approval_id: str
    answer: ApprovalAnswer


class RevokeGrant(Request[None], frozen=True, kw_only=True, tag="revoke_grant"):
    """A remembered answer holds no longer; replied to once that is on record."""

    grant_id: str
    revoked_by: str


BrokerMessage = CheckPermissions | AskPerson | AnswerApproval | RevokeGrant

# ── tool dispatcher ──────────────────────────────────────────────────────────────────────────────


class RunCalls(Message, frozen=True, kw_only=True, tag="run_calls"):
    """Run the calls of one answer, side by side.

    Attributes:
        preamble: Events that go into the same commit, ahead (the answer and its proposed calls).
        outlet: Progress comes up here; its end says that every task of the batch is gone. The
            results are in the journal, one `CallFinished` a call.
        scope: The sender cancels it to end the batch.
        approvals: What was asked about these calls before the process ended, in order.
        marks: What the session has read.
        given_up: Tools that the turn goes on without.
    """

    place: CallPlace
    calls: tuple[Call, ...]
    preamble: tuple[DurableEvent, ...]
    outlet: trio.MemorySendChannel[CallProgress]
    scope: trio.CancelScope
    approvals: tuple[ApprovalRow, ...] = ()
    marks: SessionMarks = UNMARKED
    given_up: frozenset[str] = frozenset()

    def abandon(self) -> None:
        """Ends the outlet: the turn finds its calls without a result."""
        self.outlet.close()


DispatcherMessage = RunCalls

# ── session and directory ────────────────────────────────────────────────────────────────────────


class InputTicket(msgspec.Struct, frozen=True):
    """An input is stored under this id, with this `seq`."""

    input_id: str
    seq: int


class CreateSession(Request[str], frozen=True, kw_only=True, tag="create_session"):
    """Begin a session; answered with its id once that is stored."""

    created: SessionCreated


class SubmitInput(Request[InputTicket], frozen=True, kw_only=True, tag="submit_input"):
    """Store an input and give it a turn, now or behind the turns that wait.

    `subscription` hears everything from this input on, and pauses its turns when it is full.
    """

    session_id: str
    text: str
    attachments: tuple[Attachment, ...] = ()
    subscription: Subscription | None = None

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


class CancelTurn(Request[bool], frozen=True, kw_only=True, tag="cancel_turn"):
    """Cancel the running turn; answered when everything of it is gone (False: none ran).

    With `input_id`, only the turn of that input, running or waiting, is cancelled.
    """

    session_id: str
    reason: str
    input_id: str | None = None


class StopSession(Request[bool], frozen=True, kw_only=True, tag="stop_session"):
    """Unload: the running turn is cancelled; with `only_idle`, refused (False) when it is busy."""

    session_id: str
    reason: str
    only_idle: bool = False


SessionMessage = SubmitInput | ResumeTurn | CancelTurn | StopSession


class StopSessions(Request[None], frozen=True, kw_only=True, tag="stop_sessions"):
    """Unload all sessions; answered when their turns have ended."""

    reason: str


DirectoryMessage = CreateSession | SubmitInput | ResumeTurn | CancelTurn | StopSessions
