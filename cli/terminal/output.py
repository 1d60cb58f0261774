"""Prints without blocking: a thread writes, so a paused pager can't stop Ctrl-C."""

from __future__ import annotations

import os
import select
import sys

import trio

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
            data = text.encode(self._encoding, "backslashreplace")
            try:
                await trio.to_thread.run_sync(self._write, data, abandon_on_cancel=True)
            except OSError as error:
                self.error = error
                self._waiting, self._chars = [], 0
                self._lost.set()
            if not self._waiting:
                self._written.set()

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(self.descriptor, view) :]
            except BlockingIOError:  # somebody made the shared descriptor non-blocking
                select.select([], [self.descriptor], [])


def asking_screen(output: Output, *, is_json: bool) -> Output | None:
    """Return where a person can be asked, or `None`: it takes a terminal to read and one to write."""
    if not os.isatty(0):
        return None
    if os.isatty(output.descriptor) and not is_json:
        return output
    return Output(2) if os.isatty(2) else None
