"""`callboard stop`: ends the daemon in order, says what that waits for, and returns at its end."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import trio
from cyclopts import Parameter

from ...config.daemon_file import RunningDaemon, find_daemon
from ...runtime.disk.data_lock import is_held_by
from ...runtime.errors import ConflictError, NotFoundError
from ..exit_codes import ANSWERED
from ..parameters import Data, data_path
from ..terminal.complaint import complain

LOOK_SECONDS = 0.05
"""Time between two checks that it has ended."""
QUIET_SECONDS = 0.5
"""When the end takes longer, the command says what it waits for."""
ASK_SECONDS = 1.0
"""Time between two questions what it waits for, and for an answer."""
WAIT_SECONDS = 120.0
"""Longer than a drain by default and the ends of programs together; past that a person decides."""
NOW_SECONDS = 20.0
"""What was cancelled has 15 s to end its programs and to record that; past that the process is ended."""
MAX_ANSWER_BYTES = 64 * 1024
"""More than some lines of text take."""
KILLED_SECONDS = 5.0
"""A process ends at once, unless the system itself waits for a disk."""

Now = Annotated[
    bool,
    Parameter(
        help="Cancel what runs instead of letting it end; end the process if that takes too long.",
        negative=(),
    ),
]


def stop(*, now: Now = False, data: Data = None) -> int:
    """End the daemon in order, and wait until it has ended."""
    folder = data_path(data)
    daemon = find_daemon(folder)
    if daemon is None:
        raise NotFoundError(f"no daemon runs on {folder}: there is nothing to stop.")
    trio.run(_stop, folder, daemon, now)
    is_other = daemon.command != "serve"
    what = f"The {daemon.command} that was the daemon" if is_other else "The daemon"
    sys.stdout.write(f"{what} has ended (process {daemon.pid}).\n")
    return ANSWERED


async def _stop(data: Path, daemon: RunningDaemon, now: bool) -> None:
    _signal(daemon)
    if now:
        await trio.sleep(LOOK_SECONDS)
        _signal(daemon)
    if await _has_ended(data, daemon, QUIET_SECONDS):
        return
    said, patience = "", NOW_SECONDS if now else WAIT_SECONDS
    with trio.move_on_after(patience):
        while True:
            waits = await _waits_for(daemon)
            if (kind := re.sub(r"\d+", "", waits)) != said:  # not for each second that passes
                said = kind
                complain(waits if now else f"{waits} {_ADVICE}")
            if await _has_ended(data, daemon, ASK_SECONDS):
                return
    if now:
        await _kill(data, daemon)
        return
    raise ConflictError(
        f"the daemon (process {daemon.pid}) still runs after {WAIT_SECONDS:g} s: `callboard stop "
        "--now` ends it."
    )


_ADVICE = "`callboard stop --now` at another terminal cancels what runs."


async def _kill(data: Path, daemon: RunningDaemon) -> None:
    """End the process itself; what was acknowledged is stored, and the next start closes what is open."""
    complain(
        f"The daemon did not end within {NOW_SECONDS:g} s, so its process is ended. What was "
        "acknowledged is stored; the next start closes what it left open."
    )
    _signal(daemon, signal.SIGKILL)
    if not await _has_ended(data, daemon, KILLED_SECONDS):
        raise ConflictError(
            f"the daemon (process {daemon.pid}) can't be ended: the system waits for something, "
            "most likely a disk that does not answer. It ends as soon as that does."
        )


async def _has_ended(data: Path, daemon: RunningDaemon, seconds: float) -> bool:
    with trio.move_on_after(seconds):
        while True:
            if not _is_there(data, daemon):
                return True
            await trio.sleep(LOOK_SECONDS)
    return False


async def _waits_for(daemon: RunningDaemon) -> str:
    """Return what an end waits for, as the daemon says it; it takes no websocket any more."""
    where = urlsplit(daemon.url)
    host, port = where.hostname or "", where.port or 0
    request = (
        f"GET /readyz HTTP/1.1\r\nHost: {where.netloc}\r\n"
        f"Authorization: Bearer {daemon.token.reveal()}\r\n\r\n"
    )
    answer = b""
    with (
        trio.move_on_after(ASK_SECONDS) as patience,
        contextlib.suppress(OSError, trio.BrokenResourceError),
    ):
        async with await trio.open_tcp_stream(host, port) as stream:
            await stream.send_all(request.encode())
            async for data in stream:
                answer += data
                if len(answer) > MAX_ANSWER_BYTES:
                    break
    _, _, said = answer.decode(errors="replace").partition("stopping: ")
    if said:
        return said.strip()
    if patience.cancelled_caught:
        return "The daemon is too busy to say what it waits for; `callboard logs` may say it."
    return "The daemon closes its store, which takes as long as the disk does."


def _is_there(data: Path, daemon: RunningDaemon) -> bool:
    found = find_daemon(data)
    if found is not None and found.pid == daemon.pid:
        return True
    return is_held_by(data, daemon.pid)  # a chat closes its store behind its door


def _signal(daemon: RunningDaemon, number: signal.Signals = signal.SIGTERM) -> None:
    """Send a signal. A request would wait at the door of a busy daemon; a signal comes through.

    The file that names the process is held by that process, so it is never another one.
    """
    with contextlib.suppress(ProcessLookupError):
        try:
            os.kill(daemon.pid, number)
            os.kill(daemon.pid, signal.SIGCONT)  # one that was stopped (Ctrl-Z) hears of it, too
        except PermissionError as error:
            raise ConflictError(
                f"the daemon (process {daemon.pid}) is another user's: stop it as that user."
            ) from error
