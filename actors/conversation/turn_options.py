"""What turns were given in the place of their agent's own, by the record of their session."""

from __future__ import annotations

from typing import NamedTuple

from ...runtime.definitions import Agent, InputMode
from ...runtime.errors import PermissionRefused
from ...runtime.events import (
    CallDeferred,
    DurableEvent,
    InputAccepted,
    InputCancelled,
    InputDelivered,
    TurnSetAside,
    TurnStarted,
)
from ...runtime.turn_options import TurnOptions


class Given(NamedTuple):
    """Options, and the agent than which they may let more run: whoever gave them might say so."""

    options: TurnOptions
    widens: str = ""

    @property
    def narrow(self) -> Given:
        """The same for whoever else may have asked for it: no more runs than the agent has it."""
        return Given(self.options)

    def applied(self, agent: Agent) -> Agent:
        """The agent of the turn, which may be another than the one that was agreed to."""
        return self.options.applied(agent, may_widen=self.widens == agent.name != "")


def given_with(event: InputAccepted) -> Given | None:
    """What an input brings for its turn."""
    return None if event.options is None else Given(event.options, event.widens)


class GivenOptions:
    """Of the latest turn, and of inputs that wait.

    Attributes:
        turn: Of the latest turn.
    """

    def __init__(self) -> None:
        self.turn: Given | None = None
        self._of_inputs: dict[str, Given] = {}
        self._of_calls: dict[str, Given] = {}
        self._wideners: set[str] = set()

    @property
    def again(self) -> Given | None:
        """Of the latest turn when it is run again: who has that done may be somebody else."""
        return None if self.turn is None else self.turn.narrow

    def of(self, input_id: str) -> Given | None:
        """Of the turn that an input will have."""
        return self._of_inputs.get(input_id)

    def may_steer(self, input_id: str) -> bool:
        """Whether the latest turn may be told an input: where more runs, only of who may decide that."""
        return self.turn is None or not self.turn.widens or input_id in self._wideners

    def check_steering(self, event: InputAccepted, turn_id: str | None) -> None:
        """Raises `PermissionRefused` for an input that must not steer the turn that is open."""
        if event.mode is not InputMode.STEER or turn_id is None or event.widens:
            return
        if not self.may_steer(event.input_id):
            raise PermissionRefused(
                f"{turn_id} runs more without asking than its agent does, as an administrator "
                "allowed for what that one asked: only an administrator steers it. Queue the "
                "input, or let it interrupt the turn."
            )

    def fold(self, event: DurableEvent) -> None:
        """Takes the next event into account; most say nothing of options."""
        match event:
            case InputAccepted():
                self._fold_input(event)
            case InputDelivered() | InputCancelled():
                self._take(event.input_id)
            case TurnStarted():
                found = [self._take(name) for name in event.input_ids]
                self.turn = next(filter(None, found), None)
            case TurnSetAside():
                if self.again is not None and event.input_ids:
                    self._of_inputs[event.input_ids[0]] = self.again
            case CallDeferred():
                if self.again is not None:
                    self._of_calls[event.call_id] = self.again

    def _fold_input(self, event: InputAccepted) -> None:
        """The turn of a late answer goes on with what an earlier turn began, under its options."""
        late = self._of_calls.pop(event.call_id, None)
        if (given := given_with(event) or late) is not None:
            self._of_inputs[event.input_id] = given
        if event.widens:
            self._wideners.add(event.input_id)

    def _take(self, input_id: str) -> Given | None:
        self._wideners.discard(input_id)
        return self._of_inputs.pop(input_id, None)
