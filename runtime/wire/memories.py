"""`memory/…` on the wire."""

from __future__ import annotations

import msgspec

from ..memory.memories import Memory
from ..text import WireInteger
from .fields import Line, LongText, Word, Words


class ListMemories(msgspec.Struct, frozen=True, kw_only=True):
    """Which memories to list: of an agent or of all, stored before `before`."""

    agent: Word | None = None
    before: Word | None = None
    limit: WireInteger = 100


class SearchMemories(msgspec.Struct, frozen=True, kw_only=True):
    """Words to find in an agent's memories."""

    query: Line
    agent: Word = "general"
    limit: WireInteger = 20


class Memories(msgspec.Struct, frozen=True):
    """Memories, the latest or the best first."""

    memories: list[Memory]


class StoreMemory(msgspec.Struct, frozen=True, kw_only=True):
    """A memory to store for later sessions of the agent; it is recorded in this session."""

    session_id: Word
    text: LongText
    tags: Words = ()


class OneMemory(msgspec.Struct, frozen=True):
    """A memory by its id."""

    memory_id: Word
