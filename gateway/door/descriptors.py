"""File descriptors: how many connections the process has room for."""

from __future__ import annotations

import resource

from ...runtime.redaction import redacting_logger

logger = redacting_logger(__name__)

RESERVED = 1024
"""Descriptors kept for the store, tools and models; half of all, if there are few."""

_NO_BOUND = resource.RLIM_INFINITY


def raise_limit(connections: int) -> None:
    """Raise the limit of this process to what so many connections need, if the system allows it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = connections + RESERVED
    if soft == _NO_BOUND or soft >= needed:
        return
    wanted = needed if hard == _NO_BOUND else min(needed, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError) as error:  # the system's own bound is below the hard one
        logger.warning("no more than %d files can be open: %s", soft, error)


def connections_with_room(connections: int) -> int:
    """Return how many of these connections the process has descriptors for; log if it is fewer."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    room = _room(soft)
    if room is None or connections <= room:
        return connections
    logger.warning(
        "[server] max_connections is %d, and %d are let in: this process may open %d files. Raise "
        "`ulimit -n` (LimitNOFILE of a service) to %d.",
        connections,
        room,
        soft,
        connections + RESERVED,
    )
    return room


def room_after_raising(connections: int) -> int:
    """Return how many connections a daemon started here would accept; change nothing."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    room = _room(hard)
    return connections if room is None else min(connections, room)


def _room(descriptors: int) -> int | None:
    """Return the connections for so many descriptors; `None` is no limit."""
    if descriptors == _NO_BOUND:
        return None
    return max(1, descriptors - min(RESERVED, descriptors // 2))
