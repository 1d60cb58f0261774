"""What turns were given in the place of their agent's own, by the record of their session."""

from __future__ import annotations

from typing import NamedTuple

from ..runtime.definitions import Agent
from ..runtime.events import DurableEvent, InputAccepted, TurnSetAside, TurnStarted
from ..runtime.turn_options import TurnOptions


class Given(NamedTuple):
    """Options, and whether they may let more run than the agent does: whoever gave them may."""

    options: TurnOptions
    may_widen: bool = False

    def applied(self, agent: Agent) -> Agent:
        """The agent of the turn."""
        return self.options.applied(agent, may_widen=self.may_widen)


def given_with(event: InputAccepted) -> Given | None:
    """What an input brings for its turn."""
    return None if event.options is None else Given(event.options, event.may_widen)


class GivenOptions:
    """Of the latest turn, and of inputs that wait.

    Attributes:
        turn: Of the latest turn.
    """

    def __init__(self) -> None:
        self.turn: Given | None = None
        self._of_inputs: dict[str, Given] = {}

    @property
    def again(self) -> Given | None:
        """Of the latest turn when it is run again: who has that done may be somebody else."""
        return None if self.turn is None else Given(self.turn.options)

    def of(self, input_id: str) -> Given | None:
        """Of the turn that an input will have."""
        return self._of_inputs.get(input_id)

    def fold(self, event: DurableEvent) -> None:
        """Takes the next event into account; most say nothing of options."""
        match event:
            case InputAccepted():
                if (given := given_with(event)) is not None:
                    self._of_inputs[event.input_id] = given
            case TurnStarted():
                found = [self._of_inputs.pop(name, None) for name in event.input_ids]
                self.turn = next(filter(None, found), None)
            case TurnSetAside():
                if self.again is not None and event.input_ids:
                    self._of_inputs[event.input_ids[0]] = self.again
