"""The files of a configuration: read again on demand and when they change, whole or not at all."""

from __future__ import annotations

import functools
import math
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import msgspec
import trio

from ..config.files import load_settings_of, watched_files
from ..config.managed import managed_content, put_back
from ..config.setting_rows import SettingsChange
from ..config.settings import Settings
from ..providers.catalog.book import ProviderBook
from ..runtime.errors import CallboardError, ConflictError, ValidationError
from ..runtime.redaction import redacting_logger
from ..runtime.wire.daemon import ConfigState, Reloaded
from .host import Host
from .reconfiguring import reconfigure

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
    """The files of a runtime's configuration, and their way into what runs.

    Args:
        load: Reads the files, with what the command line says over them; blocks.
        files: Those that it reads, the operator's first, for who looks whether they changed.
        book: Changes providers and the default model.

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

    async def load(self) -> Settings:
        """Read the files; raise a `CallboardError` that names what is wrong, and where."""
        return await trio.to_thread.run_sync(self._load)

    async def reload(self, host: Host, *, may_be_read: bool = False) -> Reloaded:
        """Do as `apply`; return what changed, and the new state."""
        effect = await self.apply(host, may_be_read=may_be_read)
        return Reloaded(changed=effect.changed, state=self.state)

    async def apply(self, host: Host, *, may_be_read: bool = False) -> SettingsChange:
        """Read the files and apply everything that needs no restart.

        With `may_be_read`, files that were read a moment ago and have not changed are not read again.

        Raises:
            CallboardError: Nothing of it holds, and what held goes on.
        """
        async with self._lock:
            read, now = await self._signature(), trio.current_time()
            is_read = read == self._read and now < self._fresh_until and not self.state.problem
            if may_be_read and is_read:
                return SettingsChange(settings=host.settings, waiting=self.state.waiting)
            self._read = read  # who watches need not read these again
            self._fresh_until = now + FRESH_SECONDS if _is_sure(read) else -math.inf
            try:
                settings = await self.load()
                effect = await reconfigure(host, settings)
            except CallboardError as error:
                self.state = msgspec.structs.replace(self.state, problem=str(error))
                logger.error("the configuration can't be used, the last good one holds: %s", error)
                raise
            revision = self.state.revision + bool(effect.changed)
            since_ms = _now_ms() if effect.changed else self.state.since_ms
            self.state = ConfigState(revision=revision, since_ms=since_ms, waiting=effect.waiting)
        self._tell(effect.changed)
        return effect

    @property
    def file(self) -> Path:
        """The operator's file, which need not exist."""
        return self._files[0]

    @property
    def folder(self) -> Path:
        """The folder of managed.toml."""
        return self._files[0].parent

    async def change(self, edit: Callable[[], Result], host: Host) -> Result:
        """Write a change to the managed file and apply it at once.

        Args:
            edit: Does it; block.

        Raises:
            ConflictError: It could not hold, and all is as it was before.
            CallboardError: What `edit` raises.
        """
        async with self._changing:
            before = await trio.to_thread.run_sync(managed_content, self.folder)
            result = await trio.to_thread.run_sync(edit)
            written = await trio.to_thread.run_sync(managed_content, self.folder)
            if (problem := await self._problem(host)) is None:
                return result
            # Else the daemon would not come up again with it.
            with trio.CancelScope(shield=True):
                back = functools.partial(put_back, self.folder, written=written, before=before)
                await trio.to_thread.run_sync(back)
            await self._problem(host)  # what is wrong by now was wrong before
        raise ConflictError(
            f"Nothing was changed. With this change the daemon could not work: {problem}"
        ) from problem

    async def _problem(self, host: Host) -> CallboardError | None:
        """Reload; return the error if the files cannot be applied."""
        try:
            await self.reload(host)
        except CallboardError as error:
            return error
        return None

    async def watch(self, host: Host) -> None:
        """Reload when the files change; errors are logged. Runs until cancelled."""
        seen = await self._signature()
        self._read = self._read or seen
        while True:
            await trio.sleep(LOOK_SECONDS)
            found = await self._signature()
            if found == seen != self._read:
                with suppress(CallboardError):
                    await self.reload(host)
            seen = found

    async def _signature(self) -> _Signature:
        return await trio.to_thread.run_sync(lambda: tuple(map(_signature_of, self._files)))

    def _tell(self, changed: tuple[str, ...]) -> None:
        words = ", ".join(changed) or "nothing"
        logger.info("configuration %d holds; changed: %s", self.state.revision, words)
        if self.state.waiting:
            logger.warning("these need a restart to hold: %s", ", ".join(self.state.waiting))


def files_of(configuration: Configuration | None) -> Configuration:
    """Return the files of a runtime's configuration; raise `ConflictError` when there are none."""
    if configuration is None:
        raise ConflictError(
            "this runtime belongs to a program, which has its settings: there is no file to read or "
            "change. The program may open it with config=PATH."
        )
    return configuration


async def open_configuration(
    file: Path, given: Settings | None = None
) -> tuple[Settings, Configuration]:
    """Read the configuration of a file that need not exist; return it, and its way into what runs.

    Raises:
        StorageError: A file exists and can't be read.
        ValidationError: It has a mistake; the error names file, line and setting.
    """
    if given is not None:
        raise ValidationError(
            "settings and config are given both: config is read into settings; pass one of them",
            field="config",
        )
    load = functools.partial(load_settings_of, file)
    configuration = Configuration(load, watched_files(file))
    return await configuration.load(), configuration


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
