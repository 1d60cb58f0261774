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
from collections.abc import Awaitable, Callable, Coroutine, Generator
from concurrent.futures import Future
from contextlib import suppress
from functools import partial, wraps
from typing import Any, ParamSpec, TypeVar

import trio

from ..runtime.errors import ActorStopped
from ..runtime.redaction import redacting_logger
from ..runtime.store.interface import StoreReader
from ..tools.tool import FunctionTool, Tool
from .portal import CLOSE_SECONDS, GONE_SECONDS, Crossing, Portal

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


Answer = TypeVar("Answer")
Args = ParamSpec("Args")


async def cross(portal: Portal, function: Callable[[], Awaitable[Answer]]) -> Answer:
    """Runs a call in the portal; cancelling this cancels that and waits until it is gone."""
    crossing = Crossing(function)
    portal.submit(crossing)
    try:
        return await asyncio.wrap_future(crossing.future)
    except asyncio.CancelledError:
        portal.cancel(crossing)
        await wait_gone(crossing.future, GONE_SECONDS)
        raise
    finally:
        del crossing  # as in the crossing itself


async def close_portal(portal: Portal) -> asyncio.CancelledError | None:
    """Closes it, as `wait_gone` waits; the event loop goes on, as its own functions end there."""
    portal.stop()
    cancelled = await wait_gone(portal.ended, CLOSE_SECONDS)
    if portal.ended.done():
        portal.join()  # it has nothing left to do
    return cancelled


async def wait_gone(future: Future[Any], seconds: float) -> asyncio.CancelledError | None:
    """Waits until a future is done, so long at most, however often the task is cancelled.

    Gives the first of those cancels; the caller has to raise it.
    """
    loop = asyncio.get_running_loop()
    gone = loop.create_future()

    def wake(_: object) -> None:
        with suppress(RuntimeError):  # the loop is closed, so that nobody waits
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


def waiting(
    portal: Portal, method: Callable[Args, Awaitable[Answer]]
) -> Callable[Args, Coroutine[Any, Any, Answer]]:
    """The same method for a task of the program: it crosses over to the portal's thread."""

    @wraps(method)
    async def call(*args: Args.args, **kwargs: Args.kwargs) -> Answer:
        return await cross(portal, partial(method, *args, **kwargs))

    return call


class Records:
    """What is on record; see `StoreReader` for each method."""

    def __init__(self, portal: Portal, store: StoreReader) -> None:
        self.events = waiting(portal, store.events)
        self.session = waiting(portal, store.session)
        self.sessions = waiting(portal, store.sessions)
        self.messages = waiting(portal, store.messages)
        self.calls = waiting(portal, store.calls)
        self.usage = waiting(portal, store.usage)
        self.approvals = waiting(portal, store.approvals)
        self.grants = waiting(portal, store.grants)
        self.full_output = waiting(portal, store.full_output)
        self.open_turns = waiting(portal, store.open_turns)
        self.open_inputs = waiting(portal, store.open_inputs)
        self.waking_sessions = waiting(portal, store.waking_sessions)
        self.children = waiting(portal, store.children)
        self.spending = waiting(portal, store.spending)
        self.memories = waiting(portal, store.memories)
        self.found_memories = waiting(portal, store.found_memories)
        self.marked_files = waiting(portal, store.marked_files)
