"""Names the task that holds up the event loop, while it does.

An instrument notes which task runs since when. A thread looks at that some times a second; a step
that takes too long is logged with the task's name and the line that it is at.
"""

from __future__ import annotations

import sys
import threading
import time
import traceback
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType

import trio

from ...runtime.redaction import redacting_logger
from ...runtime.wire.daemon import LoopState

logger = redacting_logger(__name__)

LOOK_SECONDS = 0.1
"""Between two looks of the thread: it costs a wake-up each."""
SLOW_SECONDS = 0.25
"""A step of a task that takes longer is logged: clients see a delay of that length."""
MAX_FRAMES = 6
"""Innermost frames of the stack that are logged."""


class StallWatch(trio.abc.Instrument):
    """Watches the steps of the event loop.

    Attributes:
        blocked: Steps that took too long, so far.
        longest_seconds: The longest of them.
        lag_seconds: By how much the latest timer came late.
    """

    def __init__(self) -> None:
        self.blocked = 0
        self.longest_seconds = 0.0
        self.lag_seconds = 0.0
        self._step: tuple[float, trio.lowlevel.Task] | None = None

    def state(self) -> LoopState:
        """Return the present figures."""
        return LoopState(
            lag_seconds=self.lag_seconds, blocked=self.blocked, longest_seconds=self.longest_seconds
        )

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """Note the task; called for every step, so it does nothing else."""
        self._step = time.monotonic(), task

    def before_io_wait(self, timeout: float) -> None:
        """Note that no task runs."""
        self._step = None

    @contextmanager
    def watching(self) -> Generator[None]:
        """Watch the running loop around the block."""
        ended = threading.Event()
        thread = threading.Thread(
            target=self._look,
            args=(ended, threading.get_ident()),
            name="callboard loop watch",
            daemon=True,
        )
        trio.lowlevel.add_instrument(self)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            trio.lowlevel.remove_instrument(self)
            thread.join()

    async def measure_lag(self) -> None:
        """Measure how late timers come, until cancelled."""
        while True:
            due = trio.current_time() + 1.0
            await trio.sleep_until(due)
            self.lag_seconds = max(0.0, trio.current_time() - due)

    def _look(self, ended: threading.Event, loop: int) -> None:
        told: tuple[float, trio.lowlevel.Task] | None = None
        while not ended.wait(LOOK_SECONDS):
            step = self._step
            if told is not None and step is not told:
                seconds = time.monotonic() - told[0]
                self.longest_seconds = max(self.longest_seconds, seconds)
                logger.warning("the task %r goes on after %.1f s", told[1].name, seconds)
                told = None
            if step is None or step is told or time.monotonic() - step[0] < SLOW_SECONDS:
                continue
            told = step
            self.blocked += 1
            where = _where(sys._current_frames().get(loop))
            logger.warning("the task %r holds up all others, at %s", step[1].name, where)


def _where(frame: FrameType | None) -> str:
    """Return the innermost frames, the outer ones first."""
    if frame is None:
        return "no frame"
    found = traceback.extract_stack(frame)[-MAX_FRAMES:]
    return " > ".join(f"{each.name} ({each.filename}:{each.lineno})" for each in found)
