"""The subscriptions of one connection, each brought up to date as the outbox drains."""

from __future__ import annotations

from collections.abc import Callable

import trio

from ...config.keys.tokens import Credential
from ...runtime.errors import CallboardError, NotFoundError, OverloadedError
from ...runtime.store.feeds import LogEntry, Topic
from ...runtime.wire.rpc import rpc_error
from ..feeds.frames import notification
from ..feeds.outbox import Outbox
from ..feeds.session_feed import SessionFeed
from ..feeds.subscriber import Subscriber
from ..shared.state import DaemonState

MAX_SUBSCRIPTIONS = 1024
"""Sessions that one connection may subscribe to."""
MAX_CATCHING_UP = 2
"""Subscriptions that catch up at a time: more would read pages that do not fit the outbox."""


class ConnectionEnded(Exception):
    """Nothing is begun for a connection that has ended, and nothing answered: its client asks over the next one."""


class Subscriptions:
    """The subscriptions of one connection.

    Args:
        daemon: Has the feeds.
        credential: What it may know of.
        outbox: Where updates are put.
        nursery: Where subscriptions are brought up to date.
        most: How many sessions it may hear; without, as many as a client.
    """

    def __init__(
        self,
        daemon: DaemonState,
        credential: Credential,
        outbox: Outbox,
        nursery: trio.Nursery,
        most: int | None = None,
    ) -> None:
        self._most = MAX_SUBSCRIPTIONS if most is None else most
        self._daemon = daemon
        self._credential = credential
        self._outbox = outbox
        self._nursery = nursery
        self._sessions: dict[str, Subscriber] = {}
        self._topics: dict[Topic, Subscriber] = {}
        self._ends: dict[Subscriber, Callable[[], None]] = {}
        self._catching_up = trio.CapacityLimiter(MAX_CATCHING_UP)
        self._at_end: dict[str, Callable[[], None]] = {}
        self._is_ended = False

    def subscribe(self, session_id: str, position: int) -> Callable[[], None]:
        """Subscribe to a session after an event; return what starts it, to be called after the answer."""
        self.unsubscribe(session_id)
        self._check_open()
        if len(self._sessions) >= self._most:
            raise OverloadedError(f"one connection hears {self._most} sessions at most")

        def begin() -> None:
            self._start(subscriber, lost, subscriber.feed)

        def lost(error: CallboardError) -> None:
            self.unsubscribe(session_id)
            self._tell_lost("session/lost", {"session_id": session_id}, error)

        feeds = self._daemon.feeds
        subscriber = feeds.subscribe(session_id, self._outbox, position, begin)
        self._sessions[session_id] = subscriber
        self._ends[subscriber] = lambda: feeds.unsubscribe(subscriber)
        return begin

    def unsubscribe(self, session_id: str) -> None:
        """End the subscription to a session."""
        self._end(self._sessions.pop(session_id, None))

    def subscribe_topic(self, topic: Topic, position: int) -> Callable[[], None]:
        """Subscribe to a topic after a `seq`; return what starts it, to be called after the answer."""
        self.unsubscribe_topic(topic)
        self._check_open()

        def begin() -> None:
            self._start(subscriber, lost)

        def lost(error: CallboardError) -> None:
            self.unsubscribe_topic(topic)
            self._tell_lost("topic/lost", {"topic": topic}, error)

        feed = self._daemon.topics
        subscriber = feed.subscribe(topic, self._outbox, position, self._sees, begin)
        self._topics[topic] = subscriber
        self._ends[subscriber] = subscriber.end
        return begin

    def unsubscribe_topic(self, topic: Topic) -> None:
        """End the subscription to a topic."""
        self._end(self._topics.pop(topic, None))

    def at_end(self, name: str, action: Callable[[], None]) -> None:
        """Have an action of this name done when the connection ends."""
        self._check_open()
        self._at_end[name] = action

    def has_at_end(self, name: str) -> bool:
        """Whether an action of this name is done when the connection ends."""
        return name in self._at_end

    def end(self) -> None:
        """End all subscriptions, and refuse new ones."""
        self._is_ended = True
        for subscriber in list(self._ends):
            self._end(subscriber)
        for action in self._at_end.values():
            action()

    def _check_open(self) -> None:
        if self._is_ended:
            raise ConnectionEnded

    def _end(self, subscriber: Subscriber | None) -> None:
        if subscriber is not None:
            self._ends.pop(subscriber, lambda: None)()

    def _tell_lost(self, method: str, what: dict[str, str], error: CallboardError) -> None:
        self._outbox.put(notification(method, {**what, "error": rpc_error(error)}))

    def _sees(self, entry: LogEntry) -> bool:
        return self._credential.sees(entry.stored.session_id, entry.agent)

    def _start(
        self,
        subscriber: Subscriber,
        lost: Callable[[CallboardError], None],
        feed: SessionFeed | None = None,
    ) -> None:
        if not (subscriber.is_ended or self._is_ended):
            self._nursery.start_soon(self._bring_up, subscriber, lost, feed, name="catch up")

    async def _may_hear(self, feed: SessionFeed) -> bool:
        """Return whether the caller may see the session by all events so far; `False`: ask again.

        Raises:
            NotFoundError: It may not know of the session: another agent may have it.
        """
        if self._credential.agents is None:
            return True
        changes = feed.agent_changes
        row = await self._daemon.runtime.store.session(feed.session_id)
        if row is None or not self._credential.sees(feed.session_id, row.agent):
            raise NotFoundError(f"there is no session {feed.session_id}")
        return changes == feed.agent_changes  # or the row may be older than what was heard

    async def _bring_up(
        self,
        subscriber: Subscriber,
        lost: Callable[[CallboardError], None],
        feed: SessionFeed | None,
    ) -> None:
        try:
            while not subscriber.is_ended and not subscriber.is_live:
                await subscriber.joined()
                async with self._catching_up:
                    await self._outbox.wait_room()
                    may_hear = feed is None or await self._may_hear(feed)
                    if may_hear and not subscriber.is_ended:
                        await subscriber.catch_up(self._daemon.runtime.store)
        except CallboardError as error:
            if not subscriber.is_ended:
                lost(error)
