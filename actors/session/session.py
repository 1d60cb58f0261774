"""The session: one conversation, its turn, and the inputs that wait for theirs."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import assert_never

import trio

from ...runtime.definitions import InputMode
from ...runtime.errors import CallboardError, ConflictError, OverloadedError
from ...runtime.events import InputAccepted
from ...runtime.identity import new_id
from ...runtime.kernel.delivery import Subscription
from ...runtime.kernel.mailbox import Mailbox, Reply
from ...runtime.kernel.supervisor import Supervisor
from ...runtime.messages import (
    CancelTurn,
    FollowSession,
    FollowStart,
    InputTicket,
    RerunTurn,
    ResumeTurn,
    SessionMessage,
    StopSession,
    SubmitInput,
    WakeSession,
)
from ...runtime.redaction import redacting_logger
from ...runtime.store.rows import OpenTurn
from ..conversation.turn_options import Given, given_with
from ..model.stream import MAILBOX_CAPACITY as MODEL_STREAM_CAPACITY
from ..model.stream import StartModelCall
from ..services import SessionServices
from ..turn.factory import make_turn
from ..turn.record import accepted_input, cancelled_input
from ..turn.turn import Turn
from .recovery import close_left_open, late_answers, left_open
from .session_record import SessionRecord


def refuse(message: SubmitInput | RerunTurn, error: CallboardError) -> None:
    """Tells who asked for a turn why there is none."""
    if message.subscription is not None:
        message.subscription.close(error)
    message.reply.fail(error)


def refuse_all(mailbox: Mailbox[SessionMessage], error: CallboardError) -> None:
    """Tells whoever waits why there is no session; the next request tries to load it again."""
    with mailbox.open() as messages, suppress(trio.WouldBlock):
        while True:
            message = messages.receive_nowait()
            subscription: Subscription | None = getattr(message, "subscription", None)
            if subscription is not None:
                subscription.close(error)
            message.reply.fail(error)


logger = redacting_logger(__name__)

MAILBOX_CAPACITY = 64
"""Inputs and cancels that wait while the session stores one: more than a person can type."""
MAX_WAITING_INPUTS = 256
"""Inputs that wait for their turn; past that a client is told to slow down."""

INTERRUPTED = "another input interrupted it"
"""Why the turn has ended that an input cancelled."""
DELETED = "the session was deleted"
"""Why its turn has ended."""


class Session(SessionRecord):
    """One conversation.

    Receives: `SubmitInput`, `RerunTurn`, `ResumeTurn`, `FollowSession`, `WakeSession`,
        `CancelTurn`, `StopSession`.
    Sends: `AppendEvents` to the journal, `StartModelCall` to its model stream, `RunCalls` to the
        dispatcher; updates into subscriptions, without waiting.
    Owns: the conversation, the turn, the queue of inputs, its subscriptions.
    Ends: on `StopSession`, or when cancelled. A crash throws its state away; the successor folds
        the journal anew and closes what was open.
    """

    def __init__(
        self, session_id: str, mailbox: Mailbox[SessionMessage], services: SessionServices
    ) -> None:
        super().__init__(session_id, services)
        self._mailbox = mailbox
        self._turn: Turn | None = None
        self._turn_runs = False
        self._cant_go_on: CallboardError | None = None
        self._turns_gone = trio.Event()
        self._is_stopping = False
        self._cancels: list[Reply[bool]] = []
        self._model_stream: Mailbox[StartModelCall] = Mailbox(
            f"model stream of {session_id}", MODEL_STREAM_CAPACITY
        )

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Loads the conversation, then serves until told to stop."""
        services = self._services
        self._inbox = services.inboxes.open(self.session_id)
        try:
            try:
                await self._load()
            except CallboardError as error:
                logger.error("%s can't be loaded: %s", self.session_id, error)
                task_status.started()
                refuse_all(self._mailbox, error)
                return
            async with trio.open_nursery() as nursery:
                supervisor = Supervisor(nursery, strict=services.strict)
                await supervisor.start(
                    self._model_stream.name,
                    partial(services.model_stream, self.session_id, self._model_stream),
                    self._model_stream,
                    vital=False,
                )
                nursery.start_soon(self._fold_inbox, name=f"inbox of {self.session_id}")
                task_status.started()
                await self._serve(nursery)
                nursery.cancel_scope.cancel(reason="the session is unloaded")
        finally:
            services.inboxes.close(self.session_id, self._inbox)
            self._audience.hang_up()
            for reply in self._cancels:
                reply.abandon()

    async def _serve(self, nursery: trio.Nursery) -> None:
        with self._mailbox.open() as messages:
            first = None
            with suppress(trio.WouldBlock):
                first = messages.receive_nowait()
            inputs = self.conversation.turn_inputs if self.conversation.turn_id else self._queue
            if isinstance(first, ResumeTurn) and inputs:
                # It is why the session was loaded, and hears the turn from the beginning.
                self._audience.add(inputs[0], first.subscription)
            try:
                await self._resume(nursery)
            except BaseException:
                if first is not None:
                    first.abandon()
                raise
            if first is not None and await self._handle(first, nursery):
                return
            async for message in messages:
                if await self._handle(message, nursery):
                    return

    async def _handle(self, message: SessionMessage, nursery: trio.Nursery) -> bool:
        """Does what a message says; whether the session ends by that."""
        match message:
            case SubmitInput():
                await self._submit(message, nursery)
            case RerunTurn():
                await self._rerun(message, nursery)
            case ResumeTurn():
                self._listen(message)
            case FollowSession():
                self._audience.follow(message.subscription)
                message.reply.send(
                    FollowStart(self.conversation.head_seq, self._audience.live.snapshot())
                )
            case WakeSession():
                with message.reply:
                    await self._go_on(nursery)
                    message.reply.send(None)
            case CancelTurn():
                await self._cancel(message)
            case StopSession():
                return await self._stop(message)
            case _:
                assert_never(message)
        return False

    async def _resume(self, nursery: trio.Nursery) -> None:
        """Ends, or goes on with, what a predecessor left open; then with the inputs that wait.

        What can't be done now is tried again with the next prompt, which is told why it failed.
        """
        try:
            turn = await self._take_up_left_open() or await self._next_turn()
        except CallboardError as error:
            logger.error("%s can't go on where it was: %s", self.session_id, error)
            self._turn, self._cant_go_on = None, error
            self._audience.hang_up(error)
        else:
            self._cant_go_on = None
            self._start_turns(nursery, turn)
            if turn is None:
                await self._report()

    async def _take_up_left_open(self) -> Turn | None:
        """The turn that waited for a person's answer, if one did."""
        found = await self._close_left_open()
        if found is None:
            return None
        await self._services.programs.ready()
        turn = self._turn = self._make_turn(self.conversation.turn_inputs[0], found)
        self._audience.attend(self.conversation.turn_inputs)
        await self.append(turn.resumed())
        if self.conversation.is_interrupted or self.conversation.is_deleted:
            turn.cancel(DELETED if self.conversation.is_deleted else INTERRUPTED)
        return turn

    async def _close_left_open(self) -> OpenTurn | None:
        """Closes a turn without an end; one that waits for a person's answer stays open."""
        if self.conversation.turn_id is None:
            return None
        return await close_left_open(self._services.store, self.session_id, self.append)

    def _listen(self, message: ResumeTurn) -> None:
        """Hears a turn that was suspended, or the first that nobody hears: it runs by itself."""
        turn = self._turn
        inputs = [turn.input_id, *self._queue] if turn is not None else list(self._queue)
        if turn is None or not turn.is_resumed:
            inputs = self._audience.unheard(inputs, message.subscription)
        with message.reply:
            heard = next(iter(inputs), None)
            if heard is None:
                error = self._cant_go_on or ConflictError(
                    f"no turn of {self.session_id} is suspended, and no input waits"
                )
                message.subscription.close(error)
                message.reply.fail(error)
                return
            self._audience.add(heard, message.subscription)
            message.reply.send(InputTicket(heard, self.conversation.head_seq))

    async def left_open(self) -> OpenTurn | None:
        """The turn that has no end on record, behind all that was to be stored so far."""
        await self.append()
        return await left_open(self._services.store, self.session_id)

    # ── inputs ───────────────────────────────────────────────────────────────────────────────────

    async def _submit(self, message: SubmitInput, nursery: trio.Nursery) -> None:
        """Stores an input, with its turn's start when none runs; acknowledged only then."""
        input_id = new_id("input")
        if message.subscription is not None:
            self._audience.add(input_id, message.subscription)
        with message.reply:
            try:
                self.fold_committed()  # it may be deleted by now
                await self._begin_waiting(nursery)
                ticket = await self._accept(accepted_input(input_id, message))
            except CallboardError as error:
                self._audience.remove(input_id)
                refuse(message, error)
                return
            message.reply.send(ticket)
        # The turn that ran may have ended during the commit, and found no input behind it.
        await self._go_on(nursery)

    async def _rerun(self, message: RerunTurn, nursery: trio.Nursery) -> None:
        """Runs the last turn again: it is set aside, and the next begins in the same commit."""
        with message.reply:
            try:
                await self._services.programs.ready()
                await self._begin_waiting(nursery)
                if self._turn is None:
                    await self._close_left_open()
                is_busy = self._turn is not None or bool(self._queue)
                turn, ticket = await self.begin_again(message, self._make_turn, is_busy)
            except CallboardError as error:
                refuse(message, error)
                return
            self._turn = turn
            message.reply.send(ticket)
        await self._go_on(nursery)

    async def _begin_waiting(self, nursery: trio.Nursery) -> None:
        """Inputs whose turn could not begin come before a new one; raises why they still can't."""
        if self._turn is None and self._queue:
            await self._resume(nursery)
            if self._cant_go_on is not None:
                raise self._cant_go_on

    async def _go_on(self, nursery: trio.Nursery) -> None:
        """Has the turn run that is due, if none runs."""
        if self._turn is None:
            await self._resume(nursery)
        elif not self._turn_runs:
            self._start_turns(nursery, self._turn)

    async def _accept(self, accepted: InputAccepted) -> InputTicket:
        await self._services.programs.ready()
        if self.conversation.is_deleted:
            raise ConflictError(
                f"{self.session_id} is deleted, and takes no prompts: restore it first"
            )
        if len(self._queue) >= MAX_WAITING_INPUTS:
            raise OverloadedError(
                f"{MAX_WAITING_INPUTS} inputs wait already in {self.session_id}; try later"
            )
        self.conversation.options.check_steering(accepted, self.conversation.turn_id)
        if self._turn is not None or await self._close_left_open() is not None:
            (stored,) = await self.append(accepted)
            modes = self.conversation.waiting_modes  # by now: the turn may have ended meanwhile
            self._queue.add(accepted.input_id, modes.get(accepted.input_id, accepted.mode))
            if accepted.mode is InputMode.INTERRUPT and self._turn is not None:
                self._turn.cancel(INTERRUPTED)
            return InputTicket(accepted.input_id, stored.seq)
        turn = self._make_turn(accepted.input_id, given=given_with(accepted))
        stored, _ = await self.append(accepted, turn.started())
        self._turn = turn
        return InputTicket(accepted.input_id, stored.seq, turn.turn_id)

    async def _cancel(self, message: CancelTurn) -> None:
        """Cancels what was meant; the answer comes when it is gone."""
        if message.input_id is not None and message.input_id in self._queue:
            await self._cancel_waiting(message, message.input_id)
        elif self._turn is None or message.input_id not in {None, self._turn.input_id}:
            message.reply.send(False)
        else:
            self._turn.cancel(message.reason)
            self._cancels.append(message.reply)

    async def _cancel_waiting(self, message: CancelTurn, input_id: str) -> None:
        """On record before it is acknowledged: the input must not run after a restart either."""
        place = self._queue.index(input_id)
        self._queue.remove(input_id)  # ahead of the commit, during which its turn could start
        with message.reply:
            try:
                await self.append(*cancelled_input(self, input_id, message.reason))
            except CallboardError as error:
                self._queue.insert(place, input_id)
                message.reply.fail(error)
                return
            message.reply.send(True)

    async def _stop(self, message: StopSession) -> bool:
        """Ends the turn and says whether the session ends; waiting inputs stay on the record."""
        with message.reply:
            is_used = self._turn is not None or self._audience.is_followed
            if message.only_idle and (is_used or self._mailbox.statistics().depth):
                message.reply.send(False)
                return False
            self._is_stopping = True
            if self._turn is not None:
                self._turn.cancel(message.reason, suspends=message.suspends)
                await self._turns_gone.wait()
            message.reply.send(True)
            return True

    # ── turns ────────────────────────────────────────────────────────────────────────────────────

    def _start_turns(self, nursery: trio.Nursery, turn: Turn | None) -> None:
        if turn is not None:
            self._turn_runs = True
            # Here and not in the task: who stops the session may wait before that runs.
            self._turns_gone = trio.Event()
            nursery.start_soon(self._run_turns, turn, name=f"turns of {self.session_id}")

    async def _run_turns(self, turn: Turn) -> None:
        """Runs a turn that has started, then those of the inputs that came meanwhile."""
        current: Turn | None = turn
        try:
            while current is not None:
                with self._services.activity.turn(self.session_id, current.turn_id):
                    await current.run()
                self._turn_ended()
                await self._report()
                current = await self._next_turn()
        except CallboardError as error:
            # The record has no end of this turn; it gets one before the next input's.
            logger.error("a turn of %s has no end on record: %s", self.session_id, error)
            self._turn_ended()
            self._audience.hang_up(error)
        finally:
            self._turn, self._turn_runs = None, False
            self._turns_gone.set()

    async def _report(self) -> None:
        """Tells the parent of a turn that has ended, when that did not wait for it."""
        conversation = self.conversation
        if conversation.is_detached and conversation.turn_inputs and conversation.turn_id is None:
            await self._services.tree.detached.deliver(self.session_id, wakes=not self._is_stopping)

    def _turn_ended(self) -> None:
        self._turn = None
        self._answer_cancels()

    def _answer_cancels(self, error: CallboardError | None = None) -> None:
        cancels, self._cancels = self._cancels, []
        for reply in cancels:
            reply.send(True) if error is None else reply.fail(error)

    async def _next_turn(self) -> Turn | None:
        if self._queue:
            await self._services.programs.ready()
        if not self._queue or self._is_stopping or self.conversation.is_deleted:
            return None
        turn = self._turn = self._make_turn(self._queue[0])
        self._queue.popleft()
        try:
            turn.run_first(await late_answers(self._services.store, self, turn.input_id))
            await self.append(turn.started())
        except CallboardError as error:
            self._queue.put_back([turn.input_id])
            self._answer_cancels(error)  # it waits again, and will have its turn
            raise
        return turn

    def _make_turn(
        self, input_id: str, left: OpenTurn | None = None, given: Given | None = None
    ) -> Turn:
        if left is None:
            self._services.store.disk.check()
        pacer = self._audience.get(input_id)
        return make_turn(self, self._services, self._model_stream, input_id, pacer, left, given)
