"""Serve one accepted connection: read a head, apply the rules, then answer a route or a websocket.

socket → head (bounded) → door rules → route: method → token → body → answer → the next head
                                     → /ws: token → handshake → `Connection`
                                     → /relay: a node's ticket → handshake → `relays.accepted`
"""

from __future__ import annotations

import inspect

import trio
import trio_websocket

from ...config.keys.console_logins import ConsoleLogin
from ...config.keys.tokens import Credential
from ...config.sections import ServerSettings
from ...runtime.errors import CallboardError, OverloadedError
from ...runtime.redaction import redacting_logger
from ..connection.connection import GOING_AWAY, Connection
from ..connection.frame_budget import BudgetedStream, send_in_time
from ..connection.method_table import MethodTable
from ..quotas import Quota
from ..shared.state import DaemonState, OtherNodes
from .authentication import Authenticator
from .comments import Comments
from .descriptors import connections_with_room
from .exchange import ClientLeft, Exchange, Route, Routes, refusal_of, refuse_in_words
from .http import BadHead, HttpAnswer, HttpServerConnection, RequestHead, linger
from .rate_limits import RateLimits, Visitor, peer_name
from .rules import DoorRules, agreed_subprotocol, check_handshake

logger = redacting_logger(__name__)

WEBSOCKET_PATH = "/ws"
RELAY_PATH = "/relay"
"""Where other nodes of the cluster connect; without a cluster there is nothing."""
HANDSHAKE_SECONDS = 5.0
"""From the token to the open websocket."""
IDLE_SECONDS = 75.0
"""Between two requests of a connection: longer than proxies and pools of clients wait, most of them."""
MAX_REQUESTS = 1000
"""Of one connection; then the client makes another one."""


