"""`mcp-tasks.json`: the tasks of servers that calls wait for, so that they are asked about after a restart."""

from __future__ import annotations

import hashlib
import time
from pathlib import Path
from typing import Self

import msgspec
import trio

from ....config.private_file import make_private_folder, read_private, write_private
from ....runtime.errors import StorageError
from ....runtime.redaction import redacting_logger
from ....runtime.text import UNDECODABLE

FILE_NAME = "mcp-tasks.json"
MAX_TASKS = 256
"""Tasks that are remembered; of more, the oldest are forgotten."""
MAX_BYTES = 1024 * 1024
"""Of the file: more than that many of the longest names take."""
KEPT_SECONDS = 7 * 24 * 3600.0
"""After which a task is forgotten: servers keep none for so long."""

logger = redacting_logger(__name__)


class OpenTask(msgspec.Struct, frozen=True):
    """A task that a call waited for, and since when."""

    task_id: str
    at: float


class _TasksFile(msgspec.Struct, frozen=True):
    tasks: dict[str, OpenTask] = {}


_DECODER = msgspec.json.Decoder(_TasksFile)


class TaskBook:
    """The open tasks of a runtime.

    Args:
        folder: Its data; `None` in memory.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._tasks: dict[str, OpenTask] | None = None if folder is not None else {}
        self._running: set[str] = set()
        self._lock = trio.Lock()

    def note(self, session_id: str, server: str, digest: str, arguments: object) -> NotedTask:
        """Return where the task of a call is noted: of a session, to a tool by its digest, with these arguments."""
        its = msgspec.json.encode([session_id, server, digest, arguments], order="sorted")
        return NotedTask(self._running, self, hashlib.sha256(its).hexdigest())

    async def find(self, key: str) -> str | None:
        """Return the task that a call left open."""
        async with self._lock:
            found = (await self._loaded()).get(key)
        return None if found is None or found.at < time.time() - KEPT_SECONDS else found.task_id

    async def put(self, key: str, task_id: str | None) -> None:
        """Note a task, or that there is none any more; it is on disk when this returns.

        Where it can't be written, that is logged: the call goes on, and can't be asked about after a restart.
        """
        async with self._lock:
            tasks = await self._loaded()
            if task_id is None and key not in tasks:
                return
            tasks.pop(key, None)
            if task_id is not None:
                tasks[key] = OpenTask(task_id, time.time())
            while len(tasks) > MAX_TASKS:
                del tasks[next(iter(tasks))]
            if self._folder is not None:
                data = msgspec.json.encode(_TasksFile(tasks))
                try:
                    await trio.to_thread.run_sync(self._write, self._folder, data)
                except StorageError as error:
                    logger.warning("a task of a server is not remembered: %s", error)

    async def _loaded(self) -> dict[str, OpenTask]:
        if self._tasks is None:
            assert self._folder is not None
            try:
                self._tasks = await trio.to_thread.run_sync(_read, self._folder / FILE_NAME)
            except (StorageError, *UNDECODABLE) as error:
                logger.warning("the open tasks of servers are not known: %s", error)
                self._tasks = {}
        return self._tasks

    @staticmethod
    def _write(folder: Path, data: bytes) -> None:
        make_private_folder(folder)
        write_private(folder / FILE_NAME, data, replace=True)


class NotedTask:
    """Where one call notes its task; enter it for the call. Of two equal calls at once, the second notes nothing."""

    def __init__(self, running: set[str], book: TaskBook, key: str) -> None:
        self._running = running
        self._book = book
        self._key = key
        self._is_first = False

    def __enter__(self) -> Self:
        if self._key not in self._running:
            self._running.add(self._key)
            self._is_first = True
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_first:
            self._running.discard(self._key)

    async def find(self) -> str | None:
        """Return the task that the same call left open before."""
        return await self._book.find(self._key) if self._is_first else None

    async def begun(self, task_id: str) -> None:
        """Note a task; it is on disk when this returns."""
        if self._is_first:
            await self._book.put(self._key, task_id)

    async def over(self) -> None:
        """Note that it is over, as far as this call is concerned."""
        if self._is_first:
            await self._book.put(self._key, None)


def _read(path: Path) -> dict[str, OpenTask]:
    data = read_private(path, MAX_BYTES)
    return {} if data is None else _DECODER.decode(data).tasks
