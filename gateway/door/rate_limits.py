"""How much one address may ask of the door: connections at once, and wrong tokens in a minute.

Whoever has shown no token yet gives way: when there is no room, the one that has dawdled longest at the
door is sent off for the one that comes. So connections that never say anything keep nobody out.
"""

from __future__ import annotations

import ipaddress
from collections import Counter, deque
from collections.abc import Generator
from contextlib import contextmanager

import trio

MAX_BAD_TOKENS = 10
BAD_TOKEN_SECONDS = 60.0
"""A person mistypes a token some times; who guesses 256 bits needs more tries than that."""
MAX_REMEMBERED = 4096
"""Addresses with wrong tokens; the oldest is forgotten."""


def peer_name(address: str) -> str:
    """One name for an address in all its spellings; an IPv6 customer has one name for a whole /64."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped is not None:
            return str(found.ipv4_mapped)
        return str(ipaddress.IPv6Network((found, 64), strict=False))
    return str(found)


class Visitor:
    """A connection, from the moment at which it is accepted.

    Attributes:
        peer: The name of its address.
        has_room: Whether it may stay.
        scope: Around it; cancelled when it gives way to another.
    """

    __slots__ = ("has_room", "peer", "scope")

    def __init__(self, peer: str) -> None:
        self.peer = peer
        self.has_room = True
        self.scope = trio.CancelScope()


class RateLimits:
    """What each address does at present."""

    def __init__(self, max_connections: int, max_peer_connections: int) -> None:
        self._max_connections = max_connections
        self._max_peer = max_peer_connections
        self._open: Counter[str] = Counter()
        self._waiting: dict[Visitor, None] = {}
        self._bad: dict[str, deque[float]] = {}

    def set_limits(self, max_connections: int, max_peer_connections: int) -> None:
        """Holds for whoever comes from now on."""
        self._max_connections, self._max_peer = max_connections, max_peer_connections

    @property
    def connections(self) -> int:
        """How many there are, of all."""
        return self._open.total()

    @contextmanager
    def connected(self, peer: str) -> Generator[Visitor]:
        """Counts a connection for the block."""
        visitor = Visitor(peer)
        if self._open[peer] >= self._max_peer:
            visitor.has_room = self._send_off(peer)
        elif self.connections >= self._max_connections:
            visitor.has_room = self._send_off(None)
        self._open[peer] += 1
        if visitor.has_room:
            self._waiting[visitor] = None
        try:
            with visitor.scope:
                yield visitor
        finally:
            self._waiting.pop(visitor, None)
            self._open[peer] -= 1
            if not self._open[peer]:
                del self._open[peer]

    def admitted(self, visitor: Visitor) -> None:
        """It has shown a token: it gives way to nobody."""
        self._waiting.pop(visitor, None)

    def _send_off(self, peer: str | None) -> bool:
        """Ends the connection that waits longest at the door, of one peer or of all."""
        for visitor in self._waiting:
            if peer is None or visitor.peer == peer:
                del self._waiting[visitor]
                visitor.scope.cancel(reason="another one comes, and there is no room")
                return True
        return False

    # ── wrong tokens ─────────────────────────────────────────────────────────────────────────────

    def is_locked_out(self, peer: str) -> bool:
        """Whether so many wrong tokens came from it that it is told to wait."""
        tries = self._bad.get(peer)
        while tries and tries[0] < trio.current_time() - BAD_TOKEN_SECONDS:
            tries.popleft()
        return tries is not None and len(tries) >= MAX_BAD_TOKENS

    def sent_bad_token(self, peer: str) -> None:
        """Remembers a wrong token."""
        tries = self._bad.pop(peer, None) or deque(maxlen=MAX_BAD_TOKENS)
        tries.append(trio.current_time())
        self._bad[peer] = tries
        if len(self._bad) > MAX_REMEMBERED:
            del self._bad[next(iter(self._bad))]

    @property
    def remembered(self) -> int:
        """Addresses of which wrong tokens are remembered."""
        return len(self._bad)
