"""Heartbeat: prove that the event loop turns and that the journal commits.

A beat is a round trip through the journal and the thread that writes, behind whatever waits there.
So a loop that is stuck and a disk that is stuck both miss it, and the supervisor restarts the daemon.
"""

from __future__ import annotations

from contextlib import suppress

import trio

from ...embedding.runtime import Runtime, host_of
from ...runtime.errors import CallboardError, NotFoundError, StorageFull
from ...runtime.messages import AppendEvents
from ...runtime.redaction import redacting_logger
from .sd_notify import SystemdNotifier

logger = redacting_logger(__name__)

BEAT_SECONDS = 5.0
"""Between beats, unless systemd asks for shorter intervals."""
SLOW_SECONDS = 1.0
"""A beat that takes longer is logged; a commit takes milliseconds."""


class Heartbeat:
    """Beats as often as the supervisor wants, and twice that.

    Args:
        runtime: Whose journal.
        supervisor: Gets a message after each beat.

    """

    def __init__(self, runtime: Runtime, supervisor: SystemdNotifier) -> None:
        self._runtime = runtime
        self._supervisor = supervisor
        self._latest: float | None = None
        self._began: float | None = None

    @property
    def journal_seconds(self) -> float | None:
        """How long the latest round trip took, or the present one if that is longer; `None` before both."""
        if self._began is None:
            return self._latest
        return max(self._latest or 0.0, trio.current_time() - self._began)

    async def run(self) -> None:
        """Send heartbeats until cancelled."""
        wanted = self._supervisor.watchdog_seconds
        pause = BEAT_SECONDS if wanted is None else min(BEAT_SECONDS, wanted / 3)
        while True:
            await self.beat()
            await trio.sleep(pause)

    async def beat(self) -> None:
        """Make one round trip, then tell the supervisor that the daemon is alive."""
        began = self._began = trio.current_time()
        try:
            await _round_trip(self._runtime)
        except CallboardError as error:
            logger.error("the journal does not answer: %s", error)
            return
        finally:
            self._began = None
        self._latest = trio.current_time() - began
        if self._latest > SLOW_SECONDS:
            logger.warning("the journal took %.1f s to answer", self._latest)
        self._supervisor.alive()


async def _round_trip(runtime: Runtime) -> None:
    """Wait until the writer has done everything that was queued before.

    An append of nothing to no session goes all the way of every append, and is refused at its end.
    """
    with suppress(NotFoundError, StorageFull):  # a full disk is waited out, not started over
        await host_of(runtime).journal.ask(AppendEvents(session_id="", events=()))
