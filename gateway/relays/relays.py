"""Which node a request of this node's client is for, and what happens while that node can't be reached."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any, NoReturn

import msgspec
import trio
import trio_websocket

from ...actors.cluster.node import AGAIN_SECONDS, LEAVE_SECONDS, ClusterNode
from ...client.link import REPEATED_METHODS, ConnectionBroke
from ...runtime.cluster.nodes import Node, Term
from ...runtime.errors import (
    CallboardError,
    ConflictError,
    NetworkError,
    NotFoundError,
    OverloadedError,
    ValidationError,
)
from ...runtime.kernel.delivery import Subscription
from ...runtime.kernel.mailbox import Mailbox
from ...runtime.messages import DirectoryMessage, FollowSession, FollowStart
from ...runtime.redaction import redacting_logger
from ...runtime.turns.live_state import UnderWay
from ...runtime.wire.fields import Nothing, Role
from ...runtime.wire.hello import WireNode
from ...runtime.wire.sessions import SomeSessions
from ..connection.caller import Caller
from ..connection.frame_budget import BudgetedStream
from ..connection.method_table import Method, MethodTable
from ..quotas import Quota
from ..shared.json_values import decoder
from ..shared.state import DaemonState, OpenConnection
from .accepted import NodeConnection
from .messages import RelayedRequest
from .peer import Peer, Unreachable
from .principals import Principals, principal_of

logger = redacting_logger(__name__)

PATIENCE_SECONDS = LEAVE_SECONDS
"""How long a request waits for an owner that can't be reached, or for the next one: a lease, and a takeover behind it."""
CLAIM_SECONDS = 1.0
"""How long a request waits for another node to claim its session: behind that, this node may."""
MAX_PLACES = 10_000
"""Sessions of which it is kept who owns them; of others the database is asked once more."""


