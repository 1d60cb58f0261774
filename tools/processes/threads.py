"""Threads for the blocking work of tools, and what becomes of it when its call is cancelled.

Reads and code of the embedding program are abandoned: the call ends at once, and the thread goes on to its
own end, holding its token until then. Our own writes are waited for, so that a call that ended as `cancelled`
can't change a file afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, TypeVarTuple

import trio

from .run_local import RunLocal
from .unreaped import unreaped

Result = TypeVar("Result")
Args = TypeVarTuple("Args")

MAX_FILE_THREADS = 32
"""More don't make a disk faster; 300 parallel calls of one response take turns."""
MAX_FUNCTION_THREADS = 64
"""Tools of the embedding program may wait for something slow, and abandoned ones count too; further ones
wait, under their own deadline."""

_file_threads = RunLocal("file_threads", lambda: trio.CapacityLimiter(MAX_FILE_THREADS))
_function_threads = RunLocal("function_threads", lambda: trio.CapacityLimiter(MAX_FUNCTION_THREADS))


async def run_read(function: Callable[[*Args], Result], *args: *Args) -> Result:
    """Run something that only reads; a cancelled call does not wait for it."""
    return await trio.to_thread.run_sync(
        function, *args, abandon_on_cancel=True, limiter=_file_threads()
    )


async def run_write(function: Callable[[*Args], Result], *args: *Args) -> Result:
    """Run something that changes files; it never outlives its call."""
    return await trio.to_thread.run_sync(function, *args, limiter=_file_threads())


async def run_function(function: Callable[[], Result], *, turn_id: str, name: str) -> Result:
    """Run a synchronous tool of the embedding program; nothing can stop it once it runs.

    Cancelled, this returns at once; the thread is listed in `unreaped` until it ends.
    """
    running = unreaped()

    def run() -> Result:
        key = running.add(turn_id, name)
        try:
            return function()
        except KeyboardInterrupt as crash:
            # In the waiting thread it would look like Ctrl-C.
            raise RuntimeError("it raised KeyboardInterrupt") from crash
        finally:
            running.remove(key)

    limiter = _function_threads()
    return await trio.to_thread.run_sync(run, abandon_on_cancel=True, limiter=limiter)
