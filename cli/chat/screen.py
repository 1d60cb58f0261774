"""The screens of a chat that have no input line: a plain terminal, and a pipe."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Literal

import msgspec
import trio

from ..terminal.keyboard import Keyboard
from ..terminal.output import Output

MAX_PIPE_LINE_BYTES = 4 * 1024 * 1024
"""A line on a pipe at most, which is one prompt: more than any model's window."""

PROMPT = "> "
ESC_ESC = "escape escape"
"""Two presses of Esc with nothing else typed, as `pressed` has them."""


class Typed(msgspec.Struct, frozen=True):
    """What a person did: sent a text, pressed Ctrl-C, or ended the input."""

    kind: Literal["line", "interrupt", "end"]
    text: str = ""


class HeldOutput:
    """Text that waits while something else has the terminal.

    Attributes:
        is_held: Whether something else has the terminal.
    """

    def __init__(self, output: Output) -> None:
        self.output = output
        self.is_held = False
        self._kept: list[str] = []

    def write(self, text: str) -> None:
        """Print it now, or after what has the terminal."""
        if self.is_held:
            self._kept.append(text)
        else:
            self.output.write(text)

    def __enter__(self) -> None:
        self.is_held = True

    def __exit__(self, *_: object) -> None:
        self.is_held = False
        kept, self._kept = self._kept, []
        self.output.write("".join(kept))


class PlainScreen:
    """A terminal that only prints and hands over lines, as TERM=dumb says of itself.

    `PipeScreen` and `prompt.LiveScreen` have the same methods.

    Attributes:
        columns: How wide it is; 0 where the terminal wraps by itself.
        typed: What stands in an input line that was ended by something else.
        pressed: What to call at keys that a screen with an input line has, by prompt_toolkit's names.
    """

    columns = 0
    typed = ""

    def __init__(self, output: Output, descriptor: int = 0) -> None:
        self.pressed: dict[str, Callable[[], None]] = {}
        self._output = output
        self._held_output = HeldOutput(output)
        self._keyboard = Keyboard(descriptor, output)

    def write(self, text: str) -> None:
        """Print a text soon, above what is typed; never blocks."""
        self._held_output.write(text)

    def show_live(self, rows: list[str]) -> None:
        """Show rows that are not whole, and states, above the input; there is no place for it here."""

    def look_in(self, folder: Path) -> None:
        """Complete names of files in a folder, where the screen completes."""

    def offer(self, commands: Mapping[str, str]) -> None:
        """Complete further commands, with what they do, where the screen completes."""

    def keep(self, text: str) -> None:
        """Put a text into the input; the terminal has its own here."""

    def hand_back(self, text: str, *, folds: bool = False) -> None:
        """Put a text into the input ahead of what is typed, as a paste with `folds`; the terminal has its own here."""

    def fill(self, text: str) -> None:
        """Put a text into the input now, where nothing is typed; the terminal has its own here."""

    async def wait_room(self) -> None:
        """Wait while too much text waits for a slow terminal."""
        await self._output.wait_room()

    async def read(self, *, is_idle: bool) -> Typed:
        """Return the next thing that a person does; cancelled, what was typed so far is kept."""
        line = await self._keyboard.line(PROMPT if is_idle else "")
        return Typed("end") if line is None else Typed("line", line)

    def taken(self) -> AbstractContextManager[None]:
        """Put the terminal into the mode that the screen needs, for the block."""
        return nullcontext()

    def held(self) -> AbstractContextManager[None]:
        """Give the terminal to something else for the block; what is written meanwhile waits."""
        return self._held_output

    async def drain(self) -> None:
        """Wait until all that was written is out."""
        await self._output.drain()


class PipeScreen(PlainScreen):
    """No terminal: each line that comes is a prompt."""

    def __init__(self, output: Output, descriptor: int = 0) -> None:
        super().__init__(output, descriptor)
        self._descriptor = descriptor
        self._rest = b""
        self._has_ended = False

    async def read(self, *, is_idle: bool) -> Typed:
        """Return a line of the input."""
        while b"\n" not in self._rest and not self._has_ended:
            # In a thread: a file can't be waited for. An abandoned read takes nobody's input.
            data = await trio.to_thread.run_sync(
                os.read, self._descriptor, 65536, abandon_on_cancel=True
            )
            self._has_ended = not data
            self._rest += data
            if len(self._rest) > MAX_PIPE_LINE_BYTES:
                return Typed("end")
        if not self._rest:
            return Typed("end")
        line, _, self._rest = self._rest.partition(b"\n")
        return Typed("line", line.decode(errors="replace").strip())
