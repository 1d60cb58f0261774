"""A turn as a Trio program holds it: enter it, read its events, cancel it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from types import TracebackType
from typing import Self

import trio

from ..runtime.budget import Budget, checked_budget
from ..runtime.errors import CallboardError, ConflictError, ValidationError
from ..runtime.event_types.turns import RerunWay
from ..runtime.events import (
    CallProgress,
    DurableEvent,
    InputCancelled,
    MessageCompleted,
    MessageDiscarded,
    Stored,
    StreamBatch,
    TurnEnded,
    error_of_turn,
)
from ..runtime.history import Attachment, checked_attachments, text_of
from ..runtime.kernel.delivery import Subscription
from ..runtime.kernel.mailbox import Reply
from ..runtime.messages import CancelTurn, InputTicket, RerunTurn, ResumeTurn, SubmitInput
from ..runtime.stream import AnyStreamEvent
from .host import Host

LEAVE_SECONDS = 15.0
"""How long leaving a turn's block waits for the turn to be gone, even when itself cancelled."""

TurnEvent = AnyStreamEvent | DurableEvent | CallProgress | MessageDiscarded
"""What a turn tells: pieces of the stream as they come, and what is on the record.

Example:
    async for event in turn:
        match event:
            case callboard.TextDelta(text=text):
                print(text, end="")
            case callboard.TurnEnded(outcome=outcome):
                print(outcome)
"""


