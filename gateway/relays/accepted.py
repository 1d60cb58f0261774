"""The connection of another node, which asks for its clients."""

from __future__ import annotations

from typing import Protocol

import msgspec
import trio
import trio_websocket

from ...config.keys.tokens import Credential
from ...runtime.cluster.nodes import Term
from ...runtime.errors import CallboardError, ConflictError, OverloadedError, PermissionRefused
from ...runtime.wire.fields import Nothing, Role
from ...runtime.wire.hello import Hello, Welcome
from ...runtime.wire.rpc import METHOD_NOT_FOUND, NOT_AUTHORIZED, RpcRequest, rpc_error
from ...runtime.wire.sessions import OneSession, Subscribe
from ..connection.caller import Caller
from ..connection.connection import GOING_AWAY, Connection
from ..connection.frame_budget import BudgetedStream
from ..connection.incoming import Refused, read_params, read_request
from ..connection.method_table import Method, MethodTable
from ..connection.subscriptions import Subscriptions
from ..methods.subscriptions import subscribe_session, unsubscribe_session
from ..quotas import Quota
from ..shared.idempotency import request_key
from ..shared.state import DaemonState
from .messages import CallOff, ClaimRequest, ClientEnded, RelayedRequest
from .principals import Principals

MAX_ACCEPTED_REQUESTS = 1024
"""Requests of one other node that run at once, as many as it lets its clients have."""
MAX_KEPT_CLIENTS = 1024
"""Clients of one other node that have something here which ends with their connection: servers of their own, few of which
a node has room for."""
MAX_RELAYED_SESSIONS = 16_384
"""Sessions that one other node follows here: those of 16 connections that follow all that they may."""


class OwnNode(Protocol):
    """What a node knows of its cluster."""

    def owns(self, session_id: str) -> bool:
        """Whether this node runs the session."""
        ...

    async def claim(self, session_id: str) -> None:
        """Make this node the owner of a session that nobody owns; raise `CallboardError` if it may not be."""
        ...

    def is_up(self, life: Term) -> bool:
        """Whether a life of another node goes on, as far as this one has heard."""
        ...


