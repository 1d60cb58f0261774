"""The calls that a run leaves waiting for a person."""

from __future__ import annotations

from ..runtime.call_events import CallDeferred
from ..runtime.permission_events import ApprovalAnswered
from .told import waits


class DeferredCalls:
    """Those that were deferred and have no answer yet, as far as the events told."""

    def __init__(self) -> None:
        self._waiting: dict[str, CallDeferred] = {}

    def see(self, event: object) -> None:
        """Takes note of an event."""
        match event:
            case CallDeferred():
                self._waiting[event.approval_id] = event
            case ApprovalAnswered():
                self._waiting.pop(event.approval_id, None)
            case _:
                pass

    def lines(self) -> list[str]:
        """What to do about each."""
        return [waits(call) for call in self._waiting.values()]
