"""What a cluster has on record of its nodes, and of who owns a session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import msgspec

from ..errors import SessionElsewhere
from .roots import EVERYBODYS, own_root

NodeState = Literal["live", "draining", "fenced", "ended"]
"""A node is `live` or `draining` while it renews its lease. Who finds that lease lapsed makes it `fenced`; a
node that has stopped in order is `ended`. Both are final: a node comes back with the next term."""


class Term(NamedTuple):
    """One life of a node: it counts up each time that a node of this name joins the cluster."""

    node_id: str
    term: int


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """A node as the others see it. Times are the database's, in Unix milliseconds.

    Attributes:
        node_id: Its name, which stays the same when it is started again.
        term: How often a node of this name has joined.
        state: See `NodeState`.
        url: Where other nodes and clients reach it.
        version: Its callboard.
        capacity: How large its share of sessions is, compared with that of others.
        roots: The names of the roots that it has.
        started_at_ms: When it joined.
        lease_until_ms: Until when nobody may take its sessions.
        changed: The generation of the cluster in which this was last changed, but for the lease.
    """

    node_id: str
    term: int
    state: NodeState
    url: str
    version: str
    capacity: int
    roots: tuple[str, ...]
    started_at_ms: int
    lease_until_ms: int
    changed: int

    def has(self, root: str) -> bool:
        """Whether it may own the sessions of a root; see `roots`."""
        return root in {EVERYBODYS, own_root(self.node_id)} or root in self.roots

    @property
    def life(self) -> Term:
        """Which life of the node this is."""
        return Term(self.node_id, self.term)


class Joining(msgspec.Struct, frozen=True, kw_only=True):
    """What a node says of itself when it joins; see `Node`."""

    node_id: str
    url: str
    version: str
    capacity: int = 1
    roots: tuple[str, ...] = ()


class Renewal(msgspec.Struct, frozen=True):
    """What came of renewing a lease.

    Attributes:
        is_held: Whether the lease is held again; otherwise the node was fenced, or has ended.
        generation: Counts the changes of all nodes.
        lapsing: Nodes that should have renewed their leases by now, each with the milliseconds that are left
            of it: none or less, and it can be fenced.
        timeline: The timeline of the database: another one where a standby has taken over.
    """

    is_held: bool
    generation: int
    lapsing: tuple[tuple[Term, int], ...] = ()
    timeline: int = 0


class Owner(msgspec.Struct, frozen=True):
    """Who owns a session: a life of a node, the node's address, the root of the session, what is left of the lease.

    An owner that `is_leaving` gives it away within moments; one that `is_gone` has no part in it any more.
    """

    life: Term
    url: str
    root: str
    left_ms: int = 0
    is_leaving: bool = False
    is_gone: bool = False


class HeldPaths(msgspec.Struct, frozen=True, array_like=True):
    """The paths in a workspace of a shared root that a running call of a node writes."""

    node_id: str
    term: int
    holder: str
    paths: tuple[str, ...]

    @property
    def life(self) -> Term:
        """Whose call it is."""
        return Term(self.node_id, self.term)

    def meets(self, paths: Sequence[str]) -> bool:
        """Whether one of these is a path that is held, or lies above or below one; an empty path is the workspace."""
        return any(
            a == b or not a or not b or a.startswith(f"{b}/") or b.startswith(f"{a}/")
            for a in self.paths
            for b in paths
        )


HELD: msgspec.json.Decoder[list[HeldPaths]] = msgspec.json.Decoder(list[HeldPaths])
"""Reads what is held in a workspace, as the database has it."""


def elsewhere(session_id: str, owner: Owner) -> SessionElsewhere:
    """Return what a node says that is asked for a session which another one has, or is to claim."""
    where = f", at {owner.url}" if owner.url else ""
    said = f"Session {session_id} runs on node {owner.life.node_id}{where}: ask it there."
    if owner.is_gone:
        said = (
            f"Session {session_id} works in the root {owner.root}, which this node does not have: ask it on node "
            f"{owner.life.node_id}{where}."
        )
    return SessionElsewhere(said, session_id, owner.url)
