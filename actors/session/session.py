"""The session actor: one conversation, its turn, and the inputs that wait for theirs.

The session is the fold of its events. Whoever stores one (the session itself, its turn, the
dispatcher, the broker) does so through the journal, and the journal puts what was committed into the
session's inbox, in order. `fold_committed` takes it from there, folds it into the conversation and
passes it on to the subscribers. It is called by the inbox for what is put into it, and by whoever
awaited a commit before going on. So the session never shows what is not stored, and never misses what is.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import assert_never

import msgspec
import trio

from ...runtime.definitions import InputMode, SessionKind
from ...runtime.errors import CallboardError, ConflictError, NotFoundError, OverloadedError
from ...runtime.events import (
    DurableEvent,
    InputAccepted,
    InputDelivered,
    LiveEvent,
    Stored,
)
from ...runtime.identity import new_id
from ...runtime.kernel.delivery import EventInbox, Hold
from ...runtime.kernel.mailbox import Mailbox, Reply
from ...runtime.kernel.supervisor import Supervisor
from ...runtime.messages import (
    Ancestor,
    AppendEvents,
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
from ..conversation.conversation import CONTRADICTIONS, Conversation, UnreadableRecord
from ..conversation.inputs import InputOptions, InputQueue, accepted, marks_of_input, options_of
from ..model.stream import MAILBOX_CAPACITY as MODEL_STREAM_CAPACITY
from ..model.stream import StartModelCall
from ..services import SessionServices
from ..turn.setup import setup_turn
from ..turn.turn import Turn
from .later_try import LaterTry
from .recovery import close_left_open, left_open
from .rerun import set_aside
from .subscribers import Subscribers, refuse, refuse_all

logger = redacting_logger(__name__)

MAILBOX_CAPACITY = 64
"""Inputs and cancels that wait while the session stores one: more than a person can type."""
MAX_WAITING_INPUTS = 256
"""Inputs that wait for their turn; past that a client gets `OverloadedError`."""

INTERRUPTED = "another input interrupted it"
"""Why a turn ended that an input cancelled."""
DELETED = "the session was deleted"
"""Why the turn of a deleted session ended."""


class Session:
    """One conversation.

    Receives: `SubmitInput`, `RerunTurn`, `ResumeTurn`, `FollowSession`, `WakeSession`, `CancelTurn`, `StopSession`.
    Sends: `AppendEvents` to the journal, `StartModelCall` to its model stream, `RunCalls` to the
        dispatcher; updates into subscriptions, without waiting.
    Owns: the conversation, the turn, the queue of inputs, its subscriptions.
    Ends: on `StopSession`, or when cancelled.

    Attributes:
        session_id: Its id.
        conversation: The fold of its events.
        lineage: The sessions that delegated to it, the parent first.
        hold: What its turn publishes ahead of the record.
    """

    def __init__(
        self, session_id: str, mailbox: Mailbox[SessionMessage], services: SessionServices
    ) -> None:
        self.session_id = session_id
        self.conversation = Conversation()
        self.lineage: tuple[Ancestor, ...] = ()
        self.hold = Hold()
        self._services = services
        self._mailbox = mailbox
        self._inbox = EventInbox()
        self._queue = InputQueue()
        self._subscribers = Subscribers(session_id)
        self._turn: Turn | None = None
        self._turn_runs = self._is_stopping = self._has_model_stream = False
        self._later_try = LaterTry(session_id, mailbox)
        self._cant_go_on: CallboardError | None = None
        self._turns_gone = trio.Event()
        self._cancels: list[Reply[bool]] = []
        self._model_stream: Mailbox[StartModelCall] = Mailbox(
            f"model stream of {session_id}", MODEL_STREAM_CAPACITY
        )

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Load the conversation, then serve until stopped."""
        services = self._services
        self._inbox = services.inboxes.open(self.session_id)
        try:
            try:
                await self._load()
                resting = services.inboxes.take_over(
                    self.session_id, self._inbox, self.conversation.head_seq
                )
                if isinstance(resting, Subscribers):
                    self._subscribers = resting
            except CallboardError as error:
                logger.error("%s can't be loaded: %s", self.session_id, error)
                task_status.started()
                refuse_all(self._mailbox, error)
                return
            finally:
                # Where it was not loaded, they have not heard what was committed meanwhile.
                services.inboxes.hang_up((self.session_id,))
            async with trio.open_nursery() as nursery:
                with self._inbox.serve(self, nursery):
                    task_status.started()
                    await self._serve(nursery)
                nursery.cancel_scope.cancel(reason="the session is unloaded")
        finally:
            services.inboxes.close(self.session_id, self._inbox)
            self._model_stream.close()
            self._subscribers.hang_up()
            for reply in self._cancels:
                reply.abandon()

    async def _load(self) -> None:
        """Fold the journal; raises `StorageError` when that can't be done."""
        if not (events := await self._services.store.events(self.session_id)):
            raise NotFoundError(f"there is no session {self.session_id}")
        try:
            self.conversation.fold_all(events)
        except CONTRADICTIONS as error:
            raise UnreadableRecord(
                f"the record of {self.session_id} contradicts itself at event "
                f"{self.conversation.head_seq}, so it does not go on. It can be read and exported; "
                "delete it, and begin another"
            ) from error
        self.lineage = await self._services.locate(self.session_id, self.conversation)
        for input_id, mode in self.conversation.waiting_modes.items():
            self._queue.add(input_id, mode)

    async def _serve(self, nursery: trio.Nursery) -> None:
        with self._mailbox.open() as messages:
            first = None
            with suppress(trio.WouldBlock):
                first = messages.receive_nowait()
            inputs = self.conversation.turn_inputs if self.conversation.turn_id else self._queue
            if isinstance(first, ResumeTurn) and inputs:
                # The session was loaded for it, so it gets the turn from the beginning.
                self._subscribers.add(inputs[0], first.subscription)
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
        """Do what a message says; return whether the session ends by that."""
        match message:
            case SubmitInput():
                await self._submit(message, nursery)
            case RerunTurn():
                await self._rerun(message, nursery)
            case ResumeTurn():
                if self._cant_go_on is not None:
                    await self._resume(nursery)  # its agent, or one above, may be another by now
                self._listen(message)
            case FollowSession():
                self._subscribers.follow(message.subscription)
                message.reply.send(
                    FollowStart(self.conversation.head_seq, self._subscribers.live.snapshot())
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

    # ── the record ───────────────────────────────────────────────────────────────────────────────

    async def append(self, *events: DurableEvent) -> tuple[Stored, ...]:
        """Store events and fold them; raises `StorageError` when nothing was stored."""
        stored: tuple[Stored, ...] = await self._services.journal.ask(
            AppendEvents(session_id=self.session_id, events=events)
        )
        self.fold_committed()
        return stored

    async def append_end(self, *events: DurableEvent) -> tuple[Stored, ...]:
        """Store the end of a turn, as `append` does.

        A delegated session ends its programs first: nothing that it started outlives its answer.
        """
        if self.conversation.kind is not SessionKind.MAIN:
            await self._services.programs.end_session(self.session_id)
        return await self.append(*events)

    def fold_committed(self) -> None:
        """Fold and publish what was committed, in order; never blocks."""
        inbox, conversation = self._inbox, self.conversation
        events = inbox.take(conversation.head_seq)
        self._subscribers.tell(events)  # first: a fold that fails takes back nothing on record
        for stored in events:
            if inbox.lost is not None or (inbox.ahead and inbox.was_ahead(stored)):
                conversation.head_seq = stored.seq
            else:
                conversation.fold(stored)
            self._queue.fold(stored)
        if self.hold.is_on and not inbox.ahead and inbox.lost is None:
            for update in self.hold.end():
                self._subscribers.publish(update)

    def fold_ahead(self, events: tuple[DurableEvent, ...]) -> bool:
        """Let the running turn go on with events before they are stored, if they are its own."""
        conversation, turn = self.conversation, self._turn
        is_ours = turn is not None and turn.turn_id == conversation.turn_id
        if is_ours and conversation.fold_ahead(events):
            self.hold.begin()
            return True
        return False

    def lose(self) -> None:
        """End the turn that went ahead of what can't be stored; nobody sees what followed."""
        self.hold.drop()
        if self._turn is not None:
            self._turn.lose()

    async def recover(self) -> bool:
        """Go back to what is on record, if that lacks what the turn went ahead with; say whether."""
        if self._inbox.lost is None:
            return False
        await self._fold_again()
        self._inbox.recovered()
        self.hold.end()
        return True

    async def _fold_again(self) -> None:
        events: list[Stored] = []
        while not events or events[-1].seq < self.conversation.head_seq:  # more came meanwhile
            events = await self._services.store.events(self.session_id)
        folder, self.conversation = self.conversation.workspace, Conversation()
        self.conversation.fold_all(events)
        self.conversation.workspace = folder

    def publish(self, update: LiveEvent) -> None:
        """Pass a live event to the listeners of the running turn, after all that it follows from."""
        if self.hold.is_on:
            self.hold.put(update)
        else:
            self._subscribers.publish(update)

    async def left_open(self) -> OpenTurn | None:
        """Return the turn that has no end on record, once all pending events are stored."""
        await self.append()
        return await left_open(self._services.store, self.session_id)

    # ── going on with what was left ──────────────────────────────────────────────────────────────

    async def _resume(self, nursery: trio.Nursery) -> None:
        """End or resume what a predecessor left open, then begin the turn of a waiting input.

        What fails here is tried again with the next prompt, which gets the error; a full disk sooner.
        """
        try:
            turn = await self._take_up_left_open() or await self._next_turn()
        except CallboardError as error:
            logger.error("%s can't go on where it was: %s", self.session_id, error)
            self._turn, self._cant_go_on = None, error
            self._subscribers.hang_up(error)
            self._later_try.begin(error, nursery)
        else:
            self._cant_go_on = None
            self._start_turns(nursery, turn)
            if turn is None:
                await self._report()

    async def _take_up_left_open(self) -> Turn | None:
        """Resume the turn that waited for a person's answer, if one did."""
        found = await self._close_left_open()
        if found is None:
            return None
        await self._services.settle_agent(self)
        await self._services.programs.tested()  # a call that waited for a person may be one
        inputs = self.conversation.turn_inputs
        turn = self._turn = self._make_turn(inputs[0], self.conversation.options.turn, found)
        self._subscribers.attend(inputs)
        await self.append(turn.resumed())
        if self.conversation.is_interrupted or self.conversation.is_deleted:
            turn.cancel(DELETED if self.conversation.is_deleted else INTERRUPTED)
        return turn

    async def _close_left_open(self) -> OpenTurn | None:
        """Close a turn without an end; return it when it waits for a person, and stays open."""
        if self.conversation.turn_id is None:
            return None
        return await close_left_open(self._services.store, self.session_id, self.append)

    def _listen(self, message: ResumeTurn) -> None:
        """Subscribe to a resumed turn, or to the first turn that runs without a listener."""
        turn = self._turn
        inputs = [turn.input_id, *self._queue] if turn is not None else list(self._queue)
        if turn is None or not turn.is_resumed:
            inputs = self._subscribers.without_listener(inputs, message.subscription)
        with message.reply:
            first = next(iter(inputs), None)
            if first is None:
                error = self._cant_go_on or ConflictError(
                    f"no turn of {self.session_id} is suspended, and no input waits"
                )
                message.subscription.close(error)
                message.reply.fail(error)
                return
            self._subscribers.add(first, message.subscription)
            message.reply.send(InputTicket(first, self.conversation.head_seq))

    # ── inputs ───────────────────────────────────────────────────────────────────────────────────

    async def _submit(self, message: SubmitInput, nursery: trio.Nursery) -> None:
        """Store an input, with its turn's start when none runs; acknowledge it only then."""
        input_id = new_id("input")
        if message.subscription is not None:
            self._subscribers.add(input_id, message.subscription)
        with message.reply:
            try:
                self.fold_committed()  # it may be deleted by now
                await self._begin_waiting(nursery)
                agent = self._services.agents.get(self.conversation.agent)
                given = self._services.given.take(input_id, message, self.conversation.parent_id)
                stored = accepted(input_id, message, agent, given)
                ticket = await self._accept(stored, is_untrusted=message.is_untrusted)
            except CallboardError as error:
                self._subscribers.remove(input_id)
                refuse(message, error)
                return
            message.reply.send(ticket)
        # The turn that ran may have ended during the commit, and found no input behind it.
        await self._go_on(nursery)

    async def _accept(self, accepted: InputAccepted, *, is_untrusted: bool) -> InputTicket:
        await self._services.settle_agent(self)
        if self.conversation.is_deleted:
            raise ConflictError(
                f"{self.session_id} is deleted, and takes no prompts: restore it first"
            )
        if len(self._queue) >= MAX_WAITING_INPUTS:
            raise OverloadedError(
                f"{MAX_WAITING_INPUTS} inputs wait already in {self.session_id}; try later"
            )
        self.conversation.options.check_steering(accepted, self.conversation.turn_id)
        known, files = self.conversation.marks, self._services.marked_files
        marks = marks_of_input(known, accepted, files, is_untrusted=is_untrusted)
        if self._turn is not None or await self._close_left_open() is not None:
            stored, *_ = await self.append(accepted, *marks)
            modes = self.conversation.waiting_modes  # by now: the turn may have ended meanwhile
            self._queue.add(accepted.input_id, modes.get(accepted.input_id, accepted.mode))
            if accepted.mode is InputMode.INTERRUPT and self._turn is not None:
                self._turn.cancel(INTERRUPTED)
            return InputTicket(accepted.input_id, stored.seq)
        turn = self._make_turn(accepted.input_id, options_of(accepted))
        stored, *_ = await self.append(accepted, *marks, turn.started())
        self._turn = turn
        return InputTicket(accepted.input_id, stored.seq, turn.turn_id)

    async def _rerun(self, message: RerunTurn, nursery: trio.Nursery) -> None:
        """Set the last turn aside and begin another for its inputs, in one commit."""
        with message.reply:
            try:
                await self._services.settle_agent(self)
                await self._begin_waiting(nursery)
                if self._turn is None:
                    await self._close_left_open()
                is_busy = self._turn is not None or bool(self._queue)
                self.fold_committed()
                aside = set_aside(self.conversation, message, is_busy=is_busy)
                first = aside.input_ids[0]
                self._services.given.claim(self.session_id, (first,), message.command)
                if message.subscription is not None:
                    self._subscribers.add(first, message.subscription)
                try:
                    turn = self._make_turn(first, self.conversation.options.again, goes_on=True)
                    started = msgspec.structs.replace(turn.started(), input_ids=aside.input_ids)
                    stored, _ = await self.append(aside, started)
                except BaseException:
                    self._subscribers.remove(first)
                    raise
            except CallboardError as error:
                refuse(message, error)
                return
            self._turn = turn
            message.reply.send(InputTicket(first, stored.seq, turn.turn_id))
        await self._go_on(nursery)

    async def _begin_waiting(self, nursery: trio.Nursery) -> None:
        """Begin inputs that wait before a new one; raise why they still can't begin."""
        if self._turn is None and self._queue:
            await self._resume(nursery)
            if self._cant_go_on is not None:
                raise self._cant_go_on

    async def _go_on(self, nursery: trio.Nursery) -> None:
        """Run the turn that is due, if none runs."""
        if self._turn is None:
            await self._resume(nursery)
        elif not self._turn_runs:
            self._start_turns(nursery, self._turn)

    async def deliver_steering(self, turn_id: str) -> None:
        """Make inputs that steer part of the running turn; on failure they wait again.

        Shielded, as the store bounds it: whoever cancels the turn meanwhile finds each input either
        in the queue or in the turn.
        """
        if not (steering := self._queue.take_steering(self.conversation.options.may_steer)):
            return
        delivered = [InputDelivered(turn_id=turn_id, input_id=each) for each in steering]
        try:
            with trio.CancelScope(shield=True):
                await self.append(*delivered)
        except CallboardError:
            self._queue.put_back(steering)
            raise

    # ── cancelling and stopping ──────────────────────────────────────────────────────────────────

    async def _cancel(self, message: CancelTurn) -> None:
        """Cancel what was meant; the reply comes when it is gone."""
        if (meant := message.input_id) is not None and meant in self._queue:
            await self._cancel_waiting(message, meant)
        elif self._turn is not None and meant in {None, self._turn.input_id}:
            self._turn.cancel(message.reason)
            self._cancels.append(message.reply)
        elif self._turn is None and self.conversation.has_open_turn(meant):
            await self._cancel_suspended(message)
        else:
            message.reply.send(False)

    async def _cancel_suspended(self, message: CancelTurn) -> None:
        """End a turn that waits on record because it can't go on."""
        from .cancelling import answering, end_suspended  # here: few sessions cancel so

        below = self._services.tree.detached
        with answering(message.reply):
            if (left := await self._close_left_open()) is not None:
                await end_suspended(left, message.reason, below.cancel_below, self.append_end)
            await self._report()

    async def _cancel_waiting(self, message: CancelTurn, input_id: str) -> None:
        """Cancel an input that waits, and with it the deferred call that it was about.

        It is on record before it is acknowledged: the input must not run after a restart either.
        """
        from .cancelling import answering, cancelled_input

        place = self._queue.index(input_id)
        self._queue.remove(input_id)  # ahead of the commit, during which its turn could start
        ends = cancelled_input(self.conversation, input_id, message.reason)
        with answering(message.reply):
            try:
                await self.append(*ends)
            except CallboardError:
                self._queue.insert(place, input_id)
                raise

    async def _stop(self, message: StopSession) -> bool:
        """End the turn; return whether the session ends. Waiting inputs stay on record."""
        with message.reply:
            is_used = self._turn is not None or self._mailbox.statistics().depth
            if message.only_idle and is_used:
                message.reply.send(False)
                return False
            self._is_stopping = True
            if message.only_idle and self._subscribers.has_followers:
                # In one step, so that they hear each event once, from the session or from there.
                self.fold_committed()
                self._services.inboxes.rest(self.session_id, self._inbox, self._subscribers)
                self._subscribers = Subscribers(self.session_id)
            if self._turn is not None:
                self._turn.cancel(message.reason, suspends=message.suspends)
                await self._turns_gone.wait()
            message.reply.send(True)
            return True

    # ── turns ────────────────────────────────────────────────────────────────────────────────────

    def _start_turns(self, nursery: trio.Nursery, turn: Turn | None) -> None:
        if turn is not None:
            if not self._has_model_stream:  # the first turn: many sessions are loaded and have none
                self._has_model_stream = True
                stream = self._model_stream
                make = partial(self._services.model_stream, self.session_id, stream)
                supervisor = Supervisor(nursery, strict=self._services.strict)
                supervisor.start_soon(stream.name, make, stream, vital=False)
            self._turn_runs = True
            # Here and not in the task: a stop may wait for it before the task runs.
            self._turns_gone = trio.Event()
            nursery.start_soon(self._run_turns, turn, nursery, name=f"turns of {self.session_id}")

    async def _run_turns(self, turn: Turn, nursery: trio.Nursery) -> None:
        """Run a turn that has started, then those of the inputs that came meanwhile."""
        current: Turn | None = turn
        try:
            while current is not None:
                if self.conversation.is_stale:
                    await self._fold_again()
                with self._services.activity.turn(self.session_id, current.turn_id):
                    await current.run()
                self._turn_ended()
                await self._report()
                current = await self._next_turn()
        except CallboardError as error:
            # The record has no end of this turn; it gets one before the next input's turn.
            logger.error("a turn of %s has no end on record: %s", self.session_id, error)
            await self.recover()
            self._turn_ended()
            self._subscribers.hang_up(error)
            self._later_try.begin(error, nursery)
        finally:
            self._turn, self._turn_runs = None, False
            self._turns_gone.set()

    async def _report(self) -> None:
        """Deliver the answer of a detached session to its parent, which did not wait for it."""
        conversation = self.conversation
        if conversation.is_detached and conversation.turn_inputs and conversation.turn_id is None:
            await self._services.tree.detached.deliver(self.session_id, wakes=not self._is_stopping)

    def _turn_ended(self, error: CallboardError | None = None) -> None:
        """Answer those who wait for the turn's cancellation."""
        self._turn = None
        cancels, self._cancels = self._cancels, []
        for reply in cancels:
            reply.send(True) if error is None else reply.fail(error)

    async def _next_turn(self) -> Turn | None:
        """Start the turn of the first input that waits, if it may begin."""
        if self._queue:
            await self._services.settle_agent(self)
        if not self._queue or self._is_stopping or self.conversation.is_deleted:
            return None
        input_id = self._queue[0]
        turn = self._turn = self._make_turn(input_id, self.conversation.options.of(input_id))
        del self._queue[0]
        try:
            if (late := self.conversation.pending.inputs.get(input_id)) is not None:
                answers = await self._services.store.approvals(
                    session_id=self.session_id, approval_id=late.approval_id
                )
                turn.run_first(tuple(answers))  # it is about a deferred call
            await self.append(turn.started())
        except CallboardError as error:
            self._queue.put_back([input_id])
            self._turn_ended(error)  # it waits again, and will have its turn
            raise
        return turn

    def _make_turn(
        self,
        input_id: str,
        options: InputOptions | None,
        left: OpenTurn | None = None,
        *,
        goes_on: bool = False,
    ) -> Turn:
        if left is None:
            self._services.store.health.check()
        origins = self.conversation.options.origins_of(input_id, runs_again=goes_on)
        pacer, goes_on = self._subscribers.get(input_id), goes_on or left is not None
        setup = setup_turn(
            self, self._services, self._model_stream, pacer, options, origins, goes_on=goes_on
        )
        return Turn(self, input_id, setup, left)
