"""A turn that was begun before, from its record on: what was stored, what is under way, and then what comes."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from types import TracebackType
from typing import Self

from ..embedding.runtime import host_of
from ..embedding.turn import TurnEvent
from ..runtime.errors import ActorStopped, NotFoundError
from ..runtime.events import (
    ApprovalAsked,
    CallProgress,
    CallProposed,
    ChildCall,
    Event,
    HistoryGiven,
    InputAccepted,
    InputCancelled,
    LiveEvent,
    MessageCompleted,
    MessageDiscarded,
    MessagesDeleted,
    Stored,
    StreamBatch,
    TurnEnded,
    TurnStarted,
)
from ..runtime.history import Item, Refusal, Text, Thinking
from ..runtime.kernel.delivery import Subscription
from ..runtime.messages import FollowSession, FollowStart
from ..runtime.stream import AnyStreamEvent, RefusalDelta, TextDelta, ThinkingDelta
from ..runtime.turn_options import NO_CLIENT, ClientContext
from .connection.caller import Requester
from .used_below import with_used_below

PAGE_EVENTS = 256
"""Read of the record at a time."""


class RecordedTurn:
    """The turn of an input that is on record; enter it, then `read`.

    A message of which no piece was heard is told by its parts, ahead of it: so a reader hears the same of it as one
    who was there.

    Args:
        requester: Who reads; it must see the session.
        session_id, input_id: The input.
        follows: Whether to go on with what comes after the record; else reading ends with that.
        after_seq: The input is behind this event.

    Attributes:
        accepted: The input, once entered.
        at_ms: When it was stored.
        given: What its client said was said before, if the session began with it.
        agent: Of its session.
        called_at_ms: When each of its calls was proposed, or last asked about, as far as it was read.
        ended_at_ms: When it ended, once that was read.
        is_at_head: Whether all that had happened has been read.
        is_over: Whether the turn has ended, and that was read.

    Example:
        async with RecordedTurn(requester, session_id, input_id) as turn:
            while (events := await turn.read()) is not None:
                print(len(events))
    """

    def __init__(
        self,
        requester: Requester,
        session_id: str,
        input_id: str,
        *,
        follows: bool = True,
        after_seq: int = 0,
    ) -> None:
        self.session_id = session_id
        self.input_id = input_id
        self.accepted: InputAccepted | None = None
        self.given: tuple[Item, ...] = ()
        self.at_ms = self.ended_at_ms = 0
        self.called_at_ms: dict[str, int] = {}
        self.agent = ""
        self.is_at_head = self.is_over = False
        self._requester = requester
        self._follows = follows
        self._seq = after_seq
        self._page: list[Stored] = []
        self._is_last = False
        self._subscription: Subscription | None = None
        self._start: FollowStart | None = None
        self._turn_id = ""
        self._has_pieces = False

    @property
    def client(self) -> ClientContext:
        """What its client gave it."""
        return NO_CLIENT if self.accepted is None else self.accepted.client or NO_CLIENT

    async def __aenter__(self) -> Self:
        """Find the input; raise `NotFoundError` if there is none, for this requester."""
        self.agent = (await self._requester.session(self.session_id)).agent
        seq = self._seq
        while not self._is_last:
            await self._next_page(seq)
            for at, stored in enumerate(self._page):
                event = stored.event
                if isinstance(event, HistoryGiven):
                    self.given = event.messages
                elif not isinstance(event, InputAccepted):
                    pass
                elif event.input_id != self.input_id:
                    self.given = ()
                else:
                    self.accepted, self.at_ms = event, stored.at_ms
                    self._seq = stored.seq
                    del self._page[: at + 1]
                    return self
            seq = self._page[-1].seq if self._page else seq
        raise NotFoundError(f"{self.session_id} has no input {self.input_id}")

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Follow it no longer. Idempotent."""
        if self._subscription is not None:
            self._subscription.close()

    async def read(self) -> list[TurnEvent] | None:
        """Wait for what comes next; `None` when the turn is over, or the record, for one that does not follow.

        Raises:
            ActorStopped: The session has ended.
            OverloadedError: Too much waits to be read: begin again.
        """
        if self.is_over or (self.is_at_head and not self._follows):
            return None
        store = self._requester.runtime.store
        if not self.is_at_head:
            return await with_used_below(store, self.session_id, await self._read_record())
        assert self._subscription is not None
        updates = await self._subscription.take()
        if not updates:
            raise ActorStopped("the session has ended without an answer")
        return await with_used_below(store, self.session_id, self._own(updates))

    async def is_deleted(self) -> bool:
        """Return whether the messages of a turn that is over were deleted since."""
        while True:
            for stored in self._page:
                event = stored.event
                if isinstance(event, MessagesDeleted) and self.input_id in event.message_ids:
                    return True
            if self._is_last:
                return False
            await self._next_page(self._page[-1].seq)

    async def _read_record(self) -> list[TurnEvent]:
        """Take the page that was read, and read the next one; follow the session when there is none."""
        events = [*self._own(self._page)]
        if self.is_over:
            return events
        if not self._is_last:
            await self._next_page(self._seq)
        elif self._follows and self._start is None:
            self._subscription = Subscription()
            self._start = await host_of(self._requester.runtime).directory.ask(
                FollowSession(session_id=self.session_id, subscription=self._subscription)
            )
            await self._next_page(self._seq)
        else:
            self.is_at_head = True
            if self._start is not None and self._start.under_way.answer is not None:
                events += self._own([self._start.under_way.answer])
        return events

    async def _next_page(self, seq: int) -> None:
        store = self._requester.runtime.store
        page = await store.events(self.session_id, after_seq=seq, limit=PAGE_EVENTS)
        self._is_last = len(page) < PAGE_EVENTS
        if self._start is not None:
            head = self._start.head_seq
            self._is_last = self._is_last or page[-1].seq >= head
            page = [each for each in page if each.seq <= head]
        self._page = [*page]

    def _own(self, updates: Iterable[Stored | LiveEvent]) -> Generator[TurnEvent]:
        """Give what is of this turn; a session has one at a time. What was read before is passed over."""
        page = list(updates)
        for at, update in enumerate(page):
            match update:
                case Stored(seq=seq) if seq <= self._seq:
                    continue
                case Stored(seq=seq, event=event, at_ms=at_ms):
                    self._seq = seq
                    if isinstance(event, InputCancelled) and event.input_id == self.input_id:
                        event = TurnEnded(turn_id="", outcome="cancelled", message=event.reason)
                    elif isinstance(event, TurnStarted) and self.input_id in event.input_ids:
                        self._turn_id = event.turn_id
                    elif not self._turn_id:
                        continue
                    self._note_time(event, at_ms)
                    if isinstance(event, MessageCompleted):
                        if not self._has_pieces:
                            yield from _pieces_of(event)
                        self._has_pieces = False
                    yield event
                    if isinstance(event, TurnEnded):
                        self.is_over = True
                        self._page = [each for each in page[at + 1 :] if isinstance(each, Stored)]
                        return
                case StreamBatch(events=events) if self._turn_id:
                    self._has_pieces = True
                    yield from events
                case MessageDiscarded() | CallProgress() | ChildCall() if self._turn_id:
                    is_withdrawn = isinstance(update, MessageDiscarded)
                    self._has_pieces = self._has_pieces and not is_withdrawn
                    yield update
                case _:
                    pass

    def _note_time(self, event: Event, at_ms: int) -> None:
        match event:
            case CallProposed(call_id=name) | ApprovalAsked(call_id=name):
                self.called_at_ms[name] = at_ms
            case TurnEnded():
                self.ended_at_ms = at_ms
            case _:
                pass


def _pieces_of(message: MessageCompleted) -> Generator[AnyStreamEvent]:
    """Give what was streamed of a message, in as few pieces as can be."""
    for part in message.parts:
        match part:
            case Text(text=text):
                yield TextDelta(text)
            case Refusal(text=text):
                yield RefusalDelta(text)
            case Thinking(text=text):
                yield ThinkingDelta(text)
            case _:
                pass
