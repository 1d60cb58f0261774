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
