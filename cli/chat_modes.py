"""The modes of a terminal whose input line is edited by a program: quiet in between, usual for others."""

from __future__ import annotations

import termios
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Any

_INPUT, _LOCAL, _CHARS = 0, 3, 6
"""Where a terminal's flags are in what `tcgetattr` gives."""


class TerminalModes:
    """The two modes, one inside of the other.

    Quiet: what is typed is not printed, and is kept letter by letter for the next input line; Ctrl-C
    is a signal. Usual: as the terminal was found, for questions and editors.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._found: list[Any] | None = None

    @contextmanager
    def quiet(self) -> Generator[None]:
        """Around all of it."""
        self._found = termios.tcgetattr(self._descriptor)
        self._set(_quieted(self._found))
        try:
            yield
        finally:
            self._set(self._found)
            self._found = None

    @contextmanager
    def usual(self) -> Generator[None]:
        """Around what reads lines as terminals hand them over."""
        if self._found is None:
            yield
            return
        self._set(self._found)
        try:
            yield
        finally:
            self._set(_quieted(self._found))

    def _set(self, modes: list[Any]) -> None:
        with suppress(termios.error):  # the terminal may be gone
            termios.tcsetattr(self._descriptor, termios.TCSADRAIN, modes)


def _quieted(found: list[Any]) -> list[Any]:
    modes = [*found]
    modes[_LOCAL] &= ~(termios.ECHO | termios.ICANON | termios.IEXTEN)
    modes[_INPUT] &= ~(termios.ICRNL | termios.IXON)
    modes[_CHARS] = [*found[_CHARS]]
    modes[_CHARS][termios.VMIN], modes[_CHARS][termios.VTIME] = 1, 0
    return modes
