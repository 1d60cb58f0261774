"""The daemon's configuration: read again on demand and when its files change, whole or not at all."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
import trio

from ..config.server_settings import ServerSettings
from ..config.settings import Settings
from ..embedded import Runtime, host_of
from ..reconfiguring import reconfigure
from ..runtime.errors import CallboardError
from ..runtime.redaction import redacting_logger
from ..runtime.wire.configuration import ConfigState, Reloaded

logger = redacting_logger(__name__)

LOOK_SECONDS = 1.0
"""Between two looks at the files. A file counts when two looks agree: an editor may still write it."""

_Signature = tuple[tuple[int, int, int] | None, ...]


class Configuration:
    """The settings of a daemon, and their way into what runs.

    Args:
        load: Reads the files, with what the command line says over them; blocks.
        files: Those that it reads, for who looks whether they changed.

    Attributes:
        state: What holds.
    """

    def __init__(self, load: Callable[[], Settings], files: Sequence[Path]) -> None:
        self._load = load
        self._files = tuple(files)
        self._lock = trio.Lock()
        self.state = ConfigState(revision=1, since_ms=_now_ms())

    async def reload(
        self, runtime: Runtime, take_server: Callable[[ServerSettings], None]
    ) -> Reloaded:
        """Reads it, and has all of it hold that can.

        Raises:
            CallboardError: Nothing of it holds, and what held goes on.
        """
        async with self._lock:
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

    async def watch(self, runtime: Runtime, take_server: Callable[[ServerSettings], None]) -> None:
        """Reads it each time that the files have become others; what is wrong is logged."""
        known = seen = await self._signature()
        while True:
            await trio.sleep(LOOK_SECONDS)
            found = await self._signature()
            if found == seen != known:
                known = found
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
    """Has callboard's own records of this level, and worse ones, logged."""
    logging.getLogger("callboard").setLevel(settings.log_level.upper())


def _signature_of(path: Path) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
