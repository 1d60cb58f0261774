"""What the server says by itself: events of sessions, and where they stand."""

from __future__ import annotations

import msgspec

from ..events import DurableEvent, LiveEvent, Stored, StreamBatch
from ..live_state import RunningOutput


class Update(msgspec.Struct, frozen=True):
    """`session/update`: an event on record, which has a `seq`, or a live one."""

    session_id: str
    event: DurableEvent | LiveEvent
    seq: int | None = None
    at_ms: int | None = None

    def known(self) -> Stored | LiveEvent:
        """The event as the runtime knows it."""
        if self.seq is None or self.at_ms is None:
            return self.event  # type: ignore[return-value]
        return Stored(self.session_id, self.seq, self.at_ms, self.event)  # type: ignore[arg-type]


class Snapshot(msgspec.Struct, frozen=True):
    """`session/snapshot`: what is under way behind the event `seq`; it replaces what was live before.

    `answer` is all of the answer so far; live events go on behind it.
    """

    session_id: str
    seq: int
    answer: StreamBatch | None = None
    outputs: tuple[RunningOutput, ...] = ()
