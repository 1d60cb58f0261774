"""What calls left running when they ended: threads that nothing can stop, processes not yet dead.

Everything that may outlive its call is named here while it runs. When a turn ends all its calls
have ended, so whatever is still named then is `unreaped`.
"""

from __future__ import annotations

import trio


class LeftRunning:
    """Names of what runs, by turn; threads add and remove themselves.

    Every step is one operation of a dict, which the interpreter does not interrupt.
    """

    def __init__(self) -> None:
        self._names: dict[object, tuple[str, str]] = {}

    def add(self, turn_id: str, name: str) -> object:
        """Lists a name; gives the key with which to take it off."""
        key = object()
        self._names[key] = turn_id, name
        return key

    def remove(self, key: object) -> None:
        """Takes a name off the list."""
        del self._names[key]

    def of(self, turn_id: str) -> tuple[str, ...]:
        """What runs of a turn."""
        return tuple(name for turn, name in self._names.copy().values() if turn == turn_id)


_of_this_run: trio.lowlevel.RunVar[LeftRunning] = trio.lowlevel.RunVar("left_running")


def left_running() -> LeftRunning:
    """The one of this Trio run."""
    try:
        return _of_this_run.get()
    except LookupError:
        made = LeftRunning()
        _of_this_run.set(made)
        return made


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


_reaped_of_this_run: trio.lowlevel.RunVar[Reaped] = trio.lowlevel.RunVar("reaped")


def reaped() -> Reaped:
    """The one of this Trio run."""
    try:
        return _reaped_of_this_run.get()
    except LookupError:
        made = Reaped()
        _reaped_of_this_run.set(made)
        return made
