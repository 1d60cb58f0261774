"""The feed of events of all sessions, by topic: read from the record once for all subscribers.

A commit wakes the feed, which reads the new entries of the record's log; so the record alone decides
what is delivered, and in which order. A subscriber is live or behind, as in `session_feed`.
"""

from __future__ import annotations

from collections.abc import Callable

import trio

from ...runtime.errors import StorageError
from ...runtime.events import Stored
from ...runtime.kernel.delivery import EventInboxes
from ...runtime.redaction import redacting_logger
from ...runtime.store.feeds import TOPIC_OF, LogEntry, Topic
from ...runtime.store.interface import StoreReader
from ...runtime.wire.topics import TopicCurrent
from ..restart import restart_on_crash
from .frames import TopicFrame, notification
from .outbox import Outbox
from .subscriber import Subscriber

logger = redacting_logger(__name__)

PAGE_EVENTS = 128
"""Log entries read at a time."""
AGAIN_SECONDS = 1.0
"""Before the log is read again after an error."""


class TopicSubscriber(Subscriber):
    """One connection's place in one topic."""

    __slots__ = ("_sees", "feed", "topic")

    def __init__(
        self,
        feed: TopicFeed,
        topic: Topic,
        outbox: Outbox,
        position: int,
        sees: Callable[[LogEntry], bool],
        falls_behind: Callable[[], None],
    ) -> None:
        super().__init__(outbox, position, falls_behind)
        self.feed = feed
        self.topic = topic
        self._sees = sees

    def end(self) -> None:
        """Leave the feed. Idempotent."""
        super().end()
        self.feed.remove(self)

    def offer(self, entry: LogEntry, frame: TopicFrame) -> None:
        """Put an update into the outbox, or fall behind if there is no room; never wait."""
        if entry.topic is not self.topic or entry.seq <= self.position:
            return
        if not self._sees(entry) or self.outbox.offer(frame):
            self.position = entry.seq
        else:
            self.fall_behind()

    async def joined(self) -> None:
        """Wait until the feed reads the log."""
        await self.feed.joined.wait()

    async def catch_up(self, store: StoreReader) -> None:
        """Take one step towards being live: a page of the log, or `topic/current` after the last page.

        Raises:
            StorageError: The log cannot be read.
        """
        head_seq = self.feed.head_seq
        if self.position >= head_seq:
            current = TopicCurrent(self.topic, self.position)
            self.outbox.add(notification("topic/current", current))
            self.is_live = True
            return
        page = await store.log(after_seq=self.position, topic=self.topic, limit=PAGE_EVENTS)
        for entry in page:
            if entry.seq > head_seq or self.is_ended:
                break
            if self._sees(entry):
                if not self.outbox.has_room:
                    return
                self.outbox.add(TopicFrame(entry).data)
            self.position = entry.seq
        if len(page) < PAGE_EVENTS:
            self.position = max(self.position, head_seq)


class TopicFeed:
    """Reads the log for all subscribers.

    Args:
        store: Has the log.
        inboxes: Announces commits.
        nursery: Where the feed runs, from the first subscriber on.

    Attributes:
        head_seq: The last log entry that was read.
        joined: Set when that is known.
    """

    def __init__(self, store: StoreReader, inboxes: EventInboxes, nursery: trio.Nursery) -> None:
        self.head_seq = 0
        self.joined = trio.Event()
        self._store = store
        self._inboxes = inboxes
        self._nursery = nursery
        self._is_running = False
        self._woken = trio.Event()
        self._subscribers: list[TopicSubscriber] = []

    def subscribe(
        self,
        topic: Topic,
        outbox: Outbox,
        position: int,
        sees: Callable[[LogEntry], bool],
        falls_behind: Callable[[], None],
    ) -> TopicSubscriber:
        """Return a new subscriber, which is behind: its connection calls `catch_up` until it is live."""
        subscriber = TopicSubscriber(self, topic, outbox, position, sees, falls_behind)
        self._subscribers.append(subscriber)
        if not self._is_running:
            self._is_running = True
            self._nursery.start_soon(
                restart_on_crash, "the feed of topics", self.run, name="feed of topics"
            )
        return subscriber

    def remove(self, subscriber: TopicSubscriber) -> None:
        """Remove a subscriber. Idempotent."""
        if subscriber in self._subscribers:
            self._subscribers.remove(subscriber)

    async def run(self) -> None:
        """Read what commits bring, until cancelled."""
        forget = self._inboxes.watch(self._wake)
        try:
            while True:
                self._woken = trio.Event()
                try:
                    await self._read()
                except StorageError as error:
                    logger.error("the feed of topics cannot read the store: %s", error)
                    await trio.sleep(AGAIN_SECONDS)
                else:
                    await self._woken.wait()
        finally:
            forget()
            for subscriber in self._subscribers:  # after a crash all catch up from the record
                subscriber.fall_behind()

    def _wake(self, events: tuple[Stored, ...]) -> None:
        if any(type(stored.event) in TOPIC_OF for stored in events):
            self._woken.set()

    async def _read(self) -> None:
        if not self.joined.is_set():
            self.head_seq = await self._store.log_head()
            self.joined.set()
        while page := await self._store.log(after_seq=self.head_seq, limit=PAGE_EVENTS):
            for entry in page:
                self.head_seq = entry.seq
                frame = TopicFrame(entry)
                for subscriber in self._subscribers:
                    if subscriber.is_live:
                        subscriber.offer(entry, frame)
