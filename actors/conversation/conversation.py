"""A session's state: the fold of its durable events, the same live and on load. No I/O.

`fold` is the only thing that changes a conversation, and it is handed every event in order: on load
from the store, live from the session's inbox. So what a session knows never depends on whether the
process was restarted in between. An event that is new to the code must be folded or listed in
`Ignored`; the type checkers see to it.

The history is a list of finished rounds and the tail of the open one. A round is finished when an
answer asks for no tool, or when all of its calls have results; then it never changes, and keeps its
encoded forms. A summary takes the place of the oldest rounds; running a turn again takes the last
turn out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from ...config.policy.match import CallArguments
from ...config.policy.new_hosts import says_where
from ...runtime.definitions import InputMode, InputSource, Preset, SessionKind
from ...runtime.errors import ContextOverflow, StorageError
from ...runtime.event_types.plan import PlanItem, plan_lines
from ...runtime.events import (
    AgentSwitched,
    AnswerRejected,
    ApprovalAnswered,
    ApprovalAsked,
    AttemptCharged,
    AttemptFailed,
    CallDeferred,
    CallFinished,
    CallProposed,
    CallStarted,
    ChangesUndone,
    ChildAsks,
    DurableEvent,
    FilesMarked,
    GrantGiven,
    GrantRevoked,
    HistoryCompacted,
    HistoryGiven,
    InputAccepted,
    InputCancelled,
    InputDelivered,
    MemoryForgotten,
    MemoryStored,
    MessageCompleted,
    MessagesDeleted,
    MessageSent,
    ModelSwitched,
    PlanSet,
    PrivateDataRead,
    ProviderSetAside,
    QuestionAnswered,
    QuestionAsked,
    SessionBudgetSet,
    SessionCreated,
    SessionDeleted,
    SessionPurged,
    SessionRestored,
    SessionTainted,
    Stored,
    TitleSet,
    ToolGivenUp,
    TurnEnded,
    TurnOutcome,
    TurnResumed,
    TurnSetAside,
    TurnStarted,
    TurnSuspended,
)
from ...runtime.history import (
    Answer,
    Input,
    Item,
    Result,
    Round,
    call_ids_of,
    is_error,
    repair_history,
    rounds_of,
)
from ...runtime.taint.marks import UNMARKED, SessionMarks, connected, joined, mark_of
from ..budget.budgets import SessionBudgets
from ..model.compaction import held_inputs
from .inputs import PendingCalls, SessionOptions, queued

GONE = (
    "callboard was restarted since: these background processes of this session are gone, with what they had "
    "in memory. Start again what is still needed. (A note of callboard; no person wrote it.) {named}"
)
"""What the model reads of background processes that ended with callboard's own."""


NOT_TAKEN = (
    "Your answer was not taken: {problem}. Answer again, whole and in the form that was asked for. (A note of "
    "callboard; no person wrote it.)"
)
"""What the model reads of a text that does not have the form of the answer."""


class TurnBeginning:
    """What is needed to take the last turn out of the history again.

    Attributes:
        turn_id: The turn; empty before the first.
        outcome: How it ended; empty while it runs.
        messages: The ids of its answers.
    """

    def __init__(self) -> None:
        self.turn_id = ""
        self.outcome: TurnOutcome | Literal[""] = ""
        self.messages: set[str] = set()
        self._count = 0
        self._tail: tuple[Item, ...] = ()
        self._replaced: tuple[Round, ...] | None = None
        self._asked: tuple[Input, ...] = ()

    def begin(self, turn_id: str, rounds: Sequence[Round], tail: Sequence[Item]) -> None:
        """Note that a turn begins after this history."""
        self.turn_id, self.outcome = turn_id, ""
        self.messages = set()
        self._count, self._tail, self._replaced, self._asked = len(rounds), tuple(tail), None, ()

    def compact(self, rounds: Sequence[Round]) -> None:
        """Keep the rounds, some of which a summary is about to replace."""
        if self._replaced is None:
            self._replaced = tuple(rounds[: self._count])

    def end(self, event: TurnEnded, asked: tuple[Input, ...]) -> None:
        """Note how the turn ended, and its inputs as the model read them.

        Raises:
            ValueError: It is not the open turn.
        """
        if event.turn_id != self.turn_id or self.outcome:
            raise ValueError(f"{event.turn_id} ends, and is not the turn that is open")
        self.outcome, self._asked = event.outcome, asked

    def inputs(self, event: TurnSetAside) -> dict[str, Input]:
        """Return the inputs of the turn, by id, so that they can wait again.

        Raises:
            ValueError: It is not the last turn, it has not ended, or it had other inputs.
        """
        if event.turn_id != self.turn_id or not self.outcome:
            raise ValueError(f"{event.turn_id} is not the last turn, or has no end")
        return dict(zip(event.input_ids, self._asked, strict=True))

    def history(self, rounds: Sequence[Round]) -> tuple[list[Round], list[Item]]:
        """Return the finished rounds before the turn, and the items of the open one."""
        before = rounds[: self._count] if self._replaced is None else self._replaced
        return list(before), list(self._tail)


