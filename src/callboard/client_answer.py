"""The answer to one input, picked out of all that happens in a session."""

from __future__ import annotations

from .runtime.errors import CallboardError
from .runtime.events import InputCancelled, MessageCompleted, Stored, TurnEnded, TurnStarted
from .runtime.input_events import InputDelivered
from .runtime.turn_answer import error_of_turn, text_of_answer


class AnswerOf:
    """Follows events on record until the turn of an input has ended.

    Attributes:
        text: The latest answer of that turn.
        is_over: Whether it has ended.
    """

    def __init__(self, input_id: str) -> None:
        self._input_id = input_id
        self._turn_id: str | None = None
        self._error: CallboardError | None = None
        self.text = ""
        self.is_over = False

    def see(self, stored: Stored) -> None:
        """Takes note of an event; those of other turns count for nothing."""
        match stored.event:
            case TurnStarted(turn_id=turn_id, input_ids=input_ids):
                if self._input_id in input_ids:
                    self._turn_id = turn_id
            case InputDelivered(turn_id=turn_id, input_id=self._input_id):
                self._turn_id = turn_id
            case MessageCompleted(turn_id=self._turn_id) as message:
                self.text = text_of_answer(message)
            case InputCancelled(input_id=self._input_id, reason=reason):
                self._end(TurnEnded(turn_id="", outcome="cancelled", message=reason))
            case TurnEnded(turn_id=self._turn_id) as ended if ended.outcome != "suspended":
                self._end(ended)
            case _:
                pass

    def result(self) -> str:
        """The text; raises a `CallboardError` when the turn was not answered."""
        if self._error is not None:
            raise self._error
        return self.text

    def _end(self, ended: TurnEnded) -> None:
        self.is_over = True
        self._error = None if ended.outcome == "answered" else error_of_turn(ended)
