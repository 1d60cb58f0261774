"""The connection to another node: requests of this node's clients, and the sessions that are followed there.

It lasts until it breaks or the node is gone; who asks next makes another one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Protocol, TypeVar

import msgspec
import trio

from ...client.address import websocket_url
from ...client.link import Link
from ...client.reading import OtherForm, read_params, read_snapshot, read_update
from ...runtime.cluster.nodes import Node, Term
from ...runtime.errors import AuthError, CallboardError, NetworkError, OverloadedError
from ...runtime.events import LiveEvent, Stored
from ...runtime.kernel.delivery import Subscription
from ...runtime.messages import FollowStart
from ...runtime.redaction import Secret
from ...runtime.turns.live_state import UnderWay
from ...runtime.wire.fields import Nothing
from ...runtime.wire.rpc import error_from
from ...runtime.wire.sessions import OneSession, Subscribe, Subscribed
from ...runtime.wire.topics import SessionLost, Snapshot, Update
from ..connection.subscriptions import Subscriptions
from .accepted import MAX_KEPT_CLIENTS
from .messages import CallOff, ClaimRequest, ClientEnded, RelayedRequest

RELAY_PATH = "/relay"
MAX_RELAYED_REQUESTS = 1024
"""Requests of one node's clients that wait for another node: what 16 connections may have running at once."""
MAX_WAITING_UPDATES = 4096
"""Updates of a session that wait for its feed, which waits for nobody: one that has more begins again from the record."""

QUIET_SECONDS = 1.0
"""Without a byte from a node; then it is pinged."""
SILENT_SECONDS = 2.0
"""The time for any byte to come after that: a node that is silent for longer than its lease, at 1.5 s, is not to be waited
for. Together it is less than a request waits for an owner (`PATIENCE_SECONDS` of `relays`)."""


_Result = TypeVar("_Result")


class Unreachable(NetworkError):
    """There is no connection to a node, and nothing was sent to it."""


class TicketOffice(Protocol):
    """What this node needs to show another one which node it is."""

    def ticket_for(self, life: Term) -> Secret:
        """Return what is shown to another node, once."""
        ...

    def is_answer(self, ticket: Secret, proof: str) -> bool:
        """Whether a node that was shown a ticket has answered as only one of this cluster can."""
        ...