class Turn:
    """One turn, from an input to the final answer; made by `Session.prompt` or `Session.resume`.

    Attributes:
        input_id: The input's id, once entered.
        seq: The `seq` of the last event on record that was seen.
        at_ms: When that one was stored, in Unix milliseconds.
        ended: How it ended, once it has.

    Example:
        async with session.prompt("What time is it in Tokyo?") as turn:
            async for event in turn:
                if isinstance(event, callboard.CallFinished):
                    print(event.name, event.status)
        print(turn.ended)
    """

    def __init__(
        self,
        host: Host,
        session_id: str,
        text: str,
        attachments: Iterable[Attachment] = (),
        budget: Budget | None = None,
    ) -> None:
        self._text = checked_text(text)
        self._attachments = checked_attachments(attachments)
        self._budget = checked_budget(budget)
        self._host = host
        self._session_id = session_id
        self._is_left = False
        self._again: tuple[RerunWay, str | None] | None = None
        self._is_entered = False
        self._subscription = Subscription()
        self._events: deque[TurnEvent | Stored] = deque()
        self._answer = ""
        self.input_id = ""
        self.seq = 0
        self.at_ms = 0
        self.ended: TurnEnded | None = None

    def _begin(self, reply: Reply[InputTicket]) -> SubmitInput | RerunTurn | ResumeTurn:
        session_id, subscription = self._session_id, self._subscription
        if self._is_left:
            return ResumeTurn(session_id=session_id, subscription=subscription, reply=reply)
        if self._again is not None:
            why, message_id = self._again
            return RerunTurn(
                session_id=session_id,
                why=why,
                message_id=message_id,
                subscription=subscription,
                reply=reply,
            )
        return SubmitInput(
            session_id=session_id,
            text=self._text,
            attachments=self._attachments,
            budget=self._budget,
            subscription=subscription,
            reply=reply,
        )

    async def __aenter__(self) -> Self:
        if self._is_entered:
            # Its subscription is used up: a second input would run unheard, and nobody ends it.
            raise ConflictError(
                "a turn is entered once, and this one was: call session.prompt again for another"
            )
        self._is_entered = True
        submitted: Reply[InputTicket] = Reply()
        await self._host.directory.tell(self._begin(submitted))
        try:
            self.input_id = (await submitted.wait()).input_id
        except trio.Cancelled:
            # The input is stored or about to be, and `__aexit__` won't be called.
            with trio.move_on_after(LEAVE_SECONDS, shield=True), suppress(CallboardError):
                self.input_id = (await submitted.wait()).input_id
                await self.cancel("the program left the turn")
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self.ended is not None or self._subscription.is_closed:
            return
        # An error here means that session or runtime have ended, and the turn with them.
        with trio.move_on_after(LEAVE_SECONDS, shield=True), suppress(CallboardError):
            await self.cancel("the program left the turn")

    def __aiter__(self) -> Turn:
        return self

    async def __anext__(self) -> TurnEvent:
        """The next event; waits for it, and ends behind `TurnEnded`."""
        if not self._events and not await self.wait_events():
            raise StopAsyncIteration
        # As in `next_event_nowait`, whose call would cost a sixth more.
        event = self._events.popleft()
        if isinstance(event, Stored):
            self._note(event)
            return event.event
        return event

    async def next_events(self) -> list[TurnEvent]:
        """Everything that has come since, at once; waits for some, and is empty at the end."""
        await self.wait_events()
        return list(iter(self.next_event_nowait, None))

    async def wait_events(self) -> bool:
        """Waits until there are events that were not read; `False` at the end."""
        while not self._events and await self.fetch_events():
            pass
        return bool(self._events)

    async def fetch_events(self) -> bool:
        """Waits until more have come, whatever there is already; `False` at the end."""
        self._check_entered()
        updates = await self._subscription.take()
        for update in updates:
            if isinstance(update, StreamBatch):
                self._events.extend(update.events)
            else:
                self._events.append(update)
        return bool(updates)

    def next_event_nowait(self) -> TurnEvent | None:
        """The next event, if it has come already."""
        try:
            event = self._events.popleft()
        except IndexError:  # asking first would not do: readers of the portal are threads
            return None
        if isinstance(event, Stored):
            self._note(event)
            return event.event
        return event

    async def answer(self) -> str:
        """Reads to the end and returns the final answer's text.

        Raises:
            CallboardError: The turn was not answered; the error's type says why.
        """
        self._check_entered()
        while self.ended is None:
            while self._events:
                if isinstance(event := self._events.popleft(), Stored):
                    self._note(event)
            if self.ended is None:
                updates = await self._subscription.take()
                self._events.extend(update for update in updates if isinstance(update, Stored))
        if self.ended.outcome == "answered":
            return self._answer
        raise error_of_turn(self.ended)

    async def cancel(self, reason: str = "cancelled by the program") -> None:
        """Cancels the turn; returns when everything of it is gone. Its events can still be read."""
        # Whoever cancels no longer paces: a full queue must not hold up the end.
        self._subscription.let_go()
        await self._host.directory.ask(
            CancelTurn(session_id=self._session_id, reason=reason, input_id=self.input_id)
        )

    def _check_entered(self) -> None:
        if not self.input_id:
            raise ConflictError(
                "the turn has not begun: enter it first, `with turn:` (`async with turn:` in async "
                "programs)"
            )

    def _note(self, stored: Stored) -> None:
        self.seq, self.at_ms = stored.seq, stored.at_ms
        match stored.event:
            case MessageCompleted() as message:
                self._answer = text_of(message.parts)
            case TurnEnded() as ended:
                self.ended = ended
            case InputCancelled(reason=reason):
                self.ended = TurnEnded(turn_id="", outcome="cancelled", message=reason)
            case _:
                pass


def checked_text(text: object) -> str:
    """The text of an input; raises `ValidationError` for what is none."""
    if not isinstance(text, str) or not text.strip():
        raise ValidationError(f"a prompt is a text, and not empty; this is {text!r:.80}")
    return text


def left_turn(host: Host, session_id: str) -> Turn:
    """The turn of a session that was suspended, or goes on by itself: entering it resumes it."""
    turn = Turn(host, session_id, "(left)")
    turn._is_left = True
    return turn


def turn_again(host: Host, session_id: str, why: RerunWay, message_id: str | None) -> Turn:
    """The last turn of a session once more: entering it sets that aside."""
    turn = Turn(host, session_id, "(again)")
    turn._again = why, message_id
    return turn
