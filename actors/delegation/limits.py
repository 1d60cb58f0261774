"""How deep and how wide the session tree may be."""

from __future__ import annotations

from collections import defaultdict

from ...config.settings import Limits
from ...runtime.definitions import ErrorType, SessionKind, ToolFailure
from ...runtime.messages import CallPlace
from ...runtime.store.interface import StoreReader


class SessionRoom:
    """Counts the children that run, by parent and call.

    Args:
        store: Lists the children that nobody waits for, those of earlier processes too.
        limits: `max_session_depth` and `max_child_sessions`.
    """

    def __init__(self, store: StoreReader, limits: Limits) -> None:
        self._store = store
        self._limits = limits
        self._taken: defaultdict[str, set[str]] = defaultdict(set)

    async def take(self, place: CallPlace, call_id: str, *, waits: bool) -> None:
        """Take room for a child that starts; raise `ToolFailure` when there is none."""
        depth, most = len(place.lineage) + 1, self._limits.max_session_depth
        if depth > most:
            raise ToolFailure(
                ErrorType.EXECUTION_ERROR,
                f"Not started: this session is {depth - 1} below the main one, and sessions go "
                f"{most} deep (max_session_depth). Do the task here, with your own tools.",
            )
        if not waits and (place.session_kind is not SessionKind.MAIN or place.lineage):
            raise ToolFailure(
                ErrorType.EXECUTION_ERROR,
                f"Not started: only a main session goes on without the answer (wait false), and "
                f"this one is a {place.session_kind}. Wait for it: several calls of delegate in one "
                "answer run side by side.",
            )
        apart = await self._store.children(place.session_id, is_detached=True)
        # No checkpoint from here on: others may take room at the same time.
        running = {*self._taken[place.session_id], *(row.parent_call_id for row in apart)}
        if len(running) >= (most := self._limits.max_child_sessions):
            raise ToolFailure(
                ErrorType.EXECUTION_ERROR,
                f"Not started: {len(running)} sessions run below this one, and the most is {most} "
                "(max_child_sessions). Wait until one has answered, or do the task here.",
            )
        self.keep(place.session_id, call_id)

    def keep(self, parent_id: str, call_id: str) -> None:
        """Take the room of a child that runs already. Idempotent."""
        self._taken[parent_id].add(call_id)

    def holds(self, parent_id: str | None, call_id: str) -> bool:
        """Return whether a call has room for a child: one that was started here, or attached to."""
        return call_id in self._taken.get(parent_id or "", ())

    def give_back(self, parent_id: str, call_id: str) -> None:
        """Give room back. Idempotent."""
        taken = self._taken.get(parent_id)
        if taken is not None:
            taken.discard(call_id)
            if not taken:
                del self._taken[parent_id]