Ignored = (
    ApprovalAsked
    | ApprovalAnswered
    | AttemptCharged
    | AttemptFailed
    | ChangesUndone
    | ChildAsks
    | FilesMarked
    | GrantGiven
    | GrantRevoked
    | MemoryForgotten
    | MemoryStored
    | MessageSent
    | ModelSwitched
    | ProviderSetAside
    | QuestionAnswered
    | QuestionAsked
    | SessionPurged
    | TitleSet
    | ToolGivenUp
    | TurnSuspended
)
"""Events that change nothing in a conversation; a new event must be folded, or stand here."""

SUMMARY_HEADING = "What was said and done before, in short:"
"""Tells the model what it reads in place of its oldest rounds."""

PLAN_HEADING = "Your plan, as you set it:"
"""Goes with the summary, which may have replaced the result that the plan stood in."""


class Conversation:
    """What a session knows; only `fold` changes it.

    Attributes:
        agent, model, workspace, kind: As the session was created, or switched since.
        parent_id: The session that delegated to it, if one did.
        tools: Those of its agent's tools that it has; `None` is all of them.
        is_detached: Whether the session that delegated to it does not wait for its answer.
        task: The delegated task, in short.
        head_seq: The `seq` of the last event folded; 0 for an unknown session.
        turn_id: The turn that has not ended, or `None`; `turn_inputs` are the latest turn's.
        turn_policy: The preset under which the latest turn began.
        asked: The inputs of the turn that has not ended; a summary never replaces them.
        marks: What it has read.
        plan: The model's plan.
        message_id: The latest answer's.
        open_calls: Its calls without a result, in their order; `started_calls` are those whose
            effect had begun.
        budgets: What the session and its latest turn may use; `options` are those of its turns.
        waiting_inputs: Accepted inputs whose turn has not started, in their order;
            `waiting_modes` says what they are to a running turn.
        is_deleted: Whether it is hidden, and takes no inputs.
        is_interrupted: Whether an input interrupts the turn that has not ended.
        was_too_long: Whether the last turn that ended failed because the history is too long.
        last_turn: Where the latest turn began, and how it ended.
        rejected_answers: How many answers of the latest turn did not have the form given for them.
        attempts_left: How often the latest turn may still call each tool wrongly, for tools that
            it did.
        pending: Calls that wait for a person without holding a turn up.
        call_ids: Every call id ever used, since the next must differ.
        background: Background processes by id that were started, with the line for people about each.
        deleted: The ids of its deleted messages.
        is_stale: Whether it still has what some of these said: then it must be folded again.
    """

    __slots__ = (
        "_attempts_before", "_behind", "_proposed_unexposed", "_requests", "_results", "_rounds", "_tail",
        "agent", "asked", "attempts_left", "background", "budgets", "call_ids", "deleted", "head_seq",
        "is_deleted", "is_detached", "is_interrupted", "is_stale", "kind", "last_turn", "marks",
        "message_id", "model", "open_calls", "options", "parent_id", "pending", "plan", "rejected_answers",
        "started_calls", "task", "tools", "turn_id", "turn_inputs", "turn_policy", "waiting_inputs",
        "waiting_modes", "was_too_long", "workspace",
    )  # fmt: skip

    def __init__(self) -> None:
        self.agent = ""
        self.model: str | None = None
        self.workspace = ""
        self.kind = SessionKind.MAIN
        self.parent_id: str | None = None
        self.tools: tuple[str, ...] | None = None
        self.is_detached = False
        self.task = ""
        self.head_seq = 0
        self.turn_id: str | None = None
        self.turn_inputs: tuple[str, ...] = ()
        self.turn_policy: Preset | None = None
        self.marks = UNMARKED
        self.plan: tuple[PlanItem, ...] = ()
        self.message_id = ""
        self.open_calls: dict[str, CallProposed] = {}
        self.started_calls: set[str] = set()
        self.waiting_inputs: dict[str, Input] = {}
        self.waiting_modes: dict[str, InputMode] = {}
        self.is_interrupted = False
        self.is_deleted = False
        self.pending = PendingCalls()
        self.call_ids: dict[str, None] = {}  # garbage collectors look through each set
        self.background: dict[str, str] = {}
        self.deleted: set[str] = set()
        self.is_stale = False
        self.was_too_long = False
        self.asked: tuple[Input, ...] = ()
        self.last_turn = TurnBeginning()
        self.attempts_left: dict[str, int] = {}
        self.rejected_answers = 0
        self.budgets = SessionBudgets()
        self.options = SessionOptions()
        self._requests: set[str] = set()  # the others bring results
        self._attempts_before: Mapping[str, int] = {}
        self._proposed_unexposed: frozenset[str] = frozenset()
        self._rounds: list[Round] = []
        self._tail: list[Item] = []
        self._behind: list[Item] = []
        self._results: dict[str, Result] = {}

    @property
    def rounds(self) -> list[Round]:
        """The history as a provider gets it: finished rounds, then the open one."""
        return [*self._rounds, Round(self._tail)] if self._tail else list(self._rounds)

    @property
    def finished_rounds(self) -> int:
        """How many of the rounds are finished, those of the running turn included."""
        return len(self._rounds)

    def has_open_turn(self, input_id: str | None) -> bool:
        """Return whether a turn, that of this input if one is given, has no end."""
        return self.turn_id is not None and input_id in {None, *self.turn_inputs}

    def result(self, call_id: str) -> Result | None:
        """Return the result of a call of the latest answer; `None` once a new answer has begun."""
        return self._results.get(call_id)

    def attempts_for(self, *, resumes: bool) -> Mapping[str, int]:
        """Return the attempts left to the next calls.

        Calls that a resumed turn goes on with are judged by what was left before their answer.
        """
        return self._attempts_before if resumes else dict(self.attempts_left)

    def fold_all(self, events: Iterable[Stored]) -> None:
        """Fold a whole journal, without what was deleted of it."""
        events = [*events]
        if any(type(each.event) is MessagesDeleted for each in events):
            from ...runtime.store.tables.deleted_messages import without_deleted  # rare

            events = without_deleted(events)
        for stored in events:
            self.fold(stored)
        self.is_stale = False

    def fold_ahead(self, events: Sequence[DurableEvent]) -> bool:
        """Take events into account that are to follow on the record; return `False` if they may not.

        Unless they do, this conversation must be thrown away.
        """
        for event in events:
            if isinstance(event, CallFinished) and event.call_id not in self.open_calls:
                return False
        for event in events:
            self.fold(Stored("", self.head_seq, 0, event))
        return True

    def fold(self, stored: Stored) -> None:
        """Take the next event of the record into account."""
        self.head_seq, event = stored.seq, stored.event
        match event:
            case CallFinished():
                self._fold_result(event)
            case CallProposed():
                self.open_calls[event.call_id] = event
                self.call_ids[event.call_id] = None
            case CallStarted():
                self.started_calls.add(event.call_id)
            case CallDeferred():
                self._fold_deferred(event)
            case PrivateDataRead() | SessionTainted():
                self._fold_mark(event)
            case HistoryCompacted():
                self._fold_summary(event)
            case MessageCompleted():
                self._fold_message(event)
            case InputAccepted() | InputDelivered() | InputCancelled():
                self._fold_input(event)
            case TurnStarted():
                self._fold_turn(event)
            case TurnSetAside():
                self._fold_set_aside(event)
            case TurnEnded():
                self._fold_end(event)
            case _:
                self._fold_setting(event)

    def _fold_input(self, event: InputAccepted | InputDelivered | InputCancelled) -> None:
        input_id = event.input_id
        self.options.fold(event)
        match event:
            case InputAccepted():
                self.budgets.fold(event)
                text = self.pending.accept(event)
                self.waiting_inputs[input_id] = Input(text, event.attachments)
                self.waiting_modes[input_id] = event.mode
                if event.source is InputSource.PERSON:
                    self._requests.add(input_id)
                if event.mode is InputMode.INTERRUPT and self.turn_id is not None:
                    self.is_interrupted = True
            case InputDelivered():
                self.turn_inputs += (input_id,)
                self._ask(input_id)
            case InputCancelled():
                # It may be unknown: an input that only repeated a known one was not stored.
                self.waiting_inputs.pop(input_id, None)
                self.waiting_modes.pop(input_id, None)
                self.pending.forget((input_id,))

    def _fold_setting(
        self,
        event: SessionBudgetSet
        | SessionCreated
        | SessionDeleted
        | SessionRestored
        | AgentSwitched
        | MessagesDeleted
        | AnswerRejected
        | HistoryGiven
        | PlanSet
        | TurnResumed
        | Ignored,
    ) -> None:
        match event:
            case AnswerRejected():
                self.rejected_answers += 1
                if not event.call_id:
                    self._tail.append(Input(NOT_TAKEN.format(problem=event.problem)))
            case SessionBudgetSet():
                self.budgets.fold(event)
            case SessionDeleted() | SessionRestored():
                self.is_deleted = isinstance(event, SessionDeleted)
            case AgentSwitched():
                self.agent = event.agent
            case HistoryGiven():
                given = rounds_of(event.messages)
                self._rounds += given
                self.call_ids.update(dict.fromkeys(call_ids_of(given)))
            case PlanSet():
                self.plan = event.items
            case TurnResumed():  # nothing stands between its calls and their results
                self._behind += self._told_gone(event.gone)
            case MessagesDeleted():
                self.deleted.update(event.message_ids)
                self.is_stale = True
            case SessionCreated():
                self.budgets.fold(event)
                self.agent, self.model = event.agent, event.model
                self.workspace, self.kind = event.workspace, event.kind
                self.parent_id, self.tools = event.parent_id, event.tools
                self.is_detached = event.is_detached
                self.task = event.title if event.parent_id else ""
            case _:  # the parameter's type makes checkers prove that only ignored events come here
                pass

    def _fold_turn(self, event: TurnStarted) -> None:
        self.budgets.fold(event)
        self.options.fold(event)
        self._tail += self._told_gone(event.gone)
        self.last_turn.begin(event.turn_id, self._rounds, self._tail)
        self.turn_id, self.turn_inputs = event.turn_id, event.input_ids
        self.turn_policy = event.policy
        self.attempts_left, self._attempts_before, self.rejected_answers = {}, {}, 0
        self.is_interrupted, self.asked = False, ()
        for input_id in event.input_ids:
            self._ask(input_id)
        self.open_calls.update(self.pending.due(event.input_ids))

    def _told_gone(self, gone: Sequence[str]) -> list[Item]:
        named = "; ".join([self.background.pop(each, each) for each in gone])
        return [Input(GONE.format(named=named))] if gone else []

    def _fold_set_aside(self, event: TurnSetAside) -> None:
        """Make the history what it was before the turn, whose inputs wait once more.

        What the turn did stays done: what the session has read, its plan, its files.
        """
        again = self.last_turn.inputs(event)
        self.budgets.fold(event)
        self.options.fold(event)
        self._rounds, self._tail = self.last_turn.history(self._rounds)
        self._results.clear()
        self.waiting_inputs.update(again)
        self.waiting_modes.update(dict.fromkeys(again, InputMode.QUEUE))

    def _ask(self, input_id: str) -> None:
        """Make an input that waited part of the turn."""
        asked = self.waiting_inputs.pop(input_id)
        self.waiting_modes.pop(input_id, None)
        self.asked += (asked,)
        self._tail.append(asked)

    def _fold_summary(self, event: HistoryCompacted) -> None:
        """Put a summary in place of the oldest rounds.

        It joins the round that follows: no round is an input alone. The inputs of the running turn
        stay as they were, with their attachments.
        """
        said = [SUMMARY_HEADING, event.summary]
        if self.plan:  # the result that it stood in may be among what goes
            said += [PLAN_HEADING, "\n".join(plan_lines(self.plan))]
        summary = Input("\n\n".join(said))
        first = [summary, *held_inputs(self._rounds[: event.rounds], self.asked)]
        self.last_turn.compact(self._rounds)
        del self._rounds[: event.rounds]
        if self._rounds:
            self._rounds[0] = Round([*first, *self._rounds[0].items])
        else:
            self._tail[:0] = first

    def _fold_message(self, event: MessageCompleted) -> None:
        self._attempts_before = dict(self.attempts_left)
        self._results.clear()
        self.started_calls.clear()
        self.message_id = event.message_id
        self.last_turn.messages.add(event.message_id)
        dialect, _, place = event.dialect.partition("@")
        answer = Answer(
            event.parts,
            dialect=dialect,
            model=event.model,
            provider=f"{event.provider}@{place}" if place else event.provider,
            incomplete=event.incomplete,
        )
        self._tail.append(answer)
        if not answer.has_calls:
            self._finish_round()

    def _fold_mark(self, event: PrivateDataRead | SessionTainted) -> None:
        """Mark the session; `runtime/taint/marks.py` says what an exposed one knows."""
        was_exposed = self.marks.is_exposed
        self.marks = joined(self.marks, mark_of(event))
        if self.marks.is_exposed and not was_exposed:
            # The marking call is among them: its mark is stored ahead of its result.
            self._proposed_unexposed = frozenset({*self.open_calls, *self.pending.calls})

    def _fold_result(self, event: CallFinished) -> None:
        if event.hosts and event.call_id not in self._proposed_unexposed:
            self.marks = connected(self.marks, _learned_hosts(self.marks, event))
        self.open_calls.pop(event.call_id, None)
        if self.pending.calls.pop(event.call_id, None) is not None:
            self._fold_late(event)
            return
        for artifact in event.artifacts:
            if artifact.kind == "process":
                self.background[artifact.id] = event.display
            elif artifact.kind == "process_ended":
                self.background.pop(artifact.id, None)
        if event.attempts_left is not None:
            self.attempts_left[event.name] = event.attempts_left
        self._results[event.call_id] = Result(
            event.call_id,
            event.name,
            event.result,
            is_error=is_error(event.status),
            attachments=event.attachments,
        )
        if not self.open_calls:
            self._finish_round()

    def _fold_deferred(self, event: CallDeferred) -> None:
        """Note that a call is pending; for the model, that is its result."""
        self.options.fold(event)
        call = self.open_calls.pop(event.call_id)
        is_again = event.call_id in self.pending.calls
        if is_again:
            self._fold_late(event)
        self.pending.defer(call, event)
        if is_again:
            return
        self._results[event.call_id] = Result(event.call_id, event.name, event.result)
        if not self.open_calls:
            self._finish_round()

    def _fold_late(self, event: CallFinished | CallDeferred) -> None:
        """Make the late result the input of the running turn; the history before stays as it was."""
        if (late := self.pending.late_input(event, self.turn_inputs)) is None:
            return
        at, said = late
        asked = list(self.asked)
        self._tail = [said if item is asked[at] else item for item in self._tail]
        asked[at] = said
        self.asked = tuple(asked)

    def _finish_round(self) -> None:
        """Finish the open round; results enter in the model's order, in whichever they came."""
        if self._tail and isinstance(answer := self._tail[-1], Answer):
            self._tail += [
                self._results[call.call_id]
                for call in answer.calls
                if call.call_id in self._results
            ]
        self._rounds.append(Round(self._tail))
        self._tail, self._behind = self._behind, []

    def _fold_end(self, event: TurnEnded) -> None:
        """End the turn; a bad end may leave an answer without all of its results."""
        self.last_turn.end(event, self.asked)
        self.was_too_long = event.error_type == ContextOverflow.type
        self.pending.forget(self.turn_inputs)
        asked, self.turn_id, self.asked = self.asked, None, ()
        self.waiting_modes = queued(self.waiting_modes)
        self.open_calls.clear()
        if any(isinstance(item, Answer) for item in self._tail):
            self._rounds.append(Round(repair_history([*self._tail, *self._results.values()])))
            self._tail, self._behind = self._behind, []
        elif self._tail and self._requests.intersection(self.turn_inputs):
            from .unanswered import noted  # here: most turns are answered

            self._tail = noted(self._tail, asked, event)


def _learned_hosts(marks: SessionMarks, finished: CallFinished) -> tuple[str, ...]:
    """Return the hosts that a session learns by a call that was decided about under its marks.

    An exposed session learns none by a call that named none: whoever allowed that call was not shown
    where it connects.
    """
    if marks.is_exposed and not says_where(CallArguments(finished.arguments or "{}")):
        return ()
    return finished.hosts


CONTRADICTIONS = (KeyError, IndexError, ValueError)
"""What folding raises for an event that can't follow those before it."""


class UnreadableRecord(StorageError):
    """The record of a session contradicts itself, so it can't be loaded."""
