"""How many processes of cancelled calls were killed, until their turns put it on record."""

from __future__ import annotations

import trio

MAX_TURNS = 1024
"""Turns of which it is kept; they take it at their end, so that more are those that crashed."""


class Reaped:
    """Counts of killed processes, by turn and call."""

    def __init__(self) -> None:
        self._by_turn: dict[str, dict[str, int]] = {}

    def add(self, turn_id: str, call_id: str, killed: int) -> None:
        """So many processes of a call that was cancelled are gone."""
        calls = self._by_turn.setdefault(turn_id, {})
        calls[call_id] = calls.get(call_id, 0) + killed
        if len(self._by_turn) > MAX_TURNS:
            del self._by_turn[next(iter(self._by_turn))]

    def take(self, turn_id: str) -> dict[str, int]:
        """The counts of a turn's calls; given once."""
        return self._by_turn.pop(turn_id, {})


_of_this_run: trio.lowlevel.RunVar[Reaped] = trio.lowlevel.RunVar("reaped")


def reaped() -> Reaped:
    """The one of this Trio run."""
    try:
        return _of_this_run.get()
    except LookupError:
        made = Reaped()
        _of_this_run.set(made)
        return made
