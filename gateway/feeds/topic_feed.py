"""What happens in all sessions, by topic: read of the record once for all who hear it.

The feed is woken by commits and reads what they brought, so the record alone decides what is told and
in which order. A subscriber is live or behind, as one of a session is; see `session_feed`.
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
from ..restart import restart_on_crash
from .frames import TopicFrame, current_frame
from .outbox import Outbox

logger = redacting_logger(__name__)

PAGE_EVENTS = 128
"""Entries that are read of the record at a time."""
AGAIN_SECONDS = 1.0
"""Before a record that could not be read is read again."""


class TopicSubscriber:
    """One connection's place in one topic.

    Attributes:
        position: The `seq` up to which everything is in its outbox, or was.
        is_live: Whether updates are put there as they come.
        is_ended: Whether nobody listens any more.
    """

    __slots__ = (
        "_falls_behind",
        "_sees",
        "feed",
        "is_ended",
        "is_live",
        "outbox",
        "position",
        "topic",
    )

    def __init__(
        self,
        feed: TopicFeed,
        topic: Topic,
        outbox: Outbox,
        position: int,
        sees: Callable[[LogEntry], bool],
        falls_behind: Callable[[], None],
    ) -> None:
        self.feed = feed
        self.topic = topic
        self.outbox = outbox
        self.position = position
        self.is_live = False
        self.is_ended = False
        self._sees = sees
        self._falls_behind = falls_behind

    def end(self) -> None:
        """Nothing more is put into its outbox. Idempotent."""
        self.is_ended, self.is_live = True, False
        self.feed.remove(self)

    def offer(self, entry: LogEntry, frame: TopicFrame) -> None:
        """Takes an update, or falls behind; never waits."""
        if entry.topic is not self.topic or entry.seq <= self.position:
            return
        if not self._sees(entry) or self.outbox.offer(frame):
            self.position = entry.seq
        else:
            self.fall_behind()

    def fall_behind(self) -> None:
        """From here on it is brought up to date from the record, if it was live."""
        if self.is_live:
            self.is_live = False
            self._falls_behind()

    async def joined(self) -> None:
        """Waits until the feed reads the record."""
        await self.feed.joined.wait()

    async def catch_up(self, store: StoreReader) -> None:
        """One step towards being live: a page of the record, or the word that there is no more.

        Raises:
            StorageError: The record can't be read.
        """
        head_seq = self.feed.head_seq
        if self.position >= head_seq:
            self.outbox.add(current_frame(self.topic, self.position))
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
    """Reads the record for all subscribers.

    Args:
        store: What is read.
        inboxes: Where commits are told.
        nursery: Where it runs, once somebody listens.

    Attributes:
        head_seq: The last entry that it has read.
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
        """A new subscriber, which is behind; its connection calls `catch_up` until it is live."""
        subscriber = TopicSubscriber(self, topic, outbox, position, sees, falls_behind)
        self._subscribers.append(subscriber)
        if not self._is_running:
            self._is_running = True
            self._nursery.start_soon(
                restart_on_crash, "the feed of topics", self.run, name="feed of topics"
            )
        return subscriber

    def remove(self, subscriber: TopicSubscriber) -> None:
        """It hears no more. Idempotent."""
        if subscriber in self._subscribers:
            self._subscribers.remove(subscriber)

    async def run(self) -> None:
        """Reads what commits bring, until cancelled."""
        forget = self._inboxes.watch(self._wake)
        try:
            while True:
                self._woken = trio.Event()
                try:
                    await self._read()
                except StorageError as error:
                    logger.error("what happens in sessions can't be told: %s", error)
                    await trio.sleep(AGAIN_SECONDS)
                else:
                    await self._woken.wait()
        finally:
            forget()
            for subscriber in self._subscribers:  # what one missed by a crash, the record has
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
