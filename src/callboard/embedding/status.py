"""The status of a running host: sessions, turns, calls, background programs, mailboxes."""

from __future__ import annotations

from heapq import nlargest
from typing import Any

from ..runtime.kernel.mailbox import Mailbox
from ..runtime.turns.activity import ActorStatus, RunningProgram
from ..runtime.turns.activity import RuntimeStatus as RuntimeStatus
from .host import Host

AnyMailbox = Mailbox[Any]

MAX_SESSION_ACTORS = 100
"""Session actors in a status; a daemon may have thousands loaded, nearly all idle."""


def status_of(host: Host) -> RuntimeStatus:
    """Return the status of a host."""
    sandbox = host.plan.sandbox
    programs = sandbox.background.all_running() if sandbox is not None else ()
    return RuntimeStatus(
        sessions=tuple(host.live),
        turns=host.activity.turns(),
        calls=host.activity.calls(),
        background=tuple(
            RunningProgram(
                session_id=session_id,
                process_id=each.process_id,
                command=each.command,
                seconds=each.seconds,
            )
            for session_id, each in programs
        ),
        storage_failed=host.storage_problem(),
        storage_warning=host.pruning.warning,
        actors=(*shared_actors(host), *_session_actors(host)),
    )


def shared_actors(host: Host) -> tuple[ActorStatus, ...]:
    """Return the actors that all sessions share."""
    restarts = host.restarts
    boxes: tuple[AnyMailbox, ...] = host.journal, host.broker, host.dispatcher, host.directory
    return tuple(_status(box, restarts) for box in boxes)


def _session_actors(host: Host) -> tuple[ActorStatus, ...]:
    """Return the most notable session actors: given up, then busiest, then most often restarted."""
    restarts = host.restarts

    def rank(box: AnyMailbox) -> tuple[bool, int, int]:
        return box.is_closed, box.statistics().depth, restarts.get(box.name, 0)

    notable = nlargest(MAX_SESSION_ACTORS, host.live.values(), key=rank)
    return tuple(_status(box, restarts) for box in notable)


def _status(box: AnyMailbox, restarts: dict[str, int]) -> ActorStatus:
    found = box.statistics()
    return ActorStatus(
        name=box.name,
        is_running=not box.is_closed,
        waiting=found.depth,
        capacity=found.capacity,
        restarts=restarts.get(box.name, 0),
    )
