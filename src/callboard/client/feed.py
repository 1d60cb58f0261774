"""What a client hears of one thing far away: in order, once, over broken connections and restarts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from types import TracebackType
from typing import Generic, Self, TypeVar

import trio

from ..runtime.errors import CallboardError, NetworkError, ValidationError

MAX_WAITING_EVENTS = 10_000
"""Events that wait for a reader; past that it is heard anew from the last one, when it has read them."""

FORGET_SECONDS = 1.0
"""For the daemon to hear that somebody listens no more; it finds out by itself, too."""

Item = TypeVar("Item")


class RemoteFeed(ABC, Generic[Item]):
    """Enter it, then iterate. What comes is told by the connection, which never waits for a reader.

    Args:
        after_seq: The last event that is known already; `None` for all of them.
        epoch: The store in which that counts.

    Attributes:
        seq: Of the last event on record that was given, or 0.
        epoch: The store in which it counts: who keeps the one keeps both. Empty before it is entered.
    """

    def __init__(self, after_seq: int | None, epoch: str | None) -> None:
        if after_seq and epoch is None:
            raise ValidationError(
                f"after_seq={after_seq} counts in one store, and a restored backup is another: say "
                "which with epoch=, by the `epoch` of the events from which it was kept, or of "
                "`client.welcome`",
                field="epoch",
            )
        self.seq = 0
        self.epoch = epoch or ""
        self._taken_seq = after_seq
        self._items: deque[Item] = deque()
        self._wake = trio.Event()
        self._is_heard = False
        self._error: CallboardError | None = None

    async def __aenter__(self) -> Self:
        try:
            await self._subscribe()
        except BaseException:
            self._drop()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with trio.move_on_after(FORGET_SECONDS, shield=True):
            await self._forget()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Item:
        """The next event; waits for it, however long the daemon is away.

        Raises:
            CallboardError: What is heard is gone, the store is another one, or the token is.
        """
        while not self._items:
            if self._error is not None:
                raise self._error
            await self._subscribe()
            if not self._items and self._is_heard:
                self._wake = trio.Event()
                await self._wake.wait()
        item = self._items.popleft()
        self.seq = self._seq_of(item) or self.seq
        return item

    def put(self, item: Item) -> None:
        """Takes an event of the connection; never waits. What does not continue is left out.

        So is what comes behind the end of it all.
        """
        if not self._is_heard or self._error is not None or not self._continues(item):
            return
        if len(self._items) >= MAX_WAITING_EVENTS:
            self.lost()
            return
        self._take(item)
        self._items.append(item)
        self._wake.set()

    def pass_over(self, seq: int) -> None:
        """Takes note of an event on record that nobody here understands."""
        if self._is_heard and (self._taken_seq is None or seq == self._taken_seq + 1):
            self._taken_seq = seq

    def lost(self) -> None:
        """The subscription is gone: it is made again when what waits has been read."""
        self._is_heard = False
        self._wake.set()

    def fail(self, error: CallboardError) -> None:
        """There will be nothing more."""
        self._error = error
        self._wake.set()

    async def _subscribe(self) -> None:
        while not self._is_heard and self._error is None:
            try:
                await self._begin_anew()
                self._is_heard = True
                head_seq = await self._follow(self._taken_seq)
            except NetworkError:
                self._is_heard = False  # asked again over the next connection
            except BaseException:
                self._is_heard = False
                raise
            else:
                if self._taken_seq is None:  # what comes later than this is not missed either
                    self._taken_seq = head_seq

    @abstractmethod
    async def _begin_anew(self) -> None:
        """Sees to it that nothing of an earlier subscription comes between."""

    @abstractmethod
    async def _follow(self, after_seq: int | None) -> int:
        """Subscribes; gives the last event on record by then."""

    @abstractmethod
    def _drop(self) -> None:
        """Is told no more; never waits."""

    @abstractmethod
    async def _forget(self) -> None:
        """Unsubscribes."""

    @abstractmethod
    def _continues(self, item: Item) -> bool:
        """Whether an event follows what was taken."""

    @abstractmethod
    def _take(self, item: Item) -> None:
        """Notes that an event was taken."""

    @abstractmethod
    def _seq_of(self, item: Item) -> int | None:
        """Of an event on record."""
