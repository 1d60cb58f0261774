"""Memories over a journal of their own, without a runtime."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import trio

from callboard.actors.handles.memories import JournaledMemories
from callboard.actors.handles.memory_search import IndexedMemories
from callboard.actors.journal import Journal
from callboard.runtime.kernel.delivery import EventInboxes
from callboard.runtime.kernel.mailbox import Mailbox
from callboard.runtime.kernel.supervisor import Supervisor
from callboard.runtime.memory.index import MemoryIndex
from callboard.runtime.memory.memories import MemoryStore
from callboard.runtime.messages import JournalMessage
from callboard.runtime.store.interface import Store


@asynccontextmanager
async def open_memories(
    store: Store, index: MemoryIndex | None = None
) -> AsyncGenerator[MemoryStore]:
    """Run a journal around the block; with an index, fill that meanwhile and close it at the end."""
    journal: Mailbox[JournalMessage] = Mailbox("journal", 100)
    inboxes = EventInboxes()
    async with trio.open_nursery() as nursery:
        await Supervisor(nursery).start(
            "journal", lambda: Journal(journal, store, inboxes), journal
        )
        memories: MemoryStore = JournaledMemories(journal, store)
        if index is not None:
            memories = indexed = IndexedMemories(memories, store, index)
            await nursery.start(indexed.serve, name="index of memories")
        try:
            yield memories
        finally:
            nursery.cancel_scope.cancel(reason="the test is over")
