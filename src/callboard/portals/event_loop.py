"""Waiting on asyncio for the portal, and running the program's functions on its event loop.

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
from collections.abc import Awaitable, Callable, Coroutine, Generator
from concurrent.futures import Future
from contextlib import suppress
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

import trio

from ..runtime.errors import ActorStopped, ShortTracebacks
from ..runtime.redaction import redacting_logger
from ..tools.tool import FunctionTool, Tool
from .portal import CLOSE_SECONDS, GONE_SECONDS, Crossing, Handle, Portal

logger = redacting_logger(__name__)

TASK_SECONDS = 5.0
"""How long a cancelled tool or question may take to end on the program's event loop: less than
leaving a turn may take. Afterwards the runtime goes on without it."""


class EventLoop:
    """The program's event loop, on which its own async functions run."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._context = contextvars.copy_context()

    def adapted(self, tool: Tool) -> Tool:
        """Return the same tool with its function on the event loop, if that is async.

        Tools that are not functions are written for Trio, and stay as they are.
        """
        if not isinstance(tool, FunctionTool):
            return tool
        function = tool.function

        async def run_there(**arguments: Any) -> Any:
            return await self.call(partial(function, **arguments))

        def run_in_thread(**arguments: Any) -> Any:
            returned = function(**arguments)
            # Callable objects and wrapped functions can hide that they are asynchronous.
            return _Deferred(self, returned) if inspect.isawaitable(returned) else returned

        is_async = inspect.iscoroutinefunction(function)
        adapted = copy.copy(tool)
        adapted.function = run_there if is_async else run_in_thread
        return adapted

    async def call(self, function: Callable[..., object], *args: object) -> Any:
        """Call a function on the event loop, await what it returns there, and return the result.

        For Trio tasks. Cancelling this cancels the asyncio task and waits for it, for `TASK_SECONDS`
        at most.
        """
        task = _Task(self._loop, partial(function, *args))
        self._soon(task.start)
        try:
            await task.gone.wait()
        except trio.Cancelled:
            with suppress(ActorStopped):  # a closed loop runs no tasks
                self._soon(task.cancel)
                with trio.move_on_after(TASK_SECONDS, shield=True) as patience:
                    await task.gone.wait()
                if patience.cancelled_caught:
                    logger.warning("%r was cancelled, but did not end on its event loop", function)
            raise
        return task.result()

    def _soon(self, function: Callable[[], object]) -> None:
        try:
            self._loop.call_soon_threadsafe(function, context=self._context)
        except RuntimeError as error:
            raise ActorStopped("the event loop that opened this runtime is closed") from error


class _Deferred:
    """An awaitable for a tool's thread to return to Trio, which refuses coroutines from threads."""

    def __init__(self, loop: EventLoop, returned: Awaitable[object]) -> None:
        self._loop = loop
        self._returned = returned

    def __await__(self) -> Generator[Any, None, Any]:
        return self._loop.call(lambda: self._returned).__await__()


