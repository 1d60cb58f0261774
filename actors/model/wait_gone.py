"""The end of a cancelled request: its outlet closes when every task behind it is gone."""

from __future__ import annotations

from typing import Any

import trio

CLEANUP_SECONDS = 10.0
"""How long a cancelled turn waits for its tasks to be gone; what is left then is `unreaped`."""


async def wait_gone(channel: trio.MemoryReceiveChannel[Any]) -> bool:
    """Waits, shielded and bounded, until the other side has ended its outlet; says whether it did."""
    with trio.move_on_after(CLEANUP_SECONDS, shield=True) as bound:
        async for _ in channel:
            pass
    return not bound.cancelled_caught
