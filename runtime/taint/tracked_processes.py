"""A process handle that tracks taint.

What a program reads and writes can't be observed. So each program counts as a reader of every marked
file of its workspace, and files that a tainted session's program may have written are found afterwards
by their times. If that is not possible, the whole workspace is marked.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Protocol

import trio

from ..errors import CallboardError
from ..processes import BackgroundProcess, Command, Processes, ProcessOutput, Ran, Written
from .tracked_files import FileWatch

if TYPE_CHECKING:
    from .writers import Writer

LOOK_SECONDS = 10.0
"""The time for looking at the files of a workspace; beyond it the whole workspace is marked."""
COMMIT_SECONDS = 10.0
"""The time for the commit behind it; beyond it the next start looks."""


class MarkKeeper(Protocol):
    """Stores marks of a call outside of its result.

    Attributes:
        session_id: Whose call it is.
    """

    session_id: str

    async def keep(self, marked: tuple[str, ...], cleared: tuple[str, ...]) -> None:
        """Store paths that are marked and cleared; on record on return."""
        ...


class TrackedProcesses:
    """A `Processes` handle that tracks taint for one call.

    Args:
        processes: Runs the programs.
        watch: What the call reads and changes; shared with its file handles.
        keeper: Stores what background programs wrote; without it, that is marked until the runtime ends.
    """

    def __init__(
        self, processes: Processes, watch: FileWatch, keeper: MarkKeeper | None = None
    ) -> None:
        self._processes = processes
        self._keeper = keeper
        self.watch = watch
        self.bind, self.list, self.written = processes.bind, processes.list, processes.written
        self.background_since = processes.background_since

    @property
    def offers_network(self) -> bool:
        """See `Processes`."""
        return self._processes.offers_network

    async def run(self, command: Command, on_line: Callable[[str], None] | None = None) -> Ran:
        """See `Processes`."""
        watch = self.watch
        self._note_read(command)
        begun, since = watch.now(), time.time_ns()
        writer = watch.begin_program(since)
        try:
            return await self._processes.run(command, on_line)
        finally:
            watch.note_meanwhile(begun)
            try:
                # Also after a cancellation: its files are on the disk. Bounded by LOOK_SECONDS.
                with trio.CancelScope(shield=True):
                    await self._mark(since, writer)  # noqa: ASYNC102
            finally:
                watch.end_program(writer)

    async def start(
        self, command: Command, on_end: Callable[[], Awaitable[None]] | None = None
    ) -> BackgroundProcess:
        """See `Processes`."""
        watch, since = self.watch, time.time_ns()
        self._note_read(command)
        rows: tuple[str, ...] = ()
        if watch.is_tainted and self._keeper is not None:
            # Ahead of it: when this process is killed, it has written, and the next start looks.
            rows = (watch.open_row(self._keeper.session_id, since),)
            await self._keeper.keep(rows, ())
        writer = watch.begin_program(since)
        try:
            behind = partial(self._behind, writer, rows, on_end)
            return await self._processes.start(command, behind)
        except BaseException:
            watch.end_program(writer)
            if rows and self._keeper is not None:
                with trio.move_on_after(COMMIT_SECONDS, shield=True), suppress(CallboardError):
                    await self._keeper.keep((), rows)  # it did not begin
            raise

    async def _behind(
        self,
        writer: Writer,
        rows: tuple[str, ...],
        on_end: Callable[[], Awaitable[None]] | None,
    ) -> None:
        """Mark what a background program wrote, as it has ended."""
        own = TrackedProcesses(self._processes, self.watch.again(lambda: writer.is_tainted))
        try:
            with trio.move_on_after(
                LOOK_SECONDS + COMMIT_SECONDS, shield=True
            ):  # on the disk already
                await own._look_at_background()
                marked, cleared = own.watch.end()
                if self._keeper is not None and (marked or cleared or rows):
                    with suppress(CallboardError):  # the runtime ends: the next start looks
                        await self._keeper.keep(marked, (*cleared, *rows))
        finally:
            self.watch.end_program(writer)
        if on_end is not None:
            await on_end()

    async def output(self, process_id: str) -> ProcessOutput:
        """See `Processes`."""
        found = await self._processes.output(process_id)
        await self._look_at_background()
        return found

    async def write(self, process_id: str, text: str) -> None:
        """See `Processes`."""
        await self._processes.write(process_id, text)
        await self._look_at_background(text)

    async def close_input(self, process_id: str) -> None:
        """See `Processes`."""
        await self._processes.close_input(process_id)
        await self._look_at_background()

    async def kill(self, process_id: str) -> BackgroundProcess:
        """See `Processes`."""
        killed = await self._processes.kill(process_id)
        await self._look_at_background()
        return killed

    async def wait(self, process_id: str) -> BackgroundProcess:
        """See `Processes`."""
        try:
            return await self._processes.wait(process_id)
        finally:
            with trio.CancelScope(shield=True):
                await self._look_at_background()  # noqa: ASYNC102

    def _note_read(self, command: Command) -> None:
        texts = [data.decode(errors="replace") for data in command.files.values()]
        self.watch.note_all_read([*command.argv, *command.env.values(), *texts], command.cwd)

    async def _look_at_background(self, typed: str | None = None) -> None:
        """Mark what background programs may have written since the last look; they read what is typed to them."""
        self.watch.note_all_read(() if typed is None else (typed,))
        if not self.watch.is_tainted:
            return
        if typed is not None:
            self.watch.note_typed()
        since = self._processes.background_since(time.time_ns())
        if since is not None:
            await self._mark(since, None)

    async def _mark(self, since_ns: int, writer: Writer | None) -> None:
        if self.watch.is_tainted and not self.watch.is_marked("."):
            await mark_written(self.watch, self._processes.written, since_ns, writer)


async def mark_written(
    watch: FileWatch,
    look: Callable[[int], Awaitable[Written | None]],
    since_ns: int,
    writer: Writer | None = None,
) -> None:
    """Mark what may have been written in a workspace since a time.

    `look` returns that, or `None` if it is unknown; `writer` is the program, if it is one.
    """
    written = None
    with trio.move_on_after(LOOK_SECONDS):
        written = await look(since_ns)
    if written is None or time.time_ns() < since_ns:  # too many files, or the clock was set back
        watch.written(".")
        return
    has_moved = watch.has_left(written.folders) or writer is None or writer.has_moved_folders()
    for path in (*written.files, *(written.folders if has_moved else ())):
        watch.written(path)
