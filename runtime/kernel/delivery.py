"""How events travel: from the journal to their session, and from a session to its consumers.

Both are queues that are filled synchronously. The journal puts what it has committed into the session's
`EventInbox` before it acknowledges the commit, so a turn that is cancelled while it awaits a commit
can't leave an event stored and unpublished. A session puts updates into a `Subscription` for each
consumer. Only the turn whose own consumer lags waits for room, so an embedded consumer that stops
reading pauses its own model stream and nobody else's.

A session may fold events of its own before they are stored (docs/decisions/0016). Until they are, a `Hold`
keeps what it would publish, since that follows from them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, Self

import trio

from ..errors import CallboardError, ConflictError
from ..events import DurableEvent, LiveEvent, Stored


class EventFolder(Protocol):
    """The session behind an inbox; none of this waits."""

    def fold_committed(self) -> None:
        """Fold and publish what the inbox holds."""
        ...

    def fold_ahead(self, events: tuple[DurableEvent, ...]) -> bool:
        """Fold events that are not stored yet, unless that can't be; then return `False`."""
        ...

    def lose(self) -> None:
        """Go no further with what was folded ahead: it will never be stored."""
        ...


class EventInbox:
    """Committed events of one session that it has not folded yet.

    A session that has loaded folds them where they are put. What it does with them can't wait, so no
    switch to a task of its own is needed; and a session whose fold fails crashes by itself.

    A session may fold events ahead of their commit, and publishes nothing that follows from them before
    it. Once they are lost, nothing of this session is stored until it has `recovered`.

    Attributes:
        ahead: What the session has folded and the store does not hold yet, in order.
        lost: Why that will never be stored.
    """

    __slots__ = ("_events", "_fault", "_folder", "_nursery", "ahead", "lost")

    def __init__(self) -> None:
        self.ahead: list[DurableEvent] = []
        self.lost: CallboardError | None = None
        self._events: list[Stored] = []
        self._folder: EventFolder | None = None
        self._fault: Exception | None = None
        self._nursery: trio.Nursery | None = None

    def put(self, events: tuple[Stored, ...]) -> None:
        """Add committed events, and have the session fold them if it has loaded."""
        self._events.extend(events)
        if self._folder is not None:
            try:
                self._folder.fold_committed()
            except Exception as fault:  # the session's: the journal that put the event goes on
                self._crash(fault)

    def take(self, after_seq: int = 0) -> list[Stored]:
        """Return all events after one of the record, in order; raise what an earlier fold failed with."""
        if self._fault is not None:
            raise self._fault
        events, self._events = self._events, []
        if events and events[0].seq <= after_seq:
            # Committed while the record was read: the load has folded it.
            events = [each for each in events if each.seq > after_seq]
        return events

    def committed_until(self, seq: int) -> list[Stored]:
        """Take and return the events up to one of the record."""
        taken = [each for each in self._events if each.seq <= seq]
        del self._events[: len(taken)]
        return taken

    def go_ahead(self, events: tuple[DurableEvent, ...]) -> bool:
        """Have the session fold events ahead of their commit; return whether it does."""
        if self._folder is None or not events or self._events or self.lost is not None:
            return False
        try:
            if not self._folder.fold_ahead(events):
                return False
        except Exception as fault:  # the session's, as above; its successor gets the events
            self._crash(fault)
            return False
        self.ahead.extend(events)
        return True

    def was_ahead(self, stored: Stored) -> bool:
        """Whether a committed event is the next of those that were folded ahead."""
        is_next = bool(self.ahead) and self.ahead[0] is stored.event
        if is_next:
            del self.ahead[0]
        return is_next

    def lose(self, error: CallboardError) -> None:
        """Say that what the session went ahead with will never be stored."""
        if self.ahead and self._folder is not None:
            self.lost = error
            self.ahead.clear()
            self._folder.lose()

    def recovered(self) -> None:
        """Let events of this session be stored again: it knows nothing that is not on record."""
        self.lost = None

    def serve(self, folder: EventFolder, nursery: trio.Nursery) -> Self:
        """Fold what is there, and from here on what comes; what such a fold raises in the block is raised in the nursery.

        Only then is there a task for it: one that waited would be a twentieth of what a session takes. Behind the
        block the nursery may take no task any more; folds go on.
        """
        folder.fold_committed()
        self._folder, self._nursery = folder, nursery
        return self

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        self._nursery = None

    def _crash(self, fault: Exception) -> None:
        self._folder, self._fault = None, fault
        if self._nursery is not None:
            self._nursery.start_soon(self._fail, name="a fold that failed")

    async def _fail(self) -> None:
        assert self._fault is not None
        raise self._fault


