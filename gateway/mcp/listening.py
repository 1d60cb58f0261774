"""Clients that listen to sessions: each is told when a session's record has grown, and then reads it again if it likes.

A client of 2026-07-28 asks for a stream (`subscriptions/listen`), which lasts as long as its request. One of an
earlier revision subscribes and unsubscribes, and is told over the stream that belongs to no request of its session.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager, suppress
from typing import Any, Never

import trio
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import SUBSCRIPTION_ID_META_KEY
from mcp_types import (
    INVALID_PARAMS,
    EmptyResult,
    ResourceUpdatedNotification,
    ResourceUpdatedNotificationParams,
    SubscribeRequestParams,
    SubscriptionFilter,
    SubscriptionsAcknowledgedNotification,
    SubscriptionsAcknowledgedNotificationParams,
    SubscriptionsListenRequestParams,
    SubscriptionsListenResult,
    UnsubscribeRequestParams,
)

from ...runtime.errors import AuthError, CallboardError
from ...runtime.kernel.service_nursery import open_service_nursery
from ..restart import restart_on_crash
from .desk import Desk
from .resources import SCHEME, is_readable
from .shares import Shares

MAX_LISTENERS = 256
"""Clients that listen at once; a token has its share of them."""
MAX_LISTENED = 64
"""Sessions that one client listens to at once."""
UPDATE_SECONDS = 1.0
"""The least time between two messages about one session."""
REFUSED = -32000
"""Errors of this server's own; JSON-RPC leaves these codes to servers."""

Context = ServerRequestContext[Any, Any]

_LISTENER = "callboard listener"


class Listening:
    """The handlers of what clients listen to.

    Args:
        find_desk: Where a request is done, and by which rights.
    """

    def __init__(self, find_desk: Callable[[Context], Desk]) -> None:
        self._find_desk = find_desk
        self._shares = Shares(MAX_LISTENERS, "listeners")

    @asynccontextmanager
    async def lifespan(self, server: Server[trio.Nursery]) -> AsyncGenerator[trio.Nursery]:
        """Give the nursery of those who have subscribed."""
        async with open_service_nursery("the server of MCP ends") as nursery:
            yield nursery

    async def listen(
        self, context: Context, params: SubscriptionsListenRequestParams
    ) -> SubscriptionsListenResult:
        """Serve one stream, until its client leaves or its token ends."""
        desk, ident = self._find_desk(context), context.request_id
        wanted = list(dict.fromkeys(params.notifications.resource_subscriptions or ()))
        if ident is None or len(wanted) > MAX_LISTENED:
            raise MCPError(INVALID_PARAMS, f"a stream is for at most {MAX_LISTENED} resources")
        meta = {SUBSCRIPTION_ID_META_KEY: ident}
        listener = ChangeListener(desk)

        async def tell(uri: str) -> None:
            its = ResourceUpdatedNotificationParams(uri=uri, _meta=meta)
            await context.session.send_notification(
                ResourceUpdatedNotification(params=its), related_request_id=ident
            )

        try:
            with self._shares.place(desk.owner), desk.at_work():
                heard = [uri for uri in wanted if await listener.add(uri)]
                said = SubscriptionFilter(resource_subscriptions=heard or None)
                await context.session.send_notification(
                    SubscriptionsAcknowledgedNotification(
                        params=SubscriptionsAcknowledgedNotificationParams(
                            notifications=said, _meta=meta
                        )
                    ),
                    related_request_id=ident,
                )
                await listener.run(tell)
        except CallboardError as error:
            raise MCPError(REFUSED, str(error)) from None
        finally:
            listener.close()

    async def subscribe(self, context: Context, params: SubscribeRequestParams) -> EmptyResult:
        """Have the client told of a session from now on, as earlier revisions do."""
        desk, uri = self._find_desk(context), str(params.uri)
        connection = context.session._connection
        try:
            listener = connection.state.get(_LISTENER)
            if listener is None:
                listener = self._begin(desk, connection, context.lifespan_context)
            if not listener.has_room:
                raise MCPError(REFUSED, f"a client listens to at most {MAX_LISTENED} resources")
            if not await listener.add(uri):
                raise MCPError(INVALID_PARAMS, "there is no such resource", {"uri": uri})
        except CallboardError as error:
            raise MCPError(REFUSED, str(error)) from None
        return EmptyResult()

    async def unsubscribe(self, context: Context, params: UnsubscribeRequestParams) -> EmptyResult:
        """Undo `subscribe`; what nobody listens to is passed over."""
        await trio.lowlevel.checkpoint()
        if (listener := context.session._connection.state.get(_LISTENER)) is not None:
            listener.remove(str(params.uri))
        return EmptyResult()

    def _begin(self, desk: Desk, connection: Connection, nursery: trio.Nursery) -> ChangeListener:
        """Return the listener of a client's session, which ends with that and with the token."""
        listener, scope = ChangeListener(desk), trio.CancelScope()
        with ExitStack() as stack:
            stack.enter_context(self._shares.place(desk.owner))
            stack.callback(listener.close)
            stack.callback(connection.state.pop, _LISTENER, None)
            connection.state[_LISTENER] = listener
            connection.exit_stack.callback(scope.cancel, reason="its client has gone")
            held = stack.pop_all()

        async def run() -> None:
            with suppress(AuthError), desk.at_work():
                await listener.run(connection.send_resource_updated)

        async def serve() -> None:
            with held, scope:
                await restart_on_crash("a listener of MCP", run)

        nursery.start_soon(serve, name="listener of MCP")
        return listener


class ChangeListener:
    """A client that is told when some sessions have changed.

    Args:
        desk: What it may see; it is looked at again before each message.

    Attributes:
        changed: The sessions that have changed since the last message: each is there once, however slow its client is.
        woken: Set when there are some.
    """

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._session_ids: set[str] = set()
        self.changed: set[str] = set()
        self.woken = trio.Event()

    @property
    def has_room(self) -> bool:
        """Whether it may listen to one more."""
        return len(self._session_ids) < MAX_LISTENED

    async def add(self, uri: str) -> bool:
        """Listen to a resource; return whether there is such a one for this client."""
        if not await is_readable(self._desk, uri):
            return False
        session_id = uri.removeprefix(SCHEME)
        self._session_ids.add(session_id)
        self._desk.changes.add(session_id, self._note)
        return True

    def remove(self, uri: str) -> None:
        """Listen no more to a resource. Idempotent."""
        session_id = uri.removeprefix(SCHEME)
        self._session_ids.discard(session_id)
        self.changed.discard(session_id)
        self._desk.changes.remove(session_id, self._note)

    def close(self) -> None:
        """Listen to nothing more. Idempotent."""
        for session_id in [*self._session_ids]:
            self.remove(f"{SCHEME}{session_id}")

    def _note(self, session_id: str) -> None:
        self.changed.add(session_id)
        self.woken.set()

    async def run(self, tell: Callable[[str], Awaitable[None]]) -> Never:
        """Tell of changes until cancelled, of each resource at most once in `UPDATE_SECONDS`."""
        while True:
            await self.woken.wait()
            self.woken = trio.Event()
            changed, self.changed = self.changed, set()
            for uri in [f"{SCHEME}{session_id}" for session_id in sorted(changed)]:
                if await self._may_tell(uri):
                    await tell(uri)
            await trio.sleep(UPDATE_SECONDS)

    async def _may_tell(self, uri: str) -> bool:
        """Return whether the client may still read it; of one that it may not it hears nothing more."""
        try:
            if await is_readable(self._desk, uri):
                return True
        except CallboardError:  # it can't be said just now
            return False
        self.remove(uri)
        return False
