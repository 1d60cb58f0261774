"""The daemon of a chat, as the chat knows it: a process that it has begun, at the other end of a socket."""

from __future__ import annotations

import os
import socket
from contextlib import suppress

import trio

STOPPED = 3
"""The exit code of a daemon that another command has stopped."""
SERVES = b"\n"
"""What it says first."""
LOOK_SECONDS = 0.02
"""Time between two looks whether it has ended."""
MAX_LINE_BYTES = 64 * 1024
"""More than the ids of all sessions that may work at once."""


class Background:
    """The process, as the chat knows it; made by `forked_daemon.fork_daemon`."""

    def __init__(self, process: int, line: socket.socket) -> None:
        self._process = process
        self._line = line
        self._code: int | None = None
        self._has_started = False

    @property
    def has_ended(self) -> bool:
        """Whether it has ended, for any reason."""
        if self._code is None:
            number, status = os.waitpid(self._process, os.WNOHANG)
            self._code = os.waitstatus_to_exitcode(status) if number else None
        return self._code is not None

    @property
    def serves(self) -> bool:
        """Whether it became the daemon, and lives."""
        return self._has_started and not self.has_ended

    @property
    def was_stopped(self) -> bool:
        """Whether it has ended because another command wanted that."""
        return self.has_ended and self._code == STOPPED

    async def wait_started(self) -> None:
        """Return when it serves, or has ended: another process is the daemon, or it can't be one."""
        if not self._has_started:
            await trio.lowlevel.wait_readable(self._line)
            self._has_started = self._receive() == SERVES
        if not self._has_started:
            await self.wait_ended()

    async def wait_ended(self) -> None:
        """Return when it has ended."""
        while not self.has_ended:  # noqa: ASYNC110  the system says it to nobody else
            await trio.sleep(LOOK_SECONDS)

    def show(self, *ids: str) -> None:
        """Say which sessions the chat shows, whose turns end with the chat, and which inputs of its own wait there."""
        with suppress(OSError):  # it has ended
            self._line.send(f"{' '.join(ids)}\n".encode())

    async def leave(self) -> list[str] | None:
        """Say that the chat ends; return the sessions that others have at work there, `None` if it has ended."""
        with suppress(OSError):
            self._line.shutdown(socket.SHUT_WR)
        said = b""
        while not said.endswith(b"\n"):
            await trio.lowlevel.wait_readable(self._line)
            if not (data := self._receive()):
                await self.wait_ended()
                return None
            said += data if self._has_started else data.removeprefix(SERVES)
            self._has_started = True
        return said.decode().split()

    def _receive(self) -> bytes:
        try:
            return self._line.recv(MAX_LINE_BYTES)
        except OSError:
            return b""
