"""An index of memories: filled, mended, thrown away; it finds more, and nothing hangs on it."""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import apsw
import pytest

from callboard.actors.handles.memories import JournaledMemories
from callboard.actors.handles.memory_search import FILL_BATCH, IndexedMemories, fused
from callboard.runtime.errors import StorageError
from callboard.runtime.events import SessionCreated
from callboard.runtime.memory.index import Embedding, MemoryIndex
from callboard.runtime.memory.memories import Memory, NewMemory
from callboard.runtime.memory.static_embedding import StaticEmbedding
from callboard.runtime.memory.vector_file import FILE_NAME, VectorFile
from callboard.runtime.store.interface import Store
from callboard.runtime.store.memory_store import open_memory_store
from callboard.runtime.store.rows import Append
from callboard.runtime.store.sqlite_store import open_disk_store
from support.journaled import open_memories

EMBEDDING = StaticEmbedding()

PARAPHRASES = {
    "How should bills be sent to the client?": "The customer wants invoices as PDF by e-mail.",
    "When do we release new versions?": "Deployments to production happen only on Tuesday mornings.",
    "Which foods must our guest avoid?": "Anna is allergic to peanuts.",
    "How often do credentials change?": "The database password is rotated every quarter.",
    "What programming language was chosen for the server?": "We decided to write the backend in Rust.",
    "Where can I print a document?": "The office printer is on the second floor next to the kitchen.",
    "How long may the test suite take?": "Unit tests must finish within five minutes.",
    "What style of reply does he like?": "The user prefers short answers without emoji.",
}


class Counted:
    """An embedding that counts its texts, knows its threads, and fails when it is told to."""

    name = EMBEDDING.name
    dimensions = EMBEDDING.dimensions

    def __init__(self, *, breaks_at: int | None = None) -> None:
        self.texts = 0
        self.threads: set[int] = set()
        self._breaks_at = breaks_at

    def vectors(self, texts: Sequence[str]) -> list[bytes]:
        self.threads.add(threading.get_ident())
        self.texts += len(texts)
        if self._breaks_at is not None and self.texts > self._breaks_at:
            raise StorageError("no more of it")
        return EMBEDDING.vectors(texts)


@pytest.fixture
async def store() -> AsyncGenerator[Store]:
    opened = open_memory_store()
    await begin(opened)
    yield opened
    await opened.aclose()


async def begin(store: Store) -> None:
    created = SessionCreated(agent="general", workspace="/work")
    await store.commit([Append("s1", (created,))])


@asynccontextmanager
async def indexed(
    store: Store, folder: Path, embedding: Embedding = EMBEDDING
) -> AsyncGenerator[IndexedMemories]:
    """Memories with an index that nothing fills by itself."""
    async with open_memories(store) as journaled:
        index = VectorFile(folder, embedding)
        try:
            yield IndexedMemories(journaled, store, index)
        finally:
            index.close()


def note(text: str, agent: str = "general") -> NewMemory:
    return NewMemory(agent=agent, text=text, session_id="s1", call_id="c1")


async def store_all(store: Store, texts: Sequence[str]) -> list[Memory]:
    """Without an index, as it is before one is switched on."""
    async with open_memories(store) as memories:
        assert isinstance(memories, JournaledMemories)
        return [await memories.store(note(text)) for text in texts]


async def texts(memories: IndexedMemories, query: str, agent: str = "general") -> list[str]:
    return [memory.text for memory in await memories.search(agent, query, limit=5)]


async def test_a_paraphrase_is_found_by_its_meaning(store: Store, tmp_path: Path) -> None:
    """Control: by words, few of them stand first."""
    await store_all(store, list(PARAPHRASES.values()))
    by_words = by_meaning = 0
    async with indexed(store, tmp_path) as memories:
        assert await memories.fill() == 8
        for query, text in PARAPHRASES.items():
            said = [each.text for each in await store.found_memories("general", query, limit=5)]
            by_words += said[:1] == [text]
            by_meaning += (await texts(memories, query))[:1] == [text]
        assert await texts(memories, "When do we release new versions?", agent="other") == []
    assert by_words <= 3
    assert by_meaning >= 6


async def test_what_was_there_before_is_filled_in_once(store: Store, tmp_path: Path) -> None:
    stored = await store_all(store, [f"note {n} of many" for n in range(2 * FILL_BATCH + 3)])
    counted = Counted()
    async with indexed(store, tmp_path, counted) as memories:
        assert await memories.fill() == len(stored)
        assert await memories.fill() == 0
        assert counted.texts == len(stored)
        assert threading.get_ident() not in counted.threads


