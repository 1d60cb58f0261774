"""What happens in a session.

Durable events are journaled, get a gap-free `seq` per session and are the truth: a session is the
fold of them. What is live only (`StreamBatch`, `CallProgress`, `MessageDiscarded`) is published to
whoever listens and kept nowhere. Tags are written out and never change; fields are only added.
"""

from __future__ import annotations

import msgspec

from .budget import Budget
from .definitions import SessionKind
from .errors import BudgetError, CallboardError, error_of
from .event_types.calls import CallDeferred as CallDeferred
from .event_types.calls import CallFinished as CallFinished
from .event_types.calls import CallProposed as CallProposed
from .event_types.calls import CallStarted as CallStarted
from .event_types.calls import ToolGivenUp as ToolGivenUp
from .event_types.durable import Event as Event
from .event_types.inputs import InputAccepted as InputAccepted
from .event_types.inputs import InputCancelled as InputCancelled
from .event_types.inputs import InputDelivered as InputDelivered
from .event_types.memories import MemoryForgotten as MemoryForgotten
from .event_types.memories import MemoryStored as MemoryStored
from .event_types.people import ChildAsks as ChildAsks
from .event_types.people import MessageSent as MessageSent
from .event_types.people import QuestionAnswered as QuestionAnswered
from .event_types.people import QuestionAsked as QuestionAsked
from .event_types.permissions import ApprovalAnswered as ApprovalAnswered
from .event_types.permissions import ApprovalAsked as ApprovalAsked
from .event_types.permissions import FilesMarked as FilesMarked
from .event_types.permissions import GrantGiven as GrantGiven
from .event_types.permissions import GrantRevoked as GrantRevoked
from .event_types.permissions import PrivateDataRead as PrivateDataRead
from .event_types.permissions import SessionTainted as SessionTainted
from .event_types.plan import PlanSet as PlanSet
from .event_types.turns import TurnOutcome as TurnOutcome
from .event_types.turns import TurnSetAside as TurnSetAside
from .event_types.undo import ChangesUndone as ChangesUndone
from .history import Part
from .identity import RequestKey
from .stream import AnyStreamEvent, Usage
from .text import StoredInteger


class SessionCreated(Event, frozen=True, kw_only=True, tag="session_created"):
    """A session begins.

    Attributes:
        workspace: An absolute path.
        model: `PROVIDER/MODEL`, or `None` for the agent's.
        parent_id: The session that delegated to it, and `parent_call_id` the call that did.
        tools: The tools that it has of its agent's; `None` is all of them.
        budget: What the whole session may use.
        is_detached: Whether nobody waits for its answer, which becomes an input of the parent.
        request: The request of a client that it comes of, if that had a key.
    """

    agent: str
    workspace: str
    title: str = ""
    model: str | None = None
    kind: SessionKind = SessionKind.MAIN
    parent_id: str | None = None
    parent_call_id: str = ""
    tools: tuple[str, ...] | None = None
    budget: Budget | None = None
    is_detached: bool = False
    request: RequestKey | None = None


class TurnStarted(Event, frozen=True, kw_only=True, tag="turn_started"):
    """A turn begins for these inputs with this model."""

    turn_id: str
    input_ids: tuple[str, ...]
    provider: str
    model: str


class MessageCompleted(Event, frozen=True, kw_only=True, tag="message_completed"):
    """An answer of the model is whole; or the text so far, when `incomplete`.

    `stop_reason` is one of `stream.StopReason`, or empty when incomplete. Its calls follow as
    `CallProposed`, in the same commit. `estimate` has the tokens that nobody counted, for budgets
    alone: they never stand beside counted ones in a sum.

    Example:
        async for event in turn:
            if isinstance(event, callboard.MessageCompleted):
                print(event.model, event.stop_reason, event.usage)
    """

    turn_id: str
    message_id: str
    parts: tuple[Part, ...]
    provider: str
    model: str
    dialect: str = ""
    stop_reason: str = ""
    usage: Usage | None = None
    duration_ms: StoredInteger = 0
    incomplete: bool = False
    estimate: Usage | None = None


