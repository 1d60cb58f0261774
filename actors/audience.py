"""Who listens to a session: each consumer hears the turn of its own input."""

from __future__ import annotations

from ..runtime.events import (
    CallProgress,
    InputAccepted,
    InputCancelled,
    LiveEvent,
    Stored,
    TurnEnded,
    TurnStarted,
)
from ..runtime.subscription import Subscription


class Audience:
    """The subscriptions of a session, by input."""

    def __init__(self) -> None:
        self._listeners: dict[str, Subscription] = {}
        self._hearing: tuple[str, ...] = ()

    def add(self, input_id: str, subscription: Subscription) -> None:
        """From here on it hears what is told about this input."""
        self._listeners[input_id] = subscription

    def get(self, input_id: str) -> Subscription | None:
        """Who paces the turn of an input."""
        return self._listeners.get(input_id)

    def remove(self, input_id: str) -> None:
        """It hears nothing more, and is not closed."""
        self._listeners.pop(input_id, None)

    def attend(self, input_ids: tuple[str, ...]) -> None:
        """The turn that goes on is of these inputs."""
        self._hearing = input_ids

    def tell(self, stored: Stored) -> None:
        """Tells of an event on record whomever it concerns; who hears a turn's end hears no more."""
        event = stored.event
        if isinstance(event, InputAccepted | InputCancelled):
            self._tell((event.input_id,), stored)
        else:
            if isinstance(event, TurnStarted):
                self._hearing = event.input_ids
            self._tell(self._hearing, stored)
        if isinstance(event, InputCancelled):
            self._end((event.input_id,))
        elif isinstance(event, TurnEnded):
            self._end(self._hearing)

    def publish(self, update: LiveEvent) -> None:
        """Tells the listeners of the running turn."""
        self._tell(self._hearing, update)

    def hang_up(self, error: Exception) -> None:
        """Ends all subscriptions with an error."""
        listeners, self._listeners = self._listeners, {}
        for listener in listeners.values():
            listener.close(error)

    def _tell(self, input_ids: tuple[str, ...], update: Stored | LiveEvent) -> None:
        for input_id in input_ids:
            if (listener := self._listeners.get(input_id)) is None:
                continue
            # Who does not keep up misses progress, rather than gathers it without bound.
            if listener.has_room or not isinstance(update, CallProgress):
                listener.put(update)

    def _end(self, input_ids: tuple[str, ...]) -> None:
        for input_id in input_ids:
            if (listener := self._listeners.pop(input_id, None)) is not None:
                listener.close()
