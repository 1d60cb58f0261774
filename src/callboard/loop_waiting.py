"""How a task of an asyncio program waits for the portal's thread, also while it is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from functools import partial, wraps
from typing import Any, ParamSpec, TypeVar

from .portal import CLOSE_SECONDS, GONE_SECONDS, Crossing, Portal
from .runtime.store import StoreReader

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
