"""Prints without blocking: a thread writes where a write may wait, so a paused pager can't stop Ctrl-C."""

from __future__ import annotations

import os
import select
import stat
import sys
from typing import TYPE_CHECKING, NamedTuple

import trio

if TYPE_CHECKING:  # for terminals alone
    from .rows_below import RowsBelow

MAX_WAITING_CHARS = 1024 * 1024
"""Text that may wait for a slow reader before the turn pauses: some hundred screens."""


class Output:
    """Text on its way to a file descriptor, in order; what has gathered is written at once.

    Attributes:
        descriptor: Where it goes.
        error: Why the descriptor can't be written any more, once it can't; then text is dropped.
    """

    def __init__(self, descriptor: int) -> None:
        self.error: OSError | None = None
        self.descriptor = descriptor
        self._waiting: list[str] = []
        self._chars = 0
        self._wake = trio.Event()
        self._written = trio.Event()
        self._written.set()
        self._lost = trio.Event()
        self._below: RowsBelow | None = None
        self._is_pipe = _is_pipe(descriptor)
        self._encoding = getattr(sys.stdout, "encoding", None) or "utf-8"

    def write(self, text: str) -> None:
        """Print it soon; never blocks."""
        if not text or self.error is not None:
            return
        if not self._waiting:
            self._wake.set()
            if self._written.is_set():
                self._written = trio.Event()
        self._waiting.append(text)
        self._chars += len(text)

    def show_below(self, rows: RowsBelow) -> None:
        """Keep these rows behind what is written from now on."""
        self._below = rows

    def refresh(self) -> None:
        """Draw the rows below soon, as they are by then."""
        self._wake.set()

    async def wait_room(self) -> None:
        """Wait while too much text waits for a slow reader."""
        if self._chars >= MAX_WAITING_CHARS:
            await self.drain()

    async def drain(self) -> None:
        """Wait until all that was written so far is out, or lost."""
        await self._written.wait()

    async def wait_lost(self) -> None:
        """Wait until the descriptor can't be written any more."""
        await self._lost.wait()

    async def run(self) -> None:
        """Write until cancelled; a write that hangs is then left behind in its thread."""
        while True:
            await self._wake.wait()
            self._wake = trio.Event()
            text, self._waiting, self._chars = "".join(self._waiting), [], 0
            if self._below is not None:
                text = self._below.drawn(text)
            data = text.encode(self._encoding, "backslashreplace")
            try:
                if rest := self._not_written_at_once(data):
                    await trio.to_thread.run_sync(self._write, rest, abandon_on_cancel=True)
            except OSError as error:
                self.error = error
                self._waiting, self._chars = [], 0
                self._lost.set()
            if not self._waiting:
                self._written.set()

    def _not_written_at_once(self, data: bytes) -> bytes:
        """Write what can't wait, and return the rest: a thread for each write would take longer than the write.

        A pipe that polls as writable has room for `PIPE_BUF` bytes (POSIX), a socket for more. A terminal may be stopped.
        """
        if not self._is_pipe or len(data) > select.PIPE_BUF:
            return data
        ready = select.poll()
        ready.register(self.descriptor, select.POLLOUT)
        if not ready.poll(0):
            return data
        try:
            return data[os.write(self.descriptor, data) :]
        except (
            BlockingIOError
        ):  # the shared descriptor is non-blocking, and somebody else was faster
            return data

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(self.descriptor, view) :]
            except BlockingIOError:  # somebody made the shared descriptor non-blocking
                select.select([], [self.descriptor], [])


def _is_pipe(descriptor: int) -> bool:
    try:
        mode = os.fstat(descriptor).st_mode
    except OSError:  # it was closed: the first write says so
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


class AskingPlace(NamedTuple):
    """Where a person is asked: a terminal to read from, and the output where questions stand."""

    descriptor: int
    screen: Output


def asking_place(output: Output, *, is_json: bool, is_piped: bool = False) -> AskingPlace | None:
    """Return where a person can be asked, or `None`: it takes a terminal to read and one to write.

    Where stdin `is_piped`, that is the terminal of the process, if this is its foreground.
    """
    if os.isatty(output.descriptor) and not is_json:
        screen = output
    elif os.isatty(2):
        screen = Output(2)
    else:
        return None
    if os.isatty(0):
        return AskingPlace(0, screen)
    descriptor = _own_terminal() if is_piped else None
    return None if descriptor is None else AskingPlace(descriptor, screen)


def _own_terminal() -> int | None:
    """Open the process's terminal; in the background, reading from it would stop the process."""
    try:
        descriptor = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return None  # it has none
    try:
        if os.tcgetpgrp(descriptor) == os.getpgrp():
            return descriptor
    except OSError:
        pass  # it is gone
    os.close(descriptor)
    return None
