"""What a leak of a daemon's process would show in, seen from outside."""

from __future__ import annotations

import os
import re
from pathlib import Path

import msgspec
import trio

from callboard.actors.handles.open_handles import MAX_OPEN_WORKSPACES

PATIENCE_SECONDS = 15.0
"""For what a round used to be given up; idle sessions and threads take the longest."""
GROWTH_BYTES = 6 * 1024 * 1024
"""Of memory over a life, beside what comes with each event: caches that fill, and fragments."""
EVENT_BYTES = 512
"""Of memory for an event on record: what is known of sessions and requests by id."""


class Vitals(msgspec.Struct, frozen=True, kw_only=True):
    """Of a daemon at rest; its open folders of sessions are a cache, and counted apart."""

    memory: int
    files: tuple[str, ...]
    workspaces: int
    processes: int
    tasks: int
    threads: int
    log_bytes: int
    events: int

    def has_no_more_than(self, other: Vitals) -> bool:
        """Whether nothing that is counted has become more."""
        return (
            self.workspaces <= MAX_OPEN_WORKSPACES
            and len(self.files) <= len(other.files) + MORE_AT_ONCE
            and self.processes <= other.processes
            and self.tasks <= other.tasks
            and self.threads <= other.threads + MORE_AT_ONCE
            and self.log_bytes <= LOG_BYTES
        )


MORE_AT_ONCE = 3
"""Connections to the model that a later round may leave in the pool, having asked more often at once than the
first rounds did, and threads that rest for some seconds. A round that leaked one would be over this within four."""
LOG_BYTES = 16 * 1024 * 1024
"""Of the store's log, which begins at its front again when it was written back."""


async def metrics_of(port: int, token: str) -> dict[str, float]:
    """The daemon's figures."""
    stream = await trio.open_tcp_stream("127.0.0.1", port)
    async with stream:
        head = f"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}"
        head += "\r\nConnection: close"
        await stream.send_all(f"{head}\r\n\r\n".encode())
        answer = b"".join([bytes(data) async for data in stream])
    found = re.findall(r"^callboard_(\w+) (\S+)$", answer.decode(), re.MULTILINE)
    return {name: float(value) for name, value in found}


async def vitals_at_rest(pid: int, port: int, token: str, data: Path, connections: int) -> Vitals:
    """Waits until so many are connected and every session is unloaded."""
    while True:
        found = await metrics_of(port, token)
        if found["sessions_loaded"] == 0 and found["connections"] == connections:
            return _read(pid, data, found)
        await trio.sleep(0.1)


def _read(pid: int, data: Path, found: dict[str, float]) -> Vitals:
    process = Path(f"/proc/{pid}")
    [memory] = re.findall(r"VmRSS:\s+(\d+) kB", (process / "status").read_text())
    children = [(task / "children").read_text().split() for task in (process / "task").iterdir()]
    files = sorted(map(_target, (process / "fd").iterdir()))
    return Vitals(
        memory=int(memory) * 1024,
        files=tuple(name for name in files if not name.startswith("workspace_")),
        workspaces=sum(name.startswith("workspace_") for name in files),
        processes=sum(map(len, children)),
        tasks=int(found["tasks"]),
        threads=len(children),
        log_bytes=(data / "callboard.db-wal").stat().st_size,
        events=int(found["events_total"]),
    )


def _target(descriptor: Path) -> str:
    """What it leads to, without what differs from socket to socket."""
    try:
        return Path(os.readlink(descriptor)).name.partition(":[")[0]
    except FileNotFoundError:
        return ""  # closed meanwhile


class Life:
    """The vitals of one process, round for round: after the first rounds nothing becomes more."""

    WARM = 2
    """Rounds in which caches fill, modules load and connections of pools open."""

    def __init__(self, pid: int, port: int, token: str, data: Path) -> None:
        self._about = pid, port, token, data
        self._rounds = 0
        self._before: Vitals | None = None

    async def take(self, connections: int) -> Vitals:
        """At the end of a round; fails when there is more than before that does not go away."""
        self._rounds += 1
        now = await vitals_at_rest(*self._about, connections)
        if self._before is None:
            self._before = now if self._rounds == self.WARM else None
            return now
        with trio.move_on_after(PATIENCE_SECONDS):  # noqa: ASYNC912  it may be so at once
            while not now.has_no_more_than(self._before):
                await trio.sleep(0.1)
                now = await vitals_at_rest(*self._about, connections)
        assert now.has_no_more_than(self._before), (self._before, now)
        allowed = GROWTH_BYTES + EVENT_BYTES * (now.events - self._before.events)
        assert now.memory - self._before.memory <= allowed, (self._before, now)
        return now
