"""The budgets that a session was given, by its record: its own, and those of single turns."""

from __future__ import annotations

from ..runtime.budget import Budget
from ..runtime.events import (
    DurableEvent,
    InputAccepted,
    SessionBudgetSet,
    SessionCreated,
    TurnSetAside,
    TurnStarted,
)


class GivenBudgets:
    """What the session and its latest turn may use, before the agent's own limits.

    Attributes:
        session: Of the whole session.
        turn: Of the latest turn.
        parent_id: Who delegated to the session, and so lends to it.
    """

    def __init__(self) -> None:
        self.session: Budget | None = None
        self.turn: Budget | None = None
        self.parent_id: str | None = None
        self._of_inputs: dict[str, Budget] = {}

    def fold(self, event: DurableEvent) -> None:
        """Takes the next event into account; most say nothing of budgets."""
        match event:
            case InputAccepted(budget=budget):
                if budget is not None:
                    self._of_inputs[event.input_id] = budget
            case TurnStarted():
                given = [self._of_inputs.pop(name, None) for name in event.input_ids]
                self.turn = next(filter(None, given), None)
            case TurnSetAside():
                if self.turn is not None and event.input_ids:
                    self._of_inputs[event.input_ids[0]] = self.turn
            case SessionCreated():
                self.session, self.parent_id = event.budget, event.parent_id
            case SessionBudgetSet():
                self.session = event.budget
