"""Reads lines that a person types at a terminal, behind a prompt."""

from __future__ import annotations

import os
import sys
import termios
from contextlib import suppress

import trio

from .folding import columns_of, folded
from .output import Output

MAX_LINE_BYTES = 4096
"""A terminal hands over at most a line of this length, its end included, and drops the rest."""


class Keyboard:
    """A terminal to read from and the screen that belongs to it.

    Attributes:
        descriptor: The terminal.
        is_left: Whether it is read no more: who waits for a line waits until cancelled.
    """

    def __init__(self, descriptor: int, screen: Output) -> None:
        self.descriptor = descriptor
        self.is_left = False
        self._screen = screen

    def write(self, text: str) -> None:
        """Print it soon, folded to the width of the terminal."""
        self._screen.write(folded(text, columns_of(self.descriptor)))

    async def settle(self) -> None:
        """Print everything, and discard what was typed before it could be read."""
        await self._screen.drain()
        self.forget_typed()

    def forget_typed(self) -> None:
        """Discard what was typed and not read."""
        with suppress(termios.error):  # the terminal may be gone
            termios.tcflush(self.descriptor, termios.TCIFLUSH)

    async def line(self, prompt: str) -> str | None:
        """Read a line, without the white space around it; return `None` at the end of the input."""
        while True:
            self._screen.write(prompt)
            await self._screen.drain()
            # Not a thread that reads: one that is abandoned would swallow the next answer.
            await trio.lowlevel.wait_readable(self.descriptor)
            if self.is_left:
                await trio.sleep_forever()
            data = os.read(self.descriptor, MAX_LINE_BYTES)
            if not data:
                return None
            if len(data) >= MAX_LINE_BYTES - 1:
                # Its end is lost, and half an answer does not count.
                self._screen.write("That line is longer than a terminal hands over.\n")
                continue
            try:
                return data.decode().strip()
            except UnicodeDecodeError:
                self._screen.write("That is not UTF-8 text.\n")

    async def choice(self, prompt: str) -> str | None:
        """Read a line in lower case; see `line`."""
        line = await self.line(prompt)
        return None if line is None else line.lower()


def agrees(question: str) -> bool:
    """Ask at the terminal that stdin is; everything but a yes is a no. Blocks."""
    sys.stdout.write(f"{question} [y/N] ")
    sys.stdout.flush()
    return sys.stdin.readline().strip().casefold() in {"y", "yes"}
