"""What calls left running when they ended: threads that nothing can stop, processes not yet dead.

Everything that may outlive its call is named here while it runs. When a turn ends all its calls
have ended, so whatever is still named then is `unreaped`.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import trio


class LeftRunning:
    """Names of what runs, by turn; threads enter and leave it themselves.

    Every step is one operation of a dict, which the interpreter does not interrupt.
    """

    def __init__(self) -> None:
        self._names: dict[object, tuple[str, str]] = {}

    @contextmanager
    def named(self, turn_id: str, name: str) -> Generator[None]:
        """Lists the name while the block runs."""
        key = object()
        self._names[key] = turn_id, name
        try:
            yield
        finally:
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
