"""Indexes that find memories by what they mean: copies, made of what is on record.

The journal has every memory; an index holds what can be made of them again. So nothing hangs on an
index: what a crash left out of it is added at the next start (see `actors/handles/memory_search.py`),
one that is damaged is made anew, and taking it away loses nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Protocol

from .memories import Memory

MIN_SIMILARITY = 0.1
"""Below it two texts have nothing to do with each other: of 56 pairs that had not, 4 were above."""


class Embedding(Protocol):
    """What makes vectors of texts: unit vectors, 32-bit floats. It blocks.

    Attributes:
        name: Which one: the vectors of another one can't be compared with them.
        dimensions: How many numbers a vector has.
    """

    name: str
    dimensions: int

    def vectors(self, texts: Sequence[str]) -> list[bytes]:
        """The vector of each text."""
        ...


class MemoryIndex(Protocol):
    """A copy of memories, with their vectors. All of it blocks, and is called by one thread at a time.

    Whatever it can't do raises `StorageError`, and may be tried again.
    """

    def missing(self, memories: Sequence[Memory]) -> list[Memory]:
        """Those of them that it does not hold."""
        ...

    def add(self, memories: Sequence[Memory]) -> None:
        """Holds these too; those that it holds already are left as they are."""
        ...

    def remove(self, memory_ids: Iterable[str]) -> None:
        """Holds these no more."""
        ...

    def ids(self) -> list[str]:
        """All that it holds."""
        ...

    def near(self, agent: str, query: str, limit: int) -> list[str]:
        """The ids of an agent's memories that mean something like a query, the nearest first."""
        ...

    def close(self) -> None:
        """Gives up what it has open. Idempotent."""
        ...


def embedded_text(memory: Memory) -> str:
    """What of a memory its vector is made of."""
    return "\n".join([memory.text, " ".join(memory.tags)]) if memory.tags else memory.text


def max_distance() -> float:
    """How far unit vectors may be apart that are as similar as they must be (Euclidean)."""
    return math.sqrt(2 - 2 * MIN_SIMILARITY)
