"""A supervisor is told when the daemon is ready, alive and stopping, and only then."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import callboard
from callboard.embedding.runtime import host_of
from callboard.gateway.shared.heartbeat import Heartbeat
from callboard.gateway.shared.sd_notify import SystemdNotifier


def listening(tmp_path: Path) -> tuple[socket.socket, str]:
    own = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    own.setblocking(False)
    own.bind(address := str(tmp_path / "notify"))
    return own, address


def heard(own: socket.socket) -> list[str]:
    said = []
    while True:
        try:
            said.append(own.recv(4096).decode())
        except BlockingIOError:
            return said


def test_what_it_is_told(tmp_path: Path) -> None:
    own, address = listening(tmp_path)
    with own:
        supervisor = SystemdNotifier({"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "6000000"})
        assert supervisor.watchdog_seconds == 6.0
        supervisor.ready("serves")
        supervisor.reloading()
        supervisor.alive()
        supervisor.stopping(20.0)
        ready, reloading, alive, stopping = heard(own)
    assert ready == f"READY=1\nSTATUS=serves\nMAINPID={os.getpid()}"
    assert reloading.startswith("RELOADING=1\nMONOTONIC_USEC=")
    assert alive == "WATCHDOG=1"
    assert stopping == "STOPPING=1\nEXTEND_TIMEOUT_USEC=20000000"


def test_without_one_nobody_is_told_and_one_that_is_gone_ends_nothing(tmp_path: Path) -> None:
    SystemdNotifier({"WATCHDOG_USEC": "6000000"}).ready("serves")
    assert SystemdNotifier({"WATCHDOG_USEC": "6000000"}).watchdog_seconds is None
    assert SystemdNotifier({"NOTIFY_SOCKET": "/x", "WATCHDOG_PID": "1"}).watchdog_seconds is None
    SystemdNotifier({"NOTIFY_SOCKET": str(tmp_path / "gone")}).ready("serves")


async def test_a_beat_is_a_round_trip_and_a_journal_that_is_gone_has_none(tmp_path: Path) -> None:
    own, address = listening(tmp_path)
    with own:
        supervisor = SystemdNotifier({"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "6000000"})
        async with callboard.open_runtime(model="rehearsal", data=tmp_path / "data") as runtime:
            heart = Heartbeat(runtime, supervisor)
            assert heart.journal_seconds is None
            await heart.beat()
            assert heart.journal_seconds is not None
            assert heard(own) == ["WATCHDOG=1"]
            assert await runtime.sessions() == []
            host_of(runtime).journal.close()
            await heart.beat()
            assert heard(own) == []
