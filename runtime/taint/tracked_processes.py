"""A process handle that tracks taint.

What a program reads and writes can't be observed. So each program counts as a reader of every marked
file of its workspace, and files that a tainted session's program may have written are found afterwards
by their times. If that is not possible, the whole workspace is marked.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable

import trio

from ..processes import BackgroundProcess, Command, Processes, ProcessOutput, Ran
from .tracked_files import FileWatch

MAX_KNOWN_FOLDERS = 256
"""Folders above marked files that are remembered by inode; with more, any folder may have moved."""
LOOK_SECONDS = 10.0
"""The time for looking at the files of a workspace; beyond it the whole workspace is marked."""

FolderIds = dict[str, tuple[int, int]] | None


class TrackedProcesses:
    """A `Processes` handle that tracks taint for one call.

    Args:
        processes: Runs the programs.
        watch: What the call reads and changes; shared with its file handles.
    """

    def __init__(self, processes: Processes, watch: FileWatch) -> None:
        self._processes = processes
        self.watch = watch
        self.bind, self.list, self.written = processes.bind, processes.list, processes.written
        self.background_since = processes.background_since

    @property
    def offers_network(self) -> bool:
        """See `Processes`."""
        return self._processes.offers_network

    async def run(self, command: Command, on_line: Callable[[str], None] | None = None) -> Ran:
        """See `Processes`."""
        self._note_read(command)
        since, folders = time.time_ns(), _folder_ids(self.watch.folders_above_marks())
        try:
            return await self._processes.run(command, on_line)
        finally:
            # Also after a cancellation: its files are on the disk. Bounded by LOOK_SECONDS.
            with trio.CancelScope(shield=True):
                await self._mark(since, folders)  # noqa: ASYNC102

    async def start(self, command: Command) -> BackgroundProcess:
        """See `Processes`."""
        self._note_read(command)
        return await self._processes.start(command)

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
        since = self._processes.background_since(time.time_ns())
        if since is not None:
            await self._mark(since, None)

    async def _mark(self, since_ns: int, folders: FolderIds) -> None:
        """Mark what may have been written since a time, if the call is tainted."""
        watch = self.watch
        if not watch.is_tainted or watch.is_marked("."):
            return
        written = None
        with trio.move_on_after(LOOK_SECONDS):
            written = await self._processes.written(since_ns)
        if (
            written is None or time.time_ns() < since_ns
        ):  # too many files, or the clock was set back
            watch.written(".")
            return
        has_moved = (
            watch.has_left(written.folders) or folders is None or _folder_ids(folders) != folders
        )
        for path in (*written.files, *(written.folders if has_moved else ())):
            watch.written(path)


def _folder_ids(paths: Iterable[str]) -> FolderIds:
    """Return device and inode of folders, or `None` if there are too many."""
    found: dict[str, tuple[int, int]] = {}
    for path in paths:
        if len(found) >= MAX_KNOWN_FOLDERS:
            return None
        try:
            info = os.stat(path, follow_symlinks=False)
        except OSError:
            found[path] = 0, 0
        else:
            found[path] = info.st_dev, info.st_ino
    return found
