"""Memories as events of the journal, and the handles through which calls read and store them."""

from __future__ import annotations

import builtins

import msgspec

from ...runtime.definitions import ErrorType, ToolFailure
from ...runtime.errors import ConflictError, NotFoundError, ValidationError
from ...runtime.events import MemoryForgotten, MemoryStored
from ...runtime.history import Call
from ...runtime.kernel.mailbox import Mailbox
from ...runtime.memory.memories import (
    Memory,
    MemoryReader,
    MemoryStore,
    NewMemory,
    memory_id,
    sorted_tags,
)
from ...runtime.messages import CallPlace, JournalMessage
from ...runtime.redaction import mask
from ...runtime.store.interface import StoreReader
from ...runtime.taint.marks import UNMARKED, SessionMarks
from ...runtime.text import without_surrogates
from ..services import Owners, append_as_owner

UNTRUSTED = SessionMarks(is_tainted=True)
"""Marks of a session that reads a memory which strangers may have written."""


class JournaledMemories:
    """A `MemoryStore` of durable events: each memory belongs to the session that stored it.

    In a cluster, a session of nobody is claimed for that; one of another node raises `ConflictError`.

    Args:
        journal: Takes the events.
        store: The record.
        owners: In a cluster, which sessions are this node's.
    """

    def __init__(
        self, journal: Mailbox[JournalMessage], store: StoreReader, owners: Owners | None = None
    ) -> None:
        self._journal = journal
        self._store = store
        self._owners = owners

    async def store(self, new: NewMemory) -> Memory:
        """See `MemoryStore`."""
        # Masked before the id is made of it: the id must not reveal a secret in the text.
        text, tags = _kept(new.text), sorted_tags(map(_kept, new.tags))
        event = MemoryStored(
            memory_id=memory_id(new.agent, text, tags),
            agent=new.agent,
            text=text,
            tags=tags,
            call_id=new.call_id,
            is_untrusted=new.is_untrusted,
        )
        await append_as_owner(self._journal, self._owners, new.session_id, event)
        found = await self._store.memories(memory_id=event.memory_id, limit=1)
        if not found:
            raise ConflictError(f"{event.memory_id} was forgotten as soon as it was stored.")
        return found[0]

    async def search(self, agent: str, query: str, *, limit: int) -> list[Memory]:
        """See `MemoryStore`."""
        return await self._store.found_memories(agent, query, limit=limit)

    async def list(self, *, agent: str | None = None, limit: int) -> builtins.list[Memory]:
        """See `MemoryStore`."""
        return await self._store.memories(agent=agent, limit=limit)

    async def forget(self, memory_id: str, *, forgotten_by: str) -> None:
        """See `MemoryStore`."""
        found = await self._store.memories(memory_id=memory_id, limit=1)
        event = MemoryForgotten(memory_id=memory_id, forgotten_by=forgotten_by)
        for memory in found:
            if await append_as_owner(self._journal, self._owners, memory.session_id, event):
                return
        raise NotFoundError(f"There is no memory {memory_id}.")


class OpenReader:
    """A `MemoryReader`."""

    def __init__(self, memories: MemoryStore, agent: str) -> None:
        self._memories = memories
        self._agent = agent
        self._has_untrusted = False

    @property
    def read(self) -> SessionMarks:
        """What the call has read so far, beyond what its `needs` say."""
        return UNTRUSTED if self._has_untrusted else UNMARKED

    async def search(self, query: str, *, limit: int) -> list[Memory]:
        """See `MemoryReader`."""
        found = await self._memories.search(self._agent, query, limit=limit)
        # Noted before the tool has them: whatever it does then, its session is marked.
        self._has_untrusted |= any(memory.is_untrusted for memory in found)
        return found


class OpenWriter:
    """A `MemoryWriter`.

    Args:
        is_untrusted: Whether the call's `needs` let it read what strangers wrote.
        reader: The call's reader, which knows what it has read.
    """

    def __init__(
        self,
        memories: MemoryStore,
        place: CallPlace,
        call: Call,
        *,
        is_untrusted: bool,
        reader: MemoryReader | None,
    ) -> None:
        self._memories = memories
        self._reader = reader
        self._new = NewMemory(
            agent=place.agent.name,
            text="",
            session_id=place.session_id,
            call_id=call.call_id,
            is_untrusted=is_untrusted,
        )

    async def store(self, text: str, tags: tuple[str, ...] = ()) -> Memory:
        """See `MemoryWriter`."""
        reader = self._reader
        has_read = isinstance(reader, OpenReader) and reader.read.is_tainted
        is_untrusted = self._new.is_untrusted or has_read
        new = msgspec.structs.replace(self._new, text=text, tags=tags, is_untrusted=is_untrusted)
        try:
            return await self._memories.store(new)
        except ConflictError as error:
            raise ToolFailure(ErrorType.STORAGE_FULL, f"Not stored: {error}") from error
        except ValidationError as error:
            raise ToolFailure(ErrorType.VALIDATION_ERROR, f"Not stored: {error}") from error


def _kept(text: str) -> str:
    """Return the text as the journal keeps it."""
    return mask(without_surrogates(text))
