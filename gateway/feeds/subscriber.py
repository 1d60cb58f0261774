"""What the subscribers of a session's feed and of a topic's feed have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from ...runtime.store.interface import StoreReader
from .outbox import Outbox


class Subscriber(ABC):
    """One connection's place in a feed: live, or behind and catching up.

    Attributes:
        position: The `seq` up to which everything is or was in its outbox.
        is_live: Whether updates are put into its outbox as they come.
        is_ended: Whether the subscription is over.
    """

    __slots__ = ("_falls_behind", "is_ended", "is_live", "outbox", "position")

    def __init__(self, outbox: Outbox, position: int, falls_behind: Callable[[], None]) -> None:
        self.outbox = outbox
        self.position = position
        self.is_live = False
        self.is_ended = False
        self._falls_behind = falls_behind

    def end(self) -> None:
        """Put nothing more into its outbox. Idempotent."""
        self.is_ended, self.is_live = True, False

    def fall_behind(self) -> None:
        """Stop live updates, if it was live; the connection is asked to catch up from the record."""
        if self.is_live:
            self.is_live = False
            self._falls_behind()

    @abstractmethod
    async def joined(self) -> None:
        """Wait until the feed is there; raise the error if it never will be."""

    @abstractmethod
    async def catch_up(self, store: StoreReader) -> None:
        """Take one step towards being live."""
