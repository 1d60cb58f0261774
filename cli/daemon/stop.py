"""`callboard stop`: ends the daemon in order, says what that waits for, and returns at its end."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from pathlib import Path
from typing import Annotated

import trio
from cyclopts import Parameter

from ...config.daemon_file import RunningDaemon, find_daemon
from ...runtime.errors import CallboardError, ConflictError, NotFoundError
from ..exit_codes import ANSWERED
from ..parameters import Data, data_path
from ..show.sessions import open_record
from ..terminal.complaint import complain
from ..terminal.style import counted

LOOK_SECONDS = 0.05
"""Time between two checks that it has ended."""
QUIET_SECONDS = 0.5
"""When the end takes longer, the command says what it waits for."""
MAX_SHOWN = 3
"""Sessions that are named in that explanation."""
WAIT_SECONDS = 120.0
"""Longer than a drain by default and the ends of programs together; past that a person decides."""

Now = Annotated[bool, Parameter(help="Cancel what runs instead of letting it end.", negative=())]


def stop(*, now: Now = False, data: Data = None) -> int:
    """End the daemon in order, and wait until it has ended."""
    folder = data_path(data)
    daemon = find_daemon(folder)
    if daemon is None:
        raise NotFoundError(f"no daemon runs on {folder}: there is nothing to stop.")
    trio.run(_stop, folder, daemon, now)
    what = "The chat that was the daemon" if daemon.is_chat else "The daemon"
    sys.stdout.write(f"{what} has ended (process {daemon.pid}).\n")
    return ANSWERED


async def _stop(data: Path, daemon: RunningDaemon, now: bool) -> None:
    _signal(daemon)
    if now:
        await trio.sleep(LOOK_SECONDS)
        _signal(daemon)
    if await _has_ended(data, daemon, QUIET_SECONDS):
        return
    if not now:
        complain(await _waits_for(data, daemon))
    if await _has_ended(data, daemon, WAIT_SECONDS):
        return
    raise ConflictError(
        f"the daemon (process {daemon.pid}) still runs after {WAIT_SECONDS:g} s: `callboard logs` says "
        f"what it waits for; `callboard stop --now` cancels that."
    )


async def _has_ended(data: Path, daemon: RunningDaemon, seconds: float) -> bool:
    with trio.move_on_after(seconds):
        while True:
            if not _is_there(data, daemon):
                return True
            await trio.sleep(LOOK_SECONDS)
    return False


async def _waits_for(data: Path, daemon: RunningDaemon) -> str:
    """Return what a slow end waits for, read from the record, since the daemon may be too busy to say."""
    try:
        async with open_record(data) as reader:
            running = sorted({turn.session_id for turn in await reader.open_turns()})
    except CallboardError:
        running = []
    if not running:
        return "The daemon is ending."
    more = ", …" if len(running) > MAX_SHOWN else ""
    verb = "runs; it has" if len(running) == 1 else "run; they have"
    return (
        f"{counted(len(running), 'turn')} {verb} {daemon.drain_seconds:g} s to end "
        f"({', '.join(running[:MAX_SHOWN])}{more}). `callboard stop --now` at another terminal "
        "cancels what runs."
    )


def _is_there(data: Path, daemon: RunningDaemon) -> bool:
    found = find_daemon(data)
    return found is not None and found.pid == daemon.pid


def _signal(daemon: RunningDaemon) -> None:
    """Send SIGTERM. A request would wait at the door of a busy daemon; a signal comes through.

    The file that names the process is held by that process, so it is never another one.
    """
    with contextlib.suppress(ProcessLookupError):
        try:
            os.kill(daemon.pid, signal.SIGTERM)
        except PermissionError as error:
            raise ConflictError(
                f"the daemon (process {daemon.pid}) is another user's: stop it as that user."
            ) from error
