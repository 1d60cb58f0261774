"""What actors of one process say to each other: requests are imperative.

They may hold replies, channels and cancel scopes, and are never encoded; the wire's frames are
other types. Who receives which is said by each actor.
"""

from __future__ import annotations

import msgspec
import trio

from .definitions import Agent, SessionKind, Tier
from .events import CallProgress, DurableEvent, SessionCreated, Stored
from .history import Attachment, Call
from .mailbox import Message, Request
from .subscription import Subscription

# ── journal ──────────────────────────────────────────────────────────────────────────────────────


class AppendEvents(Request[tuple[Stored, ...]], frozen=True, kw_only=True, tag="append_events"):
    """Store these events of one session; answered after COMMIT."""

    session_id: str
    events: tuple[DurableEvent, ...]


JournalMessage = AppendEvents

# ── permission broker ────────────────────────────────────────────────────────────────────────────


class PermissionQuestion(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One call, as far as a permission depends on it.

    `arguments` is canonical JSON; `approval_reason` is the tool's own word, or `None`.
    """

    call_id: str
    name: str
    tier: Tier
    arguments: str
    approval_reason: str | None


class Decision(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The broker's answer: `verdict` is `allow`, `ask` or `deny`; `reason` says which rule."""

    verdict: str
    reason: str


class CheckPermissions(
    Request[tuple[Decision, ...]], frozen=True, kw_only=True, tag="check_permissions"
):
    """Decide about these calls of one batch, in order; asks nobody."""

    session_id: str
    agent: Agent
    questions: tuple[PermissionQuestion, ...]


class ApprovalRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a person is asked.

    Attributes:
        arguments: Every argument, as canonical JSON.
        reason: Why this call asks.
        preview: What would happen (a diff, a command line); may be empty.
        expires_at_ms: When silence becomes a denial, in Unix milliseconds.

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


class ApprovalAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What the person said.

    Attributes:
        decision: `allow` or `deny` (`expired` comes from the broker alone).
        arguments: Other arguments, as a JSON object, when the person changed them.
        remember: The scope for which to remember it, when it is to be remembered.
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


class AskPerson(Request[ApprovalAnswer], frozen=True, kw_only=True, tag="ask_person"):
    """Ask a person about this call; answered when they have, or it expired.

    `digest` names what the answer binds to. The sender cancels `scope` when it no longer needs the
    answer, which withdraws the question.
    """

    session_id: str
    turn_id: str
    question: PermissionQuestion
    reason: str
    digest: str
    scope: trio.CancelScope


class AnswerApproval(Request[bool], frozen=True, kw_only=True, tag="answer_approval"):
    """A person answers; the reply says whether this answer was the first."""

    approval_id: str
    answer: ApprovalAnswer


BrokerMessage = CheckPermissions | AskPerson | AnswerApproval

# ── tool dispatcher ──────────────────────────────────────────────────────────────────────────────


class RunCalls(Message, frozen=True, kw_only=True, tag="run_calls"):
    """Run the calls of one answer, side by side.

    Attributes:
        preamble: Events that go into the same commit, ahead (the answer and its proposed calls).
        outlet: Progress comes up here; its end says that every task of the batch is gone. The
            results are in the journal, one `CallFinished` a call.
        scope: The sender cancels it to end the batch.
    """

    session_id: str
    turn_id: str
    agent: Agent
    session_kind: SessionKind
    workspace: str
    calls: tuple[Call, ...]
    preamble: tuple[DurableEvent, ...]
    outlet: trio.MemorySendChannel[CallProgress]
    scope: trio.CancelScope

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


SessionMessage = SubmitInput | CancelTurn | StopSession


class StopSessions(Request[None], frozen=True, kw_only=True, tag="stop_sessions"):
    """Unload all sessions; answered when their turns have ended."""

    reason: str


DirectoryMessage = CreateSession | SubmitInput | CancelTurn | StopSessions
