"""Memories over the wire: listed, found, stored, deleted; each for who may know of its session."""

from __future__ import annotations

import pytest

from callboard.client.client import Client
from callboard.runtime.errors import CallboardError, NotFoundError, ValidationError
from callboard.runtime.events import MemoryForgotten
from callboard.runtime.memory.memories import MAX_MEMORY_CHARS, Memory
from callboard.runtime.wire.fields import Nothing, Role
from callboard.runtime.wire.memories import (
    ListMemories,
    Memories,
    OneMemory,
    SearchMemories,
    StoreMemory,
)
from support.gateway.daemon_scene import open_client, open_daemon


async def listed(client: Client) -> list[str]:
    found = await client.request("memory/list", ListMemories(), Memories)
    return [memory.text for memory in found.memories]


async def test_a_memory_is_stored_found_and_deleted() -> None:
    async with open_daemon() as daemon, open_client(daemon) as client:
        session = await client.create_session()
        new = StoreMemory(session_id=session.session_id, text="The kettle is blue.", tags=("tea",))
        memory = await client.request("memory/store", new, Memory)
        assert (memory.agent, memory.is_untrusted) == ("general", False)
        assert await client.request("memory/store", new, Memory) == memory
        for query, count in (("KETTLE NEAR", 1), ("bicycle", 0), ('"', 0)):
            found = await client.request("memory/search", SearchMemories(query=query), Memories)
            assert len(found.memories) == count
        assert await listed(client) == ["The kettle is blue."]
        one = OneMemory(memory.memory_id)
        await client.request("memory/delete", one, Nothing)
        assert await listed(client) == []
        with pytest.raises(NotFoundError):
            await client.request("memory/delete", one, Nothing)
        events = await daemon.runtime.store.events(session.session_id)
        (forgotten,) = [each.event for each in events if isinstance(each.event, MemoryForgotten)]
        assert forgotten.forgotten_by == "token:test"


@pytest.mark.parametrize(
    ("text", "tags"),
    [
        ("", ()),
        (" ", ()),
        ("x" * (MAX_MEMORY_CHARS + 1), ()),
        ("x", ("t",) * 17),
        ("x", ("t" * 65,)),
    ],
)
async def test_what_is_no_memory_is_refused(text: str, tags: tuple[str, ...]) -> None:
    async with open_daemon() as daemon, open_client(daemon) as client:
        session = await client.create_session()
        new = StoreMemory(session_id=session.session_id, text=text, tags=tags)
        with pytest.raises(ValidationError):
            await client.request("memory/store", new, Memory)
        assert await listed(client) == []


async def test_a_limited_token_knows_its_own_memories_alone() -> None:
    async with open_daemon() as daemon:
        async with open_client(daemon) as client:
            first, second = [await client.create_session() for _ in range(2)]
            stored = [
                await client.request(
                    "memory/store", StoreMemory(session_id=each.session_id, text=text), Memory
                )
                for each, text in ((first, "ours"), (second, "theirs"))
            ]
        token = daemon.new_token("limited", Role.OPERATOR, sessions=(first.session_id,))
        async with open_client(daemon, token) as limited:
            assert await listed(limited) == ["ours"]
            search = SearchMemories(query="ours theirs")
            found = await limited.request("memory/search", search, Memories)
            assert [memory.text for memory in found.memories] == ["ours"]
            with pytest.raises(NotFoundError):
                await limited.request("memory/delete", OneMemory(stored[1].memory_id), Nothing)
            new = StoreMemory(session_id=second.session_id, text="x")
            with pytest.raises(NotFoundError):
                await limited.request("memory/store", new, Memory)
        async with open_client(daemon, daemon.new_token("eye", Role.OBSERVER)) as observer:
            with pytest.raises(CallboardError) as refused:
                await listed(observer)
            assert refused.value.type == "auth"
