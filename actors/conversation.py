"""A session's state: the fold of its durable events, the same live and on load."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from ..runtime.definitions import SessionKind
from ..runtime.events import (
    AgentSwitched,
    ApprovalAnswered,
    ApprovalAsked,
    AttemptFailed,
    CallDeferred,
    CallFinished,
    CallProposed,
    CallStarted,
    ChildAsks,
    GrantGiven,
    GrantRevoked,
    HistoryCompacted,
    InputAccepted,
    InputCancelled,
    MessageCompleted,
    MessageSent,
    ModelSwitched,
    PrivateDataRead,
    ProviderSetAside,
    QuestionAnswered,
    QuestionAsked,
    SessionCreated,
    SessionDeleted,
    SessionRestored,
    SessionTainted,
    Stored,
    TitleSet,
    ToolGivenUp,
    TurnEnded,
    TurnResumed,
    TurnStarted,
    TurnSuspended,
)
from ..runtime.history import Answer, Input, Item, Result, Round, is_error, repair_history
from ..runtime.messages import UNMARKED
from .compaction import held_inputs

Ignored = (
    ApprovalAsked
    | ApprovalAnswered
    | AttemptFailed
    | CallDeferred
    | ChildAsks
    | GrantGiven
    | GrantRevoked
    | MessageSent
    | ModelSwitched
    | ProviderSetAside
    | QuestionAnswered
    | QuestionAsked
    | SessionDeleted
    | SessionRestored
    | TitleSet
    | ToolGivenUp
    | TurnResumed
    | TurnSuspended
)
"""What changes nothing of what a session knows; a new event must be folded, or stand here."""

SUMMARY_HEADING = "What was said and done before, in short:"
"""Says to the model what it reads in the place of its oldest rounds."""


class Conversation:
    """What a session knows; changed by `fold` alone.

    Attributes:
        agent, model, workspace, kind: As the session was created or switched since.
        head_seq: The `seq` of the last event folded; 0 for an unknown session.
        turn_id: The turn that has not ended, or `None`; `turn_inputs` are the latest turn's.
        asked: The inputs of the turn that has not ended; a summary never replaces them.
        marks: What it has read.
        message_id: The latest answer's.
        open_calls: Its calls without a result, in their order; `started_calls` are those whose
            effect had begun.
        waiting_inputs: Accepted inputs whose turn has not started, in their order.
        call_ids: Every call id ever used, since the next must differ.
    """

    def __init__(self) -> None:
        self.agent = ""
        self.model: str | None = None
        self.workspace = ""
        self.kind = SessionKind.MAIN
        self.head_seq = 0
        self.turn_id: str | None = None
        self.turn_inputs: tuple[str, ...] = ()
        self.marks = UNMARKED
        self.message_id = ""
        self.open_calls: dict[str, CallProposed] = {}
        self.started_calls: set[str] = set()
        self.waiting_inputs: dict[str, Input] = {}
        self.call_ids: set[str] = set()
        self.asked: tuple[Input, ...] = ()
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
        self.head_seq = stored.seq
        event = stored.event
        match event:
            case CallFinished():
                self._fold_result(event)
            case CallProposed():
                self.open_calls[event.call_id] = event
                self.call_ids.add(event.call_id)
            case CallStarted():
                self.started_calls.add(event.call_id)
            case PrivateDataRead():
                self.marks = msgspec.structs.replace(self.marks, has_private=True)
            case SessionTainted():
                self.marks = msgspec.structs.replace(
                    self.marks, is_tainted=True, tainted_at_ms=stored.at_ms
                )
            case HistoryCompacted():
                self._fold_summary(event)
            case MessageCompleted():
                self._fold_message(event)
            case InputAccepted():
                self.waiting_inputs[event.input_id] = Input(event.text, event.attachments)
            case InputCancelled():
                del self.waiting_inputs[event.input_id]
            case TurnStarted():
                self.turn_id, self.turn_inputs = event.turn_id, event.input_ids
                self.asked = tuple(self.waiting_inputs.pop(name) for name in event.input_ids)
                self._tail += self.asked
            case TurnEnded():
                self.turn_id, self.asked = None, ()
                self._repair()
            case SessionCreated():
                self.agent, self.model = event.agent, event.model
                self.workspace, self.kind = event.workspace, event.kind
            case AgentSwitched():
                self.agent = event.agent
            case _:
                _ignored(event)

    def _fold_summary(self, event: HistoryCompacted) -> None:
        """The summary joins what it comes before: no round is an input alone.

        What the running turn was asked stays behind it as it was, with its attachments.
        """
        summary = Input(f"{SUMMARY_HEADING}\n\n{event.summary}")
        first = [summary, *held_inputs(self._rounds[: event.rounds], self.asked)]
        del self._rounds[: event.rounds]
        if self._rounds:
            self._rounds[0] = Round([*first, *self._rounds[0].items])
        else:
            self._tail[:0] = first

    def _fold_message(self, event: MessageCompleted) -> None:
        self._results.clear()
        self.started_calls.clear()
        self.message_id = event.message_id
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

    def _fold_result(self, event: CallFinished) -> None:
        self.open_calls.pop(event.call_id, None)
        self._results[event.call_id] = Result(
            event.call_id, event.name, event.result, is_error=is_error(event.status)
        )
        if not self.open_calls:
            self._finish_round()

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

    def _repair(self) -> None:
        """A turn that ended badly may leave an answer without all of its results."""
        self.open_calls.clear()
        if any(isinstance(item, Answer) for item in self._tail):
            self._rounds.append(Round(repair_history([*self._tail, *self._results.values()])))
            self._tail = []


def _ignored(event: Ignored) -> None:
    """What this takes has no meaning for the fold; the type says which events those are."""
