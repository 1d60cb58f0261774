"""Restart a part of the daemon after a crash, while the others go on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio

from ..runtime.redaction import redacting_logger

logger = redacting_logger(__name__)

FIRST_PAUSE_SECONDS = 0.1
LAST_PAUSE_SECONDS = 30.0
"""Before a restart: doubled from the first to the last. A part that has run for longer than the last is
counted as healthy, and begins with the first again."""


async def restart_on_crash(name: str, run: Callable[[], Awaitable[None]]) -> None:
    """Run a part of the daemon until it returns; log a crash and run it again after a pause."""
    pause = FIRST_PAUSE_SECONDS
    while True:
        began = trio.current_time()
        try:
            await run()
            return
        except Exception:
            logger.exception("%s failed and is restarted; everything else goes on", name)
        if trio.current_time() - began > LAST_PAUSE_SECONDS:
            pause = FIRST_PAUSE_SECONDS
        await trio.sleep(pause)
        pause = min(2 * pause, LAST_PAUSE_SECONDS)