class Relays:
    """The relays of one node.

    Args:
        daemon: What its clients are connected to.
        node: This node.
        directory: The actor that finds sessions of this node.
        table: All methods.

    Attributes:
        accepted: The connections of nodes that ask here.
    """

    def __init__(
        self,
        daemon: DaemonState,
        node: ClusterNode,
        directory: Mailbox[DirectoryMessage],
        table: MethodTable,
    ) -> None:
        self._daemon = daemon
        self._node = node
        self._directory = directory
        self._table = table
        self._principals = Principals(daemon.credentials, node)
        self._places: dict[str, Term] = {}
        self._peers: dict[str, Peer] = {}
        self._nursery: trio.Nursery | None = None
        self._waiting: set[Subscription] = set()
        self.accepted: set[OpenConnection] = set()

    async def run(self) -> None:
        """Keep the connections to other nodes until cancelled."""
        self._peers.clear()
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                while True:
                    changed = self._node.members_changed = trio.Event()
                    for peer in list(self._peers.values()):
                        if not self._node.is_up(peer.life):
                            peer.close()  # who waits for its answer asks the next owner, or is told
                    for waiting in self._waiting:
                        waiting.close()  # whoever follows looks again whether a node may own the session
                    await changed.wait()
        finally:
            self._nursery = None

    def nodes(self) -> tuple[WireNode, ...]:
        """Return the nodes that are up, as clients are told of them."""
        return tuple(
            WireNode(node.node_id, node.url, node.node_id == self._node.node_id)
            for node in self._node.members.nodes.values()
            if node.state == "live"
        )

    # ── this node's clients ──────────────────────────────────────────────────────────────────────

    async def call(self, method: Method, caller: Caller, params: msgspec.Struct) -> Any:
        """Have a request done by the node that owns the session that it is about; see `Method.call`.

        Raises:
            ConflictError: It begins a turn that its client follows by HTTP, and another node owns the session.
            OverloadedError: That node can't be reached; nothing was done.
            NetworkError: The connection broke before it answered; whether it was done is not known.
            CallboardError: What the method raises there.
        """
        session_ids = await self._subjects(method, caller, params)
        begins_turn = method.recall is not None
        if all(map(self._node.owns, session_ids)) or (caller.via and begins_turn):
            return await method.run(caller, params)  # who asks by HTTP follows that turn here
        # What the client may not know of makes no node do anything.
        for session_id in session_ids:
            await caller.session(session_id)
        if len(session_ids) == 1:
            answer = await self._call_one(method, caller, params, session_ids[0])
            if caller.via and isinstance(answer, msgspec.Raw):
                return decoder(method.result).decode(answer)
            return answer
        done: list[str] = []
        for session_id in dict.fromkeys(session_ids):
            one = msgspec.structs.replace(params, session_ids=(session_id,))
            answer = await self._call_one(method, caller, one, session_id)
            if method.result is Nothing:
                continue
            if isinstance(answer, msgspec.Raw):
                answer = decoder(SomeSessions).decode(answer)
            done += answer.session_ids
        return Nothing() if method.result is Nothing else SomeSessions(tuple(dict.fromkeys(done)))

    async def _call_one(
        self, method: Method, caller: Caller, params: msgspec.Struct, session_id: str
    ) -> Any:
        request = RelayedRequest(
            number=0,
            principal=principal_of(caller),
            method=method.name,
            params=msgspec.Raw(msgspec.json.encode(params)),
        )
        may_repeat = (
            method.role is Role.OBSERVER
            or method.name in REPEATED_METHODS
            or (method.recall is not None and caller.request is not None)
        )
        trying = _Trying(session_id)
        while True:
            if (place := await self._place(trying)) is None:
                return await method.run(caller, params)
            try:
                peer = await self._claimed(place, trying)
                if method.is_kept:
                    number = peer.client_number(caller.subscriptions)
                    request = msgspec.structs.replace(request, client=number)
                return await peer.request(request)
            except ConnectionBroke as error:
                if not may_repeat:
                    raise NetworkError(
                        f"the connection to node {place.node_id} broke; whether {method.name} was done is not known"
                    ) from None
                await self._try_again(trying, place, error)
            except CallboardError as error:
                await self._try_again(trying, place, error)

    async def follow(
        self, session_id: str, subscription: Subscription
    ) -> tuple[FollowStart, Callable[[], None]]:
        """Have the updates of a session put into a subscription, whichever node owns it; see `Peer.follow`.

        While no node may own it, there is what is on record, and the subscription ends when nodes have come or gone.
        """
        trying = _Trying(session_id)
        while True:
            members = self._node.members
            try:
                place = await self._place(trying)
            except ConflictError as error:
                if error.kind != "root":
                    raise
                row = await self._daemon.runtime.store.session(session_id)  # noqa: ASYNC120  a cancel ends it as well
                if row is None:
                    raise NotFoundError(f"there is no session {session_id} any more") from None
                if members is not self._node.members:
                    continue
                self._waiting.add(subscription)
                stands = FollowStart(head_seq=row.head_seq, under_way=UnderWay())
                return stands, partial(self._waiting.discard, subscription)
            if place is None:
                wanted = FollowSession(session_id=session_id, subscription=subscription)
                return await self._directory.ask(wanted), _nothing
            try:
                peer = await self._claimed(place, trying)
                return await peer.follow(session_id, subscription)
            except CallboardError as error:
                if subscription.is_closed:  # the feed begins with another one
                    raise
                await self._try_again(trying, place, error)

    async def _try_again(self, trying: _Trying, place: Node, error: CallboardError) -> None:
        """Wait before a request is made again, of whoever owns the session then.

        Raises:
            OverloadedError: It has waited long enough.
            CallboardError: The error is the request's own.
        """
        is_refused = isinstance(error, ConflictError) and error.kind == "owner"
        is_ending = isinstance(error, OverloadedError) and error.kind == "stopping"
        if not (isinstance(error, Unreachable | ConnectionBroke) or is_refused or is_ending):
            raise error
        self._places.pop(trying.session_id, None)
        if trying.error is None or not isinstance(error, _NoAnswer):
            trying.error = error
        if trio.current_time() >= trying.until:
            trying.give_up(place, self._node.node_id, trying.error)
        await trio.sleep(AGAIN_SECONDS)

    async def _place(self, trying: _Trying) -> Node | None:
        """Return the node that owns a session; `None` for this one, which takes it if its owner is gone.

        One of greater capacity may be left such a session, but not when it was asked for it and has not taken it.
        """
        session_id = trying.session_id
        if self._node.owns(session_id):
            return None
        members = self._node.members.nodes
        known = self._places.get(session_id)
        if known is not None and self._node.is_up(known) and known.node_id in members:
            return members[known.node_id]
        owner = await self._node.other_owner(session_id, passes_on=trying.error is None)
        if owner is None:
            self._places.pop(session_id, None)
            return None
        if not owner.is_gone:
            if len(self._places) >= MAX_PLACES:
                del self._places[next(iter(self._places))]
            self._places[session_id] = owner.life
        found = self._node.members.nodes.get(owner.life.node_id)
        if found is None or found.life != owner.life:
            if owner.is_gone and trying.error is None:
                # It was to claim the session, and has left since.
                trying.error = Unreachable("it has left")
                return await self._place(trying)
            # It has joined just now.
            raise OverloadedError(
                f"node {owner.life.node_id}, which runs session {session_id}, is not known here yet: ask again",
                kind="owner",
            )
        return found

    async def _claimed(self, node: Node, trying: _Trying) -> Peer:
        """Return the connection to the node that owns a session, or that is to claim it, once it has.

        Raises:
            Unreachable: There is none, or it has not claimed the session in time; so nothing was sent of the request.
        """
        if self._places.get(trying.session_id) == node.life:
            return await self._peer(node, trying.until)
        until = min(trying.until, trio.current_time() + CLAIM_SECONDS)
        peer = await self._peer(node, until)
        with trio.move_on_at(until):
            try:
                await peer.claim(trying.session_id)
            except NotFoundError:
                raise
            except CallboardError as error:
                if isinstance(error, OverloadedError) and error.kind == "stopping":
                    raise
                raise Unreachable(f"it can't take the session: {error}") from error
            self._places[trying.session_id] = node.life
            return peer
        raise Unreachable("it does not take the session")

    async def _peer(self, node: Node, until: float) -> Peer:
        """Return the connection to a node; raise `Unreachable`, also when there is none until then."""
        peer = self._peers.get(node.node_id)
        if peer is not None and peer.life != node.life:
            peer.close()
            peer = None
        if peer is None:
            if self._nursery is None:
                raise Unreachable("this node is about to connect to others, or ends")
            try:
                peer = Peer(node, self._node)
            except ValidationError as error:
                raise Unreachable(f"its address can't be used: {error}") from None
            self._peers[node.node_id] = peer
            self._nursery.start_soon(self._serve, peer, name=f"relay to {node.node_id}")
        with trio.move_on_at(until):
            await peer.ready()
            return peer
        raise _NoAnswer("it does not answer")

    async def _serve(self, peer: Peer) -> None:
        try:
            await peer.run()
        finally:
            if self._peers.get(peer.life.node_id) is peer:
                del self._peers[peer.life.node_id]

    async def _subjects(
        self, method: Method, caller: Caller, params: msgspec.Struct
    ) -> Sequence[str]:
        """Return the sessions that a request is about; the method itself refuses what there is not."""
        name: str = getattr(params, method.about)
        store = caller.runtime.store
        match method.about:
            case "session_id":
                return (name,)
            case "session_ids":
                named: Collection[str] = getattr(params, method.about)
                return tuple(named)
            case "approval_id":
                asked = await store.approvals(approval_id=name, within=caller.visible)
                return tuple(each.session_id for each in asked)
            case "grant_id":
                grants = await store.grants(grant_id=name, include_ended=True)
                return tuple(each.session_id for each in grants)
            case "question_id":
                questions = await caller.runtime.questions()  # the record has those of all nodes
                return tuple(each.session_id for each in questions if each.question_id == name)
            case "memory_id":
                memories = await store.memories(memory_id=name, within=caller.visible, limit=1)
                return tuple(each.session_id for each in memories)
            case _:
                raise AssertionError(method.about)

    # ── nodes that ask here ──────────────────────────────────────────────────────────────────────

    async def admit(self, ticket: str) -> tuple[Term, str]:
        """Return which node shows a ticket, and the proof for it; raise `AuthError` or `StorageError`."""
        return await self._node.admit(ticket)

    def connection(
        self,
        life: Term,
        proof: str,
        socket: trio_websocket.WebSocketConnection,
        stream: BudgetedStream,
        quota: Quota,
    ) -> NodeConnection:
        """Return the connection of a node that was admitted."""
        return NodeConnection(
            socket,
            stream,
            quota,
            self._daemon,
            self._table,
            life=life,
            proof=proof,
            principals=self._principals,
            node=self._node,
        )


class _NoAnswer(Unreachable):
    """The time was over before there was a connection, which says less than any other failure."""


class _Trying:
    """A request that is made until its time is over.

    Attributes:
        error: Why it could not be done, as far as that is known.
    """

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        self.until = trio.current_time() + PATIENCE_SECONDS
        self.error: CallboardError | None = None

    def give_up(self, place: Node, here: str, error: CallboardError) -> NoReturn:
        where = f"node {place.node_id}, which runs session {self.session_id}, at {place.url}"
        if isinstance(error, OverloadedError):
            why = f"{where}, is ending, and nobody has the session yet"
        elif isinstance(error, ConflictError):
            why = f"session {self.session_id} changes its node, or waits for one"
        else:
            why = f"{where}, can't be reached from node {here} ({error})"
        raise OverloadedError(f"{why}. Nothing was done: ask again.", kind="owner") from error


def _nothing() -> None:
    pass
