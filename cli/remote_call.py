"""One request to the daemon of this data folder, by a command that is no event loop itself."""

from __future__ import annotations

from typing import TypeVar

import msgspec
import trio

from ..client import connect
from ..config.daemon_file import RunningDaemon

Result = TypeVar("Result")


def ask_daemon(
    daemon: RunningDaemon, method: str, params: msgspec.Struct, result: type[Result]
) -> Result:
    """Calls a method and gives what it gives; blocks. Raises a `CallboardError` as `Client` does."""

    async def ask() -> Result:
        async with connect(daemon.url, daemon.token.reveal()) as client:
            return await client.request(method, params, result)

    return trio.run(ask)