class Peer:
    """One connection to another node.

    Args:
        node: The node, in its present life.
        office: Makes the ticket.

    Attributes:
        life: The life of the node.
        opened: Set when there is a connection, or will be none.
        failure: Why there is none any more.
    """

    def __init__(self, node: Node, office: TicketOffice) -> None:
        self.life = node.life
        self.opened = trio.Event()
        self.failure: CallboardError | None = None
        self._office = office
        self._url = websocket_url(node.url, RELAY_PATH)
        self._ticket = Secret("")
        self._link = Link(self._place, self)
        self._link.lost = self._lost
        self._link.quiet_seconds, self._link.silent_seconds = QUIET_SECONDS, SILENT_SECONDS
        self._scope = trio.CancelScope()
        self._nursery: trio.Nursery | None = None
        self._numbers = count(1)
        self._running = 0
        self._followed: dict[str, Followed] = {}
        self._leaving: dict[str, trio.Event] = {}
        self._clients: dict[Subscriptions, int] = {}

    def _place(self) -> tuple[str, Secret]:
        self._ticket = self._office.ticket_for(self.life)
        return self._url, self._ticket

    async def run(self) -> None:
        """Connect, and serve until the connection breaks."""
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    self._nursery = nursery
                    try:
                        await nursery.start(self._link.run)
                    except CallboardError as error:
                        self._end(error)
                    else:
                        await trio.sleep_forever()
        finally:
            self._nursery = None
            self._end(NetworkError(f"the connection to {self.life.node_id} broke"))

    def close(self) -> None:
        """End the connection: the node is gone, or a later life of it is there."""
        self._scope.cancel(reason="the node is gone")

    def _end(self, failure: CallboardError) -> None:
        self.failure = self.failure or failure
        self.opened.set()
        followed, self._followed = self._followed, {}
        for each in followed.values():
            each.fail(self.failure)

    async def ready(self) -> None:
        """Wait for the connection; raise `Unreachable` if there is none."""
        await self.opened.wait()
        if self.failure is not None:
            raise Unreachable(str(self.failure)) from self.failure

    # ── requests ─────────────────────────────────────────────────────────────────────────────────

    async def request(self, request: RelayedRequest) -> msgspec.Raw:
        """Have a request of a client done, and return its result as JSON; a cancel calls it off there.

        Raises:
            CallboardError: What the node says is wrong; `ConnectionBroke` when the connection broke before it answered.
        """
        request = msgspec.structs.replace(request, number=next(self._numbers))
        return await self._numbered("relay/request", request, msgspec.Raw)

    def client_number(self, client: Subscriptions) -> int:
        """Return by which number the node knows a client's connection, until that ends: then it is told.

        Raises:
            OverloadedError: Too many clients have something there.
        """
        if (known := self._clients.get(client)) is not None:
            return known
        if len(self._clients) >= MAX_KEPT_CLIENTS:
            raise OverloadedError(
                f"{MAX_KEPT_CLIENTS} clients have something at node {self.life.node_id} already"
            )
        client.at_end(f"relay to {self.life.node_id} {self.life.term}", partial(self._left, client))
        made = self._clients[client] = next(self._numbers)
        return made

    def _left(self, client: Subscriptions) -> None:
        number = self._clients.pop(client, 0)
        if number and self._nursery is not None:
            self._nursery.start_soon(
                self._tell, "relay/left", ClientEnded(number), name="a client has left"
            )

    async def claim(self, session_id: str) -> None:
        """Have the node claim a session whose owner is gone, and recover it; errors are as those of `request`."""
        claim = ClaimRequest(number=next(self._numbers), session_id=session_id)
        await self._numbered("relay/claim", claim, Nothing)

    async def _numbered(
        self, method: str, request: RelayedRequest | ClaimRequest, kind: type[_Result]
    ) -> _Result:
        if self._running >= MAX_RELAYED_REQUESTS:
            raise OverloadedError(
                f"{MAX_RELAYED_REQUESTS} requests for node {self.life.node_id} wait already"
            )
        self._running += 1
        try:
            return await self._link.request_first(method, request, kind)
        except trio.Cancelled:
            if self._nursery is not None:
                self._nursery.start_soon(self._call_off, request.number, name="call off")
            raise
        finally:
            self._running -= 1

    async def _call_off(self, number: int) -> None:
        await self._tell("relay/cancel", CallOff(number))

    async def _tell(self, method: str, params: msgspec.Struct) -> None:
        try:
            await self._link.request_first(method, params, Nothing)
        except CallboardError:
            self.close()  # which ends there what this was about

    # ── sessions ─────────────────────────────────────────────────────────────────────────────────

    async def follow(
        self, session_id: str, subscription: Subscription
    ) -> tuple[FollowStart, Callable[[], None]]:
        """Have all updates of a session put into a subscription; return where it starts, and what ends it.

        The subscription is closed when the connection breaks, or something is missing: then it is to be followed again.

        Raises:
            CallboardError: As `request`.
        """
        while (leaving := self._leaving.get(session_id)) is not None:
            await leaving.wait()
        followed = self._followed[session_id] = Followed(subscription)

        def leave() -> None:
            self._leave(session_id, followed)

        try:
            wanted = Subscribe(session_id=session_id)
            told = await self._link.request_first("session/subscribe", wanted, Subscribed)
            start = await followed.begin()
            if start.head_seq < told.seq:
                # The owner's record was ahead of its feed, which tells nobody what lies between.
                followed.fail()
                raise NetworkError(
                    f"{session_id} moved while it was followed; it is followed again"
                )
            return start, leave
        except BaseException:
            leave()
            raise

    def _leave(self, session_id: str, followed: Followed) -> None:
        if self._followed.get(session_id) is not followed:
            return
        del self._followed[session_id]
        if self._nursery is not None:
            self._leaving[session_id] = trio.Event()
            self._nursery.start_soon(self._unsubscribe, session_id, name="unsubscribe")

    async def _unsubscribe(self, session_id: str) -> None:
        try:
            await self._tell("session/unsubscribe", OneSession(session_id))
        finally:
            self._leaving.pop(session_id).set()

    # ── as the link's listener ───────────────────────────────────────────────────────────────────

    def hear(self, method: str, params: msgspec.Raw) -> None:
        """Take an update of a session."""
        if method == "session/update":
            update = read_update(params, self._url)
            name = update.name if isinstance(update, OtherForm) else update.session_id
            if (followed := self._followed.get(name)) is None:
                return
            if isinstance(update, Update):
                followed.take(update.known())
            elif isinstance(update, OtherForm) or update.seq is not None:
                followed.fail()  # a later version's: clients get it from the record
        elif method == "session/snapshot":
            snapshot = read_snapshot(params, self._url)
            name = snapshot.name if isinstance(snapshot, OtherForm) else snapshot.session_id
            if (followed := self._followed.get(name)) is not None:
                if isinstance(snapshot, OtherForm):
                    followed.fail(snapshot.error)
                else:
                    followed.snapshot(snapshot)
        elif method == "session/lost":
            lost = read_params(params, SessionLost, self._url)
            if (followed := self._followed.pop(lost.session_id, None)) is not None:
                followed.fail(error_from(lost.error))

    def connected(self) -> None:
        """Use the connection, if a node of this cluster is at its other end."""
        welcome = self._link.welcome
        assert welcome is not None
        if self._office.is_answer(self._ticket, welcome.proof):
            self.opened.set()
        else:
            self._end(AuthError(f"what is at {self._url} is no node of this cluster"))
            self.close()

    def ended(self, error: CallboardError) -> None:
        """Note that there will be no connection."""
        self._end(error)

    def _lost(self) -> None:
        if self.opened.is_set():
            self._end(NetworkError(f"the connection to node {self.life.node_id} broke"))
            self.close()


