"""MCP over HTTP as an ASGI application: the session manager of the package `mcp`, and the handlers of `server`."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser, AuthorizationContext
from mcp.server.auth.provider import AccessToken
from mcp.server.streamable_http import StreamableHTTPServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from ..asgi import Message, Receive, Send
from .desk import ChangedSessions, Desk
from .listening import Context
from .server import McpHandlers
from .shares import has_share

MAX_SESSIONS = 256
"""Of clients that speak an earlier revision; a token has its share of them."""
IDLE_SECONDS = 30 * 60.0
"""After which such a session is over."""


class _Sessions(StreamableHTTPSessionManager):
    """Clients' sessions, of which each token has its share."""

    def _admit_session(
        self, requestor: AuthorizationContext | None
    ) -> StreamableHTTPServerTransport | None:
        own = sum(each == requestor for each in self._session_owners.values())
        if not has_share(own, len(self._server_instances), MAX_SESSIONS):
            return None  # refused as when there are too many
        return super()._admit_session(requestor)


class HttpApp:
    """The application.

    Args:
        max_bytes: Of a body.

    Attributes:
        changes: Where it is to be said which sessions of callboard have changed.
    """

    def __init__(self, max_bytes: int) -> None:
        self.changes = ChangedSessions()
        self._manager = _Sessions(
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
