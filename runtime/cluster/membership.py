"""What one node does about its lease, the leases of others, and the sessions of those that are gone.

These are decisions over the statements of `registry`, without tasks and without a clock of their own: the
daemon runs them in threads, and the simulation one by one for a thousand nodes. `Membership.beat` must stay quick:
it is run again after `Membership.pause`. `Membership.look` is run when the database says that a node has changed, and
`Claims.next` while claims are due.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Mapping

import msgspec

from ..redaction import Secret
from .lease import RENEW_SECONDS, OwnLease
from .nodes import Joining, Node, Term
from .placement import Placement, rank, winner_of
from .registry import MAX_CLAIM, Registry
from .roots import EVERYBODYS, own_root

FENCERS = 3
"""So many nodes fence one that has lapsed, at once; if all of them are gone too, the others do at their next look."""
_AFTER_SECONDS = 0.005
"""A look at a lease that ends comes so much later than its end."""


class Members(msgspec.Struct, frozen=True):
    """The nodes as they were in one generation."""

    generation: int = 0
    nodes: Mapping[str, Node] = {}

    def after(self, changed: list[Node]) -> Members:
        """Return the nodes of a later generation, given those that were changed since."""
        if not changed:
            return self
        nodes = {**self.nodes, **{node.node_id: node for node in changed}}
        return Members(max(node.changed for node in changed), nodes)

    @property
    def live(self) -> dict[str, Node]:
        """The nodes that take sessions."""
        return {name: node for name, node in self.nodes.items() if node.state == "live"}

    @property
    def roots(self) -> frozenset[str]:
        """The roots of the sessions that one of these nodes may own."""
        up = self.live.values()
        return frozenset({EVERYBODYS, *(own_root(node.node_id) for node in up)}).union(
            *(node.roots for node in up)
        )

    def chosen(self, root: str, session_id: str) -> Node | None:
        """Return which of the nodes that have a root is to own a session; `None` when none has it."""
        having = {name: node for name, node in self.live.items() if node.has(root)}
        winner = winner_of(session_id, {name: node.capacity for name, node in having.items()})
        return None if winner is None else having[winner]

    def larger(self, node_id: str, root: str, session_id: str) -> Node | None:
        """Return which node of greater capacity is to own a session that a node is asked for; `None` if that one may itself.

        Beside nodes of its own capacity it may: what is owned where it is asked for needs no relay.
        """
        live = self.live
        if (own := live.get(node_id)) is None:
            return None
        larger = {
            name: node.capacity
            for name, node in live.items()
            if node.capacity > own.capacity and node.has(root)
        }
        winner = winner_of(session_id, {**larger, node_id: own.capacity})
        return None if winner is None or winner == node_id else live[winner]


class Membership:
    """A node's place in the cluster: its life, its lease, and what it knows of the others.

    Args:
        registry: The statements, over a connection that nothing long ever holds up.
        joining: What the node says of itself.
        monotonic: The node's own clock, in seconds.

    Attributes:
        life: The present life; `None` while it has none.
        key: By which the others know this node in its present life.
        lease: How long it may act.
        members: The nodes, as of the latest beat or look.
        timeline: Of the database at the latest beat; see `Renewal`.
        pause: How many seconds after one beat the next is due: fewer when another node is about to be fenced.
    """

    def __init__(
        self, registry: Registry, joining: Joining, monotonic: Callable[[], float]
    ) -> None:
        self._registry = registry
        self._joining = joining
        self._monotonic = monotonic
        self._lapsed: set[Term] = set()
        self.pause = RENEW_SECONDS
        self.life: Term | None = None
        self.key = Secret("")
        self.lease = OwnLease()
        self.members = Members()
        self.timeline = 0

    def join(self) -> Term:
        """Begin a life; raise `ConflictError` while another node of this name lives."""
        asked_at = self._monotonic()
        key = Secret(secrets.token_hex(32))  # 256 bits, as a token has
        self.life = self._registry.join(self._joining, key.reveal())
        self.key = key
        self.lease.renewed(asked_at)
        self.look()
        return self.life

    def beat(self) -> bool:
        """Renew the lease, and fence who has not; return whether the life goes on.

        If it does not, everything that it owned may be somebody else's: end it, then `join` again.
        """
        assert self.life is not None, "a node joins before it renews"
        asked_at = self._monotonic()
        renewal = self._registry.renew(self.life)
        if not renewal.is_held:
            self.lease.lose()
            self.life = None
            return False
        self.lease.renewed(asked_at)
        self.timeline = renewal.timeline
        lapsing = {life: left for life, left in renewal.lapsing if life != self.life}
        lapsed = {life for life, left in lapsing.items() if left <= 0}
        mine = [life for life in lapsing if self._fences(life, lapsing)]
        has_fenced = [self._registry.fence(life) for life in mine if life in lapsed]
        self._lapsed = lapsed
        soon = [lapsing[life] / 1000 + _AFTER_SECONDS for life in mine if life not in lapsed]
        self.pause = min([RENEW_SECONDS, *soon])
        if renewal.generation != self.members.generation or any(has_fenced):
            self.look()
        return True

    def look(self) -> None:
        """Take over what has changed of the nodes."""
        self.members = self.members.after(self._registry.nodes(after=self.members.generation))

    def leave(self) -> None:
        """End the life in order."""
        if self.life is not None:
            self._registry.leave(self.life)
            self.life = None
        self.lease.lose()

    def _fences(self, life: Term, lapsing: Collection[Term]) -> bool:
        """Whether it is this node that fences another: not all do it at the same moment."""
        if life in self._lapsed:
            return True
        others = self.members.live.keys() - {other.node_id for other in lapsing}
        return rank(self._joining.node_id, life.node_id, others) < FENCERS


class Claims:
    """What a node takes over of those that are gone.

    Each root has a placement of its own, among the nodes that have it.

    Args:
        registry: The statements, over a connection that may be busy for a while.
        node_id: This node.
    """

    def __init__(self, registry: Registry, node_id: str) -> None:
        self._registry = registry
        self._node_id = node_id
        self._placements: dict[tuple[str, ...], Placement] = {}
        self._done = 0

    def are_due(self, members: Members) -> bool:
        """Whether nodes have changed since everything was claimed."""
        return members.generation != self._done

    def next(self, life: Term, members: Members) -> list[str]:
        """Claim some sessions, which this node owns from here on; `are_due` says whether there may be more."""
        gone = [
            name
            for name, node in members.nodes.items()
            if node.state != "live" or node.changed > self._done
        ]
        claimed: list[str] = []
        is_all = True
        for slots, roots in self._shares(members):
            found = self._registry.claim(life, gone, slots, roots) if gone and slots else []
            is_all = is_all and len(found) < MAX_CLAIM
            claimed += found
        if is_all:
            self._done = members.generation
        return claimed

    def _shares(self, members: Members) -> list[tuple[list[int], list[str]]]:
        """Return the slots of this node, with the roots for which it has them."""
        live = members.live
        if (own := live.get(self._node_id)) is None:
            return []
        by_nodes: dict[tuple[str, ...], list[str]] = {}
        # What is outside of all roots is on record as one node's alone where nodes have any; else it costs no look.
        alone = (own_root(self._node_id),) if own.roots or not self._done else ()
        for root in (EVERYBODYS, *alone, *own.roots):
            having = tuple(name for name, node in live.items() if node.has(root))
            by_nodes.setdefault(having, []).append(root)
        shares: list[tuple[list[int], list[str]]] = []
        placements: dict[tuple[str, ...], Placement] = {}
        for having, roots in by_nodes.items():
            placement = self._placement(tuple(roots))
            placement.set_nodes({name: live[name].capacity for name in having})
            placements[tuple(roots)] = placement
            shares.append((placement.slots(self._node_id), roots))
        self._placements = placements
        return shares

    def _placement(self, roots: tuple[str, ...]) -> Placement:
        return self._placements.get(roots) or Placement()