class Followed:
    """A session that is followed at another node."""

    def __init__(self, subscription: Subscription) -> None:
        self._subscription = subscription
        self._begun = trio.Event()
        self._start: FollowStart | None = None
        self._error: CallboardError | None = None
        self._head_seq = 0

    async def begin(self) -> FollowStart:
        """Wait for the state at the start; raise `CallboardError` if there will be none."""
        await self._begun.wait()
        if self._start is None:
            raise self._error or NetworkError("the session can't be followed just now")
        return self._start

    def take(self, update: Stored | LiveEvent) -> None:
        """Take an update behind the start; one that was there before is left out."""
        if self._start is None:
            return
        if isinstance(update, Stored):
            if update.seq <= self._head_seq:
                return
            if update.seq != self._head_seq + 1:
                self.fail()
                return
            self._head_seq = update.seq
        if self._subscription.waiting >= MAX_WAITING_UPDATES:
            self.fail()
            return
        self._subscription.put((update,))

    def snapshot(self, snapshot: Snapshot) -> None:
        """Begin; a later one means that live events were left out, and so begins anew."""
        if self._start is not None:
            self.fail()
            return
        self._head_seq = snapshot.seq
        under_way = UnderWay(snapshot.answer, snapshot.outputs, snapshot.below)
        self._start = FollowStart(snapshot.seq, under_way)
        self._begun.set()

    def fail(self, error: CallboardError | None = None) -> None:
        """End it; whoever still wants it follows the session again."""
        self._error = error
        self._subscription.close(error)
        self._begun.set()
