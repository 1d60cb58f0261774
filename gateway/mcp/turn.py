"""The turn of a prompt that a client of MCP waits for: how far it is, what it waits for, and how it ended."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import AsyncExitStack, contextmanager, suppress
from types import TracebackType
from typing import Annotated, Self

import msgspec
import trio

from ...client.subscriptions import AnswerOf
from ...runtime.errors import CallboardError
from ...runtime.events import (
    ApprovalAnswered,
    ApprovalAsked,
    CallProgress,
    CallProposed,
    ChildAsks,
    MessageCompleted,
    QuestionAsked,
    Stored,
    StreamBatch,
)
from ...runtime.stream import TextDelta
from ...runtime.turns.called_tool import CalledTools
from ...runtime.wire.sessions import Cancel, Cancelled, Prompt, Ticket
from .desk import Desk, Heard, HeardEvents

BEGIN_SECONDS = 15.0
"""For a prompt to be on record, which goes on although its client has left: it must be known what to cancel."""
LEAVE_SECONDS = 15.0
"""For a turn to be gone when its client has left."""
MAX_LINE = 500
"""Characters of a line of progress."""


class UsedTokens(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens of a turn's model calls, as far as they are known."""

    input_tokens: int = 0
    output_tokens: int = 0


class Asked(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a client hears of a prompt: its answer, or that it goes on."""

    session_id: str
    outcome: str
    text: str = ""
    usage: UsedTokens | None = None


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where a turn is that a client comes back to.

    Attributes:
        seq: Of its input, in the record of its session.
        left: Questions that the client has left to others.
    """

    session_id: str
    input_id: str
    seq: Annotated[int, msgspec.Meta(ge=1, le=2**53)]
    left: tuple[str, ...] = ()


class AskedTurn:
    """A turn that somebody waits for; leaving its block before its end cancels it, unless it `goes_on`.

    Attributes:
        place: Where it is, once entered.
        called: What came of its calls.
        steps, line: How far it is: what has happened last, for people.
        moved: Set when that changes; whoever waits for it puts another in its place.
        goes_on: Whether it goes on without its client.
    """

    def __init__(self, desk: Desk, begins: Prompt | Place) -> None:
        self._desk = desk
        self._begins = begins
        self._stack = AsyncExitStack()
        self._events: HeardEvents | None = None
        self._text = ""
        self._used = [0, 0]
        self._asking: dict[str, trio.CancelScope] = {}
        self.steps, self.line, self.moved = 0, "", trio.Event()
        self.goes_on = False

    async def __aenter__(self) -> Self:
        begins, after = self._begins, None
        if isinstance(begins, Place):
            after = begins.seq - 1
        session_id = begins.session_id
        async with AsyncExitStack() as stack:
            events = self._desk.events(session_id, after)
            self._events = await stack.enter_async_context(events)
            place = begins if isinstance(begins, Place) else await self._begin(begins)
            self._stack = stack.pop_all()
        self.place, self._answer = place, AnswerOf(place.input_id)
        self.called = CalledTools(session_id)
        return self

    async def _begin(self, prompt: Prompt) -> Place:
        with trio.CancelScope(shield=True), trio.fail_after(BEGIN_SECONDS):
            ticket = await self._desk.request("session/prompt", prompt, Ticket)
            return Place(session_id=prompt.session_id, input_id=ticket.input_id, seq=ticket.seq)
        raise AssertionError

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if not self._answer.is_over and not self.goes_on:
            cancel = Cancel(
                session_id=self.place.session_id,
                input_id=self.place.input_id,
                reason="its client has left",
            )
            with trio.move_on_after(LEAVE_SECONDS, shield=True), suppress(CallboardError):
                await self._desk.request("session/cancel", cancel, Cancelled)
        await self._stack.aclose()

    async def wait(self) -> str | None:
        """Wait for the end, or the next question of a call; return that question's id."""
        assert self._events is not None
        async for heard in self._events:
            question = self._see(heard)
            if question is not None or self._answer.is_over:
                return question
        return None

    @property
    def result(self) -> Asked:
        """What came of it."""
        ended = self._answer.ended
        if ended is None:
            return Asked(session_id=self.place.session_id, outcome="running")
        text = self._answer.text if ended.outcome == "answered" else ended.message
        return Asked(
            session_id=self.place.session_id,
            outcome=ended.outcome,
            text=text,
            usage=UsedTokens(input_tokens=self._used[0], output_tokens=self._used[1]),
        )

    @contextmanager
    def asking(self, question_id: str) -> Generator[None]:
        """End the block when somebody else has answered."""
        with trio.CancelScope() as scope:
            self._asking[question_id] = scope
            try:
                yield
            finally:
                self._asking.pop(question_id, None)

    def _see(self, heard: Heard) -> str | None:
        """Take an event; return the id of a question that it asks."""
        event: object = heard
        if isinstance(heard, Stored):
            self._answer.see(heard)
            event = heard.event
        if self._answer.turn_id is None:
            return None  # what others do in this session
        self.called.see(event)
        match event:
            case StreamBatch(events=events):
                self._text += "".join(e.text for e in events if isinstance(e, TextDelta))
                self._text = self._text[-MAX_LINE:]
                self._show(self._text)
            case CallProgress(text=text):
                self._show(text)
            case CallProposed(name=name):
                self._text = ""
                self._show(f"calls {name}")
            case MessageCompleted(usage=usage):
                self._text = ""
                if usage is not None:
                    self._used[0] += usage.input_tokens or 0
                    self._used[1] += usage.output_tokens or 0
            case (
                ApprovalAsked(approval_id=question_id, is_deferred=False)
                | ChildAsks(question_id=question_id)
            ):
                self._show(f"waits for a person: {question_id}")
                return question_id
            case QuestionAsked(question_id=question_id):
                self._show(f"waits for a person: {question_id}")
            case ApprovalAnswered(approval_id=question_id):
                if (scope := self._asking.get(question_id)) is not None:
                    scope.cancel(reason="somebody has answered")
            case _:
                pass
        return None

    def _show(self, line: str) -> None:
        self.steps, self.line = self.steps + 1, line[-MAX_LINE:]
        self.moved.set()
