"""Keeps the store from growing for ever: `keep_idle_days`, `keep_deleted_days`, `max_store_mib`.

Nothing is lost at once or in silence. Sessions that nobody used for long are deleted, and can be
restored; deleted ones are purged when their time is over, or, the oldest first, when the store is full.
When that is not enough, no session begins; those that exist go on.
"""

from __future__ import annotations

from collections.abc import Callable

import trio

from ...config.sections import SessionSettings
from ...runtime.errors import CallboardError, ConflictError, NotFoundError, StoreLimitReached
from ...runtime.identity import now_ms
from ...runtime.redaction import redacting_logger
from ...runtime.store.interface import Store
from ...runtime.store.lists import StoreSize
from .keeping import DAY_MS, LOOK_SECONDS, MAX_BATCH, SessionKeeping

logger = redacting_logger(__name__)

MIB = 1024 * 1024
WARNED_SHARE = 0.8
"""Share of the limit at which a warning starts: weeks are left, if it took months to get there."""
STEP_SESSIONS = 16
"""Sessions purged between two looks at the size, so that hardly more goes than must."""
FRUITLESS_STEPS = 4
"""Steps that free nothing, one after the other, behind which no more sessions are purged for the room: four, as small
sessions share pages with others, and others write meanwhile."""


class SessionPruning:
    """Prunes the store of one runtime.

    Args:
        settings: Returns the settings that hold now.

    Attributes:
        warning: About the size, as of the last look; empty when there is room.
    """

    def __init__(
        self, keeping: SessionKeeping, store: Store, settings: Callable[[], SessionSettings]
    ) -> None:
        self.warning = ""
        self._keeping = keeping
        self._store = store
        self._settings = settings
        self._pruning = trio.Lock()

    async def serve(self) -> None:
        """Prune once an hour, until cancelled."""
        while True:
            await self.look()
            await trio.sleep(LOOK_SECONDS)

    async def look(self) -> None:
        """Do what is due; a failure is logged, and tried again the next time."""
        await self._keeping.purge_expired(self._settings().keep_deleted_days)
        try:
            await self._delete_idle(self._settings().keep_idle_days)
        except CallboardError as error:
            logger.error("sessions that nobody uses can't be deleted: %s", error)
        try:
            await self._make_room()
        except CallboardError as error:
            logger.error("the store can't be pruned: %s", error)

    async def check(self) -> None:
        """Raise `StoreLimitReached` when the store is full and nothing deleted is left to purge."""
        if not self._settings().max_store_mib or await self._make_room():
            return
        raise StoreLimitReached(self.warning)

    # ── sessions that nobody uses ────────────────────────────────────────────────────────────────

    async def _delete_idle(self, days: float) -> None:
        if not days:
            return
        before = now_ms() - round(days * DAY_MS)
        after: tuple[int, str] | None = None
        while page := await self._store.unused_sessions(before, after=after, limit=MAX_BATCH):
            after = page[-1].updated_at_ms, page[-1].session_id
            names = [row.session_id for row in page]
            deleted: list[str] = []
            for each in names:
                if await self._is_idle(each, before):
                    deleted += await self._delete(each)
            if deleted:
                logger.warning(
                    "%d sessions without activity for %g days were deleted (keep_idle_days); "
                    "`callboard session restore` takes that back, for %g days",
                    *(len(deleted), days, self._settings().keep_deleted_days),
                )

    async def _delete(self, session_id: str) -> list[str]:
        """Delete a session and all below it; return what was deleted: nothing, if another node has it."""
        try:
            return await self._keeping.delete([session_id])
        except NotFoundError:  # it was purged meanwhile
            return []
        except ConflictError as error:  # its own node does that, and the rest is done nevertheless
            logger.debug("%s", error)
            return []

    async def _is_idle(self, session_id: str, before_ms: int) -> bool:
        """Whether nothing of the session and those below it is recent, runs or waits."""
        for each in await self._store.session_tree([session_id]):
            row = await self._store.session(each)
            if row is not None and (row.is_active or row.updated_at_ms >= before_ms):
                return False
            if await self._store.open_inputs(each):
                return False
            if await self._store.approvals(session_id=each, state="waiting", limit=1):
                return False
        return True

    # ── the size ─────────────────────────────────────────────────────────────────────────────────

    async def _make_room(self) -> bool:
        """Purge deleted sessions while the store is full; return whether it is below its limit."""
        async with self._pruning:
            limit = self._settings().max_store_mib * MIB
            size = await self._store.size() if limit else StoreSize(0, 0)
            fruitless = 0
            while limit and size.used_bytes >= limit and fruitless < FRUITLESS_STEPS:
                if not await self._purge_oldest():
                    break
                before, size = size, await self._store.size()
                fruitless = fruitless + 1 if size.used_bytes >= before.used_bytes else 0
            said = size_warning(size, limit)
            if said and not self.warning:
                logger.warning("%s", said)
            self.warning = said
            return not limit or size.used_bytes < limit

    async def _purge_oldest(self) -> bool:
        """Purge some of the sessions that were deleted first; return whether there were any."""
        purged = await self._keeping.purge_deleted(now_ms() + 1, STEP_SESSIONS)
        if not purged:
            return False
        logger.warning(
            "%d deleted sessions were purged before their time, as the store is full "
            "(max_store_mib)",
            purged,
        )
        return True


def size_warning(size: StoreSize, limit: int) -> str:
    """Return a warning about a store of this size, or `""`. The limit is in bytes; 0 is none."""
    used = size.used_bytes
    if not limit or used < limit * WARNED_SHARE:
        return ""
    held = f"The store holds {used / MIB:.1f} MiB of the {limit // MIB} that max_store_mib lets it"
    room = (
        "`callboard compact` gives what they took back to the disk."
        if size.can_shrink
        else "the room that purged ones leave in the database's files is used again."
    )
    way = (
        f"Delete sessions (callboard session delete), or raise max_store_mib of [sessions]; {room}"
    )
    if used >= limit:
        return f"{held}: no session begins. {way}"
    return f"{held}. When it is full, deleted sessions are purged, and then none begins. {way}"