class Listeners(Protocol):
    """Who goes on listening to a session that was unloaded; none of this waits."""

    @property
    def has_followers(self) -> bool:
        """Whether anybody still does."""
        ...

    def tell(self, events: Sequence[Stored]) -> None:
        """Send them committed events."""
        ...

    def hang_up(self, error: Exception | None = None) -> None:
        """Tell them that nothing more comes."""
        ...


class EventInboxes:
    """The inboxes of the live sessions, and who listens to sessions that rest.

    A session that is idle is unloaded while others listen to it. They hear from here what is committed
    meanwhile, until its successor takes them over. Events of other sessions only go to disk.
    """

    def __init__(self) -> None:
        self._inboxes: dict[str, EventInbox] = {}
        self._resting: dict[str, Listeners] = {}
        self._taps: list[Callable[[tuple[Stored, ...]], None]] = []

    def open(self, session_id: str) -> EventInbox:
        """Return a new inbox for a session that loads, in place of a crashed predecessor's."""
        inbox = self._inboxes[session_id] = EventInbox()
        return inbox

    def close(self, session_id: str, inbox: EventInbox) -> None:
        """Remove an inbox, unless a successor has already opened its own."""
        if self._inboxes.get(session_id) is inbox:
            del self._inboxes[session_id]

    def rest(self, session_id: str, inbox: EventInbox, listeners: Listeners) -> None:
        """Remove the inbox of a session that is unloaded; its listeners go on hearing events."""
        self.close(session_id, inbox)
        self._resting[session_id] = listeners

    def take_over(self, session_id: str, inbox: EventInbox, head_seq: int) -> Listeners | None:
        """Return the listeners of a session that rested and is loaded; they hear no more from here.

        What was committed while the record was read, the session has folded, and they have not heard.
        """
        listeners = self._resting.pop(session_id, None)
        if listeners is not None:
            listeners.tell(inbox.committed_until(head_seq))
        return listeners

    def hang_up(self, session_ids: Iterable[str] | None = None) -> None:
        """Tell those who listen to these resting sessions, or to all, that nothing more comes."""
        for each in list(self._resting if session_ids is None else session_ids):
            if (listeners := self._resting.pop(each, None)) is not None:
                listeners.hang_up()

    def forget_unheard(self) -> None:
        """Keep nothing of resting sessions to which nobody listens any more."""
        self._resting = {name: each for name, each in self._resting.items() if each.has_followers}

    @property
    def resting(self) -> int:
        """Sessions that rest while somebody listens."""
        return len(self._resting)

    def get(self, session_id: str) -> EventInbox | None:
        """Return the inbox of a session, if it is live."""
        return self._inboxes.get(session_id)

    def watch(self, tap: Callable[[tuple[Stored, ...]], None]) -> Callable[[], None]:
        """Call `tap` with all committed events, of every session; return a function that stops it.

        `tap` must not wait and must not fail.
        """
        self._taps.append(tap)
        return lambda: self._taps.remove(tap)

    def put(self, session_id: str, events: tuple[Stored, ...]) -> None:
        """Give committed events to the taps, and to the session, or to who listens while it rests."""
        for tap in self._taps:
            tap(events)
        inbox = self._inboxes.get(session_id)
        if inbox is not None:
            inbox.put(events)
        elif (listeners := self._resting.get(session_id)) is not None:
            listeners.tell(events)


MAX_HELD_UPDATES = 64
"""Batches of an answer that wait for the commit of a result before it; as many as for a consumer."""


