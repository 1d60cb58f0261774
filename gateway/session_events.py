"""What happens in a session of this daemon, for who follows it over another protocol than callboard's own."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from ..embedding.runtime import host_of
from ..runtime.errors import OverloadedError
from ..runtime.events import LiveEvent, Stored
from ..runtime.kernel.delivery import Subscription
from ..runtime.messages import FollowSession
from .connection.caller import Requester

PAGE_EVENTS = 256
"""Read of the record at a time."""


class LocalEvents:
    """What happens in a session of this daemon, each stored event once; enter it, then iterate.

    Whoever reads slower than the session goes on gets stored events from the record; pieces of answers are missing then,
    which the offsets of the others show.

    Args:
        requester: Who follows; it must see the session.
        session_id: Which.
        after_seq: The last event that is known; `None` for what comes from now on.
        subscription: That of an input, which paces its turn, and gets what comes from that input on.
    """

    def __init__(
        self,
        requester: Requester,
        session_id: str,
        after_seq: int | None,
        subscription: Subscription | None = None,
    ) -> None:
        self._requester = requester
        self._session_id = session_id
        self._seq = 0 if after_seq is None else after_seq
        self._reads_record = after_seq is not None
        self._paces = subscription is not None
        self._subscription = subscription or Subscription()
        self._heard: list[Stored | LiveEvent] = []

    async def __aenter__(self) -> Self:
        await self._requester.session(self._session_id)
        if not self._paces:
            head_seq = await self._follow()
            if not self._reads_record:
                self._seq = head_seq
        return self

    async def _follow(self) -> int:
        message = FollowSession(session_id=self._session_id, subscription=self._subscription)
        start = await host_of(self._requester.runtime).directory.ask(message)
        return start.head_seq

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Hear nothing more. Idempotent."""
        self._subscription.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Stored | LiveEvent:
        while (heard := self._next()) is None:
            if self._reads_record:
                await self._read_record()
                continue
            if not await self._hear():
                raise StopAsyncIteration
        return heard

    async def take(self) -> list[Stored | LiveEvent]:
        """Wait for what happens, and return all that has, or a page of the record; empty at the end."""
        while True:
            heard: list[Stored | LiveEvent] = []
            while (one := self._next()) is not None:
                heard.append(one)
            if heard:
                return heard
            if self._reads_record:
                await self._read_record()
                continue
            if not await self._hear():
                return []

    async def _hear(self) -> bool:
        """Wait for what happens; return `False` at the end."""
        try:
            updates = await self._subscription.take()
        except OverloadedError:
            if self._paces:
                raise
        else:
            self._heard.extend(updates)
            return bool(updates)
        self._subscription, self._reads_record = Subscription(), True
        await self._follow()
        return True

    @property
    def is_current(self) -> bool:
        """Whether all was returned that has happened so far."""
        return not self._heard and not self._reads_record

    def _next(self) -> Stored | LiveEvent | None:
        """Return what was heard next; stored events may have come twice, from the record and as they were stored."""
        while self._heard:
            heard = self._heard.pop(0)
            if not isinstance(heard, Stored):
                return heard
            if heard.seq > self._seq:
                self._seq = heard.seq
                return heard
        return None

    async def _read_record(self) -> None:
        """Take the next page of what was stored before the subscription began."""
        store = self._requester.runtime.store
        page = await store.events(self._session_id, after_seq=self._seq, limit=PAGE_EVENTS)
        self._heard.extend(page)
        self._reads_record = len(page) == PAGE_EVENTS
