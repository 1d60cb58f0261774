"""Memories: what sessions of an agent leave to later ones, and where they are kept.

`MemoryStore` is what any place for them does; tests/actors/test_memory_stores.py holds each to it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import Protocol

import msgspec

MAX_MEMORY_CHARS = 4_000
"""A memory is a note, not a document: what is longer belongs into a file that it names."""
MAX_TAGS = 16
"""More tags say less than the text does."""
MAX_TAG_CHARS = 64
"""A word or two."""
MAX_MEMORIES = 10_000
"""Of one agent: a search stays within milliseconds, and a model that stores in a loop comes to an end."""
MAX_QUERY_WORDS = 32
"""A question, not a text: each word is a look-up."""

_WORDS = re.compile(r"\w+")
_UNSPACED = re.compile(
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)
"""Letters of scripts that put no space between words: Thai, Lao, Burmese, Khmer, kana, Han."""


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """One memory on record.

    Attributes:
        memory_id: Follows from agent, text and tags; see `memory_id`.
        agent: Whose sessions find it.
        session_id, call_id: Where it comes from.
        is_untrusted: Whether the session that stored it had read what strangers may have written:
            then whoever reads it has, too.
        stored_at_ms: When, in Unix milliseconds.
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
    """What is to be remembered, and by whom; as in `Memory`."""

    agent: str
    text: str
    tags: tuple[str, ...] = ()
    session_id: str
    call_id: str = ""
    is_untrusted: bool = False


class MemoryReader(Protocol):
    """The way to what earlier sessions of the agent remembered."""

    async def search(self, query: str, *, limit: int) -> list[Memory]:
        """The agent's memories that hold words of a query, the best first."""
        ...


class MemoryWriter(Protocol):
    """The way to tell something to later sessions of the agent."""

    async def store(self, text: str, tags: tuple[str, ...] = ()) -> Memory:
        """Keeps a memory, once; raises `ToolFailure` (`storage_full`) when there are too many."""
        ...


class MemoryStore(Protocol):
    """A place where memories are kept, each once; agents do not see each other's."""

    async def store(self, new: NewMemory) -> Memory:
        """Keeps a memory; on record when this returns.

        The same said again is the memory that is there, as it was first stored: whoever repeats a
        call changes nothing. Raises `ConflictError` when the agent has too many.
        """
        ...

    async def search(self, agent: str, query: str, *, limit: int) -> list[Memory]:
        """An agent's memories that hold words of a query, the best first; no syntax in it counts."""
        ...

    async def list(self, *, agent: str | None = None, limit: int) -> list[Memory]:
        """Memories of an agent, or of all, the latest first."""
        ...

    async def forget(self, memory_id: str, *, forgotten_by: str) -> None:
        """Takes a memory back: no search finds it. Raises `NotFoundError` when there is none."""
        ...


def memory_id(agent: str, text: str, tags: Iterable[str]) -> str:
    """The key of a memory: whatever says the same has the same."""
    said = msgspec.json.encode([agent, text, sorted_tags(tags)])
    return f"memory_{hashlib.sha256(said).hexdigest()[:20]}"


def sorted_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Tags in the one order that they are kept in."""
    return tuple(sorted(set(tags)))


def indexed(text: str) -> str:
    """A text as the index gets it: letters of scripts without spaces stand as words of their own."""
    return _UNSPACED.sub(r" \g<0> ", text)


def query_of(text: str) -> str:
    """A full-text query that finds any of the words of a text; empty when there is none."""
    return " OR ".join(map(word_query, words_of(text)))


def word_query(word: str) -> str:
    """A full-text query for one word.

    It is quoted: no sign, and no word such as NEAR or NOT, has a meaning of its own. What an unspaced
    script writes together stands together. The index folds letters one by one; where the word folds
    further than that (ß and ss, the last sigma of a Greek word), both are looked for.
    """
    folded = word.casefold()
    forms = (word,) if folded == word.lower() else (word, folded)
    quoted = [f'"{indexed(form).strip()}"' for form in forms]
    return quoted[0] if len(quoted) == 1 else f"({' OR '.join(quoted)})"


def words_of(text: str) -> list[str]:
    """The words of a query, each once, as it first stands there; no other sign counts."""
    words: dict[str, str] = {}
    for word in _WORDS.findall(text):
        words.setdefault(word.casefold(), word)
    return list(words.values())[:MAX_QUERY_WORDS]