class Hold:
    """Live updates of a session that nobody sees before what they follow from is on record.

    Attributes:
        is_on: Whether updates are held.
        has_room: Whether the turn may go on; not while many wait.
    """

    __slots__ = ("_ended", "_keeps", "_updates", "has_room", "is_on")

    def __init__(self) -> None:
        self.is_on = False
        self.has_room = True
        self._keeps = True
        self._updates: list[LiveEvent] = []
        self._ended: trio.Event | None = None

    def begin(self) -> None:
        """Hold what comes."""
        self.is_on = True

    def put(self, update: LiveEvent) -> None:
        """Add an update."""
        if self._keeps:
            self._updates.append(update)
            self.has_room = len(self._updates) < MAX_HELD_UPDATES

    def drop(self) -> None:
        """Forget what waits and what comes until the end: what it follows from was not stored."""
        self._keeps, self.has_room = False, True
        self._updates.clear()
        self._tell_ended()

    def end(self) -> list[LiveEvent]:
        """Hold nothing any more, and return what waited."""
        updates, self._updates = self._updates, []
        self.is_on, self._keeps, self.has_room = False, True, True
        self._tell_ended()
        return updates

    async def wait_room(self) -> None:
        """Wait until what waits is gone; only while there is no room."""
        self._ended = trio.Event()
        await self._ended.wait()

    def _tell_ended(self) -> None:
        if self._ended is not None:
            self._ended.set()


MAX_WAITING_UPDATES = 64
"""Updates that may wait for an embedded consumer before its turn pauses. A batch is one network read
(64 KiB at most), so a stalled consumer holds some 4 MiB."""

Update = Stored | LiveEvent


class AnswerReader(Protocol):
    """Reads an answer that has to have a form."""

    def read(self, text: str) -> tuple[Any, str]:
        """Return the value and its canonical JSON; raise what tools raise for wrong arguments."""
        ...


class Subscription:
    """One consumer's queue of a session's updates.

    `put` never blocks. `take` returns everything that waits, in order, to one reader at a time. Either
    side can close it. The consumer's next empty `take` raises the error that `close` was given.

    Attributes:
        answer_type: Reads the final answer for the consumer who wants it in a form of its own.
    """

    __slots__ = ("_error", "_is_closed", "_paces", "_room", "_updates", "_wake", "answer_type")

    def __init__(self, answer_type: AnswerReader | None = None) -> None:
        self.answer_type = answer_type
        self._updates: list[Update] = []
        self._wake: trio.Event | None = None
        self._room: trio.Event | None = None
        self._is_closed = False
        self._paces = True
        self._error: Exception | None = None

    @property
    def is_closed(self) -> bool:
        """Whether no more updates will come."""
        return self._is_closed

    def put(self, updates: Iterable[Update]) -> None:
        """Add updates; dropped after `close`."""
        if self._is_closed:
            return
        self._updates.extend(updates)
        if self._wake is not None:
            self._wake.set()

    def close(self, error: Exception | None = None) -> None:
        """End it for both sides; waiting updates can still be taken. Idempotent."""
        if self._is_closed:
            return
        self._is_closed = True
        self._error = error
        for event in (self._wake, self._room):
            if event is not None:
                event.set()

    async def take(self) -> list[Update]:
        """Wait for updates and return all of them; empty means the end.

        Raises:
            ConflictError: Another task already waits for them.
            Exception: The error given to `close`, once all updates were taken.
        """
        if self._updates or self._is_closed:
            await trio.lowlevel.checkpoint()
        while not self._updates and not self._is_closed:
            if self._wake is not None:
                # Each update goes to one reader, so neither of two would see all of them.
                raise ConflictError(
                    "this turn is being read already, by another task or thread: read it in one "
                    "place, and pass on what the other needs"
                )
            self._wake = trio.Event()
            try:
                await self._wake.wait()
            finally:
                self._wake = None
        updates, self._updates = self._updates, []
        if self._room is not None:
            self._room.set()
        if not updates and self._error is not None:
            raise self._error
        return updates

    @property
    def waiting(self) -> int:
        """How many updates wait to be taken."""
        return len(self._updates)

    @property
    def has_room(self) -> bool:
        """Whether the turn may go on: the consumer keeps up, or no longer paces it."""
        return len(self._updates) < MAX_WAITING_UPDATES or self._is_closed or not self._paces

    def let_go(self) -> None:
        """Stop pacing: the turn no longer waits for the consumer, however much it has not taken."""
        self._paces = False
        if self._room is not None:
            self._room.set()

    async def wait_room(self) -> None:
        """Wait until the consumer has taken the waiting updates, or is gone."""
        while not self.has_room:
            if self._room is None or self._room.is_set():
                self._room = trio.Event()
            await self._room.wait()
