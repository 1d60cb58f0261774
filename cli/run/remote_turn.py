"""A turn that runs in the daemon, as `callboard run` follows one: entered, iterated, cancelled."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from types import TracebackType
from typing import NamedTuple, Self

import trio

from ...client.client import Client
from ...client.events import RemoteEvents
from ...runtime.budget import Budget
from ...runtime.errors import CallboardError, NotFoundError
from ...runtime.events import (
    DurableEvent,
    InputAccepted,
    InputCancelled,
    Stored,
    TurnEnded,
    TurnStarted,
)
from ...runtime.history import Attachment
from ...runtime.turn_options import TurnOptions
from ...runtime.wire.sessions import Cancel, Cancelled
from ..ask.daemon_questions import DaemonQuestions
from ..show.live_pieces import LivePieces
from ..show.transcript import TurnEvent

LEAVE_SECONDS = 15.0
"""How long leaving a turn of one's own waits for it to be gone, even when cancelled itself."""


class _Prompt(NamedTuple):
    text: str
    attachments: tuple[Attachment, ...]
    budget: Budget | None
    options: TurnOptions | None


class RemoteTurn:
    """One turn of a session in the daemon; made by `RemoteSession`. See `Turn`.

    Args:
        client: The daemon.
        questions: Whoever is asked here.
        session_id: Whose turn it is.

    Attributes:
        seq: The `seq` of the last event on record that was seen.
        at_ms: When that one was stored, in Unix milliseconds.
        ended: How it ended, once it has.
    """

    def __init__(self, client: Client, questions: DaemonQuestions, session_id: str) -> None:
        self._client = client
        self._questions = questions
        self._session_id = session_id
        self._prompt: _Prompt | None = None
        self._after_seq: int | None = None
        self._turn_id = ""
        self._input_id = ""
        self._events: RemoteEvents | None = None
        self._waiting: deque[TurnEvent] = deque()
        self._pieces = LivePieces()
        self.seq = 0
        self.at_ms = 0
        self.ended: TurnEnded | None = None

    def of_prompt(
        self,
        text: str,
        attachments: Iterable[Attachment],
        budget: Budget | None,
        options: TurnOptions | None = None,
    ) -> Self:
        """The turn of an input that is given when it is entered."""
        self._prompt = _Prompt(text, tuple(attachments), budget, options)
        return self

    def behind(self, after_seq: int, *, turn_id: str = "", input_id: str = "") -> Self:
        """A turn that is there, or the one of an input that waits, from this event on."""
        self._after_seq, self._turn_id, self._input_id = after_seq, turn_id, input_id
        return self

    async def __aenter__(self) -> Self:
        # Heard first, so that the answer is seen from its first word.
        events = self._client.events(
            self._session_id, after_seq=self._after_seq, epoch=self._client.welcome.epoch
        )
        self._events = await events.__aenter__()
        if self._prompt is not None:
            text, attachments, budget, options = self._prompt
            try:
                ticket = await self._client.prompt(
                    self._session_id, text, attachments, budget=budget, options=options
                )
            except BaseException:
                with trio.move_on_after(LEAVE_SECONDS, shield=True):
                    await events.__aexit__(None, None, None)
                raise
            self._input_id = ticket.input_id
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self.ended is None:
            await self._leave()  # noqa: ASYNC102  shielded and bounded there
        if self._events is not None:
            await self._events.__aexit__(kind, error, traceback)  # noqa: ASYNC102  as the client does

    async def _leave(self) -> None:
        """A prompt of one's own is cancelled; a turn of others goes on."""
        if self._prompt is None:
            return
        with trio.move_on_after(LEAVE_SECONDS, shield=True), suppress(CallboardError):
            await self.cancel("the command left the turn")

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> TurnEvent:
        """The next event; waits for it, and ends behind `TurnEnded`."""
        assert self._events is not None
        while not self._waiting:
            if self.ended is not None:
                raise StopAsyncIteration
            event = await anext(self._events)
            if isinstance(event, Stored):
                self._questions.see(event)
                if not self._is_of_turn(event.event):
                    self._pieces.take(event)
                    continue
                self.seq, self.at_ms = event.seq, event.at_ms
                self._note(event.event)
                self._waiting.extend(self._pieces.take(event))
            elif self._turn_id:
                self._waiting.extend(self._pieces.take(event))
        return self._waiting.popleft()

    async def cancel(self, reason: str) -> None:
        """Cancels it; returns when everything of it is gone."""
        cancel = Cancel(session_id=self._session_id, reason=reason, input_id=self._input_id or None)
        with suppress(NotFoundError):
            await self._client.request("session/cancel", cancel, Cancelled)

    def _is_of_turn(self, event: DurableEvent) -> bool:
        """Whether it belongs to this turn: while the input waits, another one may run."""
        match event:
            case InputAccepted() | InputCancelled():
                return bool(self._turn_id) or event.input_id == self._input_id
            case TurnStarted():
                if self._input_id in event.input_ids:
                    self._turn_id = event.turn_id
        return bool(self._turn_id)

    def _note(self, event: DurableEvent) -> None:
        match event:
            case TurnEnded() if event.turn_id == self._turn_id:
                self.ended = event
            case InputCancelled() if event.input_id == self._input_id:
                self.ended = TurnEnded(turn_id="", outcome="cancelled", message=event.reason)
            case _:
                pass
