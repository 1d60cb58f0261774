"""A program in the sandbox that the runtime itself speaks with, through its input and output, for as long as it lives.

It has the bounds of any program, but for its processor time, which is that of a week. Its output is read by
whoever speaks with it, at their pace; of its errors the end is kept.
"""

from __future__ import annotations

import os
import signal
from collections import deque
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import msgspec
import trio

from ...config.sections import SandboxSettings
from ...runtime.kernel.service_nursery import open_service_nursery
from ..processes.process_tree import is_stopped
from .box.recipe import Recipe
from .running.process import READ_BYTES, REAP_SECONDS, Order
from .running.program import Program

if TYPE_CHECKING:  # only nodes of a cluster have one
    from ..processes.watchdog import Watchdog

MAX_ERROR_BYTES = 64 * 1024
"""The end of what it writes to stderr: the last traceback, and what came before."""
CPU_SECONDS = 7 * 24 * 3600
"""It lives as long as the runtime does; a week of work is a fault."""
MAX_ROUNDS = 100
"""Looks for what a program that is paused has started meanwhile; one that starts more without an end is killed."""
MAX_AWAKE = 5
"""Looks in a row at which a program that is paused is not: a signal takes its time where much else runs."""
GRACE_SECONDS = 2.0
"""From the end of its input to SIGTERM, and again to SIGKILL."""


class PipedProgram(Program):
    """A program that was started; `open_piped` runs and ends it. Raises as `Program`.

    Attributes:
        ended: Set when it has ended.
        view: What it sees of the machine.
    """

    def __init__(
        self,
        recipe: Recipe,
        order: Order,
        *,
        sandbox: str,
        running: dict[Program, None],
        watchdog: Watchdog | None = None,
    ) -> None:
        self.ended = trio.Event()
        self.view = recipe.view
        self._errors: deque[bytes] = deque()
        self._error_bytes = 0
        self._is_paused = False
        self._awake = 0
        recipe = msgspec.structs.replace(recipe, settings=_for_long(recipe.settings))
        super().__init__(recipe, order, sandbox=sandbox, running=running, watchdog=watchdog)

    @property
    def _read_here(self) -> tuple[int, ...]:
        return (self._process.stderr,)

    @property
    def errors(self) -> str:
        """The end of what it wrote to stderr."""
        return b"".join(self._errors).decode(errors="replace")

    async def serve(self) -> None:
        """See `Program`; what it leaves behind when it ends is killed, so that its output ends too."""
        try:
            await super().serve()
        finally:
            self._process.kill()
            self.ended.set()

    async def receive_some(self) -> bytes:
        """Return some of its output; `b""` at its end."""
        while True:
            await trio.lowlevel.wait_readable(self._process.stdout)
            with suppress(BlockingIOError):
                return os.read(self._process.stdout, READ_BYTES)

    @property
    def is_paused(self) -> bool:
        """See `Program`."""
        return self._is_paused

    def pause(self) -> None:
        """Have it do nothing until `resume`. One that gets itself going again, by a timer's signal, is soon ended."""
        self._is_paused, self._awake = True, 0
        stopped: set[int] = set()
        for _ in range(MAX_ROUNDS):  # what it starts meanwhile is stopped by the next round
            new = set(self._process.processes()) - stopped
            if not new:
                return
            self._signal(new, signal.SIGSTOP)
            stopped |= new
        self.kill("processes")

    def resume(self) -> None:
        """Let it go on."""
        self._is_paused = False
        self._signal(self._process.processes(), signal.SIGCONT)

    def _signal(self, pids: Iterable[int], number: signal.Signals) -> None:
        for pid in pids:
            with suppress(OSError):
                os.kill(pid, number)

    def _excess(self) -> str | None:
        is_awake = self._is_paused and not all(map(is_stopped, self._process.processes()))
        self._awake = self._awake + 1 if is_awake else 0
        return "pause" if self._awake >= MAX_AWAKE else super()._excess()

    async def stop(self) -> None:
        """End its input, and ask it to end; bounded. What is still there is for `end`, as one that is paused."""
        self.close_input()
        if self._is_paused:
            return  # nothing of it may run any more
        with trio.move_on_after(GRACE_SECONDS):
            await self.ended.wait()
        if not self.ended.is_set():
            self._signal(self._process.processes(), signal.SIGTERM)
            with trio.move_on_after(GRACE_SECONDS):
                await self.ended.wait()

    def _take(self, fd: int, chunk: bytes) -> None:
        if fd != self._process.stderr:
            return  # what still lay there when it was ended
        self._errors.append(chunk)
        self._error_bytes += len(chunk)
        while self._error_bytes - len(self._errors[0]) >= MAX_ERROR_BYTES:
            self._error_bytes -= len(self._errors.popleft())


@asynccontextmanager
async def open_piped(program: PipedProgram) -> AsyncGenerator[None]:
    """Run a program around the block; when this is left nothing of it is there. Bounded, also when cancelled."""
    try:
        async with open_service_nursery("nobody speaks with it any more") as nursery:
            nursery.start_soon(program.serve, name=program.order.name)  # noqa: ASYNC113  nothing waits for it
            try:
                yield
            finally:
                with trio.CancelScope(shield=True):  # bounded itself
                    await program.stop()
    finally:
        with trio.move_on_after(2 * REAP_SECONDS, shield=True):
            await program.end()


def _for_long(settings: SandboxSettings) -> SandboxSettings:
    return msgspec.structs.replace(settings, cpu_seconds=CPU_SECONDS)