class AttemptFailed(Event, frozen=True, kw_only=True, tag="attempt_failed"):
    """A model call failed and is made again; nothing of its answer counts, and no tool ran for it.

    Attributes:
        attempt: Which attempt for this answer it was, from 1.
        error_type: One of the types of `runtime.errors`.
        message: What happened, for a person.
        wait_seconds: How long is waited before the next attempt.
        usage: What it took all the same, as far as the provider told.
        estimate: What nobody counted of it, for budgets.

    Example:
        async for event in turn:
            if isinstance(event, callboard.AttemptFailed):
                print(event.message, f"again in {event.wait_seconds:.0f} s")
    """

    turn_id: str
    provider: str
    model: str
    attempt: StoredInteger
    error_type: str
    message: str
    wait_seconds: float
    usage: Usage | None = None
    estimate: Usage | None = None


class AttemptCharged(Event, frozen=True, kw_only=True, tag="attempt_charged"):
    """A model call that left nothing else on record took tokens: it failed, or was broken off.

    `usage` is what the provider told, `estimate` what nobody counted.
    """

    turn_id: str
    provider: str
    model: str
    usage: Usage | None = None
    estimate: Usage | None = None


class SessionBudgetSet(Event, frozen=True, kw_only=True, tag="session_budget_set"):
    """From its next turn on, the whole session may use so much; `None` lifts its own limit."""

    budget: Budget | None = None


class ModelSwitched(Event, frozen=True, kw_only=True, tag="model_switched"):
    """The turn goes on with the agent's next model, since the one before it failed.

    Example:
        async for event in turn:
            if isinstance(event, callboard.ModelSwitched):
                print("now", event.provider, event.model, "because:", event.reason)
    """

    turn_id: str
    provider: str
    model: str
    reason: str


class ProviderSetAside(Event, frozen=True, kw_only=True, tag="provider_set_aside"):
    """A provider keeps failing: turns that have another model leave it alone for some seconds.

    Example:
        async for event in turn:
            if isinstance(event, callboard.ProviderSetAside):
                print(event.provider, f"is left alone for {event.seconds:.0f} s")
    """

    turn_id: str
    provider: str
    seconds: float
    reason: str


class HistoryCompacted(Event, frozen=True, kw_only=True, tag="history_compacted"):
    """The history was too long for the model: a summary stands for its oldest rounds from here on.

    `rounds` counts the finished rounds that it replaces, from the first on; the journal keeps them.
    `usage` is what the summary cost, and `provider` and `model` are who wrote it.

    Example:
        async for event in turn:
            if isinstance(event, callboard.HistoryCompacted):
                print(event.rounds, "rounds are now:", event.summary)
    """

    turn_id: str
    rounds: StoredInteger
    summary: str
    provider: str
    model: str
    usage: Usage | None = None
    estimate: Usage | None = None


class TurnEnded(Event, frozen=True, kw_only=True, tag="turn_ended"):
    """A turn is over, and every task and process of it is gone but for `unreaped`.

    Attributes:
        outcome: `answered`, `cancelled`, `failed`, `refused`, `max_tokens`, `budget`,
            `loop_guard` or `suspended`.
        error_type: One of the types of `runtime.errors`, when it failed.
        message: What happened and what to do, when it was not answered.
        unreaped: What was still there when the bound of the clean-up ended, by name, and threads
            of plain functions, which nothing can stop.

    Example:
        async for event in turn:
            if isinstance(event, callboard.TurnEnded):
                print(event.outcome, event.message)
    """

    turn_id: str
    outcome: TurnOutcome
    error_type: str = ""
    message: str = ""
    unreaped: tuple[str, ...] = ()
    duration_ms: StoredInteger = 0


class TurnSuspended(Event, frozen=True, kw_only=True, tag="turn_suspended"):
    """The process, or the runtime, ended while calls of the turn had questions.

    The turn goes on when it is resumed.

    `call_ids` are the calls that have no result yet.
    """

    turn_id: str
    call_ids: tuple[str, ...]