class NodeConnection(Connection):
    """A node that has shown its ticket. By itself it may follow sessions; all else it asks as one of its clients.

    Ends: as the connection of a client, and when the life of the node is over.
    """

    def __init__(
        self,
        socket: trio_websocket.WebSocketConnection,
        stream: BudgetedStream,
        quota: Quota,
        daemon: DaemonState,
        table: MethodTable,
        *,
        life: Term,
        proof: str,
        principals: Principals,
        node: OwnNode,
    ) -> None:
        # What the node shows to its clients of a session, it decides by the record, which it reads anyway.
        credential = Credential(
            name=life.node_id, role=Role.OBSERVER, digest=f"node {life.node_id}", created_at_ms=0
        )
        super().__init__(socket, stream, credential, quota, daemon, table)
        self._life = life
        self._proof = proof
        self._principals = principals
        self._node = node
        self._relayed: dict[int, trio.CancelScope] = {}
        self._clients: dict[int, Subscriptions] = {}

    def _welcome(self, hello: Hello, seq: int) -> Welcome:
        if hello.subscribe:
            raise PermissionRefused("a node follows no topics at another one: it has the record")
        welcome = super()._welcome(hello, seq)
        return msgspec.structs.replace(welcome, proof=self._proof, methods=())

    def _new_subscriptions(self, nursery: trio.Nursery) -> Subscriptions:
        own = Subscriptions(
            self._daemon, self.credential, self._outbox, nursery, MAX_RELAYED_SESSIONS
        )
        own.at_end("clients", self._end_clients)
        return own

    def _client(self, number: int, nursery: trio.Nursery) -> Subscriptions:
        """Return what hangs on the connection of a client; itself it hears nothing here."""
        if (known := self._clients.get(number)) is not None:
            return known
        if len(self._clients) >= MAX_KEPT_CLIENTS:
            raise OverloadedError(
                f"{MAX_KEPT_CLIENTS} clients of node {self._life.node_id} have something here already"
            )
        made = self._clients[number] = Subscriptions(
            self._daemon, self.credential, self._outbox, nursery, 0
        )
        return made

    def _end_clients(self) -> None:
        clients, self._clients = self._clients, {}
        for each in clients.values():
            each.end()

    async def _begin(
        self, message: str | bytes, size: int, nursery: trio.Nursery, subscriptions: Subscriptions
    ) -> bool:
        if not self._node.is_up(self._life):
            self.close(GOING_AWAY, "this node is not in the cluster any more", at_once=True)
            return False
        request: RpcRequest | None = None
        try:
            request = await read_request(message)
            match request.method:
                case "relay/request":
                    relayed = await read_params(request, RelayedRequest)
                    self._check_room()
                    own = self._client(relayed.client, nursery) if relayed.client else subscriptions
                    nursery.start_soon(
                        self._relay, request, relayed, size, own, name=relayed.method
                    )
                    return True
                case "relay/claim":
                    claim = await read_params(request, ClaimRequest)
                    self._check_room()
                    nursery.start_soon(self._claim, request, claim, size, name="claim a session")
                    return True
                case "relay/cancel":
                    called_off = await read_params(request, CallOff)
                    if (scope := self._relayed.get(called_off.number)) is not None:
                        scope.cancel(reason="the client is gone")
                    self._answer(request.id, Nothing())
                case "relay/left":
                    gone = await read_params(request, ClientEnded)
                    if (client := self._clients.pop(gone.client, None)) is not None:
                        client.end()
                    self._answer(request.id, Nothing())
                case "session/subscribe":
                    await self._follow(request, subscriptions)
                case "session/unsubscribe":
                    caller = Caller(self._daemon, self.credential, subscriptions)
                    left = await read_params(request, OneSession)
                    self._answer(request.id, unsubscribe_session(caller, left))
                case _:
                    raise Refused(
                        METHOD_NOT_FOUND, f"a node does not ask {request.method:.100}", request.id
                    )
        except Refused as refused:
            self._refuse(refused)
        except CallboardError as error:
            self._answer_error(None if request is None else request.id, rpc_error(error))
        return False

    def _check_room(self) -> None:
        if len(self._relayed) >= MAX_ACCEPTED_REQUESTS:
            raise OverloadedError(
                f"{MAX_ACCEPTED_REQUESTS} requests of node {self._life.node_id} run already"
            )

    async def _claim(self, request: RpcRequest, claim: ClaimRequest, size: int) -> None:
        scope = self._relayed[claim.number] = trio.CancelScope()
        try:
            with scope:
                await self._node.claim(claim.session_id)
                self._answer(request.id, Nothing())
        except CallboardError as error:
            self._answer_error(request.id, rpc_error(error))
        finally:
            self._relayed.pop(claim.number, None)
            self._stream.done(size)

    async def _follow(self, request: RpcRequest, subscriptions: Subscriptions) -> None:
        params = await read_params(request, Subscribe)
        if not self._node.owns(params.session_id):  # or two nodes could wait for each other
            raise ConflictError(
                f"session {params.session_id} is not this node's, or not yet", kind="owner"
            )
        caller = Caller(self._daemon, self.credential, subscriptions, is_relayed=True)
        self._answer(request.id, await subscribe_session(caller, params))
        caller.answered()

    # ── for clients of the node ──────────────────────────────────────────────────────────────────

    async def _relay(
        self,
        request: RpcRequest,
        relayed: RelayedRequest,
        size: int,
        subscriptions: Subscriptions,
    ) -> None:
        scope = self._relayed[relayed.number] = trio.CancelScope()
        try:
            with scope:
                await self._do(request, relayed, subscriptions)
        finally:
            self._relayed.pop(relayed.number, None)
            self._stream.done(size)

    async def _do(
        self, request: RpcRequest, relayed: RelayedRequest, subscriptions: Subscriptions
    ) -> None:
        inner = RpcRequest(relayed.method, "2.0", request.id, relayed.params)
        try:
            credential = await self._principals.credential(relayed.principal, self._life.node_id)
            method = self._relayed_method(inner, credential)
            params = await read_params(inner, method.params)
            key = None
            if method.role is not Role.OBSERVER:
                key = await request_key(credential.sender, method.name, inner.params, params)
        except Refused as refused:
            self._refuse(refused)
            return
        except CallboardError as error:
            self._answer_error(request.id, rpc_error(error))
            return
        principal = relayed.principal
        caller = Caller(
            self._daemon,
            credential,
            subscriptions,
            key,
            via=principal.via,
            is_page=principal.is_page,
            is_relayed=True,
        )
        await self._call(method, request.id, params, caller)

    def _relayed_method(self, request: RpcRequest, credential: Credential) -> Method:
        """Return the method of a relayed request; raise `Refused` for one that this client may not ask another node."""
        method = self._table.get(request.method)
        if method is None or not method.about:
            raise Refused(
                METHOD_NOT_FOUND, f"{request.method:.100} is not asked of another node", request.id
            )
        if (reason := method.refusal(credential)) is not None:
            raise Refused(NOT_AUTHORIZED, reason, request.id)
        return method
