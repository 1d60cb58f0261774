"""Who listens to a session: each consumer hears the turn of its own input."""

from __future__ import annotations

from collections.abc import Iterable

from ...runtime.errors import ActorStopped, ConflictError, OverloadedError
from ...runtime.events import (
    CallProgress,
    InputAccepted,
    InputCancelled,
    InputDelivered,
    LiveEvent,
    Stored,
    TurnEnded,
    TurnSetAside,
    TurnStarted,
    TurnSuspended,
)
from ...runtime.kernel.delivery import Subscription
from ...runtime.turns.live_state import LiveState

MAX_FOLLOWER_UPDATES = 1024
"""Batches and events that wait for a follower, for whom no turn pauses: some seconds of a fast one."""

SUSPENDED = (
    "the turn waits for a person, and is suspended: the runtime has closed. It goes on when it is "
    "resumed: session.resume(), or callboard run --continue"
)
BEHIND = (
    "the follower fell behind: it reads slower than the session goes on. Read the record from the "
    "last event on, and follow again"
)


class Audience:
    """The subscriptions of a session: by input, and of those who hear everything.

    Attributes:
        live: What was told of what is under way: who comes later is told it first.
    """

    def __init__(self, session_id: str) -> None:
        self._session_id = session_id
        self._listeners: dict[str, Subscription] = {}
        self._followers: list[Subscription] = []
        self._hearing: tuple[str, ...] = ()
        self.live = LiveState()

    def follow(self, subscription: Subscription) -> None:
        """From here on it hears everything, until one side closes it."""
        self._followers.append(subscription)

    @property
    def is_followed(self) -> bool:
        """Whether somebody hears everything."""
        self._followers = [each for each in self._followers if not each.is_closed]
        return bool(self._followers)

    def add(self, input_id: str, subscription: Subscription) -> None:
        """From here on it hears what is told about this input."""
        self._listeners[input_id] = subscription

    def get(self, input_id: str) -> Subscription | None:
        """Who paces the turn of an input."""
        return self._listeners.get(input_id)

    def unheard(self, input_ids: Iterable[str], subscription: Subscription) -> list[str]:
        """Those of these inputs that nobody but this one hears about."""
        nobody = {None, subscription}
        return [each for each in input_ids if self._listeners.get(each) in nobody]

    def remove(self, input_id: str) -> None:
        """It hears nothing more, and is not closed."""
        self._listeners.pop(input_id, None)

    def attend(self, input_ids: tuple[str, ...]) -> None:
        """The turn that goes on is of these inputs."""
        self._hearing = input_ids

    def tell(self, stored: Stored) -> None:
        """Tells of an event on record whomever it concerns; who hears a turn's end hears no more."""
        event = stored.event
        self.live.fold_stored(event)
        self._tell_followers(stored)
        if isinstance(event, InputAccepted | InputCancelled):
            self._tell((event.input_id,), stored)
        else:
            if isinstance(event, TurnSetAside | TurnStarted):
                self._hearing = event.input_ids
            elif isinstance(event, InputDelivered):
                self._hearing += (event.input_id,)
            self._tell(self._hearing, stored)
        if isinstance(event, InputCancelled):
            self._end((event.input_id,))
        elif isinstance(event, TurnEnded):
            self._end(self._hearing)
        elif isinstance(event, TurnSuspended):
            self._end(self._hearing, ConflictError(SUSPENDED))

    def publish(self, update: LiveEvent) -> None:
        """Tells the listeners of the running turn."""
        self.live.fold(update)
        self._tell_followers(update)
        self._tell(self._hearing, update)

    def hang_up(self, error: Exception | None = None) -> None:
        """Ends all subscriptions with an error: the session can't serve them any more."""
        error = error or ActorStopped(f"session {self._session_id} has ended; load it again")
        listeners, self._listeners = self._listeners, {}
        followers, self._followers = self._followers, []
        for listener in (*listeners.values(), *followers):
            listener.close(error)

    def _tell_followers(self, update: Stored | LiveEvent) -> None:
        if not self._followers:
            return
        for follower in self._followers:
            if follower.waiting < MAX_FOLLOWER_UPDATES:
                follower.put(update)
            else:
                follower.close(OverloadedError(BEHIND))
        self._followers = [each for each in self._followers if not each.is_closed]

    def _tell(self, input_ids: tuple[str, ...], update: Stored | LiveEvent) -> None:
        for input_id in input_ids:
            if (listener := self._listeners.get(input_id)) is None:
                continue
            if input_id != input_ids[0] and listener.waiting >= MAX_FOLLOWER_UPDATES:
                listener.close(OverloadedError(BEHIND))  # it does not pace the turn that it steers
            # Who does not keep up misses progress, rather than gathers it without bound.
            if listener.has_room or not isinstance(update, CallProgress):
                listener.put(update)

    def _end(self, input_ids: tuple[str, ...], error: Exception | None = None) -> None:
        for input_id in input_ids:
            if (listener := self._listeners.pop(input_id, None)) is not None:
                listener.close(error)
