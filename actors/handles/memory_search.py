"""Hybrid search of memories: by words in the journal's tables, and by meaning in an index of vectors.

store ──► journal (on record) ──► index          what a crash leaves out is added at the next start
search ──► words of the journal's tables ─┐
       └─► index ─────────────────────────┴─► one list, by reciprocal rank fusion
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar, TypeVarTuple

import trio

from ...runtime.errors import StorageError
from ...runtime.memory.index import MemoryIndex
from ...runtime.memory.memories import Memory, MemoryStore, NewMemory, query_of
from ...runtime.redaction import redacting_logger
from ...runtime.store.interface import StoreReader
from ...runtime.text import without_surrogates

FILL_BATCH = 256
"""Memories added at once while an index is filled: it takes a twentieth of a second, so that a search
waits no longer, and a crash loses no more."""

CANDIDATES = 50
"""Taken from either list: lower ranks come to nothing in the fused one."""

RANK_WEIGHT = 60
"""The usual constant of reciprocal rank fusion: a first place does not outweigh being in both lists."""

_log = redacting_logger(__name__)

_Answer = TypeVar("_Answer")
_Args = TypeVarTuple("_Args")


class HybridSearch:
    """Finds memories by words and with an index, which one thread at a time works on.

    An index that fails is logged, and words still find.
    """

    def __init__(self, store: StoreReader, index: MemoryIndex) -> None:
        self._store = store
        self._index = index
        self._turn = trio.CapacityLimiter(1)
        self._is_behind = False

    async def search(self, agent: str, query: str, *, limit: int) -> builtins.list[Memory]:
        """See `MemoryStore`. Memories that mean something like the query are found too."""
        query = without_surrogates(query)
        if not query_of(query):
            return []
        most = max(limit, CANDIDATES)
        words = await self._store.found_memories(agent, query, limit=most)
        near = await self._try(self._index.near, agent, query, most)
        by_id = {memory.memory_id: memory for memory in words}
        found: builtins.list[Memory] = []
        # Meaning wins ties: the word in common may be no more than "the".
        for memory_id in fused([near or [], [*by_id]]):
            if len(found) >= limit:
                break
            memory = by_id.get(memory_id) or await self._one(agent, memory_id)
            if memory is not None:
                found.append(memory)
        return found

    async def aclose(self) -> None:
        """Close the index. Not cancellable."""
        with trio.CancelScope(shield=True):
            await self._run(self._index.close)

    async def _one(self, agent: str, memory_id: str) -> Memory | None:
        """Return the memory on record; `None` when it was forgotten meanwhile."""
        found = await self._store.memories(agent=agent, memory_id=memory_id, limit=1)
        return found[0] if found else None

    async def _try(self, work: Callable[[*_Args], _Answer], *args: *_Args) -> _Answer | None:
        try:
            return await self._run(work, *args)
        except StorageError as error:
            self._fail(error)
            return None

    def _fail(self, error: StorageError) -> None:
        if not self._is_behind:
            _log.warning("memories are found by their words only: %s", error)
        self._is_behind = True

    async def _run(self, work: Callable[[*_Args], _Answer], *args: *_Args) -> _Answer:
        return await trio.to_thread.run_sync(work, *args, limiter=self._turn)


class IndexedMemories(HybridSearch):
    """A `MemoryStore` over another one, whose memories an index helps to find.

    What is on record counts: nothing that the index does or fails to do fails a call.
    """

    def __init__(self, memories: MemoryStore, store: StoreReader, index: MemoryIndex) -> None:
        super().__init__(store, index)
        self._memories = memories

    async def serve(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Fill the index, and close it when cancelled."""
        task_status.started()  # nothing waits for the index
        try:
            await self._catch_up()
            await trio.sleep_forever()
        finally:
            await self.aclose()

    async def store(self, new: NewMemory) -> Memory:
        """See `MemoryStore`."""
        memory = await self._memories.store(new)
        # On record now; cancelled here, it would not be found by meaning before a restart.
        with trio.CancelScope(shield=True):
            if self._is_behind:
                await self._catch_up()
            else:
                await self._try(self._index.add, [memory])
        return memory

    async def list(self, *, agent: str | None = None, limit: int) -> builtins.list[Memory]:
        """See `MemoryStore`."""
        return await self._memories.list(agent=agent, limit=limit)

    async def forget(self, memory_id: str, *, forgotten_by: str) -> None:
        """See `MemoryStore`."""
        await self._memories.forget(memory_id, forgotten_by=forgotten_by)
        with trio.CancelScope(shield=True):
            await self._try(self._index.remove, [memory_id])

    async def fill(self) -> int:
        """Bring the index up to date with the record; return how many memories were added.

        Raises `StorageError`. It may be cut off anywhere, and goes on from there the next time.
        """
        added = 0
        seen: set[str] = set()
        before: str | None = None
        while page := await self._store.memories(before=before, limit=FILL_BATCH):
            if missing := await self._run(self._index.missing, page):
                await self._run(self._index.add, missing)
                added += len(missing)
            seen.update(memory.memory_id for memory in page)
            before = page[-1].memory_id
        for memory_id in await self._run(self._index.ids):
            # Forgotten while nobody kept the index, or stored a moment ago.
            if memory_id not in seen and not await self._store.memories(memory_id=memory_id):
                await self._run(self._index.remove, [memory_id])
        return added

    async def _catch_up(self) -> None:
        try:
            await self.fill()
        except StorageError as error:
            self._fail(error)
        else:
            self._is_behind = False


def fused(lists: Iterable[Sequence[str]]) -> list[str]:
    """Fuse ranked lists by reciprocal rank; at a tie, the first list wins."""
    scores: dict[str, float] = {}
    for ranked in lists:
        for rank, name in enumerate(ranked):
            scores[name] = scores.get(name, 0.0) + 1 / (RANK_WEIGHT + rank)
    return sorted(scores, key=scores.__getitem__, reverse=True)
