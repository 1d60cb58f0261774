"""A gate in front of work that only whoever holds a lease may do.

Where several nodes share a record, the database takes nothing from a node that lost its lease, but it can't stop
what the node does elsewhere. So such work begins only while the node's own count of its lease has time left, and what
runs at the end is cancelled.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TypeVar

import trio

from ..definitions import Resource
from ..errors import StoreUnavailable

LOOK_SECONDS = 0.1
"""Between two looks whether a closed gate is open again: a lease is renewed each 0.4 seconds."""

_Result = TypeVar("_Result")

Holding = Callable[[str, Sequence[Resource]], AbstractAsyncContextManager[None]]
"""Given a workspace and paths, returns a block in which no other node writes them."""


class LeaseGate:
    """Lets work begin while it is open, and ends it when it closes.

    Args:
        is_open: Whether work may begin now.

    Attributes:
        holding: Holds paths of a workspace against other nodes; `None` where none shares a folder with this one.
        hold: Has a process get a signal when the lease is over, also while this process is stopped; returns what is
            called when it has ended.
    """

    def __init__(self, is_open: Callable[[], bool]) -> None:
        self.is_open = is_open
        self.holding: Holding | None = None
        self.hold: Callable[[int, int], Callable[[], None]] | None = None
        self._running: set[trio.CancelScope] = set()

    async def wait_open(self) -> None:
        """Wait until work may begin."""
        while not self.is_open():  # noqa: ASYNC110  # ruff: ignore[async-busy-wait]
            await trio.sleep(LOOK_SECONDS)

    async def run(self, work: Callable[[], Awaitable[_Result]]) -> _Result:
        """Run work that may begin; raise `StoreUnavailable` when the gate closes before it has ended."""
        with trio.CancelScope() as scope:
            self._running.add(scope)
            try:
                return await work()
            finally:
                self._running.discard(scope)
        raise StoreUnavailable("this node of the cluster has lost touch with the database")

    def cut_off(self) -> None:
        """Cancel what runs; its programs are killed, within the bounds of a cancelled call."""
        for scope in self._running:
            scope.cancel(reason="the node lost its lease")
