"""The memories of a daemon, as a client asks for them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .client_files import Asking
from .runtime.memories import Memory
from .runtime.wire.memories import (
    ListMemories,
    Memories,
    OneMemory,
    SearchMemories,
    StoreMemory,
)
from .runtime.wire.nothing import Nothing


class ClientMemories:
    """`Client.memories`: what sessions leave to later ones."""

    def __init__(self, client: Asking) -> None:
        self._client = client

    async def list(
        self, *, agent: str | None = None, before: str | None = None, limit: int = 100
    ) -> Sequence[Memory]:
        """Memories of an agent, or of all, the latest first; those stored before `before`."""
        params = ListMemories(agent=agent, before=before, limit=limit)
        return (await self._client.request("memory/list", params, Memories)).memories

    async def search(
        self, query: str, *, agent: str = "general", limit: int = 20
    ) -> Sequence[Memory]:
        """Memories of an agent that hold a word of the query, the best first."""
        params = SearchMemories(query=query, agent=agent, limit=limit)
        return (await self._client.request("memory/search", params, Memories)).memories

    async def store(self, session_id: str, text: str, *, tags: Iterable[str] = ()) -> Memory:
        """Tells later sessions of a session's agent something; once, however often it is said."""
        params = StoreMemory(session_id=session_id, text=text, tags=tuple(tags))
        return await self._client.request("memory/store", params, Memory)

    async def forget(self, memory_id: str) -> None:
        """Takes a memory back: no session finds it from then on."""
        await self._client.request("memory/delete", OneMemory(memory_id), Nothing)
