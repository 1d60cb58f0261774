"""Where the blocking work of tools runs, and what becomes of it when its call is cancelled.

Reads and foreign code are abandoned: the call ends at once and the thread goes on to its own end,
holding its token until then. Our own writes are waited for, so that a call that says `cancelled`
can't change a file afterwards; they are bounded by the disk.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, TypeVarTuple

import trio

from .left_running import left_running

Result = TypeVar("Result")
Args = TypeVarTuple("Args")

MAX_FILE_THREADS = 32
"""More do not make a disk faster; 300 parallel calls of one response take turns."""
MAX_FUNCTION_THREADS = 64
"""Tools of the embedding program may wait for something slow, and those that nobody waits for any
more count too: at this many, further ones wait (under their own deadline)."""

# A limiter of one run must not inherit tokens that threads of a finished run never gave back.
_file_threads: trio.lowlevel.RunVar[trio.CapacityLimiter] = trio.lowlevel.RunVar("file_threads")
_function_threads: trio.lowlevel.RunVar[trio.CapacityLimiter] = trio.lowlevel.RunVar(
    "function_threads"
)


async def run_read(function: Callable[[*Args], Result], *args: *Args) -> Result:
    """Runs something that only reads; a cancelled call does not wait for it."""
    limiter = _limiter(_file_threads, MAX_FILE_THREADS)
    return await trio.to_thread.run_sync(function, *args, abandon_on_cancel=True, limiter=limiter)


async def run_write(function: Callable[[*Args], Result], *args: *Args) -> Result:
    """Runs something that changes files; it is never left running behind a finished call."""
    limiter = _limiter(_file_threads, MAX_FILE_THREADS)
    return await trio.to_thread.run_sync(function, *args, limiter=limiter)


async def run_function(function: Callable[[], Result], *, turn_id: str, name: str) -> Result:
    """Runs a synchronous tool of the embedding program; nothing can stop it once it runs.

    Cancelled, this returns at once; the thread stays listed in `left_running` until it ends.
    """
    running = left_running()

    def run() -> Result:
        key = running.add(turn_id, name)
        try:
            return function()
        except KeyboardInterrupt as crash:
            # No signal reaches this thread, but in the one that waits it would look like Ctrl-C.
            raise RuntimeError("it raised KeyboardInterrupt") from crash
        finally:
            running.remove(key)

    limiter = _limiter(_function_threads, MAX_FUNCTION_THREADS)
    return await trio.to_thread.run_sync(run, abandon_on_cancel=True, limiter=limiter)


def _limiter(
    variable: trio.lowlevel.RunVar[trio.CapacityLimiter], capacity: int
) -> trio.CapacityLimiter:
    try:
        return variable.get()
    except LookupError:
        limiter = trio.CapacityLimiter(capacity)
        variable.set(limiter)
        return limiter
