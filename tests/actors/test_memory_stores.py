"""What every place for memories does: one suite, run over each `MemoryStore`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from callboard.runtime.errors import ConflictError, NotFoundError
from callboard.runtime.events import SessionCreated, SessionTainted
from callboard.runtime.memory.index import MemoryIndex
from callboard.runtime.memory.lance_table import LanceTable
from callboard.runtime.memory.memories import Memory, MemoryStore, NewMemory, query_of
from callboard.runtime.memory.static_embedding import StaticEmbedding
from callboard.runtime.memory.vector_file import VectorFile
from callboard.runtime.store.interface import Store
from callboard.runtime.store.memory_store import open_memory_store
from callboard.runtime.store.rows import Append
from callboard.runtime.store.sqlite_store import open_disk_store
from callboard.runtime.store.tables import memories as memory_table
from support.journaled import open_memories

PLACES = {"memory": "memory", "disk": "disk", "vectors": "disk", "lancedb": "memory"}
"""What finds them (words alone by default), and where the journal is that keeps them."""

BY_MEANING = ("vectors", "lancedb")

EMBEDDING = StaticEmbedding()
"""One for all tests: it is read once."""


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest) -> str:
    if request.param == "lancedb":
        why = (
            "the extra lancedb, of 350 MB, is not installed (CONTRIBUTING.md says how to run this)"
        )
        pytest.importorskip("lancedb", reason=why)
    return str(request.param)


@pytest.fixture
async def store(place: str, tmp_path: Path) -> AsyncIterator[Store]:
    is_disk = PLACES[place] == "disk"
    opened = await open_disk_store(tmp_path / "d") if is_disk else open_memory_store()
    for session_id in ("s1", "s2"):
        created = SessionCreated(agent="general", workspace="/work")
        await opened.commit([Append(session_id, (created,))])
    yield opened
    await opened.aclose()


def index_of(place: str, folder: Path) -> MemoryIndex | None:
    if place == "lancedb":
        return LanceTable(folder, EMBEDDING)
    return VectorFile(folder, EMBEDDING) if place == "vectors" else None


@pytest.fixture
async def memories(place: str, store: Store, tmp_path: Path) -> AsyncIterator[MemoryStore]:
    async with open_memories(store, index_of(place, tmp_path)) as opened:
        yield opened


def note(text: str, *tags: str, agent: str = "general", session_id: str = "s1") -> NewMemory:
    return NewMemory(agent=agent, text=text, tags=tags, session_id=session_id, call_id="c1")


async def found(memories: MemoryStore, query: str, agent: str = "general") -> list[str]:
    return [memory.text for memory in await memories.search(agent, query, limit=10)]


async def test_a_memory_comes_back_as_it_was_stored(memories: MemoryStore) -> None:
    stored = await memories.store(note("The door code is by the bell.", "door", "door", "bell"))
    assert stored == Memory(
        memory_id=stored.memory_id, agent="general", text="The door code is by the bell.",
        tags=("bell", "door"), session_id="s1", call_id="c1", is_untrusted=False,
        stored_at_ms=stored.stored_at_ms,
    )  # fmt: skip
    assert stored.stored_at_ms > 0
    assert await memories.search("general", "doors", limit=1) == [stored]
    assert await memories.list(limit=10) == [stored]


async def test_the_same_said_again_is_the_memory_that_is_there(memories: MemoryStore) -> None:
    first = await memories.store(note("Tea at four.", "a", "b"))
    assert await memories.store(note("Tea at four.", "b", "a", session_id="s2")) == first
    others = [note("Tea at four."), note("Tea at five.", "a", "b")]
    others.append(note("Tea at four.", "a", "b", agent="other"))
    ids = {(await memories.store(other)).memory_id for other in others}
    assert len(ids | {first.memory_id}) == 4
    assert len(await memories.list(limit=10)) == 4


async def test_many_who_say_the_same_at_once_store_it_once(memories: MemoryStore) -> None:
    stored: list[Memory] = []

    async def store() -> None:
        stored.append(await memories.store(note("Tea at four.")))

    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(store)
    assert stored == [stored[0]] * 10
    assert await memories.list(limit=10) == [stored[0]]


async def test_agents_do_not_see_each_others(memories: MemoryStore) -> None:
    await memories.store(note("Mine is tea."))
    await memories.store(note("Theirs is tea.", agent="other"))
    assert await found(memories, "tea") == ["Mine is tea."]
    assert await found(memories, "tea", agent="other") == ["Theirs is tea."]
    assert await found(memories, "tea", agent="nobody") == []
    assert [each.agent for each in await memories.list(agent="other", limit=9)] == ["other"]
    assert len(await memories.list(limit=9)) == 2


async def test_the_best_come_first_and_a_tag_counts_more(memories: MemoryStore, place: str) -> None:
    for text in ("The release is on Monday.", "The release of the parrot was sad.", "No word."):
        await memories.store(note(text))
    await memories.store(note("How we do it.", "release"))
    best, *others = await found(memories, "release parrot")
    assert best == "The release of the parrot was sad."
    assert set(others) == {"How we do it.", "The release is on Monday."}
    if place not in BY_MEANING:  # there, how near they are counts as well
        assert others == ["How we do it.", "The release is on Monday."]
    one = await memories.search("general", "release parrot", limit=1)
    assert [each.text for each in one] == ["The release of the parrot was sad."]


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("Releases are on Mondays.", "release monday"),
        ("Ask Müller.", "MULLER"),
        ("サーバーは東京にある", "東京"),
        ("会议在星期三", "星期三"),
        ("a NEAR b", "near("),
        ("the tag is c++", "c++?"),
        ("a_name", "a_name"),
        ("Die Hauptstraße ist gesperrt", "hauptstraße"),
        ("STRASSE 5", "Straße"),
        ("the ﬁle is large", "ﬁle"),
        ("ΝΗΣΟΣ", "νησος"),
    ],
)
async def test_words_are_found_however_they_are_written(
    memories: MemoryStore, text: str, query: str
) -> None:
    await memories.store(note(text))
    assert await found(memories, query) == [text]


def test_a_word_is_looked_for_once() -> None:
    """However often a query says it, and in whatever case: there is room for few."""
    assert query_of("Rain rain, RAIN again") == '"Rain" OR "again"'


ODD = [
    "'; drop table memories; --", '"', '" OR 1', "NEAR(x y, 5)", "text:secret", "tags : secret",
    "NOT secret AND (", "sec*", "^secret", "{text}", "\0", "\ud800", "", "  ", "-secret-x",
]  # fmt: skip


@pytest.mark.parametrize("query", ODD)
async def test_case_60_a_query_has_no_syntax(memories: MemoryStore, query: str, place: str) -> None:
    """Control: the word alone is found. An index may find more, by what it means."""
    await memories.store(note("my secret is this"))
    await memories.store(note(f"it said {query}", f"tag {query}"))
    answers = await found(memories, query)
    is_said = "secret" in query
    assert ("my secret is this" in answers) is is_said or (place in BY_MEANING and not is_said)
    assert await found(memories, "secret this") != []


async def test_a_forgotten_memory_is_found_nowhere_and_may_be_stored_again(
    memories: MemoryStore,
) -> None:
    gone = await memories.store(note("Tea at four."))
    kept = await memories.store(note("Tea at five."))
    await memories.forget(gone.memory_id, forgotten_by="a person")
    assert (
        await memories.list(limit=9) == await memories.search("general", "tea", limit=9) == [kept]
    )
    with pytest.raises(NotFoundError, match=gone.memory_id):
        await memories.forget(gone.memory_id, forgotten_by="a person")
    assert (await memories.store(note("Tea at four."))).memory_id == gone.memory_id
    assert (await found(memories, "four"))[0] == "Tea at four."


async def test_an_agent_has_so_many_and_no_more(
    memories: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_table, "MAX_MEMORIES", 2)
    first = await memories.store(note("one"))
    await memories.store(note("two"))
    with pytest.raises(ConflictError, match="has 2 memories"):
        await memories.store(note("three"))
    assert await memories.store(note("one")) == first
    await memories.store(note("three", agent="other"))
    await memories.forget(first.memory_id, forgotten_by="a person")
    await memories.store(note("three"))


async def test_what_a_tainted_session_stores_is_untrusted(
    memories: MemoryStore, store: Store
) -> None:
    before = await memories.store(note("before"))
    await store.commit([Append("s1", (SessionTainted(source="web_fetch"),))])
    after = await memories.store(note("after"))
    elsewhere = await memories.store(note("elsewhere", session_id="s2"))
    again = await memories.store(note("before"))
    assert [each.is_untrusted for each in (before, after, elsewhere, again)] == [
        False, True, False, False,
    ]  # fmt: skip
    washed = await memories.store(note("after", session_id="s2"))
    assert washed == after
