"""The protocols of an index that finds memories by meaning, and of the embedding that it uses.

An index is a copy of what the store has, so nothing depends on it: what a crash left out is added at the
next start (see `actors/handles/memory_search.py`), a damaged index is made again, and removing it loses
nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Protocol

from .memories import Memory

MIN_SIMILARITY = 0.1
"""Texts below it are unrelated: of 56 unrelated pairs, 4 were above it."""


class Embedding(Protocol):
    """Makes unit vectors of 32-bit floats from texts. It blocks.

    Attributes:
        name: Its name: vectors of different embeddings can't be compared.
        dimensions: The length of a vector.
    """

    name: str
    dimensions: int

    def vectors(self, texts: Sequence[str]) -> list[bytes]:
        """Return the vector of each text."""
        ...


class MemoryIndex(Protocol):
    """A copy of memories with their vectors.

    All methods block, and are called by one thread at a time. They raise `StorageError` if they fail, and
    may be tried again.
    """

    def missing(self, memories: Sequence[Memory]) -> list[Memory]:
        """Return those of the memories that the index does not hold."""
        ...

    def add(self, memories: Sequence[Memory]) -> None:
        """Add memories; those that it holds stay as they are."""
        ...

    def remove(self, memory_ids: Iterable[str]) -> None:
        """Remove memories."""
        ...

    def ids(self) -> list[str]:
        """Return the ids of all memories that it holds."""
        ...

    def near(self, agent: str, query: str, limit: int) -> list[str]:
        """Return the ids of an agent's memories that are similar to a query, the nearest first."""
        ...

    def close(self) -> None:
        """Close files and connections. Idempotent."""
        ...


def embedded_text(memory: Memory) -> str:
    """Return the text that a memory's vector is made from."""
    return "\n".join([memory.text, " ".join(memory.tags)]) if memory.tags else memory.text


def max_distance() -> float:
    """Return the Euclidean distance of unit vectors that have `MIN_SIMILARITY`."""
    return math.sqrt(2 - 2 * MIN_SIMILARITY)
