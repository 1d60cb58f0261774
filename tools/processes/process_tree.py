"""The processes below a process, and what they use, read from /proc."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import NamedTuple

MAX_PROCESSES = 10_000
"""A walk stops here; so many exceed every bound."""

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Use(NamedTuple):
    """What processes use together, with the processor time of children that they have waited for."""

    memory_bytes: int
    cpu_seconds: float


def descendants(pid: int) -> list[int]:
    """Return the processes below a process, without itself."""
    found: list[int] = []
    waiting = [pid]
    while waiting and len(found) < MAX_PROCESSES:
        for child in _children(waiting.pop()):
            found.append(child)
            waiting.append(child)
    return found


def is_stopped(pid: int) -> bool:
    """Return whether a process does nothing until it is told to go on; also when it is gone, or waits for a disk."""
    return _read(f"/proc/{pid}/stat").rpartition(")")[2][1:2] in {"T", "t", "D", "Z", "X", ""}


def end_descendants(seconds: float) -> None:
    """Kill all processes below this one; return when they are gone, or after so long.

    It takes no lock and waits for no task, so a signal handler may call it.
    """
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with ExitStack() as opened:
            dying = select.poll()
            count = 0
            for pid in descendants(os.getpid()):
                with suppress(ProcessLookupError, PermissionError):
                    fd = os.pidfd_open(pid)
                    opened.callback(os.close, fd)
                    signal.pidfd_send_signal(fd, signal.SIGKILL)
                    dying.register(fd, select.POLLIN)
                    count += 1
            if not count:
                return
            while count and (left := end - time.monotonic()) > 0:
                for fd, _ in dying.poll(left * 1000):
                    dying.unregister(fd)
                    count -= 1
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def use_of(pids: Iterable[int], *, exact: bool = False) -> Use:
    """Return what they use now.

    Without `exact`, shared memory counts once for each process: cheap, and never too little.
    """
    memory, ticks = 0, 0
    for pid in pids:
        stat = _read(f"/proc/{pid}/stat")
        # The name, in parentheses, may hold anything: fields are counted behind it.
        fields = stat.rpartition(")")[2].split()
        if len(fields) < 22:
            continue
        ticks += sum(map(int, fields[11:15]))  # utime, stime, cutime, cstime
        memory += _exact_bytes(pid) if exact else int(fields[21]) * _PAGE_BYTES
    return Use(memory, ticks / _TICKS)


def threads_of(uid: int) -> int:
    """Return how many threads a user runs, which the kernel counts as processes."""
    count = 0
    for name in os.listdir("/proc"):
        with suppress(OSError):  # it is gone, or no process
            if name.isdigit() and os.stat(f"/proc/{name}").st_uid == uid:
                count += len(os.listdir(f"/proc/{name}/task"))
    return count


def _children(pid: int) -> list[int]:
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []
    return [
        int(child)
        for thread in threads
        for child in _read(f"/proc/{pid}/task/{thread}/children").split()
    ]


def _exact_bytes(pid: int) -> int:
    for line in _read(f"/proc/{pid}/smaps_rollup").splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    return 0


def _read(path: str) -> str:
    try:
        return Path(path).read_bytes().decode(errors="replace")
    except OSError:
        return ""  # it is gone
