"""Ends programs when the lease of a node is over, also while the node itself is stopped.

A process that is stopped (SIGSTOP, a debugger) ends nothing, and what it has started runs on: its programs would act after
another node has its sessions. So a node of a cluster has a process beside it that knows when its lease ends, and that
ends its programs then. It is started with the first of them. A program that can't be held does not begin.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

import trio

from .watchdog_process import MESSAGE, since_boot

PROCESS = Path(__file__).parent / "watchdog_process.py"
END_SECONDS = 5.0
"""How long the process may take to end; then it is killed."""


class Watchdog:
    """What ends the processes of one node at the end of its lease; all of it is for the Trio thread.

    Args:
        until: Returns when the lease ends, as `since_boot` counts.
    """

    def __init__(self, until: Callable[[], float]) -> None:
        self._until = until
        self._held: dict[int, int] = {}
        self._line: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def is_over(self) -> bool:
        """Whether the lease is over now."""
        return since_boot() >= self._until()

    @property
    def process_id(self) -> int | None:
        """The process beside the node; `None` before there was a program."""
        return None if self._process is None else self._process.pid

    def hold(self, pidfd: int, number: int = signal.SIGKILL) -> Callable[[], None]:
        """Have a process get a signal at the end of the lease; return what is called when it has ended.

        Raises `OSError` when it can't be held or the lease is over: it must not begin then.
        """
        own = os.dup(pidfd)
        self._held[own] = number

        def release() -> None:
            if self._held.pop(own, None) is not None:
                os.close(own)

        try:
            if self._line is None:
                self._begin()
            else:
                self._tell(own)
            # Looked at behind the message: whoever is stopped from here on has what it begins ended meanwhile.
            if self.is_over:
                raise OSError("the node's lease is over")
        except BaseException:
            release()
            raise
        return release

    def renewed(self) -> None:
        """Say that the lease ends later now. If that can't be said, programs end when they would have."""
        if self._line is not None:
            with suppress(OSError):
                self._tell()

    async def aclose(self) -> None:
        """End the process, and what it still holds; bounded, also when cancelled."""
        for pidfd in self._held:
            os.close(pidfd)
        self._held.clear()
        if (process := self._process) is None:
            return
        assert self._line is not None
        self._line.close()
        self._process = self._line = None
        with trio.move_on_after(END_SECONDS, shield=True):
            pidfd = os.pidfd_open(process.pid)
            try:
                await trio.lowlevel.wait_readable(pidfd)
            finally:
                trio.lowlevel.notify_closing(pidfd)
                os.close(pidfd)
        process.kill()
        process.wait()

    def _tell(self, pidfd: int | None = None) -> None:
        assert self._line is not None
        number = 0 if pidfd is None else self._held[pidfd]
        said = MESSAGE.pack(self._until(), number)
        try:
            socket.send_fds(self._line, [said], [] if pidfd is None else [pidfd])
        except (BrokenPipeError, ConnectionResetError):  # somebody has killed it
            self._line.close()
            self._begin()

    def _begin(self) -> None:
        """Start the process, and hand it all that is held."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._line = self._process = None
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, ExitStack() as undo:
            undo.callback(ours.close)
            ours.setblocking(False)
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(PROCESS), str(theirs.fileno())],
                env={},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                cwd="/",
                start_new_session=True,  # nobody stops it together with the node
            )
            undo.pop_all()
        self._line = ours
        for pidfd, number in self._held.items():
            socket.send_fds(ours, [MESSAGE.pack(self._until(), number)], [pidfd])
