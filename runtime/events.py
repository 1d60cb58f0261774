"""The events of a session.

Durable events are stored in the journal with a gap-free `seq` for each session. They are the only truth:
the state of a session is computed from them. Live events (`StreamBatch`, `CallProgress`, `ChildCall`,
`MessageDiscarded`) are published to subscribers and not stored. Tags are written out and never change;
fields are only added.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from .budget import Budget
from .definitions import CallStatus, Preset, SessionKind
from .errors import BudgetError, CallboardError, error_of
from .event_types.calls import CallDeferred as CallDeferred
from .event_types.calls import CallFinished as CallFinished
from .event_types.calls import CallProposed as CallProposed
from .event_types.calls import CallStarted as CallStarted
from .event_types.calls import ToolGivenUp as ToolGivenUp
from .event_types.durable import Event as Event
from .event_types.inputs import HistoryGiven as HistoryGiven
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
from .event_types.turns import AnswerRejected as AnswerRejected
from .event_types.turns import MessagesDeleted as MessagesDeleted
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
        tools: Which of its agent's tools it has; `None` is all of them.
        budget: The budget of the whole session.
        is_detached: Whether no call waits for its answer, which becomes an input of the parent.
        request: The client's request that created it, if that had an idempotency key.
        forked_from: The session from whose history it begins, with copies of its events; empty for none.
        forked_at: The message up to which that was copied; empty for all.
        via: The protocol over which it was begun, where that was not callboard's own, like `openai`.
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
    forked_from: str = ""
    forked_at: str = ""
    via: str = ""


class TurnStarted(Event, frozen=True, kw_only=True, tag="turn_started"):
    """A turn begins for these inputs with this model, under this preset (unknown in older records).

    `gone` are background processes of the session that ended with the process of callboard that ran
    them; the model is told with the first input.
    """

    turn_id: str
    input_ids: tuple[str, ...]
    provider: str
    model: str
    policy: Preset | None = None
    gone: tuple[str, ...] = ()


class MessageCompleted(Event, frozen=True, kw_only=True, tag="message_completed"):
    """An answer of the model is complete; with `incomplete`, this is the text before it broke off.

    `stop_reason` is one of `stream.StopReason`, or empty when incomplete. Its calls follow as
    `CallProposed`, in the same commit. `estimate` has the tokens that the
    provider did not count; it is for budgets and never added to counted tokens. The tokens of a copy in a
    forked session are counted where they were used. `first_ms` is the time from the request to the first
    of its answer.

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
    is_copy: bool = False
    first_ms: StoredInteger = 0


class AttemptFailed(Event, frozen=True, kw_only=True, tag="attempt_failed"):
    """A model call failed and is retried; its answer is discarded, and none of its tools ran.

    Attributes:
        attempt: The number of the attempt for this answer, from 1.
        error_type: One of the types of `runtime.errors`.
        message: What happened, for a person.
        wait_seconds: The time before the next attempt.
        usage: The tokens that it used, as far as the provider reported them.
        estimate: The tokens that were not reported, for budgets.

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
    """A model call used tokens but has no other event: it failed, or was broken off, or a tool's server asked for it.

    `usage` is what the provider reported, `estimate` what it did not. An answer that a server asked for has the
    `call_id` of the call that it asked in, its text (`answer`) and how long it took.
    """

    turn_id: str
    provider: str
    model: str
    usage: Usage | None = None
    estimate: Usage | None = None
    call_id: str = ""
    answer: str = ""
    duration_ms: StoredInteger = 0


class SessionBudgetSet(Event, frozen=True, kw_only=True, tag="session_budget_set"):
    """The session has another budget from its next turn on; `None` removes its own limit."""

    budget: Budget | None = None


class ModelSwitched(Event, frozen=True, kw_only=True, tag="model_switched"):
    """The turn continues with the agent's next model, because the previous one failed.

    `error_type` is how it failed, one of the types of `runtime.errors`; empty when it was not asked.

    Example:
        async for event in turn:
            if isinstance(event, callboard.ModelSwitched):
                print("now", event.provider, event.model, "because:", event.reason)
    """

    turn_id: str
    provider: str
    model: str
    reason: str
    error_type: str = ""


class ProviderSetAside(Event, frozen=True, kw_only=True, tag="provider_set_aside"):
    """A provider keeps failing: turns that have another model avoid it for some seconds.

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
    """The history was too long for the model: a summary replaces its oldest rounds from here on.

    `rounds` is the number of finished rounds that it replaces, from the first on; the journal keeps them.
    `provider` and `model` wrote the summary, using `usage`. Where they could not, `why_left_out` says why,
    and `summary` tells the model that the rounds are left out. It may also be made because somebody asked for it (`is_wanted`).

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
    why_left_out: str = ""
    is_copy: bool = False
    is_wanted: bool = False


class TurnEnded(Event, frozen=True, kw_only=True, tag="turn_ended"):
    """A turn has ended, and all its tasks and processes are gone, except for `unreaped`.

    Attributes:
        outcome: `answered`, `cancelled`, `failed`, `refused`, `max_tokens`, `budget`,
            `loop_guard` or `suspended`.
        error_type: One of the types of `runtime.errors`, if it failed.
        message: What happened and what to do, if it was not answered.
        unreaped: The names of what was still running after the time for cleaning up, and of threads of
            plain functions, which can't be stopped.
        answer: The answer as canonical JSON, if a form was given for it and it has that.
        message_id: The message that has that answer, as `MessageRow` names it.

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
    answer: str = ""
    message_id: str = ""


