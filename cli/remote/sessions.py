"""Sessions by way of the daemon that holds their store."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from ...client.client import Client, connect
from ...config.daemon_file import RunningDaemon
from ...runtime.errors import ValidationError
from ...runtime.store.lists import Hit, Search
from ...runtime.wire.fields import Nothing
from ...runtime.wire.sessions import FindWords, Hits, NamedSessions, Rename, SetAgent, SomeSessions
from ..daemon.roots import root_advice


class RemoteSessions:
    """A `SessionPlace`."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def search(self, search: Search) -> Sequence[Hit]:
        """See `SessionPlace`."""
        params = FindWords(query=search.query, limit=search.limit)
        return (await self._client.request("session/search", params, Hits)).hits

    async def rename(self, session_id: str, title: str) -> None:
        """See `SessionPlace`."""
        await self._client.request("session/rename", Rename(session_id, title), Nothing)

    async def set_agent(self, session_ids: Sequence[str], agent: str) -> None:
        """See `SessionPlace`."""
        params = SetAgent(tuple(session_ids), agent)
        await self._client.request("session/set_agent", params, Nothing)

    async def delete(self, session_ids: Sequence[str]) -> Sequence[str]:
        """See `SessionPlace`."""
        return await self._change("session/delete", session_ids)

    async def restore(self, session_ids: Sequence[str]) -> Sequence[str]:
        """See `SessionPlace`."""
        return await self._change("session/restore", session_ids)

    async def purge(self, session_ids: Sequence[str]) -> Sequence[str]:
        """See `SessionPlace`."""
        return await self._change("session/purge", session_ids)

    async def _change(self, method: str, session_ids: Sequence[str]) -> Sequence[str]:
        params = NamedSessions(tuple(session_ids))
        return (await self._client.request(method, params, SomeSessions)).session_ids


async def import_there(daemon: RunningDaemon, file: bytes, folder: str) -> str:
    """Has the daemon make new sessions of a file, which work in a folder below one of its roots."""
    async with connect(daemon.url, daemon.token.reveal()) as client:
        try:
            return await client.import_session(file, workspace=folder)
        except ValidationError as error:
            if error.field != "workspace":
                raise
            raise ValidationError(
                f"{folder} is below no root of the daemon, and nothing was imported. Choose another "
                f"folder with --workspace; or {root_advice(Path(folder))}",
                field="workspace",
            ) from error


@asynccontextmanager
async def open_sessions_there(daemon: RunningDaemon) -> AsyncGenerator[RemoteSessions]:
    """A connection to the daemon, for the block."""
    async with connect(daemon.url, daemon.token.reveal()) as client:
        yield RemoteSessions(client)
