"""Sessions whose turns begin by themselves are woken some at a time.

After a start there may be thousands, each with an input that waits: all at once they would read the
store, and ask models, before anybody's new prompt came through.
"""

from __future__ import annotations

from collections.abc import Callable

import trio
import trio.lowlevel

from ..runtime.activity import Activity
from ..runtime.errors import CallboardError
from ..runtime.messages import WakeSession

MAX_WAKING = 16
"""Loaded and begun at once: enough to keep a provider busy, and a person's prompt comes between."""
WAKE_SECONDS = 10.0
"""Until the next one is woken, however long a turn runs: one may wait for a person, for days."""
LOOK_SECONDS = 0.05
"""Between two looks whether a turn has ended: short turns don't wait longer for each other."""


class Waking:
    """The sessions that are due to be woken, in their order, each once.

    Args:
        load: Hands the message to its session, loading that.
        activity: Which turns run.
    """

    def __init__(self, load: Callable[[WakeSession], None], activity: Activity) -> None:
        self._load = load
        self._activity = activity
        self._due: dict[str, None] = {}  # ids of sessions on record, which are as many as those
        self._more = trio.Event()

    def add(self, session_id: str) -> None:
        """Wakes it as soon as there is room; once, however often it is asked for until then."""
        self._due[session_id] = None
        self._more.set()

    def clear(self) -> None:
        """Wakes none of those that are due: what waits for them waits on record."""
        self._due.clear()

    async def serve(self) -> None:
        """Wakes them until cancelled."""
        room = trio.Semaphore(MAX_WAKING)
        async with trio.open_nursery() as nursery:
            while True:
                await self._more.wait()
                self._more = trio.Event()
                while self._due:
                    await room.acquire()
                    session_id = next(iter(self._due), None)
                    if session_id is None:  # cleared meanwhile
                        room.release()
                        break
                    del self._due[session_id]
                    nursery.start_soon(self._wake, session_id, room, name=f"wake {session_id}")

    async def _wake(self, session_id: str, room: trio.Semaphore) -> None:
        try:
            with trio.move_on_after(WAKE_SECONDS):
                message = WakeSession(session_id=session_id)
                self._load(message)
                try:
                    await message.reply.wait()
                except CallboardError:
                    return  # the session has said why in the log
                await trio.lowlevel.checkpoint()  # its turn's task begins
                is_busy = self._activity.is_busy
                while is_busy(session_id):  # noqa: ASYNC110  # ruff: ignore[async-busy-wait]
                    await trio.sleep(LOOK_SECONDS)
        finally:
            room.release()
