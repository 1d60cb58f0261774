"""Lets turns end before a daemon does: in their own time, then by the clock."""

from __future__ import annotations

import trio

from ..embedded import Runtime, directory_of
from ..runtime.errors import CallboardError
from ..runtime.messages import StopSessions
from ..runtime.redaction import redacting_logger

logger = redacting_logger(__name__)

LOOK_SECONDS = 0.1
"""Between two looks at what still runs."""
MAX_QUESTIONS = 10_000
"""That are looked at; turns that wait for others have to wait for the clock."""
STOP_SECONDS = 15.0
"""For turns that are cancelled: their programs are killed and reaped, and that is recorded."""


async def drain(runtime: Runtime, seconds: float, hurry: trio.Event) -> None:
    """Waits for turns to end, then ends the rest; turns that wait for people are suspended.

    Args:
        runtime: Whose turns.
        seconds: How long they may take by themselves.
        hurry: Ends the wait at once.
    """
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_cancel_on, hurry, nursery.cancel_scope)
        with trio.move_on_after(seconds) as patience:
            while True:
                if not await _working(runtime):
                    break
                await trio.sleep(LOOK_SECONDS)
        if patience.cancelled_caught:
            logger.warning("turns still run after %g s: they are cancelled", seconds)
        nursery.cancel_scope.cancel(reason="the drain is over")
    try:
        with trio.fail_after(STOP_SECONDS):
            await directory_of(runtime).ask(StopSessions(reason="the server stopped"))
    except trio.TooSlowError:
        logger.error("sessions did not end within %g s: they are cut off", STOP_SECONDS)
    except CallboardError as error:
        logger.error("sessions did not end in order: %s", error)


async def _cancel_on(event: trio.Event, scope: trio.CancelScope) -> None:
    await event.wait()
    scope.cancel(reason="asked to hurry")


async def _working(runtime: Runtime) -> bool:
    """Whether a turn does more than wait for a person."""
    status = await runtime.status()
    busy = {turn.session_id for turn in status.turns}
    if not busy:
        return False
    calling = {call.session_id for call in status.calls}
    waiting = {
        row.session_id
        for row in await runtime.store.approvals(state="waiting", limit=MAX_QUESTIONS)
    }
    return bool(busy - (waiting - calling))
