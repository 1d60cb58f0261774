"""A session's state: the fold of its durable events, the same live and on load."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...runtime.definitions import InputMode, SessionKind
from ...runtime.errors import StorageError
from ...runtime.event_types.plan import PlanItem, plan_lines
from ...runtime.events import (
    AgentSwitched,
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
    FilesMarked,
    GrantGiven,
    GrantRevoked,
    HistoryCompacted,
    InputAccepted,
    InputCancelled,
    InputDelivered,
    MemoryForgotten,
    MemoryStored,
    MessageCompleted,
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
    TurnResumed,
    TurnSetAside,
    TurnStarted,
    TurnSuspended,
)
from ...runtime.history import Answer, Input, Item, Result, Round, is_error, repair_history
from ...runtime.messages import UNMARKED
from ..budget.budgets import GivenBudgets
from ..calls.deferral import DeferredCalls
from ..calls.marks import connected, joined, learned, mark_of
from ..calls.retries import Retries
from ..model.compaction import held_inputs
from .input_queue import queued
from .turn_options import GivenOptions


class TurnBeginning:
    """The last turn, as far as it can be taken back out of the history.

    Attributes:
        turn_id: Which; empty before the first.
        outcome: How it ended; empty while it runs.
        messages: The ids of its answers.
    """

    def __init__(self) -> None:
        self.turn_id = ""
        self.outcome = ""
        self.messages: set[str] = set()
        self._count = 0
        self._tail: tuple[Item, ...] = ()
        self._replaced: tuple[Round, ...] | None = None
        self._asked: tuple[Input, ...] = ()

    def begin(self, turn_id: str, rounds: Sequence[Round], tail: Sequence[Item]) -> None:
        """A turn begins behind this history."""
        self.turn_id, self.outcome = turn_id, ""
        self.messages = set()
        self._count, self._tail, self._replaced, self._asked = len(rounds), tuple(tail), None, ()

    def compact(self, rounds: Sequence[Round]) -> None:
        """A summary is about to take the place of some of these rounds."""
        if self._replaced is None:
            self._replaced = tuple(rounds[: self._count])

    def end(self, event: TurnEnded, asked: tuple[Input, ...]) -> None:
        """It is over, and was asked this, as the model read it.

        Raises:
            ValueError: Another turn is, or none.
        """
        if event.turn_id != self.turn_id or self.outcome:
            raise ValueError(f"{event.turn_id} ends, and is not the turn that is open")
        self.outcome, self._asked = event.outcome, asked

    def inputs(self, event: TurnSetAside) -> dict[str, Input]:
        """What its inputs are again, by id.

        Raises:
            ValueError: It is not the last turn, or it has not ended, or had other inputs.
        """
        if event.turn_id != self.turn_id or not self.outcome:
            raise ValueError(f"{event.turn_id} is not the last turn, or has no end")
        return dict(zip(event.input_ids, self._asked, strict=True))

    def history(self, rounds: Sequence[Round]) -> tuple[list[Round], list[Item]]:
        """The finished rounds before it, and the open one."""
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
    | TurnResumed
    | TurnSuspended
)
"""What changes nothing of what a session knows; a new event must be folded, or stand here."""

SUMMARY_HEADING = "What was said and done before, in short:"
"""Says to the model what it reads in the place of its oldest rounds."""

PLAN_HEADING = "Your plan, as you set it:"
"""Stands with the summary, behind which the plan may be gone."""


class Conversation:
    """What a session knows; changed by `fold` alone.

    Attributes:
        agent, model, workspace, kind: As the session was created or switched since.
        parent_id: The session that delegated to it, if one did.
        tools: The tools that it has of its agent's; `None` is all of them.
        is_detached: Whether nobody waited for its answer when it was delegated to.
        task: What it was delegated, in short.
        head_seq: The `seq` of the last event folded; 0 for an unknown session.
        turn_id: The turn that has not ended, or `None`; `turn_inputs` are the latest turn's.
        asked: The inputs of the turn that has not ended; a summary never replaces them.
        marks: What it has read.
        plan: What its model means to do.
        message_id: The latest answer's.
        open_calls: Its calls without a result, in their order; `started_calls` are those whose
            effect had begun.
        budgets: What it was given to use; `options` are what its turns were given.
        waiting_inputs: Accepted inputs whose turn has not started, in their order;
            `waiting_modes` says what they are to a turn that runs.
        is_deleted: Whether it is hidden, and takes no inputs.
        is_interrupted: Whether an input interrupts the turn that has not ended.
        last_turn: Where the latest turn began, and how it ended.
        retries: How often the latest turn called tools wrongly.
        deferred: Calls that wait for a person without holding a turn up.
        call_ids: Every call id ever used, since the next must differ.
    """

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
        self.marks = UNMARKED
        self.plan: tuple[PlanItem, ...] = ()
        self.message_id = ""
        self.open_calls: dict[str, CallProposed] = {}
        self.started_calls: set[str] = set()
        self.waiting_inputs: dict[str, Input] = {}
        self.waiting_modes: dict[str, InputMode] = {}
        self.is_interrupted = False
        self.is_deleted = False
        self.deferred = DeferredCalls()
        self.call_ids: set[str] = set()
        self.asked: tuple[Input, ...] = ()
        self.last_turn = TurnBeginning()
        self.retries = Retries()
        self.budgets = GivenBudgets()
        self.options = GivenOptions()
        self._proposed_unexposed: frozenset[str] = frozenset()
        self._rounds: list[Round] = []
        self._tail: list[Item] = []
        self._results: dict[str, Result] = {}

    @property
    def rounds(self) -> list[Round]:
        """The history as a provider gets it: finished rounds, then the open one."""
        return [*self._rounds, Round(self._tail)] if self._tail else list(self._rounds)

    @property
    def finished_rounds(self) -> int:
        """How many of the rounds are whole; those of the running turn are among them."""
        return len(self._rounds)

    def result(self, call_id: str) -> Result | None:
        """The result of a call of the latest answer, while its round is open or just finished."""
        return self._results.get(call_id)

    def fold_all(self, events: Iterable[Stored]) -> None:
        """Folds a whole journal."""
        for stored in events:
            self.fold(stored)

    def fold(self, stored: Stored) -> None:
        """Takes the next event into account."""
        self.head_seq, event = stored.seq, stored.event
        match event:
            case CallFinished():
                self._fold_result(event)
            case CallProposed():
                self.open_calls[event.call_id] = event
                self.call_ids.add(event.call_id)
            case CallDeferred():
                self._fold_deferred(event)
            case CallStarted():
                self.started_calls.add(event.call_id)
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
            case (
                SessionBudgetSet()
                | SessionCreated()
                | SessionDeleted()
                | SessionRestored()
                | AgentSwitched()
                | PlanSet()
            ):
                self._fold_setting(event)
            case _:
                _ignored(event)

    def _fold_input(self, event: InputAccepted | InputDelivered | InputCancelled) -> None:
        input_id = event.input_id
        self.options.fold(event)
        match event:
            case InputAccepted():
                self.budgets.fold(event)
                text = self.deferred.accept(event)
                self.waiting_inputs[input_id] = Input(text, event.attachments)
                self.waiting_modes[input_id] = event.mode
                if event.mode is InputMode.INTERRUPT and self.turn_id is not None:
                    self.is_interrupted = True
            case InputDelivered():
                self.turn_inputs += (input_id,)
                self._ask(input_id)
            case InputCancelled():
                # One that brought what was there already is not on record.
                self.waiting_inputs.pop(input_id, None)
                self.waiting_modes.pop(input_id, None)
                self.deferred.forget((input_id,))

    def _fold_setting(
        self,
        event: SessionBudgetSet
        | SessionCreated
        | SessionDeleted
        | SessionRestored
        | AgentSwitched
        | PlanSet,
    ) -> None:
        match event:
            case SessionBudgetSet():
                self.budgets.fold(event)
            case SessionDeleted() | SessionRestored():
                self.is_deleted = isinstance(event, SessionDeleted)
            case AgentSwitched():
                self.agent = event.agent
            case PlanSet():
                self.plan = event.items
            case SessionCreated():
                self._fold_creation(event)

    def _fold_creation(self, event: SessionCreated) -> None:
        self.budgets.fold(event)
        self.agent, self.model = event.agent, event.model
        self.workspace, self.kind = event.workspace, event.kind
        self.parent_id, self.tools = event.parent_id, event.tools
        self.is_detached = event.is_detached
        self.task = event.title if event.parent_id else ""

    def _fold_turn(self, event: TurnStarted) -> None:
        self.budgets.fold(event)
        self.options.fold(event)
        self.last_turn.begin(event.turn_id, self._rounds, self._tail)
        self.turn_id, self.turn_inputs = event.turn_id, event.input_ids
        self.retries = Retries()
        self.is_interrupted, self.asked = False, ()
        for input_id in event.input_ids:
            self._ask(input_id)
        self.open_calls.update(self.deferred.due(event.input_ids))

    def _fold_set_aside(self, event: TurnSetAside) -> None:
        """The history is what it was before the turn, whose inputs wait once more.

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
        """An input that waited is part of the turn from here on."""
        asked = self.waiting_inputs.pop(input_id)
        self.waiting_modes.pop(input_id, None)
        self.asked += (asked,)
        self._tail.append(asked)

    def _fold_summary(self, event: HistoryCompacted) -> None:
        """The summary joins what it comes before: no round is an input alone.

        What the running turn was asked stays behind it as it was, with its attachments.
        """
        said = [SUMMARY_HEADING, event.summary]
        if self.plan:  # it stood in a result, which may be among what goes
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
        self.retries.begin_answer()
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
        if not answer.calls:
            self._finish_round()

    def _fold_mark(self, event: PrivateDataRead | SessionTainted) -> None:
        """From here on what is known is what an exposed session was let do, not what led to it."""
        was_exposed = self.marks.is_exposed
        self.marks = joined(self.marks, mark_of(event))
        if self.marks.is_exposed and not was_exposed:
            # The call that it is about is one of them: its mark stands ahead of its result.
            self._proposed_unexposed = frozenset({*self.open_calls, *self.deferred.calls})

    def _fold_result(self, event: CallFinished) -> None:
        if event.hosts and event.call_id not in self._proposed_unexposed:
            self.marks = connected(self.marks, learned(self.marks, event))
        self.open_calls.pop(event.call_id, None)
        if self.deferred.calls.pop(event.call_id, None) is not None:
            self._fold_late(event)
            return
        self.retries.count(event)
        self._results[event.call_id] = Result(
            event.call_id, event.name, event.result, is_error=is_error(event.status)
        )
        if not self.open_calls:
            self._finish_round()

    def _fold_deferred(self, event: CallDeferred) -> None:
        """A call is pending: for the model, that is its result."""
        self.options.fold(event)
        call = self.open_calls.pop(event.call_id)
        is_again = event.call_id in self.deferred.calls
        if is_again:
            self._fold_late(event)
        self.deferred.defer(call, event)
        if is_again:
            return
        self._results[event.call_id] = Result(event.call_id, event.name, event.result)
        if not self.open_calls:
            self._finish_round()

    def _fold_late(self, event: CallFinished | CallDeferred) -> None:
        """The history stays as it was; what came of the call is the input of the running turn."""
        if (told := self.deferred.told(event, self.turn_inputs)) is None:
            return
        at, said = told
        asked = list(self.asked)
        self._tail = [said if item is asked[at] else item for item in self._tail]
        asked[at] = said
        self.asked = tuple(asked)

    def _finish_round(self) -> None:
        """Results enter the history in the model's order, whichever order they came in."""
        if self._tail and isinstance(answer := self._tail[-1], Answer):
            self._tail += [
                self._results[call.call_id]
                for call in answer.calls
                if call.call_id in self._results
            ]
        self._rounds.append(Round(self._tail))
        self._tail = []

    def _fold_end(self, event: TurnEnded) -> None:
        """A turn that ended badly may leave an answer without all of its results."""
        self.last_turn.end(event, self.asked)
        self.deferred.forget(self.turn_inputs)
        self.turn_id, self.asked = None, ()
        self.waiting_modes = queued(self.waiting_modes)
        self.open_calls.clear()
        if any(isinstance(item, Answer) for item in self._tail):
            self._rounds.append(Round(repair_history([*self._tail, *self._results.values()])))
            self._tail = []


def _ignored(event: Ignored) -> None:
    """What this takes has no meaning for the fold; the type says which events those are."""


CONTRADICTIONS = (KeyError, IndexError, ValueError)
"""What folding an event raises that can't come behind those before it."""


class UnreadableRecord(StorageError):
    """What is on record of a session contradicts itself, so it can't be loaded."""
