"""Serve one accepted connection: read its head, apply the rules, then answer a route or a websocket.

socket → head (bounded) → door rules → /healthz, /readyz, /metrics
                                     → /ws: token → handshake → `Connection`
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio
import trio_websocket

from ...config.keys.tokens import Credential
from ...config.sections import ServerSettings
from ...runtime.errors import OverloadedError
from ...runtime.redaction import redacting_logger
from ..connection.connection import GOING_AWAY, Connection
from ..connection.frame_budget import BudgetedStream
from ..connection.method_table import MethodTable
from ..quotas import Quota
from ..shared.state import DaemonState
from .authentication import Authenticator
from .descriptors import connections_with_room
from .http import BadHead, HttpAnswer, RequestHead, linger, read_head, send_answer
from .rate_limits import RateLimits, Visitor, peer_name
from .rules import DoorRules, agreed_subprotocol, check_handshake

logger = redacting_logger(__name__)

WEBSOCKET_PATH = "/ws"
HANDSHAKE_SECONDS = 5.0
"""From the token to the open websocket."""
ANSWER_SECONDS = 5.0
"""The time for a client to receive a short answer."""

Route = Callable[[RequestHead, Credential | None], HttpAnswer | Awaitable[HttpAnswer]]


class Server:
    """Serves connections. No connection's failure ends another one, or the server.

    Args:
        daemon: The state that connections share.
        table: All methods.
        rules: The accepted Hosts and Origins.
        routes: Plain HTTP, by path.
    """

    def __init__(
        self, daemon: DaemonState, table: MethodTable, rules: DoorRules, routes: dict[str, Route]
    ) -> None:
        self._daemon = daemon
        self._table = table
        self._rules = rules
        self._routes = routes
        settings = daemon.settings
        room = connections_with_room(settings.max_connections)
        self._rate_limits = RateLimits(room, settings.max_peer_connections)
        self._authenticator = Authenticator(daemon, self._rate_limits)

    def take_settings(self, settings: ServerSettings, rules: DoorRules) -> None:
        """Apply new settings and rules to new connections."""
        self._rules = rules
        room = connections_with_room(settings.max_connections)
        self._rate_limits.set_limits(room, settings.max_peer_connections)

    async def handle(self, stream: trio.SocketStream) -> None:
        """Serve one TCP connection to its end."""
        try:
            peer = peer_name(stream.socket.getpeername()[0])
            with self._rate_limits.connected(peer) as visitor:
                await self._serve(stream, visitor)
                await linger(stream)
        except* (trio.BrokenResourceError, trio.ClosedResourceError, OSError):
            pass  # the client has left
        except* Exception:
            logger.exception("a connection failed; others go on")
        finally:
            await trio.aclose_forcefully(stream)

    async def _serve(self, stream: trio.SocketStream, visitor: Visitor) -> None:
        try:
            head = None
            with trio.move_on_after(self._daemon.settings.head_seconds) as patience:
                head = await read_head(stream)
            if patience.cancelled_caught:
                raise BadHead(408, "the head of the request took too long")
            if head is None:
                return
            self._rules.check(head)
            path = head.target.partition("?")[0]
            if path == WEBSOCKET_PATH and head.is_upgrade:
                check_handshake(head)
                subprotocol = agreed_subprotocol(head)
                credential = await self._authenticator.authenticate(head, visitor)
                is_local = self._daemon.is_local(credential)
                if not self._rate_limits.may_stay(visitor, is_local=is_local):
                    raise BadHead(503, "too many connections")
                try:
                    with self._daemon.quotas.connected(credential, is_local=is_local) as quota:
                        await self._open_websocket(stream, head, credential, subprotocol, quota)
                except OverloadedError as error:
                    raise BadHead(503, str(error)) from error
            else:
                await self._send(stream, await self._routed(head, path, visitor))
        except BadHead as error:
            await self._send(stream, HttpAnswer(error.status, str(error)))

    async def _routed(self, head: RequestHead, path: str, visitor: Visitor) -> HttpAnswer:
        route = self._routes.get(path)
        if path == WEBSOCKET_PATH:
            return HttpAnswer(426, "this is a websocket")
        if route is None:
            return HttpAnswer(404, "there is nothing here")
        if head.method not in ("GET", "HEAD"):
            return HttpAnswer(405, "only GET is answered here")
        has_token = head.all("authorization")
        credential = await self._authenticator.authenticate(head, visitor) if has_token else None
        answer = route(head, credential)
        return answer if isinstance(answer, HttpAnswer) else await answer

    # ── websockets ───────────────────────────────────────────────────────────────────────────────

    async def _open_websocket(
        self,
        stream: trio.SocketStream,
        head: RequestHead,
        credential: Credential,
        subprotocol: str | None,
        quota: Quota,
    ) -> None:
        settings = self._daemon.settings
        if self._daemon.is_stopping:
            raise BadHead(503, "the server is stopping")
        budgeted = BudgetedStream(
            stream, head.received, settings.max_frame_bytes, settings.send_seconds, quota
        )
        async with trio.open_nursery() as nursery:
            with trio.fail_after(HANDSHAKE_SECONDS):
                request = await trio_websocket.wrap_server_stream(
                    nursery, budgeted, max_message_size=settings.max_frame_bytes
                )
                socket = await request.accept(subprotocol=subprotocol)
            connection = Connection(socket, budgeted, credential, quota, self._daemon, self._table)
            self._daemon.connections.add(connection)
            try:
                await connection.run()
            finally:
                self._daemon.connections.discard(connection)
                budgeted.forget()
            nursery.cancel_scope.cancel(reason="the connection has ended")

    def farewell(self) -> None:
        """Begin to end all connections; never wait."""
        for connection in list(self._daemon.connections):
            connection.close(GOING_AWAY, "the server stops")

    async def _send(self, stream: trio.SocketStream, answer: HttpAnswer) -> None:
        with trio.move_on_after(ANSWER_SECONDS):
            await send_answer(stream, answer)
