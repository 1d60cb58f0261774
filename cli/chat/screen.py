"""Where a chat is held: a terminal without graces, or no terminal at all."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from typing import Literal, Protocol

import msgspec
import trio

from ..terminal.keyboard import Keyboard
from ..terminal.output import Output

MAX_PIPE_LINE_BYTES = 4 * 1024 * 1024
"""Of a line on a pipe, which is one prompt: more than any model's window."""

PROMPT = "> "


class Typed(msgspec.Struct, frozen=True):
    """What a person did: sent a text, pressed Ctrl-C, or ended the input."""

    kind: Literal["line", "interrupt", "end"]
    text: str = ""


class Screen(Protocol):
    """What a chat is shown on and typed at."""

    @property
    def columns(self) -> int:
        """How wide it is."""
        ...

    def write(self, text: str) -> None:
        """Prints it soon, above what is typed; never blocks."""
        ...

    def show_live(self, open_row: str, lines: list[str]) -> None:
        """What stands above the input until it is other: a row that is not whole, and states."""
        ...

    async def wait_room(self) -> None:
        """Waits while more text waits than a slow terminal should be owed."""
        ...

    async def read(self, *, is_idle: bool) -> Typed:
        """The next thing that a person does; cancelled, what was typed so far is kept."""
        ...

    def taken(self) -> AbstractContextManager[None]:
        """Around the whole chat: the terminal is as the screen needs it, and afterwards as it was."""
        ...

    def held(self) -> AbstractContextManager[None]:
        """Around what has the terminal for itself: what is written meanwhile comes behind it."""
        ...

    async def drain(self) -> None:
        """Waits until all that was written is out."""
        ...


class Holding:
    """Text that waits while something else has the terminal."""

    def __init__(self, output: Output) -> None:
        self.output = output
        self._is_held = False
        self._kept: list[str] = []
        self._chars = 0

    @property
    def is_held(self) -> bool:
        """Whether something else has it."""
        return self._is_held

    @property
    def chars(self) -> int:
        """How many wait."""
        return self._chars

    def write(self, text: str) -> None:
        """Prints it, now or behind what has the terminal."""
        if self._is_held:
            self._kept.append(text)
            self._chars += len(text)
        else:
            self.output.write(text)

    def __enter__(self) -> None:
        self._is_held = True

    def __exit__(self, *_: object) -> None:
        self._is_held = False
        kept, self._kept, self._chars = self._kept, [], 0
        self.output.write("".join(kept))


class PlainScreen:
    """A terminal that only prints and hands over lines, as TERM=dumb says of itself."""

    def __init__(self, output: Output, descriptor: int = 0) -> None:
        self._output = output
        self._holding = Holding(output)
        self._keyboard = Keyboard(descriptor, output)

    @property
    def columns(self) -> int:
        """The terminal wraps by itself."""
        return 0

    def write(self, text: str) -> None:
        """Prints it."""
        self._holding.write(text)

    def show_live(self, open_row: str, lines: list[str]) -> None:
        """There is no place for it."""

    async def wait_room(self) -> None:
        """Waits for the terminal."""
        await self._output.wait_room()

    async def read(self, *, is_idle: bool) -> Typed:
        """A line; a prompt stands there while nothing is under way."""
        line = await self._keyboard.line(PROMPT if is_idle else "")
        return Typed("end") if line is None else Typed("line", line)

    def taken(self) -> AbstractContextManager[None]:
        """It is as it is."""
        return nullcontext()

    def held(self) -> AbstractContextManager[None]:
        """See `Screen`."""
        return self._holding

    async def drain(self) -> None:
        """Waits for the terminal."""
        await self._output.drain()


class PipeScreen(PlainScreen):
    """No terminal: each line that comes is a prompt."""

    def __init__(self, output: Output, descriptor: int = 0) -> None:
        super().__init__(output, descriptor)
        self._descriptor = descriptor
        self._rest = b""
        self._has_ended = False

    async def read(self, *, is_idle: bool) -> Typed:
        """A line of the input."""
        while b"\n" not in self._rest and not self._has_ended:
            # In a thread: a file can't be waited for. Left behind, it has nobody to take from.
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
