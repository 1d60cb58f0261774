"""The inputs of a session that wait for their turns, in the order of those turns."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping

from ...runtime.definitions import InputMode, InputSource
from ...runtime.events import (
    InputAccepted,
    InputCancelled,
    InputDelivered,
    Stored,
    TurnEnded,
    TurnStarted,
)


def queued(modes: Mapping[str, InputMode]) -> dict[str, InputMode]:
    """The modes of inputs that wait when a turn has ended: what was to steer that waits for its own."""
    return {
        input_id: InputMode.QUEUE if mode is InputMode.STEER else mode
        for input_id, mode in modes.items()
    }


class InputQueue(deque[str]):
    """Their ids. The session adds those that clients gave it, when their turn can't begin at once.

    Those that interrupt stand ahead of the others, each kind in the order in which they came.
    """

    def __init__(self) -> None:
        super().__init__()
        self._modes: dict[str, InputMode] = {}

    def add(self, input_id: str, mode: InputMode = InputMode.QUEUE) -> None:
        """An input waits, behind those of its kind."""
        self._modes[input_id] = mode
        if mode is InputMode.INTERRUPT:
            self.insert(self._count_first(), input_id)
        else:
            self.append(input_id)

    def take_steering(self, may_steer: Callable[[str], bool]) -> list[str]:
        """Those that the running turn is to be told, and may be; they wait no longer."""
        wanted = [each for each in self if self._modes.get(each) is InputMode.STEER]
        steering = [each for each in wanted if may_steer(each)]
        for input_id in steering:
            self.remove(input_id)
        return steering

    def put_back(self, input_ids: Iterable[str]) -> None:
        """They wait again, ahead of those of their kind: they came before."""
        for input_id in reversed(list(input_ids)):
            is_first = self._modes.get(input_id) is InputMode.INTERRUPT
            self.insert(0 if is_first else self._count_first(), input_id)

    def fold(self, stored: Stored) -> None:
        """Takes in what others stored: they wake the session for it."""
        event = stored.event
        if isinstance(event, InputAccepted) and event.source is not InputSource.PERSON:
            self.add(event.input_id)
        elif isinstance(event, InputCancelled):
            self._modes.pop(event.input_id, None)
            if event.input_id in self:
                self.remove(event.input_id)
        elif isinstance(event, TurnEnded):
            self._modes = queued(self._modes)
        elif isinstance(event, TurnStarted | InputDelivered):
            begun = event.input_ids if isinstance(event, TurnStarted) else (event.input_id,)
            for input_id in begun:
                self._modes.pop(input_id, None)

    def _count_first(self) -> int:
        """How many interrupt; they stand first."""
        modes = (self._modes.get(each) for each in self)
        return sum(mode is InputMode.INTERRUPT for mode in modes)