async def test_a_filling_that_is_broken_off_goes_on_where_it_was(
    store: Store, tmp_path: Path
) -> None:
    stored = await store_all(store, [f"note {n} of many" for n in range(2 * FILL_BATCH + 3)])
    async with indexed(store, tmp_path, Counted(breaks_at=FILL_BATCH)) as memories:
        with pytest.raises(StorageError, match="no more of it"):
            await memories.fill()
    counted = Counted()
    async with indexed(store, tmp_path, counted) as memories:
        assert await memories.fill() == len(stored) - FILL_BATCH
        assert counted.texts == len(stored) - FILL_BATCH


async def test_what_the_index_did_not_take_is_on_record_and_mended(
    store: Store, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broken = Counted(breaks_at=0)
    async with indexed(store, tmp_path, broken) as memories:
        text = PARAPHRASES["When do we release new versions?"]
        stored = await memories.store(note(text))
        assert await texts(memories, "deployments") == [text]
        assert await texts(memories, "When do we release new versions?") == []
        assert [record.message for record in caplog.records] == [
            "memories are found by their words only: no more of it"
        ]
        assert await store.memories() == [stored]
    async with indexed(store, tmp_path) as memories:
        assert await memories.fill() == 1
        assert await texts(memories, "When do we release new versions?") == [text]


async def test_once_it_works_again_it_catches_up(store: Store, tmp_path: Path) -> None:
    class Mended(Counted):
        def vectors(self, texts: Sequence[str]) -> list[bytes]:
            if self.texts:
                self._breaks_at = None
            return super().vectors(texts)

    async with indexed(store, tmp_path, Mended(breaks_at=0)) as memories:
        for text in ("one of them", "another of them"):
            await memories.store(note(text))
        assert await memories.fill() == 0


async def test_what_was_forgotten_without_the_index_leaves_it(store: Store, tmp_path: Path) -> None:
    gone, kept = await store_all(store, ["The first one.", "The second one."])
    index = VectorFile(tmp_path, EMBEDDING)
    async with open_memories(store) as journaled:
        memories = IndexedMemories(journaled, store, index)
        await memories.fill()
        await journaled.forget(gone.memory_id, forgotten_by="a person")
        assert gone.memory_id in index.ids()
        assert await texts(memories, "the first one") == ["The second one."]
        await memories.fill()
        assert index.ids() == [kept.memory_id]
        await memories.forget(kept.memory_id, forgotten_by="a person")
        assert index.ids() == []
        index.close()


@pytest.mark.parametrize("harm", ["damaged", "other embedding", "gone"])
async def test_a_file_that_is_of_no_use_is_made_anew(
    store: Store, tmp_path: Path, harm: str
) -> None:
    (stored,) = await store_all(store, ["A note."])
    async with indexed(store, tmp_path) as memories:
        await memories.fill()
    path = tmp_path / FILE_NAME
    assert path.stat().st_mode & 0o777 == 0o600
    if harm == "damaged":
        path.write_bytes(b"no database at all" * 100)
    elif harm == "gone":
        path.unlink()
    else:
        connection = apsw.Connection(str(path))
        connection.pragma("user_version", 1)
        connection.close()
    index = VectorFile(tmp_path, EMBEDDING)
    assert index.ids() == []
    index.close()
    async with indexed(store, tmp_path) as memories:
        assert await memories.fill() == 1
        assert await texts(memories, "note") == [stored.text]


async def test_switched_on_and_off_again_nothing_is_lost(tmp_path: Path) -> None:
    store = await open_disk_store(tmp_path)
    await begin(store)
    await store_all(store, ["Before."])
    index: MemoryIndex = VectorFile(tmp_path, EMBEDDING)
    async with open_memories(store, index) as memories:
        await memories.store(note("Meanwhile."))
    await store.aclose()
    store = await open_disk_store(tmp_path)
    await store_all(store, ["Afterwards."])
    assert {memory.text for memory in await store.memories()} == {
        "Before.", "Meanwhile.", "Afterwards.",
    }  # fmt: skip
    assert [m.text for m in await store.found_memories("general", "meanwhile", limit=5)] == [
        "Meanwhile."
    ]
    await store.aclose()


def test_who_only_reads_makes_no_file(tmp_path: Path) -> None:
    index = VectorFile(tmp_path, EMBEDDING, is_read_only=True)
    assert index.near("general", "anything", 5) == []
    assert list(tmp_path.iterdir()) == []


def test_standing_in_both_lists_counts_more_than_standing_first_in_one() -> None:
    assert fused([["a", "b", "c"], ["d", "b"]]) == ["b", "a", "d", "c"]
    assert fused([[], ["x", "y"]]) == ["x", "y"]
    assert fused([]) == []
