"""The feed of one session: followed once, and delivered to all subscribers, each live or behind.

The package's docstring explains the two states. The invariant: every stored event up to a subscriber's
`position` is or was in its outbox, and no later one is. `head_seq` is the last event that the feed has
seen; a subscriber becomes live only when its position has reached that.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable

import trio

from ...runtime.errors import CallboardError, NotFoundError
from ...runtime.events import AgentSwitched, CallProgress, LiveEvent, Stored, StreamBatch
from ...runtime.kernel.delivery import Subscription
from ...runtime.kernel.mailbox import Mailbox
from ...runtime.messages import DirectoryMessage, FollowSession, FollowStart
from ...runtime.redaction import redacting_logger
from ...runtime.store.interface import StoreReader
from ...runtime.turns.live_state import LiveState
from ...runtime.wire.topics import Snapshot
from .frames import (
    LARGE_EVENT,
    SharedFrame,
    is_large,
    merged_frames,
    notification,
    text_size,
    update_frame,
)
from .outbox import MERGE_SIZE, Outbox
from .subscriber import Subscriber

logger = redacting_logger(__name__)

PAGE_EVENTS = 128
"""Events read from the record at a time, for one subscriber."""
HOLD_SECONDS = 0.008
"""For which text waits for more of it while earlier frames are on their way: half a frame of a screen
at 60 Hz, which nobody sees. Every frame costs a system call for each subscriber, however short it is. Where
sending to many took longer than that, it waits once more, for text that could not come meanwhile."""
FIRST_PAUSE_SECONDS = 0.1
LAST_PAUSE_SECONDS = 5.0
"""Before a crashed session is followed again: doubled from the first to the last."""


Follow = Callable[[str, Subscription], Awaitable[tuple[FollowStart, Callable[[], None]]]]
"""Has the updates of a session put into a subscription; returns where it starts, and what ends it."""


def _nothing() -> None:
    pass


class SessionSubscriber(Subscriber):
    """One connection's place in one session."""

    __slots__ = ("feed",)

    def __init__(
        self, feed: SessionFeed, outbox: Outbox, position: int, falls_behind: Callable[[], None]
    ) -> None:
        super().__init__(outbox, position, falls_behind)
        self.feed = feed

    def end(self) -> None:
        """Leave the feed. Idempotent."""
        super().end()
        self.feed.remove(self)

    def offer(self, frame: SharedFrame) -> None:
        """Put an update into the outbox, or fall behind if there is no room; never wait."""
        update = frame.update
        if isinstance(update, Stored) and update.seq <= self.position:
            return
        if not self.outbox.offer(frame):
            self.fall_behind()
        elif isinstance(update, Stored):
            self.position = update.seq

    async def joined(self) -> None:
        """Wait until the feed follows the session, and has seen what this subscriber has; raise the error if it never will."""
        await self.feed.wait_seen(self.position)

    async def catch_up(self, store: StoreReader) -> None:
        """Take one step towards being live: a page of the record, or the snapshot after the last page.

        Raises:
            NotFoundError: The session was purged.
            StorageError: The record cannot be read.
        """
        feed = self.feed
        if self.position < feed.head_seq:
            head_seq = feed.head_seq
            page = await store.shown_bytes(
                feed.session_id, after_seq=self.position, limit=PAGE_EVENTS
            )
            if not page:
                raise NotFoundError(f"there is no session {feed.session_id} any more")
            for stored in page:
                if stored.seq > head_seq or not self.outbox.has_room or self.is_ended:
                    break
                if len(bytes(stored.event)) > LARGE_EVENT:
                    frame = await trio.to_thread.run_sync(update_frame, feed.session_id, stored)
                    if self.is_ended:
                        break
                else:
                    frame = update_frame(feed.session_id, stored)
                self.outbox.add(frame)
                self.position = stored.seq
        elif feed.joined.is_set() and feed.head_seq == self.position:
            feed.flush()  # the snapshot holds that text
            live = feed.live.snapshot()
            snapshot = Snapshot(
                feed.session_id, feed.head_seq, live.answer, live.outputs, live.below
            )
            self.outbox.add(notification("session/snapshot", snapshot))
            self.is_live = True


