"""What a runtime does right now, for people and for programs that watch it."""

from __future__ import annotations

from typing import Any

from .host import Host
from .runtime.mailbox import Mailbox
from .runtime.runtime_status import ActorStatus, RunningProgram
from .runtime.runtime_status import RuntimeStatus as RuntimeStatus


def status_of(host: Host) -> RuntimeStatus:
    """The status of a host."""
    sandbox = host.plan.sandbox
    programs = sandbox.background.of_all() if sandbox is not None else ()
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
    )


def actors_of(host: Host) -> tuple[ActorStatus, ...]:
    """The actors that all sessions share, and the sessions that have crashed."""
    restarts = host.restarts
    shared: tuple[Mailbox[Any], ...] = host.journal, host.broker, host.dispatcher, host.directory
    crashed = [box for box in host.live.values() if box.name in restarts]
    return tuple(
        ActorStatus(
            name=box.name,
            is_running=not box.is_closed,
            waiting=(found := box.statistics()).depth,
            capacity=found.capacity,
            restarts=restarts.get(box.name, 0),
        )
        for box in (*shared, *crashed)
    )
