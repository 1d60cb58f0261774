"""How actors talk: bounded mailboxes and one-shot replies.

Why nothing deadlocks: `tell` and `ask` go down the layers only (gateway, session, dispatcher, broker,
journal). What comes up travels on the `Reply`, or on a channel, that went down with the request, and
sending it never waits. So no two full mailboxes can wait for each other.

Why no asker hangs: every message that is not handled is abandoned. A handler that crashes leaves
`with request.reply:`, which abandons the reply; a cancelled `tell` abandons its message; `close` abandons
all messages, including those of senders that still wait for room. Only what was still queued when an
actor crashed stays, for the successor that the supervisor starts on the same mailbox.

Why so few switches: what an actor can do without waiting is done at once, in the step of whoever sends
the message, while the actor itself waits for one. Two switches between tasks cost more than most answers.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import TracebackType
from typing import Generic, TypeVar

import msgspec
import trio

from ..errors import ActorStopped, OverloadedError

Answer = TypeVar("Answer")
Content = TypeVar("Content", bound="Message")


class Message(msgspec.Struct, frozen=True, tag_field="type"):
    """The base of all messages between actors of one process."""

    def abandon(self) -> None:
        """Give up this message: nobody will handle it. Wakes a task that waits for its answer."""


class Reply(Generic[Answer]):
    """A one-shot answer that travels with a request.

    The side that answers uses `with request.reply:`, so that a crash abandons it. Answering never
    blocks, and does not fail if the asker is gone.
    """

    __slots__ = ("_answer", "_error", "_is_done", "_wake")

    def __init__(self) -> None:
        self._is_done = False
        self._wake: trio.Event | None = None  # made by who waits: most have their answer by then
        self._answer: Answer | None = None
        self._error: BaseException | None = None

    @property
    def is_done(self) -> bool:
        """Whether it is answered, failed or abandoned."""
        return self._is_done

    def send(self, answer: Answer) -> None:
        """Answer. Raise `RuntimeError` for a second answer."""
        self._finish()
        self._answer = answer

    def fail(self, error: Exception) -> None:
        """Answer with an error, which `wait` raises."""
        self._finish()
        self._error = error

    def abandon(self) -> None:
        """Make `wait` raise `ActorStopped`. Does nothing if the reply is done."""
        if not self._is_done:
            self.fail(ActorStopped("the actor that was asked has ended; ask again"))

    async def wait(self) -> Answer:
        """Wait for the answer, or raise its error. Cancelling loses only the answer.

        With an answer there it can be cancelled, but lets no other task run.
        """
        if self._is_done:
            await trio.lowlevel.checkpoint_if_cancelled()
        else:
            if self._wake is None:
                self._wake = trio.Event()
            await self._wake.wait()
        if self._error is not None:
            raise self._error
        return self._answer  # type: ignore[return-value]

    def _finish(self) -> None:
        if self._is_done:
            raise RuntimeError("a reply is answered once")
        self._is_done = True
        if self._wake is not None:
            self._wake.set()

    def __enter__(self) -> Reply[Answer]:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.abandon()


class MailboxStatistics(msgspec.Struct, frozen=True):
    """The state of a mailbox: messages in it, its capacity, senders that wait for room."""

    depth: int
    capacity: int
    waiting_senders: int


class Mailbox(Generic[Content]):
    """The address of an actor: a bounded queue that survives the actor's crash.

    It is a queue of its own: Trio's memory channels take three times the room, and each loaded session has two.

    Args:
        name: For errors and logs.
        capacity: How many messages it holds before senders wait; a named constant of the actor.
        ended: What is said to senders when the actor has ended for good.
    """

    __slots__ = (
        "_block",
        "_capacity",
        "_closed",
        "_ended",
        "_fault",
        "_handed",
        "_messages",
        "_reader",
        "_senders",
        "_serve_now",
        "name",
    )

    def __init__(self, name: str, capacity: int, ended: str = "") -> None:
        self.name = name
        self._ended = ended
        self._capacity = capacity
        self._messages: list[Content] = []
        self._senders: dict[trio.lowlevel.Task, Content] | None = None  # made by who has to wait
        self._reader: trio.lowlevel.Task | None = None
        self._handed: Content | None = None
        self._serve_now: Callable[[Content], bool] | None = None
        self._fault: Exception | None = None
        self._block: trio.CancelScope
        self._closed = False

    @property
    def is_closed(self) -> bool:
        """Whether its actor has ended for good."""
        return self._closed

    # ── senders ──────────────────────────────────────────────────────────────────────────────────

    async def tell(self, message: Content) -> None:
        """Deliver a message, waiting only while the mailbox is full.

        A message that can't be delivered, because of an error or a cancellation, is abandoned.

        Raises:
            ActorStopped: The actor has ended for good.
        """
        if self._serve_now is not None and self._is_served(message):
            return
        if self._closed:
            message.abandon()
            raise self._stopped()
        if self._put(message):
            return
        try:
            if await self._wait_room(message):
                return
        except BaseException:
            message.abandon()
            raise
        message.abandon()
        raise self._stopped()

    def tell_nowait(self, message: Content) -> None:
        """Deliver a message without blocking; the caller keeps one that is refused.

        Raises:
            OverloadedError: The mailbox is full.
            ActorStopped: The actor has ended for good.
        """
        if self._serve_now is not None and self._is_served(message):
            return
        if self._closed:
            raise self._stopped()
        if not self._put(message):
            raise OverloadedError(f"the mailbox of {self.name} is full; try again")

    async def ask(self, request: Request[Answer]) -> Answer:
        """Deliver a request and return its answer, or raise its error."""
        await self.tell(request)  # type: ignore[arg-type]  # one of its actor's
        return await request.reply.wait()

    @trio.lowlevel.enable_ki_protection
    def _put(self, message: Content) -> bool:
        """Hand a message to the actor if it waits for one, or add it if there is room; return whether."""
        if self._reader is not None:
            trio.lowlevel.reschedule(self._reader)
            self._reader, self._handed = None, message
        elif len(self._messages) < self._capacity:
            self._messages.append(message)
        else:
            return False
        return True

    @trio.lowlevel.enable_ki_protection
    async def _wait_room(self, message: Content) -> bool:
        """Wait until the mailbox has taken a message; return `False` if it was closed instead."""
        await trio.lowlevel.checkpoint_if_cancelled()
        task = trio.lowlevel.current_task()
        if self._senders is None:
            self._senders = {}
        senders = self._senders
        senders[task] = message

        def abort(_: object) -> trio.lowlevel.Abort:
            del senders[task]
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)
        return senders.pop(task, None) is None

    # ── the actor ────────────────────────────────────────────────────────────────────────────────

    def open(
        self, serve_now: Callable[[Content], bool] | None = None
    ) -> AbstractContextManager[Mailbox[Content]]:
        """Return a block that gives the receiving end, for the actor alone. After a crash its successor opens it again.

        Args:
            serve_now: The actor's own way to serve a message without waiting. It is called in the
                sender's step, and only while the actor waits for a message, so that none overtakes
                another. It returns whether it has served the message, which otherwise comes through
                the channel. What it raises is raised in the actor, whose block is cancelled.
        """
        # Each session opens two for as long as it lives: the frame of a generator would cost it ten times as much.
        return nullcontext(self) if serve_now is None else self._serving(serve_now)

    @contextmanager
    def _serving(
        self, serve_now: Callable[[Content], bool]
    ) -> Generator[Mailbox[Content], None, None]:
        self._serve_now, self._fault = serve_now, None
        try:
            with trio.CancelScope() as self._block:
                yield self
        finally:
            self._serve_now = None
        if self._fault is not None:
            raise self._fault

    @trio.lowlevel.enable_ki_protection
    async def receive(self) -> Content:
        """Wait for the next message and return it, for the actor alone.

        Raises:
            trio.ClosedResourceError: The mailbox was closed.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        if self._messages or self._senders:
            message = self.receive_nowait()
            await trio.lowlevel.cancel_shielded_checkpoint()
            return message
        if not self._closed:
            self._reader = trio.lowlevel.current_task()
            await trio.lowlevel.wait_task_rescheduled(self._leave)
        handed, self._handed = self._handed, None
        if handed is None:
            raise trio.ClosedResourceError
        return handed

    def _leave(self, _: object) -> trio.lowlevel.Abort:
        self._reader = None
        return trio.lowlevel.Abort.SUCCEEDED

    def __aiter__(self) -> Mailbox[Content]:
        return self

    __anext__ = receive

    @trio.lowlevel.enable_ki_protection
    def receive_nowait(self) -> Content:
        """Return the next message, for the actor alone; raise `trio.WouldBlock` if there is none."""
        if self._senders:
            sender = next(iter(self._senders))
            self._messages.append(self._senders.pop(sender))
            trio.lowlevel.reschedule(sender)
        if not self._messages:
            raise trio.WouldBlock
        return self._messages.pop(0)

    def _is_served(self, message: Content) -> bool:
        """Have the actor serve a message at once; return whether it did, or crashed over it."""
        assert self._serve_now is not None
        if self._reader is None:
            return False  # it is at work, or has others to serve first
        try:
            return self._serve_now(message)
        except Exception as fault:  # the actor's crash, not the sender's
            self.crash(fault)
            message.abandon()
            return True

    def crash(self, fault: Exception) -> None:
        """Raise an error in the actor: its block of `open` is cancelled, and raises it."""
        self._serve_now, self._fault = None, fault
        self._block.cancel(reason=f"{self.name} crashed")

    def close(self) -> None:
        """End the mailbox: abandon all messages in it and refuse later ones. Idempotent."""
        if self._closed:
            return
        self._closed = True
        messages, self._messages = self._messages, []
        for message in messages:
            message.abandon()
        senders, self._senders = self._senders or {}, None
        for sender in senders:  # which find what they have there still, and abandon it
            trio.lowlevel.reschedule(sender)
        if self._reader is not None:
            trio.lowlevel.reschedule(self._reader)
            self._reader = None

    def statistics(self) -> MailboxStatistics:
        """Return depth, capacity and waiting senders."""
        return MailboxStatistics(len(self._messages), self._capacity, len(self._senders or ()))

    def _stopped(self) -> ActorStopped:
        return ActorStopped(self._ended or f"{self.name} has ended; nothing was delivered")


class Request(Message, Generic[Answer], frozen=True, kw_only=True):
    """A message with a reply."""

    reply: Reply[Answer] = msgspec.field(default_factory=Reply)

    def abandon(self) -> None:
        """Wake the asker with `ActorStopped`."""
        self.reply.abandon()
