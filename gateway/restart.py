"""Parts of the daemon that go on: what crashes one is logged, and it begins anew beside the others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio

from ..runtime.redaction import redacting_logger

logger = redacting_logger(__name__)

FIRST_PAUSE_SECONDS = 0.1
LAST_PAUSE_SECONDS = 30.0
"""Before it begins anew: doubled from the first to the last, which also is how long a part has to go
well to be counted as mended."""


async def restart_on_crash(name: str, run: Callable[[], Awaitable[None]]) -> None:
    """Runs a part of the daemon, again and again while it crashes, until it returns.

    Args:
        name: For the log.
        run: The part; called anew each time.
    """
    pause = FIRST_PAUSE_SECONDS
    while True:
        began = trio.current_time()
        try:
            await run()
            return
        except Exception:
            logger.exception("%s failed, and begins again; all else goes on", name)
        if trio.current_time() - began > LAST_PAUSE_SECONDS:
            pause = FIRST_PAUSE_SECONDS
        await trio.sleep(pause)
        pause = min(2 * pause, LAST_PAUSE_SECONDS)