class _Task:
    """One call of the program's function: a task of its event loop for which a Trio task waits.

    Attributes:
        gone: A Trio event, set when the asyncio task has ended.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, function: Callable[[], object]) -> None:
        self.gone = trio.Event()
        self._loop = loop
        self._function = function
        self._token = trio.lowlevel.current_trio_token()
        self._task: asyncio.Task[Any] | None = None

    def start(self) -> None:
        """Start the task; runs on the event loop."""
        self._task = self._loop.create_task(self._run())
        self._task.add_done_callback(self._set_gone)

    def cancel(self) -> None:
        """Cancel the task; runs on the event loop, after `start`."""
        if self._task is not None:
            self._task.cancel("callboard cancelled the call")

    def result(self) -> Any:
        """Return its result, or raise its error; one that is no `Exception` as a `RuntimeError`."""
        assert self._task is not None
        if self._task.cancelled():
            raise RuntimeError("it was cancelled on the program's event loop")
        error = self._task.exception()
        if error is None or isinstance(error, Exception):
            return self._task.result()
        kind = type(error).__name__  # such as SystemExit, which must not end Trio's run
        raise RuntimeError(f"it ended with {kind} on the program's event loop") from error

    async def _run(self) -> Any:
        returned = self._function()
        return await returned if inspect.isawaitable(returned) else returned

    def _set_gone(self, _: object) -> None:
        with suppress(trio.RunFinishedError):
            self._token.run_sync_soon(self.gone.set)


Answer = TypeVar("Answer")
Args = ParamSpec("Args")
Inner = TypeVar("Inner")
Outer = TypeVar("Outer")


async def cross(portal: Portal, function: Callable[[], Awaitable[Answer]]) -> Answer:
    """Run a call in the portal. Cancelling this cancels the call and waits until it is gone."""
    crossing = Crossing(function)
    try:
        with ShortTracebacks():
            portal.submit(crossing)
            return await asyncio.wrap_future(crossing.future)
    except asyncio.CancelledError:
        portal.cancel(crossing)
        await _wait_gone(crossing.future, GONE_SECONDS)  # noqa: ASYNC102  an event loop has no scopes
        raise
    finally:
        del crossing  # its future's exception refers to this frame


async def cross_to_end(portal: Portal, function: Callable[[], Awaitable[object]]) -> None:
    """Run a call that cleans up. Cancelling this does not stop it, and is raised afterwards."""
    crossing = Crossing(function)
    portal.submit(crossing)
    cancelled = await _wait_gone(crossing.future, GONE_SECONDS)
    if cancelled is not None:
        raise cancelled
    if crossing.future.done():
        crossing.future.result()


async def close_portal(portal: Portal) -> None:
    """Close the runtime and wait for its thread, `CLOSE_SECONDS` at most.

    The event loop keeps running meanwhile, as the program's own tools end there. Cancelling this does
    not stop the closing, and is raised afterwards.
    """
    portal.stop()
    cancelled = await _wait_gone(portal.ended, CLOSE_SECONDS)
    if portal.ended.done():
        portal.join()  # the thread has nothing left to do
    if cancelled is not None:
        raise cancelled


async def _wait_gone(future: Future[Any], seconds: float) -> asyncio.CancelledError | None:
    """Wait until a future is done, for so many seconds at most, whatever cancels the task meanwhile.

    Return the first of those cancellations, which the caller must raise.
    """
    loop = asyncio.get_running_loop()
    gone = loop.create_future()

    def wake(_: object) -> None:
        with suppress(RuntimeError):  # the loop is closed, and nobody waits
            loop.call_soon_threadsafe(gone.cancel)

    future.add_done_callback(wake)
    deadline = loop.time() + seconds
    cancelled: asyncio.CancelledError | None = None
    while not gone.done() and (left := deadline - loop.time()) > 0:
        try:
            await asyncio.wait([gone], timeout=left)
        except asyncio.CancelledError as error:  # noqa: ASYNC103  it is the caller's to raise
            cancelled = cancelled or error
    return cancelled


def forwarded(
    method: Callable[Concatenate[Inner, Args], Awaitable[Answer]],
) -> Callable[Concatenate[Handle[Inner], Args], Coroutine[Any, Any, Answer]]:
    """Return a handle's method that calls this one of its object and awaits it on the event loop."""

    @wraps(method)
    async def call(self: Handle[Inner], /, *args: Args.args, **kwargs: Args.kwargs) -> Answer:
        inner: Callable[Args, Awaitable[Answer]] = getattr(self._inner, method.__name__)
        return await cross(self._portal, partial(inner, *args, **kwargs))

    return call


def forwarded_to(
    kind: Callable[[Portal, Answer], Outer],
    method: Callable[Concatenate[Inner, Args], Awaitable[Answer]],
) -> Callable[Concatenate[Handle[Inner], Args], Coroutine[Any, Any, Outer]]:
    """Return the method as `forwarded`, with a handle of this kind for its result."""

    @wraps(method)
    async def call(self: Handle[Inner], /, *args: Args.args, **kwargs: Args.kwargs) -> Outer:
        return kind(self._portal, await forwarded(method)(self, *args, **kwargs))

    return call
