"""`callboard stop`: the daemon ends in order, and this returns when it has."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from pathlib import Path

import trio

from ..config.daemon_file import RunningDaemon, find_daemon
from ..runtime.errors import ConflictError, NotFoundError
from .exit_codes import ANSWERED

LOOK_SECONDS = 0.05
"""Between two looks whether it is gone."""
WAIT_SECONDS = 120.0
"""Longer than a drain by default and the ends of programs together; past that a person decides."""


def stop_daemon(data: Path, *, now: bool) -> int:
    """Stops the daemon of a data folder.

    A signal does it, not a request: it comes through however busy the daemon's door is. The file that
    names the process is held by that process, so it is never another one.

    Raises:
        NotFoundError: None runs.
        ConflictError: It has not ended in time, or is another user's.
    """
    daemon = find_daemon(data)
    if daemon is None:
        raise NotFoundError(f"no daemon runs on {data}: there is nothing to stop.")
    trio.run(_stop, data, daemon, now)
    sys.stdout.write(f"The daemon has ended (process {daemon.pid}).\n")
    return ANSWERED


async def _stop(data: Path, daemon: RunningDaemon, now: bool) -> None:
    _signal(daemon)
    if now:
        await trio.sleep(LOOK_SECONDS)
        _signal(daemon)
    with trio.move_on_after(WAIT_SECONDS):
        while True:
            if not _is_there(data, daemon):
                return
            await trio.sleep(LOOK_SECONDS)
    raise ConflictError(
        f"the daemon (process {daemon.pid}) still runs after {WAIT_SECONDS:g} s: `callboard logs` says "
        f"what it waits for; `callboard stop --now` cancels that."
    )


def _is_there(data: Path, daemon: RunningDaemon) -> bool:
    found = find_daemon(data)
    return found is not None and found.pid == daemon.pid


def _signal(daemon: RunningDaemon) -> None:
    with contextlib.suppress(ProcessLookupError):
        try:
            os.kill(daemon.pid, signal.SIGTERM)
        except PermissionError as error:
            raise ConflictError(
                f"the daemon (process {daemon.pid}) is another user's: stop it as that user."
            ) from error
