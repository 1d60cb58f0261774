"""The asyncio program's own event loop, as the portal's thread uses it.

a Trio task                          the program's event loop
───────────                          ────────────────────────
call ──── call_soon_threadsafe ────► a task that runs the program's function
  ▲                                        │
  └──────── run_sync_soon: gone ───────────┘
"""

from __future__ import annotations

import asyncio
import contextvars
import copy
import inspect
from collections.abc import Awaitable, Callable, Generator
from contextlib import suppress
from functools import partial
from typing import Any

import trio

from .runtime.errors import ActorStopped
from .runtime.redaction import redacting_logger
from .tools.tool import FunctionTool, Tool

logger = redacting_logger(__name__)

TASK_SECONDS = 5.0
"""How long a cancelled tool or question may take to end on the program's event loop; less than
leaving a turn may take. Past it, the runtime goes on without it."""


class EventLoop:
    """The program's event loop, on which its own async functions are to run."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._context = contextvars.copy_context()

    def adapted(self, tool: Tool) -> Tool:
        """The same tool, with what is async in it on the event loop. Other kinds are Trio's."""
        if not isinstance(tool, FunctionTool):
            return tool
        function = tool.function

        async def run_there(**arguments: Any) -> Any:
            return await self.call(partial(function, **arguments))

        def run_in_thread(**arguments: Any) -> Any:
            returned = function(**arguments)
            # A callable object or a wrapped function may hide that it is asynchronous.
            return _Deferred(self, returned) if inspect.isawaitable(returned) else returned

        is_async = inspect.iscoroutinefunction(function)
        adapted = copy.copy(tool)
        adapted.function = run_there if is_async else run_in_thread
        return adapted

    async def call(self, function: Callable[..., object], *args: object) -> Any:
        """Calls a function on the event loop, awaits there what it returns, and gives the result.

        For Trio tasks. Cancelling cancels the task there and waits for it, `TASK_SECONDS` at most.
        """
        task = _Task(self._loop, partial(function, *args))
        self._soon(task.start)
        try:
            await task.gone.wait()
        except trio.Cancelled:
            with suppress(ActorStopped):  # a closed loop runs nothing any more
                self._soon(task.cancel)
                with trio.move_on_after(TASK_SECONDS, shield=True) as patience:
                    await task.gone.wait()
                if patience.cancelled_caught:
                    logger.warning("%r is cancelled, but did not end on its event loop", function)
            raise
        return task.result()

    def _soon(self, function: Callable[[], object]) -> None:
        try:
            self._loop.call_soon_threadsafe(function, context=self._context)
        except RuntimeError as error:
            raise ActorStopped("the event loop that opened this runtime is closed") from error


class _Deferred:
    """What a tool's thread gives Trio to await; Trio lets no thread return a coroutine."""

    def __init__(self, loop: EventLoop, returned: Awaitable[object]) -> None:
        self._loop = loop
        self._returned = returned

    def __await__(self) -> Generator[Any, None, Any]:
        return self._loop.call(lambda: self._returned).__await__()


class _Task:
    """One call of the program's function: a task of its event loop that a Trio task waits for.

    Attributes:
        gone: Set, in Trio, when the task has ended.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, function: Callable[[], object]) -> None:
        self.gone = trio.Event()
        self._loop = loop
        self._function = function
        self._token = trio.lowlevel.current_trio_token()
        self._task: asyncio.Task[Any] | None = None

    def start(self) -> None:
        """Starts it; on the event loop."""
        self._task = self._loop.create_task(self._run())
        self._task.add_done_callback(self._tell)

    def cancel(self) -> None:
        """Cancels it; on the event loop, behind `start`."""
        if self._task is not None:
            self._task.cancel("callboard cancelled the call")

    def result(self) -> Any:
        """What it returned, or raises what it raised, if that can be raised in Trio."""
        assert self._task is not None
        if self._task.cancelled():
            raise RuntimeError("it was cancelled on the program's event loop")
        error = self._task.exception()
        if error is None or isinstance(error, Exception):
            return self._task.result()
        what = type(error).__name__  # the program's end
        raise RuntimeError(f"it ended with {what} on the program's event loop") from error

    async def _run(self) -> Any:
        returned = self._function()
        return await returned if inspect.isawaitable(returned) else returned

    def _tell(self, _: object) -> None:
        with suppress(trio.RunFinishedError):
            self._token.run_sync_soon(self.gone.set)
