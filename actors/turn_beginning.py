"""Where a session's last turn began: what it takes to set that turn aside.

The history is not copied: its rounds are only added to, but for a summary, which replaces them. So a
count says where the turn began, and a copy is kept from a summary on.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..runtime.events import TurnEnded
from ..runtime.history import Input, Item, Round
from ..runtime.turn_events import TurnSetAside


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
