"""The channel of a run's own runtime: whoever sits at the terminal."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import Protocol

import trio

from ...runtime.channel import Channel, ChannelMessage, UserQuestion
from ...runtime.definitions import ErrorType, ToolFailure
from ...runtime.errors import CallboardError, ValidationError
from ...runtime.handles import PersonAnswer
from ...runtime.messages import ApprovalAnswer, ApprovalRequest
from ..hints import command_line
from ..show.question_text import block
from ..show.view import RunView
from ..terminal.escaping import safe_line
from ..terminal.keyboard import Keyboard
from ..terminal.output import AskingPlace, Output
from ..terminal.style import Style, style_of
from .dialogue import Asker
from .notify import headline_of, heard, tell_desktop

MAX_BEHIND_SECONDS = 5.0
"""How long a branch's question waits for its place in the transcript: there may be none."""


class ApprovalSource(Protocol):
    """Where approvals are shown and answered: a `Runtime`, or a `Client`."""

    async def approval(self, approval_id: str, *, arguments: str | None = None) -> ApprovalRequest:
        """Return a question, as it would be about these arguments."""
        ...

    async def answer(self, approval_id: str, answer: ApprovalAnswer) -> None:
        """Put an answer on record; `ValidationError` when it can't be taken."""
        ...


class TerminalChannel(Channel):
    """Asks at a terminal, one question after another, and takes nothing for a yes but a yes.

    What else there is to print waits while a question is open, so that an answer stands behind its
    own question. A question that is withdrawn (the turn was cancelled, nobody answered in time)
    ends where it is. Other calls of the turn run on meanwhile.

    Attributes:
        questions: Where answers go that may be refused, and what judges other arguments: set ahead
            of the first question.
        interrupt: Called before something is printed, to end text that stands open.
        answered: Called with the approval whose answer is given here, ahead of it.
        tell_desktop: Called with a line about each question; must not block.

    Args:
        descriptor: The terminal to read from.
        screen: Where questions are printed: the same terminal.
        style: What the screen can show.
        folder: Where arguments are edited; see `Editor`.
    """

    name = "terminal"

    def __init__(self, descriptor: int, screen: Output, style: Style, folder: Path) -> None:
        self.questions: ApprovalSource
        self.interrupt: Callable[[], None] = lambda: None
        self.answered: Callable[[str], None] = lambda _: None
        self._is_left = False
        self.tell_desktop: Callable[[str], None] = lambda line: None
        self._screen = screen
        self._keyboard = Keyboard(descriptor, screen)
        self._asker = Asker(self._keyboard, folder, style)
        self._style = style
        self._asking = trio.Lock()
        self._line = trio.Lock()
        self._shown: dict[str, trio.Event] = {}
        self._messages: list[str] = []
        self._waiting: dict[str, ApprovalRequest] = {}

    def reach(self, question_id: str) -> None:
        """Note that everything that happened before this question is printed."""
        self._shown.setdefault(question_id, trio.Event()).set()

    def abandon(self) -> None:
        """Leave the terminal as it was found, before an exit on the spot."""
        self._asker.abandon()

    def leave(self) -> None:
        """Stop asking because the person leaves; print how open questions can be answered elsewhere."""
        self._is_left = True
        self.abandon()

    def hang_up(self) -> None:
        """Leave the terminal, which is somebody else's from here on: what is typed, or its end, answers nothing."""
        self._keyboard.is_left = True
        self.abandon()

    @property
    def is_asking(self) -> bool:
        """Whether a question is open."""
        return self._asking.locked()

    async def wait_quiet(self) -> None:
        """Wait while a question is open."""
        if self._asking.locked():
            async with self._asking:
                pass

    async def approve(self, request: ApprovalRequest) -> ApprovalAnswer:
        """Ask about a call; one whose turn goes on without it is left to `callboard approve`."""
        if request.is_deferred:
            await trio.sleep_forever()
        is_own = not request.asked_in
        self._waiting[request.approval_id] = request
        try:
            return await self._in_line(request, is_own)
        finally:
            del self._waiting[request.approval_id]

    async def _in_line(self, request: ApprovalRequest, is_own: bool) -> ApprovalAnswer:
        # They come in the model's order, and are printed together: Trio would wake any of them first.
        async with self._line if is_own else nullcontext():
            await self._place_of(request.approval_id, is_own=is_own)
            return await self._approve(request)

    async def _approve(self, request: ApprovalRequest) -> ApprovalAnswer:
        async with self._turn_to_ask():
            await self._begin(headline_of(request.tool))
            approval_id = request.approval_id
            try:
                return await self._asker.approve(
                    request,
                    lambda arguments: self.questions.approval(approval_id, arguments=arguments),
                    lambda answer: self._submit(approval_id, answer),
                    self._others,
                )
            except trio.Cancelled:
                self._say_ended(command_line(f"callboard approve {request.approval_id}"))
                raise

    async def _others(self) -> list[ApprovalRequest]:
        """Return the questions that wait for this terminal, as they will be put."""
        await trio.lowlevel.checkpoint()
        return sorted(self._waiting.values(), key=lambda request: request.number)

    async def ask(self, question: UserQuestion) -> PersonAnswer:
        """Put a model's question; a number of an option, or any text, is an answer."""
        await self._place_of(question.question_id, is_own=not question.asked_in)
        async with self._turn_to_ask():
            await self._begin(headline_of(""))
            try:
                answer = await self._asker.ask(question)
            except trio.Cancelled:
                self._say_ended(
                    command_line(f"callboard attach {question.asked_in or question.session_id}")
                )
                raise
            if answer is None:
                self._keyboard.write("\n")
                message = "The person ended the input, unanswered."
                raise ToolFailure(ErrorType.PERMISSION_DENIED, message)
            return answer

    def _say_ended(self, command: str) -> None:
        end = f"it still waits: {command}" if self._is_left else "no longer asked"
        self._keyboard.write(f"\n({end})\n")

    async def tell(self, message: ChannelMessage) -> None:
        """Print a message of the model, at once or after the question that is open."""
        await trio.lowlevel.checkpoint()
        who = f"message from {safe_line(message.origin)}:" if message.origin else "message:"
        lines = [self._style.paint(who, "bold"), *block(message.text)]
        self._messages.append("\n".join(lines) + "\n")
        if not self._asking.locked():
            self._print_messages()

    def _print_messages(self) -> None:
        messages, self._messages = self._messages, []
        for text in messages:
            self.interrupt()
            self._keyboard.write(text)

    @asynccontextmanager
    async def _turn_to_ask(self) -> AsyncGenerator[None]:
        """Hold the terminal for one question; messages that come meanwhile are printed after it."""
        async with self._asking:
            try:
                yield
            finally:
                # Surplus input, such as a paste of several lines, answers nothing.
                self._keyboard.forget_typed()
                self._print_messages()

    async def _place_of(self, question_id: str, *, is_own: bool) -> None:
        """Wait until the transcript has come to the question; a branch's may stand in no turn shown here."""
        patience = float("inf") if is_own else MAX_BEHIND_SECONDS
        try:
            with trio.move_on_after(patience):
                await self._shown.setdefault(question_id, trio.Event()).wait()
        finally:
            self._shown.pop(question_id, None)

    async def _begin(self, headline: str) -> None:
        await trio.lowlevel.checkpoint()
        self.interrupt()
        self._screen.write(heard(headline))
        self.tell_desktop(headline)

    async def _submit(self, approval_id: str, answer: ApprovalAnswer) -> None:
        """Put on record at once what may be refused; the caller has the rest from `approve`.

        Whoever asked learns of it by the record, and may call this off meanwhile.
        """
        self.answered(approval_id)
        if answer.arguments is None and answer.remember is None:
            await trio.lowlevel.checkpoint()
            return
        try:
            with trio.CancelScope(shield=True):
                await self.questions.answer(approval_id, answer)
        except ValidationError:
            raise
        except CallboardError:
            pass  # whoever asked gets the same error, and learns what holds


def channel_at(
    place: AskingPlace, output: Output, view: RunView, data: Path, nursery: trio.Nursery
) -> TerminalChannel:
    """Return the channel of a command that shows a session in a view.

    Args:
        place: Where the person is.
        output: The output of the view, often that of the place.
        view: Ends its open text before a question.
        data: The data folder, where arguments are edited.
        nursery: Where the desktop is notified.
    """
    style = style_of(sys.stdout if place.screen is output else sys.stderr)
    channel = TerminalChannel(place.descriptor, place.screen, style, data)
    channel.interrupt, channel.answered = view.interrupt, view.answered_here
    channel.tell_desktop = lambda line: nursery.start_soon(tell_desktop, line)
    return channel
