"""What is read of a store for clients far away: events as bytes, topics, and what requests came to."""

from __future__ import annotations

from typing import Protocol

import msgspec

from .request_key import RequestKey
from .topics import LogEntry, StoredBytes, Topic


class DoneRequest(msgspec.Struct, frozen=True):
    """A request with a key that was done: its event, and the digest of its parameters."""

    digest: str
    session_id: str
    seq: int


class FeedReader(Protocol):
    """A part of `StoreReader`. Every method raises `StorageError` when the database fails."""

    async def epoch(self) -> str:
        """Names this store: another one, or one that was restored, has another epoch."""
        ...

    async def event_bytes(
        self, session_id: str, *, after_seq: int = 0, limit: int | None = None
    ) -> list[StoredBytes]:
        """As `events`, not decoded."""
        ...

    async def log(
        self, *, after_seq: int = 0, topic: Topic | None = None, limit: int | None = None
    ) -> list[LogEntry]:
        """The events of a topic, or of all, behind `after_seq`, in order."""
        ...

    async def log_head(self) -> int:
        """The last `seq` of all topics."""
        ...

    async def request(self, request: RequestKey) -> DoneRequest | None:
        """What a request with this key came to, if it was done."""
        ...
