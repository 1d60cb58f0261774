"""The lease of a node as the node itself sees it, on its monotonic clock.

The database decides about the record: it takes nothing from a node whose lease has run out there. But a
tool acts outside of the database, so a node has to know by itself when to stop. It counts from before it
*asked* for the renewal: the database began to count later, so that the node's own count ends first, whatever
the network did, and however wrong either wall clock is.
"""

from __future__ import annotations

from typing import Literal

LEASE_SECONDS = 1.5
"""How long nobody takes the sessions of a node that says nothing. Shorter, and a slow commit looks like a
death; longer, and a death takes longer than the two seconds that people wait."""
RENEW_SECONDS = 0.4
"""Three renewals fit into a lease, so that one may be lost and one late."""
END_SECONDS = 0.1
"""So long before the database may give its sessions away a node's own count ends: what it ends then has time to be gone."""
QUIET_SECONDS = 0.3
"""So long before the end of its lease a node begins nothing that acts outside: what it began before has time to start."""

LeaseStand = Literal["held", "ending", "over"]
"""`held`: anything may begin. `ending`: no new effect begins. `over`: what runs is cancelled."""


class OwnLease:
    """How long a node may act without word from the database.

    Args:
        seconds: How long the lease is, as the database counts it.
    """

    def __init__(self, seconds: float = LEASE_SECONDS) -> None:
        self._seconds = seconds
        self.until = 0.0

    def renewed(self, asked_at: float) -> None:
        """Take a renewal that was granted, given the monotonic time just before it was asked for."""
        self.until = max(self.until, asked_at + self._seconds - END_SECONDS)

    def lose(self) -> None:
        """End the lease at once: the database has said that the sessions are somebody else's."""
        self.until = 0.0

    def stand(self, now: float) -> LeaseStand:
        """Return what may be done at this monotonic time."""
        if now >= self.until:
            return "over"
        return "held" if now < self.until - QUIET_SECONDS else "ending"
