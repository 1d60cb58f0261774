"""What outlives its call: threads that nothing can stop, and processes that are not yet dead.

Everything that may outlive its call is named here while it runs. When a turn ends, all its calls have
ended, so what is still named then is the turn's `unreaped`. Cancelled calls also leave here how many
processes were killed with them.
"""

from __future__ import annotations

import os
import subprocess

import trio

from .run_local import RunLocal

MAX_TURNS = 1024
"""Turns whose counts are remembered. A turn takes its counts when it ends, so only crashed turns
accumulate."""


class Unreaped:
    """What still runs of turns, and what was killed; threads add and remove themselves.

    Every step is one operation on a dict, which the interpreter does not interrupt.
    """

    def __init__(self) -> None:
        self._names: dict[object, tuple[str, str]] = {}
        self._killed: dict[str, dict[str, int]] = {}

    def add(self, turn_id: str, name: str) -> object:
        """Add a name and return the key that removes it."""
        key = object()
        self._names[key] = turn_id, name
        return key

    def remove(self, key: object) -> None:
        """Remove a name."""
        del self._names[key]

    def of(self, turn_id: str) -> tuple[str, ...]:
        """Return the names of what still runs of a turn."""
        return tuple(name for turn, name in self._names.copy().values() if turn == turn_id)

    def watch(self, turn_id: str, process: subprocess.Popen[bytes], pidfd: int, name: str) -> None:
        """List a killed process until it is gone, and reap it then; takes the descriptor over."""
        key = self.add(turn_id, f"process {process.pid} of {name}")
        trio.lowlevel.spawn_system_task(self._reap_later, process, pidfd, key)

    async def _reap_later(self, process: subprocess.Popen[bytes], pidfd: int, key: object) -> None:
        try:
            await trio.lowlevel.wait_readable(pidfd)
        finally:
            process.poll()
            os.close(pidfd)
            self.remove(key)

    def add_killed(self, turn_id: str, call_id: str, count: int) -> None:
        """Count processes that were killed with a cancelled call."""
        calls = self._killed.setdefault(turn_id, {})
        calls[call_id] = calls.get(call_id, 0) + count
        if len(self._killed) > MAX_TURNS:
            del self._killed[next(iter(self._killed))]

    def take_killed(self, turn_id: str) -> dict[str, int]:
        """Return the counts of a turn's calls, once."""
        return self._killed.pop(turn_id, {})


unreaped = RunLocal("unreaped", Unreaped)
"""Return the list of the current Trio run, made at its first use."""
