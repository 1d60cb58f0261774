"""Limits by address: connections at once, and wrong tokens within a minute.

When there is no room for a new connection, the one that has waited longest without a valid token is
closed for it. So connections that never send anything keep nobody out. Where all have shown a token, the
new one gets a spare place, in which it may ask for `/healthz` and the like, or show the token of this
user's own commands.
"""

from __future__ import annotations

import ipaddress
from collections import Counter, deque
from collections.abc import Callable
from types import TracebackType
from typing import Self

import trio

SPARE_PLACES = 64
"""For connections beyond the limits; of those that this user's own commands have opened, as many more."""
MAX_BAD_TOKENS = 10
BAD_TOKEN_SECONDS = 60.0
"""A person mistypes a token a few times; guessing 256 bits takes more tries than that."""
MAX_REMEMBERED = 4096
"""Addresses whose wrong tokens are counted; then the oldest is dropped."""


def peer_name(address: str) -> str:
    """Return one name for all spellings of an address; a whole IPv6 /64 has one, as one customer."""
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
    """A connection, from the moment it is accepted; it is counted around the block.

    Attributes:
        peer: The name of its address.
        has_room: Whether it is within the limits.
        scope: Cancelled when it has to make room for another, or when its token is revoked.
    """

    __slots__ = ("_leave", "has_room", "peer", "scope")

    def __init__(self, peer: str, has_room: bool, leave: Callable[[Visitor], None]) -> None:
        self.peer = peer
        self.has_room = has_room
        self.scope = trio.CancelScope()
        self._leave = leave

    def __enter__(self) -> Self:
        self.scope.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        try:
            return self.scope.__exit__(kind, error, traceback)
        finally:
            self._leave(self)


class RateLimits:
    """Counts connections and wrong tokens by address."""

    def __init__(self, max_connections: int, max_peer_connections: int) -> None:
        self._max_connections = max_connections
        self._max_peer = max_peer_connections
        self._open: Counter[str] = Counter()
        self._waiting: dict[Visitor, None] = {}
        self._spare: dict[Visitor, None] = {}
        self._kept: set[Visitor] = set()
        self._bad: dict[str, deque[float]] = {}

    def set_limits(self, max_connections: int, max_peer_connections: int) -> None:
        """Change the limits for new connections."""
        self._max_connections, self._max_peer = max_connections, max_peer_connections

    @property
    def connections(self) -> int:
        """Connections of all addresses that are within the limits."""
        return self._open.total()

    def connected(self, peer: str) -> Visitor:
        """Count a connection, closing another one if there is no room: enter what this returns at once."""
        has_room = True
        if self._open[peer] >= self._max_peer:
            has_room = _close_oldest(self._waiting, peer)
        elif self.connections >= self._max_connections:
            has_room = _close_oldest(self._waiting)
        visitor = Visitor(peer, has_room, self._left)
        if has_room:
            self._open[peer] += 1
            self._waiting[visitor] = None
        else:
            if len(self._spare) >= SPARE_PLACES:
                _close_oldest(self._spare)
            self._spare[visitor] = None
        return visitor

    def _left(self, visitor: Visitor) -> None:
        self._waiting.pop(visitor, None)
        self._spare.pop(visitor, None)
        self._kept.discard(visitor)
        if visitor.has_room:
            self._open[visitor.peer] -= 1
        if not self._open[visitor.peer]:
            del self._open[visitor.peer]

    def admitted(self, visitor: Visitor) -> None:
        """Note that it has shown a valid token: from now on it keeps its room."""
        self._waiting.pop(visitor, None)

    def waits(self, visitor: Visitor) -> None:
        """Note that it was answered, and waits again: it may have to give its room to another."""
        if visitor.has_room:
            self._waiting.pop(visitor, None)
            self._waiting[visitor] = None

    def may_stay(self, visitor: Visitor, *, is_local: bool) -> bool:
        """Return whether it may become a websocket; beyond the limits, only this user's commands may."""
        if visitor.has_room:
            return True
        if not is_local or len(self._kept) >= SPARE_PLACES:
            return False
        self._kept.add(visitor)
        self._spare.pop(visitor, None)
        return True

    # ── wrong tokens ─────────────────────────────────────────────────────────────────────────────

    def is_locked_out(self, peer: str) -> bool:
        """Return whether so many wrong tokens came from an address that it has to wait."""
        tries = self._bad.get(peer)
        while tries and tries[0] < trio.current_time() - BAD_TOKEN_SECONDS:
            tries.popleft()
        return tries is not None and len(tries) >= MAX_BAD_TOKENS

    def sent_bad_token(self, peer: str) -> None:
        """Count a wrong token."""
        tries = self._bad.pop(peer, None) or deque(maxlen=MAX_BAD_TOKENS)
        tries.append(trio.current_time())
        self._bad[peer] = tries
        if len(self._bad) > MAX_REMEMBERED:
            del self._bad[next(iter(self._bad))]

    @property
    def remembered(self) -> int:
        """Addresses whose wrong tokens are counted."""
        return len(self._bad)


def _close_oldest(visitors: dict[Visitor, None], peer: str | None = None) -> bool:
    """Close the connection that has waited longest, of one peer or of all; return whether there was one."""
    for visitor in visitors:
        if peer is None or visitor.peer == peer:
            del visitors[visitor]
            visitor.scope.cancel(reason="another one comes, and there is no room")
            return True
    return False
