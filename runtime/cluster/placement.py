"""Placement: which of several nodes takes a session, as each node computes for itself.

Rendezvous hashing: each slot has a score for each node, and the node with the best one has the slot. When
a node goes, only its slots move, and they spread over all others; nobody has to be asked. Nodes that see
different members for a moment disagree about some slots, which costs a second look: who owns a session is
decided by the database alone.
"""

from __future__ import annotations

import hashlib
import math
import zlib
from collections.abc import Collection, Mapping

SLOTS = 4096
"""Sessions are dealt by slot, so that a node asks the database for its share by a list of numbers. With a
thousand nodes each has about four; Redis Cluster has 16384 for as many, at four times the arithmetic."""

_MASK = (1 << 64) - 1
_ODD = 0x9E3779B97F4A7C15


def slot_of(session_id: str) -> int:
    """Return the slot of a session: it follows from the id, and never changes."""
    return zlib.crc32(session_id.encode()) % SLOTS


def _hashed(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


def _mixed(node: int, key: int) -> int:
    mixed = (node ^ key) * _ODD & _MASK
    return (mixed ^ (mixed >> 32)) * _ODD & _MASK


def _score(node: int, key: int, capacity: int) -> float:
    # The logarithm has a node of capacity 2 win twice as often as one of capacity 1.
    return (math.log2((_mixed(node, key) >> 11) + 1) - 53) / capacity


class Placement:
    """Who has which slot, kept up as nodes come and go.

    The first look at a thousand nodes takes a second; when one goes after that, only what it had is dealt again.
    """

    def __init__(self) -> None:
        self._nodes: dict[str, tuple[int, int]] = {}
        self._keys: list[int] = []
        self._winners: list[str] = []

    def set_nodes(self, capacities: Mapping[str, int]) -> None:
        """Deal the slots among these nodes, given the capacity of each."""
        if not self._keys:
            self._keys = [_hashed(f"slot {slot}") for slot in range(SLOTS)]
        given = {name: (_hashed(name), max(capacity, 1)) for name, capacity in capacities.items()}
        gone = {name for name, node in self._nodes.items() if given.get(name) != node}
        come = {name: node for name, node in given.items() if self._nodes.get(name) != node}
        self._nodes = given
        if not given:
            self._winners = []
        elif not self._winners:
            self._winners = [_best(key, given) for key in self._keys]
        else:
            for slot, winner in enumerate(self._winners):
                if winner in gone:
                    self._winners[slot] = _best(self._keys[slot], given)
                elif come:
                    self._winners[slot] = _best(self._keys[slot], {winner: given[winner], **come})

    def slots(self, node_id: str) -> list[int]:
        """Return the slots of a node."""
        return [slot for slot, winner in enumerate(self._winners) if winner == node_id]

    def node_of(self, session_id: str) -> str | None:
        """Return the node that has the slot of a session; `None` without nodes."""
        return self._winners[slot_of(session_id)] if self._winners else None


def winner_of(session_id: str, capacities: Mapping[str, int]) -> str | None:
    """Return which of these nodes, given with their capacities, has the slot of a session; `None` without nodes."""
    nodes = {name: (_hashed(name), max(capacity, 1)) for name, capacity in capacities.items()}
    return _best(_hashed(f"slot {slot_of(session_id)}"), nodes) if nodes else None


def rank(node_id: str, key: str, node_ids: Collection[str]) -> int:
    """Return how many of these nodes come before one in the order that belongs to a key."""
    hashed = _hashed(key)
    own = _mixed(_hashed(node_id), hashed)
    return sum(_mixed(_hashed(other), hashed) > own for other in node_ids if other != node_id)


def _best(key: int, nodes: Mapping[str, tuple[int, int]]) -> str:
    # Names break ties, so that all nodes decide alike.
    if len({capacity for _, capacity in nodes.values()}) > 1:
        return max(nodes, key=lambda name: (_score(nodes[name][0], key, nodes[name][1]), name))
    # The same order without the logarithm, which grows with what it is of.
    return max((_mixed(node, key), name) for name, (node, _) in nodes.items())[1]
