"""How plain programs wait for the portal, and how their own functions run for it: in threads.

The functions have the names of those in `event_loop`, which do the same for asyncio.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

import trio

from ..runtime.errors import ShortTracebacks
from .portal import Handle, Portal

MAX_APPROVAL_THREADS = 64
"""Questions put to a person at once; more wait for a thread, or expire."""

Answer = TypeVar("Answer")
Args = ParamSpec("Args")
Inner = TypeVar("Inner")
Outer = TypeVar("Outer")


def cross(portal: Portal, function: Callable[[], Awaitable[Answer]]) -> Answer:
    """Run a call in the portal. An interrupt cancels the call and waits until it is gone."""
    with ShortTracebacks():
        return portal.call(function)


def cross_to_end(portal: Portal, function: Callable[[], Awaitable[object]]) -> None:
    """Run a call that cleans up."""
    portal.call(function)


def close_portal(portal: Portal) -> None:
    """Close the runtime and wait for its thread, `CLOSE_SECONDS` at most."""
    portal.stop()
    portal.join()


def forwarded(
    method: Callable[Concatenate[Inner, Args], Awaitable[Answer]],
) -> Callable[Concatenate[Handle[Inner], Args], Answer]:
    """Return a handle's method that calls this one of its object and blocks until it has ended."""

    @wraps(method)
    def call(self: Handle[Inner], /, *args: Args.args, **kwargs: Args.kwargs) -> Answer:
        inner: Callable[Args, Awaitable[Answer]] = getattr(self._inner, method.__name__)
        return cross(self._portal, partial(inner, *args, **kwargs))

    return call


def forwarded_to(
    kind: Callable[[Portal, Answer], Outer],
    method: Callable[Concatenate[Inner, Args], Awaitable[Answer]],
) -> Callable[Concatenate[Handle[Inner], Args], Outer]:
    """Return the method as `forwarded`, with a handle of this kind for its result."""

    @wraps(method)
    def call(self: Handle[Inner], /, *args: Args.args, **kwargs: Args.kwargs) -> Outer:
        return kind(self._portal, forwarded(method)(self, *args, **kwargs))

    return call


def in_thread(function: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
    """Return the program's function as one that Trio can await: an `async def` stays as it is."""
    if inspect.iscoroutinefunction(function):
        return function
    limiter = trio.CapacityLimiter(MAX_APPROVAL_THREADS)

    async def ask(question: object) -> Any:
        # Callable objects can hide that they are asynchronous, and Trio refuses a coroutine from a
        # thread: hence the tuple.
        (answer,) = await trio.to_thread.run_sync(
            lambda: (function(question),), abandon_on_cancel=True, limiter=limiter
        )
        return await answer if inspect.isawaitable(answer) else answer

    return ask
