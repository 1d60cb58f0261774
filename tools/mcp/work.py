"""A workspace that the program of a server works on, for the calls of the sessions there.

A program that may write stands still between its calls, and each of them is alone in the workspace. So what it
writes is written by a call: marked as that of a program which the call ran, and never beside a program that was
allowed as it was.
"""

from __future__ import annotations

import os
import time
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import trio

from ...runtime.definitions import ErrorType, ToolFailure
from ...runtime.processes import Written
from ...runtime.taint.tracked_files import TrackedReader
from ...runtime.taint.tracked_processes import mark_written
from ..processes.threads import run_read
from ..tool import ToolContext

if TYPE_CHECKING:  # with what runs programs
    from ..sandbox.box.start_gate import FolderIdentity
    from ..sandbox.piped import PipedProgram

MAX_SESSIONS = 256
"""Sessions of one workspace that are remembered for their end; of more, those that called first are taken for ended."""


class ServedWorkspace:
    """A workspace, and the program that a server has for it.

    Args:
        folder: The real path of the workspace.
        identity: The folder that it must be.
        is_writable: Whether the program may write there.

    Attributes:
        calls: How many run now.
        sessions: Those that have called, the latest last.
    """

    def __init__(self, folder: str, identity: FolderIdentity | None, *, is_writable: bool) -> None:
        self.folder = folder
        self.identity = identity
        self.is_writable = is_writable
        self.calls = 0
        self.sessions: dict[str, None] = {}
        self._program: PipedProgram | None = None
        self._is_ready = False
        self._is_told = False

    @asynccontextmanager
    async def serving(self, context: ToolContext, texts: Iterable[str]) -> AsyncGenerator[None]:
        """Have the program run around the block, for a call with these arguments."""
        self.sessions.pop(context.session_id, None)
        self.sessions[context.session_id] = None
        if len(self.sessions) > MAX_SESSIONS:
            del self.sessions[next(iter(self.sessions))]
        self.calls += 1
        try:
            async with self._tracked(context, texts):
                try:
                    self._resume()
                    yield
                finally:
                    if self.calls == 1:
                        self._pause()
        finally:
            self.calls -= 1

    @asynccontextmanager
    async def _tracked(self, context: ToolContext, texts: Iterable[str]) -> AsyncGenerator[None]:
        """Mark the call by what its program may have read, and what it writes by the call, as of `TrackedProcesses`."""
        if not isinstance(context.files_read, TrackedReader):
            yield
            return
        watch = context.files_read.watch
        watch.note_all_read(texts)
        if self._is_told:
            watch.read["."] = None  # it remembers what another session told it
        self._is_told = self._is_told or watch.is_tainted
        begun, since = watch.now(), time.time_ns()
        writer = watch.begin_program(since) if self.is_writable else None
        try:
            yield
        finally:
            watch.note_meanwhile(begun)
            self._is_told = self._is_told or watch.is_tainted
            if writer is not None:
                try:
                    if watch.is_tainted and not watch.is_marked("."):
                        with trio.CancelScope(shield=True):  # bounded itself
                            await mark_written(watch, self._written, since, writer)
                finally:
                    watch.end_program(writer)

    async def _written(self, since_ns: int) -> Written | None:
        from ..sandbox.changes.scan import written_since

        return await run_read(written_since, self.folder, since_ns)

    def hold(self, program: PipedProgram) -> None:
        """Take the program that is being started; nobody may want it any more."""
        self._program, self._is_ready = program, False
        if self.is_writable and not self.calls:
            program.kill("cancel")

    def ready(self) -> None:
        """Note that it can be called."""
        self._is_ready = True
        if not self.calls:
            self._pause()

    def let_go(self) -> None:
        """Note that the program has ended."""
        self._program = None

    def _pause(self) -> None:
        if self._program is None or not self.is_writable:
            return
        if self._is_ready:
            self._program.pause()
        else:
            self._program.kill("cancel")  # it would go on being started, and write beside all calls

    def _resume(self) -> None:
        if self._program is not None and self._program.is_paused:
            self._program.resume()


def work_of(context: ToolContext, *, is_writable: bool) -> ServedWorkspace:
    """Return the workspace of a call; raise `ToolFailure` when the call has none."""
    from ..sandbox.box.start_gate import identity_of

    if context.workspace is None:
        raise ToolFailure(
            ErrorType.PERMISSION_DENIED,
            "Not run: the server works on files, and this session has none.",
        )
    folder = os.path.realpath(context.workspace)
    return ServedWorkspace(folder, identity_of(folder), is_writable=is_writable)