class TurnResumed(Event, frozen=True, kw_only=True, tag="turn_resumed"):
    """A suspended turn goes on: its open calls first, then the model.

    `approval_ids` are the questions that still wait, and are asked again.

    Example:
        turn = await session.resume()
        if turn is not None:
            async with turn:
                print(await turn.answer())
    """

    turn_id: str
    approval_ids: tuple[str, ...] = ()


class AgentSwitched(Event, frozen=True, kw_only=True, tag="agent_switched"):
    """From here on, another agent's configuration holds."""

    agent: str


class TitleSet(Event, frozen=True, kw_only=True, tag="title_set"):
    """The session has another title; one that a person gave is never replaced by one of a model."""

    title: str
    is_by_model: bool = False


class SessionDeleted(Event, frozen=True, kw_only=True, tag="session_deleted"):
    """The session is hidden from lists; it can be restored."""


class SessionRestored(Event, frozen=True, kw_only=True, tag="session_restored"):
    """The session is back in lists."""


class SessionPurged(Event, frozen=True, kw_only=True, tag="session_purged"):
    """Nothing of the session is on record any more; the last thing that its topic tells of it."""


DurableEvent = (
    SessionCreated
    | InputAccepted
    | InputDelivered
    | InputCancelled
    | TurnStarted
    | MessageCompleted
    | AttemptFailed
    | AttemptCharged
    | SessionBudgetSet
    | ModelSwitched
    | ProviderSetAside
    | HistoryCompacted
    | CallProposed
    | CallDeferred
    | ToolGivenUp
    | ChildAsks
    | QuestionAsked
    | QuestionAnswered
    | MessageSent
    | PlanSet
    | ChangesUndone
    | MemoryStored
    | MemoryForgotten
    | ApprovalAsked
    | ApprovalAnswered
    | GrantGiven
    | GrantRevoked
    | SessionTainted
    | FilesMarked
    | PrivateDataRead
    | CallStarted
    | CallFinished
    | TurnSuspended
    | TurnResumed
    | TurnEnded
    | TurnSetAside
    | AgentSwitched
    | TitleSet
    | SessionDeleted
    | SessionRestored
    | SessionPurged
)


class Stored(msgspec.Struct, frozen=True, gc=False):
    """A durable event as the journal keeps it.

    `seq` counts from 1 without a gap within its session; `at_ms` is Unix milliseconds.
    """

    session_id: str
    seq: StoredInteger
    at_ms: StoredInteger
    event: DurableEvent


class StreamBatch(msgspec.Struct, frozen=True, tag_field="type", tag="stream_batch"):
    """Everything that one network read brought of an answer; live only.

    `stream_id` is of this attempt of the model call alone. `offset` is where its text begins, in
    UTF-8 bytes of the answer's text so far.
    """

    stream_id: str
    offset: int
    events: list[AnyStreamEvent]


class CallProgress(msgspec.Struct, frozen=True, tag_field="type", tag="call_progress"):
    """Output of a running call, as it comes; live only.

    Example:
        async for event in turn:
            if isinstance(event, callboard.CallProgress):
                print(event.call_id, event.text)
    """

    call_id: str
    text: str


class MessageDiscarded(msgspec.Struct, frozen=True, tag_field="type", tag="message_discarded"):
    """The text of this attempt is withdrawn, as its model call broke; live only.

    Example:
        shown: list[str] = []
        async for event in turn:
            match event:
                case callboard.TextDelta(text=text):
                    shown.append(text)
                case callboard.MessageDiscarded(reason=reason):
                    print("withdrawn:", "".join(shown), reason)
    """

    stream_id: str
    reason: str


LiveEvent = StreamBatch | CallProgress | MessageDiscarded


def error_of_turn(ended: TurnEnded) -> CallboardError:
    """Return the error for a turn that was not answered."""
    text = ended.message or f"the turn ended: {ended.outcome}"
    kind = BudgetError.type if ended.outcome == "budget" else "conflict"
    return error_of(ended.error_type or kind, text)