class Server:
    """Serves connections. No connection's failure ends another one, or the server.

    Args:
        daemon: The state that connections share.
        table: All methods.
        rules: The accepted Hosts and Origins.
        routes: Plain HTTP, by path.

    Attributes:
        comments: Those of open streams; somebody has to run them.
    """

    def __init__(
        self, daemon: DaemonState, table: MethodTable, rules: DoorRules, routes: dict[str, Route]
    ) -> None:
        self._daemon = daemon
        self._table = table
        self._rules = rules
        self._routes = Routes(routes)
        settings = daemon.settings
        room = connections_with_room(settings.max_connections)
        self._rate_limits = RateLimits(room, settings.max_peer_connections)
        self._authenticator = Authenticator(daemon, self._rate_limits)
        self._idle: set[trio.CancelScope] = set()
        self.comments = Comments()
        self._is_ending = False

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
                if await self._serve(stream, visitor):
                    await linger(stream)
        except* (trio.BrokenResourceError, trio.ClosedResourceError, OSError):
            pass  # the client has left
        except* Exception:
            logger.exception("a connection failed; others go on")
        finally:
            await trio.aclose_forcefully(stream)

    async def _serve(self, stream: trio.SocketStream, visitor: Visitor) -> bool:
        """Serve requests; return whether the client may still have something to read or to send."""
        connection = HttpServerConnection(stream)
        for left in reversed(range(MAX_REQUESTS)):
            try:
                head = await self._head(connection)
                if head is None:
                    return True
                path = head.target.partition("?")[0]
                if path == WEBSOCKET_PATH and head.is_upgrade:
                    await self._open_websocket(stream, head, visitor)
                    return True
                if path == RELAY_PATH and head.is_upgrade and self._daemon.relays is not None:
                    await self._open_relay(stream, head, visitor, self._daemon.relays)
                    return True
            except BadHead as error:
                data = connection.answer_bytes(refuse_in_words(error), keeps=False)
                await send_in_time(stream, data, self._daemon.settings.send_seconds)
                return True
            await self._answer(connection, head, path, visitor, is_last=left == 0)
            if self._is_ending or not connection.next_request():
                return True
            if not await self._wait_more(connection, visitor):
                return False
        return True

    async def _head(self, connection: HttpServerConnection) -> RequestHead | None:
        """Read a head in time and apply the rules; return `None` if the client leaves before."""
        head = None
        with trio.move_on_after(self._daemon.settings.head_seconds) as patience:
            head = await connection.read_head()
        if patience.cancelled_caught:
            raise BadHead(408, "the head of the request took too long")
        if head is not None:
            found = self._routes.find(head.target.partition("?")[0])
            self._rules.check(head, is_linked=found is not None and found[0].is_linked)
        return head

    async def _wait_more(self, connection: HttpServerConnection, visitor: Visitor) -> bool:
        """Wait for the next request; whoever waits gives its room to others. Return whether it comes."""
        self._rate_limits.waits(visitor)
        with trio.move_on_after(IDLE_SECONDS) as scope:
            self._idle.add(scope)
            try:
                return await connection.wait_more()
            finally:
                self._idle.discard(scope)
        return False

    # ── routes ───────────────────────────────────────────────────────────────────────────────────

    async def _answer(
        self,
        connection: HttpServerConnection,
        head: RequestHead,
        path: str,
        visitor: Visitor,
        *,
        is_last: bool,
    ) -> None:
        """Answer a request; a failure that comes too late for an answer cuts the connection off."""

        def keeps() -> bool:
            return visitor.has_room and not is_last and not self._daemon.is_stopping

        found = self._routes.find(path)
        try:
            if path == WEBSOCKET_PATH:
                raise BadHead(426, "this is a websocket")
            if found is None:
                raise BadHead(404, "there is nothing here")
            credential = await self._admitted(found[0], head, visitor)
            is_local = credential is not None and self._daemon.is_local(credential)
            if credential is not None:
                self._daemon.exchanges[visitor.scope] = credential
            with (
                self._daemon.quotas.connected(credential, is_local=is_local) as quota,
                Exchange(
                    connection,
                    head,
                    found[1],
                    credential,
                    quota,
                    visitor.peer,
                    self._daemon.settings.send_seconds,
                    keeps,
                    self.comments,
                ) as exchange,
            ):
                answer = await _answer_of(found[0], exchange)
                if answer is not None:
                    await exchange.send(answer)
        except (BadHead, OverloadedError) as error:
            if connection.has_begun:
                return
            refusal = error if isinstance(error, BadHead) else refusal_of(error)
            if refusal.status == 401 and found is not None and found[0].token == "none":
                refusal = self._authenticator.refused(visitor, str(refusal))
            refuse = refuse_in_words if found is None else found[0].refuse
            data = connection.answer_bytes(refuse(refusal), keeps=keeps())
            del refusal  # it refers to this frame, and so to all of the request
            await send_in_time(connection.stream, data, self._daemon.settings.send_seconds)
        finally:
            self._daemon.exchanges.pop(visitor.scope, None)

    async def _admitted(
        self, route: Route, head: RequestHead, visitor: Visitor
    ) -> Credential | None:
        """Return who may ask that of a route; raise `BadHead`."""
        if head.method not in route.methods:
            allowed = ", ".join(route.methods)
            raise BadHead(405, f"{allowed} is answered here", (("allow", allowed),))
        credential = None
        if route.token == "required" or (route.token == "optional" and head.all("authorization")):
            credential = await self._authenticator.authenticate(head, visitor)
        if route.token != "optional":  # the spare places are for those alone
            is_local = credential is not None and self._daemon.is_local(credential)
            if not self._rate_limits.may_stay(visitor, is_local=is_local):
                raise BadHead(503, "too many connections")
        return credential

    # ── websockets ───────────────────────────────────────────────────────────────────────────────

    async def _open_websocket(
        self, stream: trio.SocketStream, head: RequestHead, visitor: Visitor
    ) -> None:
        check_handshake(head)
        subprotocol = agreed_subprotocol(head)
        credential, login = await self._authenticator.authenticate_page(head, visitor)
        is_local = self._daemon.is_local(credential)
        if not self._rate_limits.may_stay(visitor, is_local=is_local):
            raise BadHead(503, "too many connections")
        try:
            with self._daemon.quotas.connected(credential, is_local=is_local) as quota:
                await self._serve_websocket(stream, head, credential, login, subprotocol, quota)
        except OverloadedError as error:
            raise BadHead(503, str(error)) from error

    async def _open_relay(
        self, stream: trio.SocketStream, head: RequestHead, visitor: Visitor, relays: OtherNodes
    ) -> None:
        """Serve another node of the cluster, which shows a ticket in place of a token."""
        check_handshake(head)
        life, proof = await self._authenticator.authenticate_node(head, visitor, relays)
        if not self._rate_limits.may_stay(visitor, is_local=True):
            raise BadHead(503, "too many connections")
        with self._daemon.quotas.connected(None, is_local=True) as quota:
            budgeted = self._budgeted(stream, head, quota)
            async with trio.open_nursery() as nursery:
                socket = await self._accepted(nursery, budgeted, None)
                connection = relays.connection(life, proof, socket, budgeted, quota)
                relays.accepted.add(connection)
                try:
                    await connection.run()
                finally:
                    relays.accepted.discard(connection)
                    budgeted.forget()
                nursery.cancel_scope.cancel(reason="the connection has ended")

    async def _serve_websocket(
        self,
        stream: trio.SocketStream,
        head: RequestHead,
        credential: Credential,
        login: ConsoleLogin | None,
        subprotocol: str | None,
        quota: Quota,
    ) -> None:
        if self._daemon.is_stopping:
            raise BadHead(503, "the server is stopping")
        budgeted = self._budgeted(stream, head, quota)
        async with trio.open_nursery() as nursery:
            socket = await self._accepted(nursery, budgeted, subprotocol)
            connection = Connection(
                socket, budgeted, credential, quota, self._daemon, self._table, login
            )
            self._daemon.connections.add(connection)
            if login is not None:
                keep = self._daemon.console.keep
                nursery.start_soon(keep, login, connection, name="login of a page")
            try:
                await connection.run()
            finally:
                self._daemon.connections.discard(connection)
                budgeted.forget()
            nursery.cancel_scope.cancel(reason="the connection has ended")

    def _budgeted(
        self, stream: trio.SocketStream, head: RequestHead, quota: Quota
    ) -> BudgetedStream:
        settings = self._daemon.settings
        return BudgetedStream(
            stream, head.received, settings.max_frame_bytes, settings.send_seconds, quota
        )

    async def _accepted(
        self, nursery: trio.Nursery, budgeted: BudgetedStream, subprotocol: str | None
    ) -> trio_websocket.WebSocketConnection:
        with trio.fail_after(HANDSHAKE_SECONDS):
            request = await trio_websocket.wrap_server_stream(
                nursery, budgeted, max_message_size=self._daemon.settings.max_frame_bytes
            )
            return await request.accept(subprotocol=subprotocol)

    def farewell(self) -> None:
        """Begin to end all connections; never wait."""
        self._is_ending = True
        for scope in self._idle:
            scope.cancel(reason="the server stops")
        relays = self._daemon.relays
        of_nodes = () if relays is None else relays.accepted
        for connection in [*self._daemon.connections, *of_nodes]:
            connection.close(GOING_AWAY, "the server stops")


async def _answer_of(route: Route, exchange: Exchange) -> HttpAnswer | None:
    try:
        answer = route.answer(exchange)
        return await answer if inspect.isawaitable(answer) else answer
    except CallboardError as error:
        raise refusal_of(error) from error
    except (BadHead, ClientLeft):
        raise
    except Exception as error:
        logger.exception("%s failed", exchange.head.target.partition("?")[0])
        raise BadHead(500, "this failed; the server's log says why") from error
