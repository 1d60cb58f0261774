"""The daemon's configuration: reloaded on demand and when its files change, whole or not at all."""

from __future__ import annotations

import functools
import logging
import math
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import msgspec
import trio

from ...config.managed import managed_content, put_back
from ...config.sections import ServerSettings
from ...config.settings import Settings
from ...embedding.reconfiguring import reconfigure
from ...embedding.runtime import Runtime, host_of
from ...providers.catalog.book import ProviderBook
from ...runtime.errors import CallboardError, ConflictError
from ...runtime.redaction import redacting_logger
from ...runtime.wire.daemon import ConfigState, Reloaded

logger = redacting_logger(__name__)

Result = TypeVar("Result")

LOOK_SECONDS = 1.0
"""Between two looks at the files. A file counts when two looks agree: an editor may still write it."""

FRESH_SECONDS = 1.0
"""What was read in this time is not read again unless a file changed: several commands may come at once."""

SURE_NS = 100_000_000
"""Of two changes within some milliseconds a file system may give both the same time."""

_Signature = tuple[tuple[int, int, int] | None, ...]


class Configuration:
    """The settings of a daemon, and their way into what runs.

    Args:
        load: Reads the files, with what the command line says over them; blocks.
        files: Those that it reads, for who looks whether they changed.
        book: What clients may change of it.

    Attributes:
        state: What holds.
    """

    def __init__(
        self, load: Callable[[], Settings], files: Sequence[Path], book: ProviderBook | None = None
    ) -> None:
        self._load = load
        self._files = tuple(files)
        self.book = book
        self._lock = trio.Lock()
        self._changing = trio.Lock()
        self._read: _Signature | None = None
        self._fresh_until = -math.inf
        self.state = ConfigState(revision=1, since_ms=_now_ms())

    @property
    def file(self) -> str:
        """The operator's file, by which commands know whose rules hold."""
        return str(self._files[0].resolve()) if self._files else ""

    async def reload(
        self,
        runtime: Runtime,
        take_server: Callable[[ServerSettings], None],
        *,
        may_be_read: bool = False,
    ) -> Reloaded:
        """Read the files and apply everything that needs no restart.

        With `may_be_read`, files that were read a moment ago and have not changed are not read again.

        Raises:
            CallboardError: Nothing of it holds, and what held goes on.
        """
        async with self._lock:
            read, now = await self._signature(), trio.current_time()
            is_read = read == self._read and now < self._fresh_until and not self.state.problem
            if may_be_read and is_read:
                return Reloaded(changed=(), state=self.state)
            self._read = read  # who watches need not read these again
            self._fresh_until = now + FRESH_SECONDS if _is_sure(read) else -math.inf
            try:
                settings = await trio.to_thread.run_sync(self._load)
                effect = await reconfigure(host_of(runtime), settings)
            except CallboardError as error:
                self.state = msgspec.structs.replace(self.state, problem=str(error))
                logger.error("the configuration can't be used, the last good one holds: %s", error)
                raise
            server = effect.settings.server
            take_server(server)
            set_log_level(server)
            revision = self.state.revision + bool(effect.changed)
            since_ms = _now_ms() if effect.changed else self.state.since_ms
            self.state = ConfigState(revision=revision, since_ms=since_ms, waiting=effect.waiting)
        self._tell(effect.changed)
        return Reloaded(changed=effect.changed, state=self.state)

    async def change(
        self,
        edit: Callable[[ProviderBook], Result],
        runtime: Runtime,
        take_server: Callable[[ServerSettings], None],
    ) -> Result:
        """Write a client's change to the managed file and apply it at once.

        Args:
            edit: Does it; block.

        Raises:
            ConflictError: It could not hold, and all is as it was before.
            CallboardError: What `edit` raises.
        """
        if (book := self.book) is None:
            raise ConflictError("this server has no configuration that clients may change")
        async with self._changing:
            before = await trio.to_thread.run_sync(managed_content, book.folder)
            result = await trio.to_thread.run_sync(edit, book)
            written = await trio.to_thread.run_sync(managed_content, book.folder)
            if (problem := await self._problem(runtime, take_server)) is None:
                return result
            # Else the daemon would not come up again with it.
            with trio.CancelScope(shield=True):
                back = functools.partial(put_back, book.folder, written=written, before=before)
                await trio.to_thread.run_sync(back)
            await self._problem(runtime, take_server)  # what is wrong by now was wrong before
        raise ConflictError(
            f"Nothing was changed. With this change the daemon could not work: {problem}"
        ) from problem

    async def _problem(
        self, runtime: Runtime, take_server: Callable[[ServerSettings], None]
    ) -> CallboardError | None:
        """Reload; return the error if the files cannot be applied."""
        try:
            await self.reload(runtime, take_server)
        except CallboardError as error:
            return error
        return None

    async def watch(self, runtime: Runtime, take_server: Callable[[ServerSettings], None]) -> None:
        """Reload when the files change; errors are logged. Runs until cancelled."""
        seen = await self._signature()
        self._read = self._read or seen
        while True:
            await trio.sleep(LOOK_SECONDS)
            found = await self._signature()
            if found == seen != self._read:
                with suppress(CallboardError):
                    await self.reload(runtime, take_server)
            seen = found

    async def _signature(self) -> _Signature:
        return await trio.to_thread.run_sync(lambda: tuple(map(_signature_of, self._files)))

    def _tell(self, changed: tuple[str, ...]) -> None:
        words = ", ".join(changed) or "nothing"
        logger.info("configuration %d holds; changed: %s", self.state.revision, words)
        if self.state.waiting:
            logger.warning("these need a restart to hold: %s", ", ".join(self.state.waiting))


def set_log_level(settings: ServerSettings) -> None:
    """Set the level of callboard's own loggers."""
    logging.getLogger("callboard").setLevel(settings.log_level.upper())


def _signature_of(path: Path) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def _is_sure(signature: _Signature) -> bool:
    """Return whether each later change of the files changes it."""
    sure_ns = time.time_ns() - SURE_NS
    return bool(signature) and all(file is None or file[2] < sure_ns for file in signature)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
