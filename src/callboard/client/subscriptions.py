"""Subscriptions of a client: events of a session, or of a topic, without gaps and without repetitions.

A `RemoteFeed` knows the `seq` of the last stored event that it has taken. Whenever its subscription is
gone (the connection broke, the daemon restarted, the reader was too slow) the next read subscribes
again behind that `seq`, and the daemon sends the rest from its record. An event is only taken if it
continues what was taken before, so that late frames of an earlier subscription do no harm. Live events
(pieces of an answer) are not on record: after each new subscription they begin with a `Snapshot`.

The connection puts events into the feed's buffer and never waits for its reader.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from contextlib import suppress
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

import msgspec
import trio

from ..runtime.errors import (
    CallboardError,
    ConflictError,
    NetworkError,
    ShortTracebacks,
    ValidationError,
)
from ..runtime.event_types.inputs import InputDelivered
from ..runtime.events import (
    InputCancelled,
    LiveEvent,
    MessageCompleted,
    Stored,
    TurnEnded,
    TurnStarted,
    error_of_turn,
)
from ..runtime.history import text_of
from ..runtime.store.feeds import Topic
from ..runtime.wire.fields import Nothing
from ..runtime.wire.rpc import RpcError, error_from
from ..runtime.wire.sessions import OneSession, Subscribe, Subscribed
from ..runtime.wire.topics import (
    OneTopic,
    Snapshot,
    Stopping,
    StoreAway,
    SubscribedTopic,
    SubscribeTopic,
    TopicCurrent,
    TopicUpdate,
    Update,
)
from .link import Link, Place
from .reading import OtherForm, read_params, read_snapshot, read_topic_update, read_update

MAX_WAITING_EVENTS = 10_000
"""Events that wait for a reader. One more ends the subscription; the reader gets the rest from the
record when it has read these."""

FORGET_SECONDS = 1.0
"""The time to unsubscribe at the daemon, which would find out by itself, too."""

Item = TypeVar("Item")

RemoteEvent = Stored | LiveEvent | Snapshot
"""An item of `RemoteEvents`."""
RemoteTopicEvent = TopicUpdate | TopicCurrent
"""An item of `RemoteTopic`."""


class RemoteFeed(ABC, Generic[Item]):
    """A subscription: enter it, then iterate.

    Args:
        subscriptions: The client's subscriptions, of which this becomes one.
        name: The session's id, or the topic.
        after_seq: The last event that is known already; `None` for new ones only.
        epoch: The store in which `after_seq` counts.

    Attributes:
        seq: The `seq` of the last stored event that was returned, or 0.
        epoch: The store in which it counts: keep both to continue from there later. Empty before
            entering.
    """

    def __init__(
        self,
        subscriptions: ClientSubscriptions,
        name: str,
        after_seq: int | None,
        epoch: str | None,
    ) -> None:
        if after_seq and epoch is None:
            raise ValidationError(
                f"after_seq={after_seq} counts in one store, and a restored backup is another: pass "
                "epoch= too, the `epoch` of the events or of `client.welcome` from that time",
                field="epoch",
            )
        self.seq = 0
        self.epoch = epoch or ""
        self.name = name
        self._subscriptions = subscriptions
        self._taken_seq = after_seq
        self._items: deque[Item] = deque()
        self._wake = trio.Event()
        self._is_subscribed = False
        self._error: CallboardError | None = None

    async def __aenter__(self) -> Self:
        try:
            with ShortTracebacks():
                await self._ensure_subscribed()
        except BaseException:
            self._subscriptions.remove(self)
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._subscriptions.remove(self) and self._subscriptions.link.is_connected:
            with trio.move_on_after(FORGET_SECONDS, shield=True), suppress(CallboardError):
                await self._unsubscribe()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Item:
        """Wait for the next event and return it, however long the daemon is away.

        Raises:
            CallboardError: The session is gone, the store is another one, or the token is not valid.
        """
        while not self._items:
            with ShortTracebacks():
                if self._error is not None:
                    raise self._error
                await self._ensure_subscribed()
            if not self._items and self._is_subscribed:
                self._wake = trio.Event()
                await self._wake.wait()
        item = self._items.popleft()
        self.seq = self._seq_of(item) or self.seq
        return item

    def put(self, item: Item) -> None:
        """Take an event of the connection, if it continues what was taken; never wait."""
        if not self._is_subscribed or self._error is not None or not self._continues(item):
            return
        if len(self._items) >= MAX_WAITING_EVENTS:
            self.lost()
            return
        self._take(item)
        self._items.append(item)
        self._wake.set()

    def skip(self, seq: int) -> None:
        """Count a stored event that only a later version understands."""
        if self._is_subscribed and (self._taken_seq is None or seq == self._taken_seq + 1):
            self._taken_seq = seq

    def lost(self) -> None:
        """Note that the subscription is gone; it is made again when the buffer has been read."""
        self._is_subscribed = False
        self._wake.set()

    def fail(self, error: CallboardError) -> None:
        """End the iteration with this error, after the buffer."""
        self._error = error
        self._wake.set()

    async def _ensure_subscribed(self) -> None:
        while not self._is_subscribed and self._error is None:
            try:
                self._subscriptions.add(self)
                await self._begin()
                self._is_subscribed = True  # events may come ahead of the answer
                head_seq = await self._subscribe(self._taken_seq)
            except NetworkError:
                self._is_subscribed = False  # tried again over the next connection
            except BaseException:
                self._is_subscribed = False
                raise
            else:
                self.epoch = self.epoch or self._subscriptions.epoch or ""
                if self._taken_seq is None:  # from here on nothing is missed
                    self._taken_seq = head_seq

    @abstractmethod
    async def _begin(self) -> None:
        """Make sure that no frame of an earlier subscription is taken for one of the next."""

    @abstractmethod
    async def _subscribe(self, after_seq: int | None) -> int:
        """Subscribe; return the `seq` of the last stored event at that moment."""

    @abstractmethod
    async def _unsubscribe(self) -> None: ...

    @abstractmethod
    def _continues(self, item: Item) -> bool:
        """Return whether an event follows the last one that was taken."""

    @abstractmethod
    def _take(self, item: Item) -> None: ...

    @abstractmethod
    def _seq_of(self, item: Item) -> int | None: ...


class RemoteEvents(RemoteFeed[RemoteEvent]):
    """The events of one session, made by `Client.events`: enter it, then iterate.

    Gives stored events as `Stored`, live events as they come, and a `Snapshot` where live events begin:
    at the start, and after a broken connection. The snapshot has the whole answer so far, and replaces
    all live events that came after the last stored one.
    """

    def __init__(
        self,
        subscriptions: ClientSubscriptions,
        session_id: str,
        after_seq: int | None,
        epoch: str | None = None,
    ) -> None:
        super().__init__(subscriptions, session_id, after_seq, epoch)
        self.session_id = session_id
        self._is_live = False

    async def _begin(self) -> None:
        # Stored events have numbers without gaps, and live ones are taken only after a snapshot.
        self._is_live = False
        # The next connection has all feeds subscribe: one that asks ahead of it would be sent all twice.
        await self._subscriptions.link.wait_connected("session/subscribe")

    async def _subscribe(self, after_seq: int | None) -> int:
        params = Subscribe(
            session_id=self.session_id, after_seq=after_seq, epoch=self.epoch or None
        )
        link = self._subscriptions.link
        return (await link.request("session/subscribe", params, Subscribed)).seq

    async def _unsubscribe(self) -> None:
        params = OneSession(self.session_id)
        await self._subscriptions.link.request("session/unsubscribe", params, Nothing)

    def _continues(self, item: RemoteEvent) -> bool:
        taken = self._taken_seq
        if isinstance(item, Stored):
            return taken is None or item.seq == taken + 1
        if isinstance(item, Snapshot):
            return taken is None or item.seq == taken
        return self._is_live

    def _take(self, item: RemoteEvent) -> None:
        if isinstance(item, Stored | Snapshot):
            self._taken_seq = item.seq
            self._is_live = self._is_live or isinstance(item, Snapshot)

    def _seq_of(self, item: RemoteEvent) -> int | None:
        return item.seq if isinstance(item, Stored) else None


class RemoteTopic(RemoteFeed[RemoteTopicEvent]):
    """The events of all sessions that concern a topic, made by `Client.topic`.

    Gives a `TopicUpdate` for each event, and a `TopicCurrent` when all stored events were given: at the
    start, and after a broken connection.
    """

    def __init__(
        self,
        subscriptions: ClientSubscriptions,
        topic: Topic,
        after_seq: int | None,
        epoch: str | None = None,
    ) -> None:
        super().__init__(subscriptions, topic, after_seq, epoch)
        self.topic = topic

    async def _begin(self) -> None:
        # The numbers of a topic have gaps: a frame of an earlier subscription could not be told from
        # one of the next, and would hide what came between.
        await self._unsubscribe()

    async def _subscribe(self, after_seq: int | None) -> int:
        params = SubscribeTopic(topic=self.topic, after_seq=after_seq, epoch=self.epoch or None)
        link = self._subscriptions.link
        return (await link.request("topic/subscribe", params, SubscribedTopic)).seq

    async def _unsubscribe(self) -> None:
        await self._subscriptions.link.request("topic/unsubscribe", OneTopic(self.topic), Nothing)

    def _continues(self, item: RemoteTopicEvent) -> bool:
        taken = self._taken_seq
        is_current = isinstance(item, TopicCurrent) and item.seq == taken
        return taken is None or item.seq > taken or is_current

    def _take(self, item: RemoteTopicEvent) -> None:
        self._taken_seq = item.seq

    def _seq_of(self, item: RemoteTopicEvent) -> int | None:
        return item.seq


class _LostSession(msgspec.Struct, frozen=True):
    session_id: str
    error: RpcError


class _LostTopic(msgspec.Struct, frozen=True):
    topic: Topic
    error: RpcError


class ClientSubscriptions:
    """The subscriptions of a client, over one connection after the other: the link's `Listener`.

    Attributes:
        link: The connection.
        epoch: The daemon's store; `None` before the first connection.
        stops_in: The seconds that turns have, since the daemon said that it stops; `None` until then.
        store_unavailable: What the daemon said when its database was away; `None` while it answers.
    """

    def __init__(self, place: Place, is_own: bool) -> None:
        self.link = Link(place, self, is_own=is_own)
        self.epoch: str | None = None
        self.stops_in: float | None = None
        self.store_unavailable: StoreAway | None = None
        self._sessions: dict[str, RemoteFeed[Any]] = {}
        self._topics: dict[str, RemoteFeed[Any]] = {}

    def add(self, feed: RemoteFeed[Any]) -> None:
        """Deliver to this feed from now on; raise `ConflictError` if another one has its place."""
        if self._place(feed).setdefault(feed.name, feed) is not feed:
            raise ConflictError(
                f"this client is subscribed to {feed.name} already: read it in one place, or connect "
                "a second time"
            )

    def remove(self, feed: RemoteFeed[Any]) -> bool:
        """Deliver to this feed no more; return whether it was delivered to."""
        place = self._place(feed)
        is_known = place.get(feed.name) is feed
        if is_known:
            del place[feed.name]
        return is_known

    def _place(self, feed: RemoteFeed[Any]) -> dict[str, RemoteFeed[Any]]:
        return self._topics if isinstance(feed, RemoteTopic) else self._sessions

    # ── as the link's listener ───────────────────────────────────────────────────────────────────

    def hear(self, method: str, params: msgspec.Raw) -> None:  # ruff: ignore[complex-structure]  one case a kind
        """Deliver a notification of the daemon; those of newer daemons are ignored."""
        url = self.link.url
        match method:
            case "session/update":
                update = read_update(params, url)
                if isinstance(update, Update):
                    self._put(self._sessions, update.session_id, update.known())
                elif isinstance(update, OtherForm):
                    self._fail(self._sessions, update.name, update.error)
                elif update.seq is not None and update.session_id in self._sessions:
                    self._sessions[update.session_id].skip(update.seq)
            case "session/snapshot":
                snapshot = read_snapshot(params, url)
                if isinstance(snapshot, OtherForm):
                    self._fail(self._sessions, snapshot.name, snapshot.error)
                else:
                    self._put(self._sessions, snapshot.session_id, snapshot)
            case "session/lost":
                session = read_params(params, _LostSession, url)
                self._fail(self._sessions, session.session_id, error_from(session.error))
            case "topic/update":
                event = read_topic_update(params, url)
                if isinstance(event, OtherForm):
                    self._fail(self._topics, event.name, event.error)
                elif event is not None:
                    self._put(self._topics, event.topic, event)
            case "topic/current":
                current = read_params(params, TopicCurrent, url)
                self._put(self._topics, current.topic, current)
            case "topic/lost":
                topic = read_params(params, _LostTopic, url)
                self._fail(self._topics, topic.topic, error_from(topic.error))
            case "runtime/stopping":
                self.stops_in = read_params(params, Stopping, url).seconds
            case "runtime/store_unavailable":
                self.store_unavailable = read_params(params, StoreAway, url)
            case "runtime/store_available":
                self.store_unavailable = None
            case _:
                pass

    def connected(self) -> None:
        """Have all feeds subscribe again, or fail if the daemon has another store now."""
        assert self.link.welcome is not None
        epoch = self.link.welcome.epoch
        if self.epoch is not None and epoch != self.epoch:
            self.ended(
                ConflictError(
                    "the daemon has another store now, in which each seq that was kept means another "
                    "event: start over with after_seq=0",
                    kind="seq",
                )
            )
        self.epoch, self.stops_in, self.store_unavailable = epoch, None, None
        for feed in (*self._sessions.values(), *self._topics.values()):
            feed.lost()

    def ended(self, error: CallboardError) -> None:
        """Fail all feeds: there will be no other connection."""
        for feed in (*self._sessions.values(), *self._topics.values()):
            feed.fail(error)

    def _put(self, place: dict[str, RemoteFeed[Any]], name: str, item: object) -> None:
        if (feed := place.get(name)) is not None:
            feed.put(item)

    def _fail(self, place: dict[str, RemoteFeed[Any]], name: str, error: CallboardError) -> None:
        if (feed := place.get(name)) is not None:
            feed.fail(error)


class AnswerOf:
    """Collects the answer to an input from the stored events of its session.

    Attributes:
        turn_id: Of that turn, once it has begun.
        text: Its latest answer.
        ended: How it ended, once it has.
    """

    def __init__(self, input_id: str) -> None:
        self._input_id = input_id
        self.turn_id: str | None = None
        self._error: CallboardError | None = None
        self.text = ""
        self.ended: TurnEnded | None = None

    @property
    def is_over(self) -> bool:
        """Whether the turn has ended."""
        return self.ended is not None

    def see(self, stored: Stored) -> None:
        """Take a stored event; those of other turns are ignored."""
        match stored.event:
            case TurnStarted(turn_id=turn_id, input_ids=input_ids):
                if self._input_id in input_ids:
                    self.turn_id = turn_id
            case InputDelivered(turn_id=turn_id, input_id=self._input_id):
                self.turn_id = turn_id
            case MessageCompleted(turn_id=self.turn_id) as message:
                self.text = text_of(message.parts)
            case InputCancelled(input_id=self._input_id, reason=reason):
                self._end(TurnEnded(turn_id="", outcome="cancelled", message=reason))
            case TurnEnded(turn_id=self.turn_id) as ended if ended.outcome != "suspended":
                self._end(ended)
            case _:
                pass

    def result(self) -> str:
        """The text; raises a `CallboardError` when the turn was not answered."""
        if self._error is not None:
            raise self._error
        return self.text

    def _end(self, ended: TurnEnded) -> None:
        self.ended, self.text = ended, ended.answer or self.text
        self._error = None if ended.outcome == "answered" else error_of_turn(ended)
