"""How a call sets the plan of its session."""

from __future__ import annotations

from ..runtime.events import PlanSet
from ..runtime.history import Call
from ..runtime.mailbox import Mailbox
from ..runtime.messages import AppendEvents, CallPlace, JournalMessage
from ..runtime.plan_events import PlanItem


class OpenPlan:
    """A `PlanHandle` of one call."""

    def __init__(self, journal: Mailbox[JournalMessage], place: CallPlace, call: Call) -> None:
        self._journal = journal
        self._place = place
        self._call = call

    async def set(self, items: tuple[PlanItem, ...]) -> None:
        """Puts the whole plan in the place of the one before; on record when it returns."""
        place = self._place
        event = PlanSet(turn_id=place.turn_id, call_id=self._call.call_id, items=items)
        await self._journal.ask(AppendEvents(session_id=place.session_id, events=(event,)))