class SessionFeed:
    """Follows one session for all its subscribers.

    Attributes:
        session_id: The session.
        head_seq: The last stored event that the feed has seen.
        live: The unfinished answer and the output of running calls.
        agent_changes: How often the session may have got another agent: then it is checked again
            whether each subscriber may know of it.
        joined: Set while the feed follows the session, and when it never will.
        failure: Why it never will.
    """

    def __init__(
        self, session_id: str, directory: Mailbox[DirectoryMessage], follow: Follow | None = None
    ) -> None:
        self.session_id = session_id
        self.head_seq = 0
        self.live = LiveState()
        self.agent_changes = 0
        self.joined = trio.Event()
        self.failure: CallboardError | None = None
        self._directory = directory
        self._moved: trio.Event | None = None
        self._follow = follow or self._follow_here
        self._forget: Callable[[], None] = _nothing
        self._subscribers: list[SessionSubscriber] = []
        self._held: list[StreamBatch | CallProgress] = []
        self._held_size = 0
        self._held_until = math.inf
        self._is_extended = False

    @property
    def is_used(self) -> bool:
        """Whether there are subscribers."""
        return bool(self._subscribers)

    def add(self, subscriber: SessionSubscriber) -> None:
        """Add a subscriber, which has to catch up first."""
        self._subscribers.append(subscriber)

    def remove(self, subscriber: SessionSubscriber) -> None:
        """Remove a subscriber. Idempotent."""
        if subscriber in self._subscribers:
            self._subscribers.remove(subscriber)

    async def wait_seen(self, seq: int) -> None:
        """Wait until the feed has seen an event; raise the error if it never follows the session.

        A commit is on record a moment before the feed hears of it. A subscriber whose position is of the record would get
        a snapshot that is older than that, and not the events between.
        """
        while True:
            await self.joined.wait()
            if self.failure is not None:
                raise self.failure
            if self.head_seq >= seq:
                return
            self._moved = self._moved or trio.Event()
            await self._moved.wait()

    def _move(self, head_seq: int) -> None:
        self.head_seq = head_seq
        moved, self._moved = self._moved, None
        if moved is not None:
            moved.set()

    async def run(self) -> None:
        """Follow until cancelled, until the runtime ends, or until the session is purged."""
        pause = FIRST_PAUSE_SECONDS
        while True:
            subscription = Subscription()
            try:
                await self._join(subscription)
                while updates := await self._take(subscription):
                    pause = FIRST_PAUSE_SECONDS
                    for update in updates:
                        self._publish(update)
            except CallboardError as error:
                if self._directory.is_closed:
                    # The runtime has failed, and takes the daemon with it: clients go on over their next connection.
                    self._leave()
                    return
                if isinstance(error, NotFoundError):
                    self._fail(error)
                    return
            except Exception:  # this session is followed again; the others and the daemon go on
                logger.exception("the feed of %s failed and is restarted", self.session_id)
            finally:
                subscription.close()
                self._forget()
                self._forget = _nothing
            self._leave()
            await trio.sleep(pause)
            pause = min(2 * pause, LAST_PAUSE_SECONDS)

    async def _take(self, subscription: Subscription) -> list[Stored | LiveEvent]:
        """Wait for updates; what is held meanwhile goes out when its time is over."""
        while self._held:
            with trio.move_on_at(self._held_until):
                return await subscription.take()
            late = trio.current_time() - self._held_until
            if late > HOLD_SECONDS and not self._is_extended:
                self._held_until += late + HOLD_SECONDS
                self._is_extended = True
            else:
                self.flush()
        return await subscription.take()

    async def _join(self, subscription: Subscription) -> None:
        followed, self._forget = await self._follow(self.session_id, subscription)
        self._move(followed.head_seq)
        self.agent_changes += 1  # it may have changed while nobody followed
        self.live = LiveState(followed.under_way)
        self.joined.set()

    async def _follow_here(
        self, session_id: str, subscription: Subscription
    ) -> tuple[FollowStart, Callable[[], None]]:
        wanted = FollowSession(session_id=session_id, subscription=subscription)
        return await self._directory.ask(wanted), _nothing

    def _leave(self) -> None:
        if self.joined.is_set():  # else subscribers still wait for this very event
            self.joined = trio.Event()
        # The snapshots that bring subscribers back hold its text.
        self._held, self._held_size = [], 0
        self._leave_live()

    def _leave_live(self) -> None:
        for subscriber in self._subscribers:
            subscriber.fall_behind()

    def _fail(self, error: CallboardError) -> None:
        self._leave()
        self.failure = error
        self._move(self.head_seq)
        self.joined.set()

    def _publish(self, update: Stored | LiveEvent) -> None:
        if isinstance(update, Stored):
            if update.seq <= self.head_seq:
                return
            self.flush()
            self._move(update.seq)
            self.live.fold_stored(update.event)
            if isinstance(update.event, AgentSwitched):
                self.agent_changes += 1
                self._leave_live()  # so that it is checked who may still know of the session
            elif is_large(update.event):
                self._leave_live()  # catching up encodes large events in a thread
        elif not isinstance(update, StreamBatch) or update.events:
            self.live.fold(update)
        if isinstance(update, StreamBatch | CallProgress) and (self._held or self._is_sending()):
            if not self._held:
                self._held_until = trio.current_time() + HOLD_SECONDS
                self._is_extended = False
            self._held.append(update)
            self._held_size += text_size(update)
            if self._held_size >= MERGE_SIZE:
                self.flush()
            return
        self.flush()
        self._offer(SharedFrame(self.session_id, update))

    def flush(self) -> None:
        """Offer what is held, its text merged, to all that are live."""
        held, self._held, self._held_size = self._held, [], 0
        for frame in merged_frames(self.session_id, held):
            self._offer(frame)

    def _offer(self, frame: SharedFrame) -> None:
        for subscriber in self._subscribers:
            if subscriber.is_live:
                subscriber.offer(frame)

    def _is_sending(self) -> bool:
        """Whether earlier frames are still on their way to most subscribers: one that is slow counts little."""
        live = [each for each in self._subscribers if each.is_live]
        return 2 * sum(each.outbox.is_sending for each in live) > len(live)


