"""A later try of a session that a full disk stopped: nobody else may ever ask it to go on."""

from __future__ import annotations

from contextlib import suppress

import trio

from ...runtime.errors import CallboardError, StorageFull
from ...runtime.kernel.mailbox import Mailbox
from ...runtime.messages import SessionMessage, WakeSession

SECONDS = 10.0
"""Until the next try. Each one that fails is a line of the log."""


class LaterTry:
    """Wakes its session by a message, once for any number of failures meanwhile."""

    def __init__(self, session_id: str, mailbox: Mailbox[SessionMessage]) -> None:
        self._session_id = session_id
        self._mailbox = mailbox
        self._is_due = False

    def begin(self, error: CallboardError, nursery: trio.Nursery) -> None:
        """Wake the session later, if what stopped it may pass by itself."""
        if isinstance(error, StorageFull) and not self._is_due:
            self._is_due = True
            nursery.start_soon(self._wake, name=f"later try of {self._session_id}")

    async def _wake(self) -> None:
        await trio.sleep(SECONDS)
        self._is_due = False
        with suppress(CallboardError):
            await self._mailbox.tell(WakeSession(session_id=self._session_id))
