"""Tells all clients when the database of a cluster does not answer their node, and when it answers again."""

from __future__ import annotations

import time
from typing import Protocol

import trio

from ..runtime.wire.topics import StoreAway, StoreBack
from .shared.state import DaemonState


class AwayNode(Protocol):
    """What a node knows of its database."""

    away_since: float | None
    away_changed: trio.Event

    @property
    def problem(self) -> str:
        """Why nothing new begins, for people."""
        ...


async def tell_of_store(daemon: DaemonState, node: AwayNode) -> None:
    """Tell clients until cancelled; a client that comes meanwhile is told by its connection."""
    while True:
        since, was = node.away_since, daemon.store_unavailable
        if since is not None and was is None:
            now = StoreAway(since_ms=int(since * 1000), reason=node.problem)
            daemon.store_unavailable = now
            _tell(daemon, "runtime/store_unavailable", now)
        elif since is None and was is not None:
            daemon.store_unavailable = None
            seconds = max(time.time() - was.since_ms / 1000, 0.0)
            _tell(daemon, "runtime/store_available", StoreBack(round(seconds, 1)))
        await node.away_changed.wait()
        node.away_changed = trio.Event()


def _tell(daemon: DaemonState, method: str, params: object) -> None:
    for connection in list(daemon.connections):
        connection.tell(method, params)
