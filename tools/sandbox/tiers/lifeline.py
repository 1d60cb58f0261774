"""What a sandbox waits at where there is neither a filter nor a descriptor of a process: macOS.

One pair of sockets. The runtime's word lets the program begin; the warden's end comes when it has
ended all that it watched, and it says before how many it killed. When the runtime dies, the warden
sees the end of its side, and ends all.
"""

from __future__ import annotations

import os
import socket
import subprocess
from contextlib import suppress

import trio

from ..box.recipe import Recipe
from ..box.start_gate import Gate
from .landlock import filter_of

MAX_WORD_BYTES = 64
BEGIN = b"begin"
REAP_AGAIN_SECONDS = 0.001
"""Between the warden's last word and its end it does nothing more."""


class Lifeline:
    """A `Gate` that stays open between runtime and warden."""

    def __init__(self) -> None:
        self._ours, self._theirs = socket.socketpair()
        self.theirs = self._theirs.fileno()

    def started(self) -> None:
        """Gives up their end, which the warden has by now. Idempotent."""
        self._theirs.close()

    def open(self) -> None:
        """Lets the program begin."""
        with suppress(BrokenPipeError, ConnectionResetError):
            self._ours.send(BEGIN)

    def close(self) -> None:
        """Gives up both ends; what still runs is ended. Idempotent."""
        self.started()
        self._ours.close()

    def watch(self) -> int:
        """A descriptor that can be read when the warden has ended; the caller closes it."""
        return os.dup(self._ours.fileno())

    def killed(self) -> int:
        """How many processes were killed, as the warden said; 0 when it said nothing. Once."""
        self._ours.setblocking(False)
        with suppress(BlockingIOError, ConnectionResetError, ValueError):
            return int(self._ours.recv(MAX_WORD_BYTES) or b"0")
        return 0


def open_gate(recipe: Recipe) -> Gate | Lifeline:
    """What a sandbox of this recipe waits at."""
    return Lifeline() if recipe.seatbelt is not None else Gate(filter_of(recipe))


def end_of(process: subprocess.Popen[bytes], gate: Gate | Lifeline) -> int:
    """A descriptor that can be read when that process has ended; the caller closes it."""
    return gate.watch() if isinstance(gate, Lifeline) else os.pidfd_open(process.pid)


async def collect(process: subprocess.Popen[bytes], gate: Gate | Lifeline) -> int | None:
    """Collects a process whose end was told; how many it killed, if it says so."""
    if not isinstance(gate, Lifeline):
        process.poll()
        return None
    killed = gate.killed()
    while process.poll() is None:  # noqa: ASYNC110  its end is not told otherwise
        await trio.sleep(REAP_AGAIN_SECONDS)
    return killed
