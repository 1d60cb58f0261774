"""Reads the events of a session on while a question stands at the terminal: its answer may be among them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

import trio

from ...runtime.errors import CallboardError
from ...runtime.events import Stored
from .terminal_channel import TerminalChannel

if TYPE_CHECKING:
    from ...client.subscriptions import RemoteEvent, RemoteEvents

MAX_READ_AHEAD = 1000
"""Events that are kept until they can be printed; those behind them wait where they are, and answers among them too."""


class ReadAhead:
    """The events of one session, each when it can be printed.

    Args:
        events: The events as they come.
        see: Hears each event on record as soon as it comes.
        channel: The terminal whose questions are waited for, if there is one.
    """

    def __init__(
        self, events: RemoteEvents, see: Callable[[Stored], None], channel: TerminalChannel | None
    ) -> None:
        self._events = events
        self._see = see
        self._channel = channel
        self._read: deque[RemoteEvent] = deque()
        self._error: CallboardError | None = None

    async def next(self) -> RemoteEvent:
        """Wait for the next event, and until no question is open; raise what ends the events."""
        if not self._read:
            await self._take()
        channel = self._channel
        while channel is not None and channel.is_asking:
            if self._error is not None or len(self._read) >= MAX_READ_AHEAD:
                await channel.wait_quiet()
                continue
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._end_when_quiet, channel, nursery, name="question")
                await self._take()
                nursery.cancel_scope.cancel(reason="an event has come")
        if self._read:
            return self._read.popleft()
        assert self._error is not None
        raise self._error

    async def _take(self) -> None:
        if self._error is not None:
            return
        try:
            event = await anext(self._events)
        except CallboardError as error:
            self._error = error
            return
        self._read.append(event)
        if isinstance(event, Stored):
            self._see(event)

    async def _end_when_quiet(self, channel: TerminalChannel, nursery: trio.Nursery) -> None:
        await channel.wait_quiet()
        nursery.cancel_scope.cancel(reason="no question is open")
