"""Requests of a client about servers of the Model Context Protocol, and what is accepted of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ..runtime.wire.fields import Nothing
from .files import Asking

if TYPE_CHECKING:  # what a request needs of these is imported when it is made
    from ..config.mcp.settings import McpSettings
    from ..config.mcp.wire import (
        McpLogin,
        McpOffer,
        McpPromptRow,
        McpPromptText,
        McpRow,
        McpServerState,
        SessionServer,
        SessionServerRow,
    )


class ClientMcp:
    """`Client.mcp`: servers of the Model Context Protocol, and what is accepted of them.

    Example:
        offer = await client.mcp.look("github")
        await client.mcp.accept("github", {tool.original: tool.digest for tool in offer.tools})
    """

    def __init__(self, client: Asking) -> None:
        self._client = client

    async def list(self) -> Sequence[McpRow]:
        """Return the servers, with what they do now and which of their tools are withheld."""
        from ..config.mcp.wire import McpRows

        return (await self._client.request("mcp/list", Nothing(), McpRows)).servers

    async def get(self, name: str) -> McpServerState:
        """Return a server with its settings and its accepted tools; raise `NotFoundError`."""
        from ..config.mcp.wire import McpServerState, OneMcpServer

        return await self._client.request("mcp/get", OneMcpServer(name), McpServerState)

    async def look(self, name: str, server: McpSettings | None = None) -> McpOffer:
        """Return what a server offers now; pass one that is not added yet. Raises `ToolError`."""
        from ..config.mcp.wire import LookAtMcpServer, McpOffer, draft_of

        params = LookAtMcpServer(name=name, server=None if server is None else draft_of(server))
        return await self._client.request("mcp/look", params, McpOffer)

    async def accept(
        self, name: str, tools: Mapping[str, str], offers: str | None = None
    ) -> McpRow:
        """Accept tools by their digests, as `look` returned them, in place of those before; with `offers` its prompts."""
        from ..config.mcp.wire import AcceptTools, McpRow

        params = AcceptTools(name=name, tools=dict(tools), offers=offers)
        return await self._client.request("mcp/accept", params, McpRow)

    async def add(
        self, server: McpSettings, tools: Mapping[str, str], offers: str | None = None
    ) -> McpRow:
        """Add a server with what is accepted, by digests, as `look` returned it; see `accept`."""
        from ..config.mcp.wire import McpRow, NewMcpServer, draft_of

        params = NewMcpServer(server=draft_of(server), tools=dict(tools), offers=offers)
        return await self._client.request("mcp/add", params, McpRow)

    async def update(self, server: McpSettings) -> McpRow:
        """Change a server as a whole; what is accepted of it stays."""
        from ..config.mcp.wire import ChangedMcpServer, McpRow, draft_of

        return await self._client.request("mcp/update", ChangedMcpServer(draft_of(server)), McpRow)

    async def remove(self, name: str) -> None:
        """Remove a server, what is accepted of it, and its stored secrets."""
        from ..config.mcp.wire import OneMcpServer

        await self._client.request("mcp/remove", OneMcpServer(name), Nothing)

    async def login(self, name: str) -> McpLogin:
        """Return where a person logs in at a server, if it wants that; then wait with `finish_login`."""
        from ..config.mcp.wire import McpLogin, OneMcpServer

        return await self._client.request("mcp/login", OneMcpServer(name), McpLogin)

    async def finish_login(self, login: str) -> None:
        """Wait until the person has logged in; raise `ToolError` when they did not."""
        from ..config.mcp.wire import OneMcpLogin

        await self._client.request("mcp/finish_login", OneMcpLogin(login), Nothing)

    async def restart(self, name: str) -> McpRow:
        """End a server and forget its failures; the next call starts it again."""
        from ..config.mcp.wire import McpRow, OneMcpServer

        return await self._client.request("mcp/restart", OneMcpServer(name), McpRow)

    async def prompts(self) -> Sequence[McpPromptRow]:
        """Return the accepted prompts of the servers that are used."""
        from ..config.mcp.wire import McpPromptRows

        return (await self._client.request("mcp/prompts", Nothing(), McpPromptRows)).prompts

    async def prompt(
        self, server: str, name: str, arguments: Mapping[str, str] | None = None
    ) -> McpPromptText:
        """Return the text that a server makes of a prompt, to be sent with its `is_untrusted`; raise `ToolError`."""
        from ..config.mcp.wire import GetMcpPrompt, McpPromptText

        params = GetMcpPrompt(server=server, name=name, arguments=dict(arguments or {}))
        return await self._client.request("mcp/prompt", params, McpPromptText)

    async def complete(
        self, server: str, prompt: str, argument: str, value: str, arguments: Mapping[str, str]
    ) -> Sequence[str]:
        """Return what an argument of a prompt may be, of which `value` was typed; raises as `prompt`."""
        from ..config.mcp.wire import CompleteMcpArgument, McpValues

        given = CompleteMcpArgument(server, prompt, argument, value, dict(arguments))
        return (await self._client.request("mcp/complete", given, McpValues)).values

    async def use(
        self, session_id: str, servers: Sequence[SessionServer], *, wait_seconds: float = 0.0
    ) -> Sequence[SessionServerRow]:
        """Give a session servers of its own, as long as this client is connected; `()` ends them.

        Their tools are elevated. Returns what became of each when all have listed their tools, or the time is over.
        """
        from ..config.mcp.wire import SessionServerRows, UseServers

        params = UseServers(
            session_id=session_id, servers=tuple(servers), wait_seconds=wait_seconds
        )
        return (await self._client.request("mcp/use", params, SessionServerRows)).servers
