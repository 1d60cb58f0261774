"""Tokens by way of the daemon, which ends the connections of those that are rotated or revoked."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import asynccontextmanager

from ...client.client import Client, connect
from ...config.daemon_file import RunningDaemon
from ...runtime.wire.daemon import Agents, NamedToken, NewToken, TokenRow, Tokens, TokenText
from ...runtime.wire.fields import Nothing


class RemoteTokens:
    """A `TokenPlace`."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def list(self) -> Sequence[TokenRow]:
        """See `TokenPlace`."""
        return (await self._client.request("token/list", Nothing(), Tokens)).tokens

    async def create(self, new: NewToken) -> TokenText:
        """See `TokenPlace`."""
        return await self._client.request("token/create", new, TokenText)

    async def rotate(self, name: str) -> TokenText:
        """See `TokenPlace`."""
        return await self._client.request("token/rotate", NamedToken(name), TokenText)

    async def revoke(self, name: str) -> None:
        """See `TokenPlace`."""
        await self._client.request("token/revoke", NamedToken(name), Nothing)

    async def agents(self) -> Collection[str]:
        """See `TokenPlace`."""
        listed = await self._client.request("agent/list", Nothing(), Agents)
        return {agent.name for agent in listed.agents}


@asynccontextmanager
async def open_remote_tokens(daemon: RunningDaemon) -> AsyncGenerator[RemoteTokens]:
    """The tokens of a daemon, around the block."""
    async with connect(daemon.url, daemon.token.reveal()) as client:
        yield RemoteTokens(client)
