"""What the portal's tests share: whole programs in a process of their own, and a model that counts."""

from __future__ import annotations

import asyncio
import functools
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, ParamSpec

import trio

from callboard.providers.provider import Emit, ModelRequest
from callboard.runtime.stream import Done, StopReason, TextDelta

P = ParamSpec("P")

PIECES = 1_000


class CountingModel:
    """A model that says `PIECES` words as fast as it may, and counts them.

    Attributes:
        emitted: How many its consumer's turn has taken so far.
    """

    def __init__(self) -> None:
        self.emitted = 0

    async def run(self, request: ModelRequest, emit: Emit) -> None:
        for number in range(PIECES):
            await emit([TextDelta(f"{number} ")])
            self.emitted += 1
        await emit([Done(StopReason.END, "stop")])


async def wait_quiet() -> None:
    """Waits until no task of the runtime can go on by itself."""
    await trio.testing.wait_all_tasks_blocked(0.05)


def on_asyncio(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """A test that is an asyncio program."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


def run_program(program: str, *arguments: str | Path) -> str:
    """Runs a program whose warnings are errors; gives what it printed."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program, *map(str, arguments)],
        env={name: value for name, value in os.environ.items() if not name.endswith("_KEY")},
        # Whoever runs the tests may have it ignored, and then Python sets no handler.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stderr == ""
    assert done.returncode == 0
    return done.stdout
