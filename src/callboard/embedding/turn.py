"""A turn as a Trio program holds it: enter it, read its events, cancel it."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Generic, Self, TypeVar

import trio

from ..runtime.errors import CallboardError, ConflictError, ValidationError
from ..runtime.events import (
    CallProgress,
    ChildCall,
    DurableEvent,
    InputCancelled,
    MessageCompleted,
    MessageDiscarded,
    Stored,
    StreamBatch,
    TurnEnded,
    error_of_turn,
)
from ..runtime.history import text_of
from ..runtime.messages import CancelTurn, RerunTurn, ResumeTurn, SubmitInput
from ..runtime.stream import AnyStreamEvent
from .host import Host

if TYPE_CHECKING:  # type checkers bring these along; at run time a default is not needed
    from typing_extensions import TypeVar as TypeVarWithDefault

    Value = TypeVarWithDefault("Value", default=str)
else:
    Value = TypeVar("Value")

LEAVE_SECONDS = 15.0
"""How long leaving a turn's block waits for the turn to be gone, even when itself cancelled."""

TurnEvent = AnyStreamEvent | DurableEvent | CallProgress | ChildCall | MessageDiscarded
"""What a turn yields: pieces of the stream as they come, and events that are on record.

Example:
    async for event in turn:
        match event:
            case callboard.TextDelta(text=text):
                print(text, end="")
            case callboard.TurnEnded(outcome=outcome):
                print(outcome)
"""


_NOTED = frozenset({MessageCompleted, TurnEnded, InputCancelled})
"""Events on record that say how the turn stands; most say nothing about it."""
_NONE: deque[TurnEvent | Stored] = deque(maxlen=0)
"""Of a turn before its first events: an empty queue takes 700 bytes, and many turns wait."""


class Turn(Generic[Value]):
    """One turn, from an input to the final answer; made by `Session.prompt` or `Session.resume`.

    `Turn[Verdict]` is that of a prompt with `answer=Verdict`.

    Attributes:
        input_id: The input's id, once entered.
        seq: The `seq` of the last event on record that was read.
        at_ms: When that event was stored, in Unix milliseconds.
        ended: How it ended, once it has.

    Example:
        async with session.prompt("What time is it in Tokyo?") as turn:
            async for event in turn:
                if isinstance(event, callboard.CallFinished):
                    print(event.name, event.status)
        print(turn.ended)
    """

    def __init__(self, host: Host, message: SubmitInput | RerunTurn | ResumeTurn) -> None:
        assert message.subscription is not None
        self._host = host
        self._message = message
        self._session_id = message.session_id
        self._subscription = message.subscription
        self._is_entered = False
        self._events: deque[TurnEvent | Stored] = _NONE
        self._answer = ""
        self.input_id = ""
        self.seq = 0
        self.at_ms = 0
        self.ended: TurnEnded | None = None

    async def __aenter__(self) -> Self:
        if self._is_entered:
            # Its subscription is used up: nobody would read a second turn, or end it.
            raise ConflictError(
                "a turn is entered once, and this one was: call session.prompt again for another"
            )
        self._is_entered = True
        submitted = self._message.reply
        await self._host.directory.tell(self._message)
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

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> TurnEvent:
        """Wait for the next event and return it; the iteration ends after `TurnEnded`."""
        if not self._events and not await self.wait_events():
            raise StopAsyncIteration
        # As in `next_event_nowait`; calling that would cost a sixth more.
        event = self._events.popleft()
        if isinstance(event, Stored):
            self._note(event)
            return event.event
        return event

    async def next_events(self) -> list[TurnEvent]:
        """Wait for events and return all that have come; empty at the end."""
        await self.wait_events()
        return list(iter(self.next_event_nowait, None))

    async def wait_events(self) -> bool:
        """Wait until there are events that were not read; return `False` at the end."""
        while not self._events and await self.fetch_events():
            pass
        return bool(self._events)

    async def fetch_events(self) -> bool:
        """Wait until more events have come; return `False` at the end."""
        self._check_entered()
        updates = await self._subscription.take()
        if updates and self._events is _NONE:
            self._events = deque()
        for update in updates:
            self._events.extend(update.events if isinstance(update, StreamBatch) else (update,))
        return bool(updates)

    def next_event_nowait(self) -> TurnEvent | None:
        """Return the next event if it has come already, otherwise `None`."""
        try:
            event = self._events.popleft()
        except IndexError:  # not checked before: readers of the portal are threads
            return None
        if isinstance(event, Stored):
            self._note(event)
            return event.event
        return event

    async def answer(self) -> Value:
        """Read to the end and return the final answer: its text, or what the prompt's `answer` says.

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
                if updates and self._events is _NONE:
                    self._events = deque()
                self._events.extend(update for update in updates if isinstance(update, Stored))
        if self.ended.outcome != "answered":
            raise error_of_turn(self.ended)
        form, text = self._subscription.answer_type, self.ended.answer or self._answer
        value: Value = text if form is None else form.read(text)[0]  # type: ignore[assignment]
        return value

    async def cancel(self, reason: str = "cancelled by the program") -> None:
        """Cancel the turn; return when everything of it is gone. Its events can still be read."""
        if not self.input_id:  # it has not begun, or is about to: whoever enters it cancels it then
            await trio.lowlevel.checkpoint()
            return
        # From here on the program does not pace the turn: a full queue must not hold up its end.
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
        if type(stored.event) not in _NOTED:
            return
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
    """Return the text of an input; raise `ValidationError` when it is empty or not a text."""
    if not isinstance(text, str) or not text.strip():
        raise ValidationError(f"a prompt is a text, and not empty; this is {text!r:.80}")
    return text
