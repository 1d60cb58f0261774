"""Memories: the struct, the protocols of stores and handles, and words for full-text search.

tests/actors/test_memory_stores.py checks every `MemoryStore`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import Protocol

import msgspec

MAX_MEMORY_CHARS = 4_000
"""A memory is a note, not a document: a longer text belongs in a file that the memory names."""
MAX_TAGS = 16
"""More tags say less than the text does."""
MAX_TAG_CHARS = 64
"""A word or two."""
MAX_MEMORIES = 10_000
"""Memories of one agent: keeps a search within milliseconds, and stops a model that stores in a loop."""
MAX_QUERY_WORDS = 32
"""A query is a question, not a text: each word is looked up."""

_WORDS = re.compile(r"\w+")
_UNSPACED = re.compile(
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)
"""Letters of scripts without spaces between words: Thai, Lao, Burmese, Khmer, kana, Han."""


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """A stored memory.

    Attributes:
        memory_id: Follows from agent, text and tags; see `memory_id`.
        agent: The agent whose sessions find it.
        session_id, call_id: The call that stored it.
        is_untrusted: Whether the session that stored it was tainted; reading it taints too.
        stored_at_ms: When it was stored, in Unix milliseconds.
    """

    memory_id: str
    agent: str
    text: str
    tags: tuple[str, ...]
    session_id: str
    call_id: str
    is_untrusted: bool
    stored_at_ms: int


class NewMemory(msgspec.Struct, frozen=True, kw_only=True):
    """A memory to store; the fields are as in `Memory`."""

    agent: str
    text: str
    tags: tuple[str, ...] = ()
    session_id: str
    call_id: str = ""
    is_untrusted: bool = False


class MemoryReader(Protocol):
    """The handle through which a tool finds memories of its agent."""

    async def search(self, query: str, *, limit: int) -> list[Memory]:
        """Return the agent's memories that hold words of a query, the best first."""
        ...


class MemoryWriter(Protocol):
    """The handle through which a tool stores memories for its agent."""

    async def store(self, text: str, tags: tuple[str, ...] = ()) -> Memory:
        """Store a memory once; raise `ToolFailure` (`storage_full`) if there are too many."""
        ...


class MemoryStore(Protocol):
    """A store of memories, each once. Agents don't see those of others."""

    async def store(self, new: NewMemory) -> Memory:
        """Store a memory durably and return it.

        If it is stored already, return it as it was first stored, so repeating a call changes nothing.
        Raises `ConflictError` if the agent has too many.
        """
        ...

    async def search(self, agent: str, query: str, *, limit: int) -> list[Memory]:
        """Return an agent's memories that hold words of a query, the best first. Plain words only."""
        ...

    async def list(self, *, agent: str | None = None, limit: int) -> list[Memory]:
        """Return memories of an agent, or of all agents, the latest first."""
        ...

    async def forget(self, memory_id: str, *, forgotten_by: str) -> None:
        """Remove a memory. Raises `NotFoundError` if there is none."""
        ...


def memory_id(agent: str, text: str, tags: Iterable[str]) -> str:
    """Return the id of a memory; equal content has an equal id."""
    said = msgspec.json.encode([agent, text, sorted_tags(tags)])
    return f"memory_{hashlib.sha256(said).hexdigest()[:20]}"


def sorted_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Return tags sorted and without duplicates, as they are stored."""
    return tuple(sorted(set(tags)))


def indexed(text: str) -> str:
    """Return a text for the index: letters of scripts without spaces become words of their own."""
    return _UNSPACED.sub(r" \g<0> ", text)


def query_of(text: str) -> str:
    """Return a full-text query for any word of a text; empty if the text has no words."""
    return " OR ".join(map(word_query, words_of(text)))


def word_query(word: str) -> str:
    """Return a full-text query for one word.

    The word is quoted, so that neither signs nor words such as NEAR have a meaning. Letters of an unspaced
    script must be adjacent. The index folds letters one by one; if the word folds further (ß and ss, the
    final sigma of a Greek word), both forms are looked for.
    """
    folded = word.casefold()
    forms = (word,) if folded == word.lower() else (word, folded)
    quoted = [f'"{indexed(form).strip()}"' for form in forms]
    return quoted[0] if len(quoted) == 1 else f"({' OR '.join(quoted)})"


def words_of(text: str) -> list[str]:
    """Return the words of a query, each once, in their first spelling."""
    words: dict[str, str] = {}
    for word in _WORDS.findall(text):
        words.setdefault(word.casefold(), word)
    return list(words.values())[:MAX_QUERY_WORDS]
