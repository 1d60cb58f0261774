"""MCP over a program's own stdin and stdout: one client, one desk."""

from __future__ import annotations

from mcp.server.lowlevel.server import NotificationOptions

from ...tools.mcp.streams import LineReader, LineWriter, Pipes
from .desk import Desk
from .server import McpHandlers


async def serve_streams(desk: Desk, pipes: Pipes) -> None:
    """Serve the client at the other end until it has gone; what it still asked for is cancelled."""
    reader = LineReader(pipes, "the client")
    server = McpHandlers(lambda _: desk).server
    options = server.create_initialization_options(NotificationOptions())
    await server.run(reader, LineWriter(pipes, reader), options)
