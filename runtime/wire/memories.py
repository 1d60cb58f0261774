"""`memory/…` on the wire."""

from __future__ import annotations

import msgspec

from ..integers import WireInteger
from ..memories import Memory


class ListMemories(msgspec.Struct, frozen=True, kw_only=True):
    """Memories of an agent, or of all; those stored before the memory `before`."""

    agent: str | None = None
    before: str | None = None
    limit: WireInteger = 100


class SearchMemories(msgspec.Struct, frozen=True, kw_only=True):
    """Words that an agent's memories are looked through for."""

    query: str
    agent: str = "general"
    limit: WireInteger = 20


class Memories(msgspec.Struct, frozen=True):
    """Memories, the latest or the best first."""

    memories: list[Memory]


class StoreMemory(msgspec.Struct, frozen=True, kw_only=True):
    """What later sessions of the agent shall find; it stands on the record of a session."""

    session_id: str
    text: str
    tags: tuple[str, ...] = ()


class OneMemory(msgspec.Struct, frozen=True):
    """A memory by its id."""

    memory_id: str