class TurnSuspended(Event, frozen=True, kw_only=True, tag="turn_suspended"):
    """The runtime ended while calls of the turn waited for approval. The turn can be resumed.

    `call_ids` are the calls without a result.
    """

    turn_id: str
    call_ids: tuple[str, ...]


class TurnResumed(Event, frozen=True, kw_only=True, tag="turn_resumed"):
    """A suspended turn continues, with its open calls first.

    `approval_ids` are the questions that still wait, also those of `ask_user`; they are asked again.
    `gone` is as in `TurnStarted`; the model is told behind the results of the open calls.

    Example:
        turn = await session.resume()
        if turn is not None:
            async with turn:
                print(await turn.answer())
    """

    turn_id: str
    approval_ids: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()


class AgentSwitched(Event, frozen=True, kw_only=True, tag="agent_switched"):
    """The session uses another agent's configuration from here on.

    `reason` says why, when nobody chose it for this session: its agent is gone.
    """

    agent: str
    reason: str = ""


class TitleSet(Event, frozen=True, kw_only=True, tag="title_set"):
    """The session has a new title. A model's title never replaces a person's."""

    title: str
    is_by_model: bool = False


class SessionDeleted(Event, frozen=True, kw_only=True, tag="session_deleted"):
    """The session is hidden from lists and can be restored."""


class SessionRestored(Event, frozen=True, kw_only=True, tag="session_restored"):
    """The session is back in lists."""


class SessionPurged(Event, frozen=True, kw_only=True, tag="session_purged"):
    """All records of the session were removed. This is its last event in its topic."""


DurableEvent = (
    SessionCreated
    | HistoryGiven
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
    | AnswerRejected
    | AgentSwitched
    | TitleSet
    | MessagesDeleted
    | SessionDeleted
    | SessionRestored
    | SessionPurged
)


class Stored(msgspec.Struct, frozen=True, gc=False):
    """A durable event as it is stored.

    `seq` counts from 1 without a gap within its session; `at_ms` is Unix milliseconds.
    """

    session_id: str
    seq: StoredInteger
    at_ms: StoredInteger
    event: DurableEvent


class StreamBatch(msgspec.Struct, frozen=True, tag_field="type", tag="stream_batch"):
    """All that one network read brought of an answer. Live only.

    `stream_id` identifies this attempt of the model call. `offset` is where its text begins in the
    answer's text, in UTF-8 bytes.
    """

    stream_id: str
    offset: int
    events: list[AnyStreamEvent]


class CallProgress(msgspec.Struct, frozen=True, tag_field="type", tag="call_progress"):
    """A line of output of a running call, or several lines; without the last line's end. Live only.

    Example:
        async for event in turn:
            if isinstance(event, callboard.CallProgress):
                print(event.call_id, event.text)
    """

    call_id: str
    text: str


class ChildCall(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="child_call"):
    """What happens to a call of a session below this one, for which a call of `delegate` waits. Live only.

    Attributes:
        call_id: The call of this session, of `delegate`, that waits.
        session_id: The session that makes the call, on whose record it is; `depth` is 1 for a child, 2 for a child's child.
        task: The beginning of what that session was told to do, on one line.
        child_call_id: The call, which calls the tool `name`.
        subject: What it is about, on one line: a command, a path; it may be nothing.
        is_program: Whether it runs a command or a program text.
        state: What has happened. A call that only reads need not be `started`.
        status: Its final status, once it is `finished`; `None` also where that was not heard.
        duration_ms: How long it ran, once it is `finished`.

    Example:
        async for event in turn:
            if isinstance(event, callboard.ChildCall) and event.state == "finished":
                print(event.task, event.name, event.subject, event.status)
    """

    call_id: str
    session_id: str
    child_call_id: str
    name: str
    state: Literal["proposed", "asks", "started", "finished"]
    depth: int = 1
    task: str = ""
    subject: str = ""
    is_program: bool = False
    status: CallStatus | None = None
    duration_ms: int = 0


class MessageDiscarded(msgspec.Struct, frozen=True, tag_field="type", tag="message_discarded"):
    """The text of this attempt is withdrawn, because its model call failed. Live only.

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


LiveEvent = StreamBatch | CallProgress | ChildCall | MessageDiscarded


def error_of_turn(ended: TurnEnded) -> CallboardError:
    """Return the error for a turn that was not answered."""
    text = ended.message or f"the turn ended: {ended.outcome}"
    kind = BudgetError.type if ended.outcome == "budget" else "conflict"
    return error_of(ended.error_type or kind, text)
