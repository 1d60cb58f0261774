"""One request to the daemon of this data folder, by a command that is no event loop itself."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import msgspec
import trio

from ...client.client import connect
from ...config.daemon_file import RunningDaemon, find_daemon

Result = TypeVar("Result")


def ask_daemon(
    daemon: RunningDaemon, method: str, params: msgspec.Struct, result: type[Result]
) -> Result:
    """Calls a method and gives what it gives; blocks. Raises a `CallboardError` as `Client` does."""

    async def ask() -> Result:
        async with connect(daemon.url, daemon.token.reveal()) as client:
            return await client.request(method, params, result)

    return trio.run(ask)


def serving_daemon(config: Path | None, data: Path) -> RunningDaemon | None:
    """The one of the data folder; `None` when none runs, or the command names a file of its own.

    Raises:
        StorageError: What a daemon left can't be read.
    """
    return find_daemon(data) if config is None else None
