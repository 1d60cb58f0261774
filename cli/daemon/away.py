"""What commands that follow a session say when its daemon is away."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import trio

from ...runtime.errors import NetworkError

if TYPE_CHECKING:
    from ...client.client import Client

LOOK_SECONDS = 0.25
"""Time between two looks at the connection."""
LOST_SECONDS = 2.0
"""A lost connection is mentioned after this time; shorter breaks concern nobody."""
AWAY = "the daemon is away; this command waits for it (Ctrl-C to leave)"
AGAIN = "connected again"


PATIENCE_SECONDS = 120.0
"""How long a command waits where nobody sits who could end it: as long as a request does, for a daemon that restarts."""


async def watch_connection(
    client: Client,
    notice: Callable[[str], None],
    away: str = AWAY,
    *,
    gives_up: Callable[[], str] | None = None,
) -> None:
    """Say when the daemon is away for longer, and when it, or its successor, is back. Runs until cancelled.

    Args:
        client: The connection.
        notice: Called with what is said.
        away: What is said first.
        gives_up: Where nobody sits: says what to do, when nothing is waited for any longer.
    """
    from ...client.client import link_of  # here: whoever has a client has imported it

    link, lost, is_said = link_of(client), 0.0, False
    while True:
        if is_said:  # what is back is said at once: an answer comes right behind it
            await link.wait_back(LOOK_SECONDS)
        else:
            await trio.sleep(LOOK_SECONDS)
        lost = 0.0 if client.is_connected else lost + LOOK_SECONDS
        if lost >= LOST_SECONDS and not is_said:
            notice(away)
        elif is_said and not lost:
            notice(AGAIN)
        is_said = lost >= LOST_SECONDS
        if gives_up is not None and lost >= PATIENCE_SECONDS:
            link.give_up(
                NetworkError(
                    f"the daemon has been away for {PATIENCE_SECONDS:g} seconds, and nobody sits here to wait longer; {gives_up()}"
                )
            )
            return
