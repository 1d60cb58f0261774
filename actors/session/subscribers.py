"""Who listens to a session: consumers, each to the turn of its input, and followers, to everything.

A consumer paces its turn: when its subscription is full, the model's stream pauses. A follower never
does. One that falls behind is closed with an error, and can read the record and follow again. So a
slow client holds up nobody but itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress

import trio

from ...runtime.errors import ActorStopped, CallboardError, ConflictError, OverloadedError
from ...runtime.events import (
    CallProgress,
    ChildCall,
    DurableEvent,
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
from ...runtime.kernel.delivery import Subscription, Update
from ...runtime.kernel.mailbox import Mailbox
from ...runtime.messages import SessionMessage
from ...runtime.turns.live_state import OF_LIVE_STATE, LiveState

MAX_FOLLOWER_UPDATES = 1024
"""Batches and events that wait for a follower, for whom no turn pauses: some seconds of a fast turn."""

MAX_WAITING_PROGRESS = 64
"""Progress lines of running tools are dropped while so much waits for whoever listens; results never."""

_DIRECTING = frozenset(
    {
        *(InputAccepted, InputCancelled, InputDelivered),
        *(TurnSetAside, TurnStarted, TurnEnded, TurnSuspended),
    }
)
"""Events that change who hears what follows; all others go to those who hear the turn."""

_PASSING = frozenset({CallProgress, ChildCall})
"""Live events of running calls; each comes alone."""

SUSPENDED = (
    "the turn waits for a person, and is suspended: the runtime has closed. It goes on when it is "
    "resumed: session.resume(), or callboard run --continue"
)
FELL_BEHIND = (
    "the follower fell behind: it reads slower than the session goes on. Read the record from the "
    "last event on, and follow again"
)


class Subscribers:
    """The subscriptions of a session, by input and of followers.

    Attributes:
        live: What is under way; a new follower gets it first.
    """

    def __init__(self, session_id: str) -> None:
        self._session_id = session_id
        self._listeners: dict[str, Subscription] = {}
        self._followers: list[Subscription] = []
        self._turn_inputs: tuple[str, ...] = ()
        self.live = LiveState()

    def follow(self, subscription: Subscription) -> None:
        """Send it everything from here on, until one side closes it."""
        self._followers.append(subscription)

    @property
    def has_followers(self) -> bool:
        """Whether somebody follows the session."""
        self._followers = [each for each in self._followers if not each.is_closed]
        return bool(self._followers)

    def add(self, input_id: str, subscription: Subscription) -> None:
        """Send it what concerns this input from here on."""
        self._listeners[input_id] = subscription

    def get(self, input_id: str) -> Subscription | None:
        """Return the consumer that paces the turn of an input."""
        return self._listeners.get(input_id)

    def without_listener(self, input_ids: Iterable[str], subscription: Subscription) -> list[str]:
        """Return those of these inputs that nobody, or only this subscription, listens to."""
        nobody = {None, subscription}
        return [each for each in input_ids if self._listeners.get(each) in nobody]

    def remove(self, input_id: str) -> None:
        """Stop sending to the consumer of an input, without closing its subscription."""
        self._listeners.pop(input_id, None)

    def attend(self, input_ids: tuple[str, ...]) -> None:
        """Note whose inputs the running turn has, when it is resumed."""
        self._turn_inputs = input_ids

    def tell(self, events: Sequence[Stored]) -> None:
        """Send events on record to the consumers of their turn and to followers; a turn's end closes its consumers.

        Nearly all are of calls: those that follow one another are sent at once.
        """
        together: list[Stored] = []
        for stored in events:
            kind = type(stored.event)
            if kind in OF_LIVE_STATE:
                self.live.fold_stored(stored.event)
            if kind in _DIRECTING:
                self._send(self._turn_inputs, together)
                together = []
                self._direct(stored, stored.event)
            else:
                together.append(stored)
        self._send(self._turn_inputs, together)

    def publish(self, update: LiveEvent) -> None:
        """Send a live event to the followers and to the consumers of the running turn."""
        self.live.fold(update)
        self._send(self._turn_inputs, (update,))

    def hang_up(self, error: Exception | None = None) -> None:
        """Close all subscriptions with an error: the session can't serve them any more."""
        error = error or ActorStopped(f"session {self._session_id} has ended; load it again")
        listeners, self._listeners = self._listeners, {}
        followers, self._followers = self._followers, []
        for listener in (*listeners.values(), *followers):
            listener.close(error)

    def _direct(self, stored: Stored, event: DurableEvent) -> None:
        if isinstance(event, (InputAccepted, InputCancelled)):
            self._send((event.input_id,), (stored,))
        else:
            if isinstance(event, (TurnSetAside, TurnStarted)):
                self._turn_inputs = event.input_ids
            elif isinstance(event, InputDelivered):
                self._turn_inputs += (event.input_id,)
            self._send(self._turn_inputs, (stored,))
        if isinstance(event, InputCancelled):
            self._end((event.input_id,))
        elif isinstance(event, TurnEnded):
            self._end(self._turn_inputs)
        elif isinstance(event, TurnSuspended):
            self._end(self._turn_inputs, ConflictError(SUSPENDED))

    def _send(self, input_ids: tuple[str, ...], updates: Sequence[Update]) -> None:
        """Send updates to the followers, and to the consumers of these inputs; only the first of them paces."""
        if not updates:
            return
        kind = type(updates[0])
        if self._followers:
            self._tell_followers(updates, is_progress=kind is CallProgress)
        for input_id in input_ids:
            if (listener := self._listeners.get(input_id)) is None:
                continue
            if input_id != input_ids[0] and _is_behind(listener, updates):
                listener.close(OverloadedError(FELL_BEHIND))
            # A slow listener misses these, which would pile up without bound: no model's stream runs that it could pause.
            if kind not in _PASSING or listener.has_room:
                listener.put(updates)

    def _tell_followers(self, updates: Sequence[Update], *, is_progress: bool) -> None:
        for follower in self._followers:
            if is_progress and follower.waiting >= MAX_WAITING_PROGRESS:
                continue
            if _is_behind(follower, updates):
                follower.close(OverloadedError(FELL_BEHIND))
            else:
                follower.put(updates)
        self._followers = [each for each in self._followers if not each.is_closed]

    def _end(self, input_ids: tuple[str, ...], error: Exception | None = None) -> None:
        for input_id in input_ids:
            if (listener := self._listeners.pop(input_id, None)) is not None:
                listener.close(error)


def _is_behind(subscription: Subscription, updates: Sequence[Update]) -> bool:
    """Whether there is no room for so many more updates, for one who paces no turn."""
    return subscription.waiting + len(updates) > MAX_FOLLOWER_UPDATES


def refuse(message: SessionMessage, error: CallboardError) -> None:
    """Report why there is no turn, or no session."""
    if (subscription := getattr(message, "subscription", None)) is not None:
        subscription.close(error)
    message.reply.fail(error)


def refuse_all(mailbox: Mailbox[SessionMessage], error: CallboardError) -> None:
    """Report to all who wait why there is no session; the next request tries to load it again."""
    with mailbox.open() as messages, suppress(trio.WouldBlock):
        while True:
            refuse(messages.receive_nowait(), error)
