"""One call's programs: what they may have read of tainted sessions, and what they wrote in one.

Nobody sees what a program reads or writes. So it counts as a reader of every marked file of its
workspace; and what a tainted session's program may have written is found behind it, by the times of
the files. Where that can't be found the whole workspace is marked.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence

import trio

from ..processes import (
    BackgroundProcess,
    Command,
    CommandBinding,
    Processes,
    ProcessOutput,
    Ran,
    Written,
)
from .tracked_files import FileWatch

MAX_KNOWN_FOLDERS = 256
"""Folders above marked files of which it is known which they are; with more, any may have moved."""
LOOK_SECONDS = 10.0
"""For looking at the files of a workspace; who can't be looked at in that time is marked whole."""

FolderIds = dict[str, tuple[int, int]] | None


class WatchedProcesses:
    """A `Processes` handle for one call.

    Args:
        processes: Runs the programs.
        watch: Of the call's files; shared with its file handles.

    Attributes:
        watch: The same.
    """

    def __init__(self, processes: Processes, watch: FileWatch) -> None:
        self._processes = processes
        self.watch = watch

    @property
    def offers_network(self) -> bool:
        """See `Processes`."""
        return self._processes.offers_network

    def bind(self, commands: Sequence[str | Sequence[str]], cwd: str) -> CommandBinding:
        """See `Processes`."""
        return self._processes.bind(commands, cwd)

    async def run(self, command: Command, on_line: Callable[[str], None] | None = None) -> Ran:
        """See `Processes`."""
        self.watch.note_all_read()
        since, folders = time.time_ns(), _folder_ids(self.watch.folders_above_marks())
        try:
            return await self._processes.run(command, on_line)
        finally:
            # Cancelled or not, what it wrote is there; bounded.
            with trio.CancelScope(shield=True):
                await self._mark(since, folders)  # noqa: ASYNC102

    async def start(self, command: Command) -> BackgroundProcess:
        """See `Processes`."""
        self.watch.note_all_read()
        return await self._processes.start(command)

    def list(self) -> tuple[BackgroundProcess, ...]:
        """See `Processes`."""
        return self._processes.list()

    async def output(self, process_id: str) -> ProcessOutput:
        """See `Processes`."""
        found = await self._processes.output(process_id)
        await self._look_at_background()
        return found

    async def write(self, process_id: str, text: str) -> None:
        """See `Processes`."""
        await self._processes.write(process_id, text)
        await self._look_at_background()

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

    async def written(self, since_ns: int) -> Written | None:
        """See `Processes`."""
        return await self._processes.written(since_ns)

    def background_since(self, now_ns: int) -> int | None:
        """See `Processes`."""
        return self._processes.background_since(now_ns)

    async def _look_at_background(self) -> None:
        """What its programs beside the calls have done since somebody last looked."""
        self.watch.note_all_read()
        if not self.watch.is_tainted:
            return
        since = self._processes.background_since(time.time_ns())
        if since is not None:
            await self._mark(since, None)

    async def _mark(self, since_ns: int, folders: FolderIds) -> None:
        """Marks what may have been written since, when that may be the words of strangers."""
        watch = self.watch
        if not watch.is_tainted or watch.is_marked("."):
            return
        written = None
        with trio.move_on_after(LOOK_SECONDS):
            written = await self._processes.written(since_ns)
        if written is None or time.time_ns() < since_ns:  # too much, or the clock was put back
            watch.written(".")
            return
        has_moved = folders is None or _folder_ids(folders) != folders
        for path in (*written.files, *(written.folders if has_moved else ())):
            watch.written(path)


def _folder_ids(paths: Iterable[str]) -> FolderIds:
    """Which folders these are, by device and number; `None` when there are too many to know."""
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
