"""What happens in a session, as a client far away hears it: nothing is missed over broken connections."""

from __future__ import annotations

from typing import Protocol

import trio

from ..runtime.events import LiveEvent, Stored
from ..runtime.wire.topics import Snapshot
from .feed import RemoteFeed

RemoteEvent = Stored | LiveEvent | Snapshot
"""What an iteration over the events of a session far away gives."""


class Hearing(Protocol):
    """Where subscriptions to sessions are made."""

    async def subscribe(self, events: RemoteEvents, after_seq: int | None) -> int:
        """From here on they are told what is behind this event, or all that is new."""
        ...

    def drop(self, events: RemoteEvents) -> bool:
        """They are told no more, whatever comes; never waits."""
        ...

    async def forget(self, events: RemoteEvents) -> None:
        """They are told no more, and the daemon hears of it."""
        ...


class RemoteEvents(RemoteFeed[RemoteEvent]):
    """The events of one session; made by `Client.events`: enter it, then iterate.

    Gives what is on record as `Stored`, live events as they come, and a `Snapshot` where live events
    begin anew: at the start, and behind a broken connection. It has the whole answer so far, and takes the
    place of all live events that were given since the last one on record.
    """

    def __init__(
        self,
        hearing: Hearing,
        session_id: str,
        after_seq: int | None,
        epoch: str | None = None,
    ) -> None:
        super().__init__(after_seq, epoch)
        self.session_id = session_id
        self._hearing = hearing
        self._is_live = False

    async def _begin_anew(self) -> None:
        # Events on record follow each other without a gap, and live ones follow a snapshot.
        self._is_live = False
        await trio.lowlevel.checkpoint()

    async def _follow(self, after_seq: int | None) -> int:
        return await self._hearing.subscribe(self, after_seq)

    def _drop(self) -> None:
        self._hearing.drop(self)

    async def _forget(self) -> None:
        await self._hearing.forget(self)

    def _continues(self, item: RemoteEvent) -> bool:
        taken = self._taken_seq
        if isinstance(item, Stored):
            return taken is None or item.seq == taken + 1
        if isinstance(item, Snapshot):
            return taken is None or item.seq == taken
        return self._is_live

    def _take(self, item: RemoteEvent) -> None:
        if isinstance(item, Stored | Snapshot):
            self._taken_seq = item.seq
            self._is_live = self._is_live or isinstance(item, Snapshot)

    def _seq_of(self, item: RemoteEvent) -> int | None:
        return item.seq if isinstance(item, Stored) else None
