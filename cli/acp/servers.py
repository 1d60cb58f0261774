"""Reads the MCP servers that an editor brings for a session."""

from __future__ import annotations

from collections.abc import Sequence

from ...config.mcp.wire import MAX_SESSION_SERVERS, SessionServer
from ...runtime.wire.rpc import INVALID_PARAMS
from . import wire
from .connection import RequestFailed


def read_servers(servers: Sequence[wire.McpServer]) -> tuple[SessionServer, ...]:
    """Return them as the daemon takes them; raise `RequestFailed` for one that is none, or was not offered."""
    if len(servers) > MAX_SESSION_SERVERS:
        raise RequestFailed(
            INVALID_PARAMS,
            f"mcpServers: {len(servers)} are too many; a session has at most {MAX_SESSION_SERVERS}",
        )
    return tuple(map(_read, servers))


def _read(server: wire.McpServer) -> SessionServer:
    name = server.name or ""
    is_program = server.type in {None, "stdio"} and bool(server.command) and server.url is None
    is_url = server.type == "http" and bool(server.url) and server.command is None
    if not name or not (is_program or is_url):
        raise RequestFailed(
            INVALID_PARAMS,
            f"mcpServers: {name!r:.80} is no server: it has a name, and a command or, with the type http, a url; "
            "other types were not offered",
        )
    values = {each.name: each.value for each in server.env or server.headers or ()}
    if is_url:
        return SessionServer(name=name, url=server.url, headers=values)
    return SessionServer(
        name=name, command=(server.command or "", *(server.args or ())), env=values
    )