class SessionFeeds:
    """The feeds of all sessions that have subscribers.

    Args:
        directory: The actor that finds sessions.
        nursery: Where feeds run.

    Attributes:
        follow: What follows a session, where other nodes run some of them.
    """

    def __init__(self, directory: Mailbox[DirectoryMessage], nursery: trio.Nursery) -> None:
        self._directory = directory
        self._nursery = nursery
        self._feeds: dict[str, tuple[SessionFeed, trio.CancelScope]] = {}
        self.follow: Follow | None = None

    def subscribe(
        self, session_id: str, outbox: Outbox, position: int, falls_behind: Callable[[], None]
    ) -> SessionSubscriber:
        """Return a new subscriber, which is behind: its connection calls `catch_up` until it is live.

        `falls_behind` is called whenever it falls behind again; it must not wait.
        """
        found = self._feeds.get(session_id)
        if found is None or found[0].failure is not None:
            scope = trio.CancelScope()
            found = self._feeds[session_id] = (
                SessionFeed(session_id, self._directory, self.follow),
                scope,
            )
            self._nursery.start_soon(self._run, *found, name=f"feed of {session_id}")
        subscriber = SessionSubscriber(found[0], outbox, position, falls_behind)
        found[0].add(subscriber)
        return subscriber

    def unsubscribe(self, subscriber: SessionSubscriber) -> None:
        """End a subscription; a session without subscribers is no longer followed."""
        feed = subscriber.feed
        subscriber.end()
        found = self._feeds.get(feed.session_id)
        if found is not None and found[0] is feed and not feed.is_used:
            del self._feeds[feed.session_id]
            found[1].cancel(reason="nobody listens")

    async def _run(self, feed: SessionFeed, scope: trio.CancelScope) -> None:
        with scope:
            await feed.run()
