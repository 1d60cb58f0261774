"""Memories over the wire: listed, found, stored, deleted; each for who may know of its session."""

from __future__ import annotations

import pytest

from callboard.client.client import Client
from callboard.runtime.errors import CallboardError, NotFoundError, ValidationError
from callboard.runtime.events import MemoryForgotten
from callboard.runtime.memory.memories import MAX_MEMORY_CHARS
from callboard.runtime.wire.fields import Role
from support.gateway.daemon_scene import open_client, open_daemon


async def listed(client: Client) -> list[str]:
    return [memory.text for memory in await client.memories.list()]


async def test_a_memory_is_stored_found_and_deleted() -> None:
    async with open_daemon() as daemon, open_client(daemon) as client:
        session_id = (await client.create_session()).session_id
        memory = await client.memories.store(session_id, "The kettle is blue.", tags=["tea"])
        assert (memory.agent, memory.is_untrusted) == ("general", False)
        again = await client.memories.store(session_id, "The kettle is blue.", tags=["tea"])
        assert again == memory
        for query, count in (("KETTLE NEAR", 1), ("bicycle", 0), ('"', 0)):
            assert len(await client.memories.search(query)) == count
        assert await listed(client) == ["The kettle is blue."]
        assert await client.memories.list(agent="nobody") == []
        await client.memories.forget(memory.memory_id)
        assert await listed(client) == []
        with pytest.raises(NotFoundError):
            await client.memories.forget(memory.memory_id)
        events = await daemon.runtime.store.events(session_id)
        (forgotten,) = [each.event for each in events if isinstance(each.event, MemoryForgotten)]
        assert forgotten.forgotten_by == "token:test"


async def test_what_is_no_memory_is_refused() -> None:
    async with open_daemon() as daemon, open_client(daemon) as client:
        session_id = (await client.create_session()).session_id
        tags: list[str]
        for text, tags in (
            ("", []),
            (" ", []),
            ("x" * (MAX_MEMORY_CHARS + 1), []),
            ("x", ["t"] * 17),
            ("x", ["t" * 65]),
        ):
            with pytest.raises(ValidationError):
                await client.memories.store(session_id, text, tags=tags)
        assert await listed(client) == []


async def test_a_limited_token_knows_its_own_memories_alone() -> None:
    async with open_daemon() as daemon:
        async with open_client(daemon) as client:
            first, second = [(await client.create_session()).session_id for _ in range(2)]
            await client.memories.store(first, "ours")
            theirs = await client.memories.store(second, "theirs")
        token = daemon.new_token("limited", Role.OPERATOR, sessions=(first,))
        async with open_client(daemon, token) as limited:
            assert await listed(limited) == ["ours"]
            found = await limited.memories.search("ours theirs")
            assert [memory.text for memory in found] == ["ours"]
            with pytest.raises(NotFoundError):
                await limited.memories.forget(theirs.memory_id)
            with pytest.raises(NotFoundError):
                await limited.memories.store(second, "x")
        async with open_client(daemon, daemon.new_token("eye", Role.OBSERVER)) as observer:
            with pytest.raises(CallboardError) as refused:
                await listed(observer)
            assert refused.value.type == "auth"
