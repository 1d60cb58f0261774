"""MCP over HTTP as an ASGI application: the session manager of the package `mcp`, and the handlers of `server`."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from ..asgi import Message, Receive, Send
from .desk import Desk
from .server import Context, McpHandlers

MAX_SESSIONS = 256
"""Of clients that speak an earlier revision."""
IDLE_SECONDS = 30 * 60.0
"""After which such a session is over."""


class HttpApp:
    """The application.

    Args:
        max_bytes: Of a body.
    """

    def __init__(self, max_bytes: int) -> None:
        self._manager = StreamableHTTPSessionManager(
            McpHandlers(_desk_of).server,
            max_request_body_size=max_bytes,
            session_idle_timeout=IDLE_SECONDS,
            max_sessions=MAX_SESSIONS,
        )

    @asynccontextmanager
    async def run(self) -> AsyncGenerator[None]:
        """Serve sessions around the block."""
        async with self._manager.run():
            yield

    async def app(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer a request; a session of it belongs to its token."""
        owner: str = scope["state"]["desk"].owner
        token = AccessToken(
            token="-", client_id=owner, scopes=[]
        )  # the door has checked the token itself
        await self._manager.asgi_app({**scope, "user": AuthenticatedUser(token)}, receive, send)


def _desk_of(context: Context) -> Desk:
    assert context.request is not None
    desk: Desk = context.request.scope["state"]["desk"]
    return desk
