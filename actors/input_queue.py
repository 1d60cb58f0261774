"""The inputs of a session that wait for their turns, in order."""

from __future__ import annotations

from collections import deque

from ..runtime.definitions import InputSource
from ..runtime.events import InputAccepted, InputCancelled, Stored


class InputQueue(deque[str]):
    """Their ids. The session adds those that clients gave it, when their turn can't begin at once."""

    def fold(self, stored: Stored) -> None:
        """Takes in what others stored: they wake the session for it."""
        event = stored.event
        if isinstance(event, InputAccepted) and event.source is not InputSource.PERSON:
            self.append(event.input_id)
        elif isinstance(event, InputCancelled) and event.input_id in self:
            self.remove(event.input_id)
