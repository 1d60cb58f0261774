"""What a session knows, and its one way of knowing more: the journal."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import trio

from ...runtime.definitions import SessionKind
from ...runtime.errors import CallboardError, NotFoundError
from ...runtime.events import DurableEvent, InputDelivered, LiveEvent, Stored
from ...runtime.kernel.delivery import EventInbox
from ...runtime.messages import Ancestor, AppendEvents, InputTicket, RerunTurn
from ..conversation.conversation import CONTRADICTIONS, Conversation, UnreadableRecord
from ..conversation.input_queue import InputQueue
from ..services import SessionServices
from ..turn.turn import Turn
from .rerun import set_aside
from .subscribers import Audience


class SessionRecord:
    """The conversation of one session, folded from what was committed; the same live and on load.

    Attributes:
        session_id: Which session.
        conversation: The fold of its events.
        lineage: Who delegated to it, the parent first.
    """

    def __init__(self, session_id: str, services: SessionServices) -> None:
        self.session_id = session_id
        self.conversation = Conversation()
        self.lineage: tuple[Ancestor, ...] = ()
        self._services = services
        self._inbox = EventInbox()
        self._queue = InputQueue()
        self._audience = Audience(session_id)

    async def append(self, *events: DurableEvent) -> tuple[Stored, ...]:
        """Stores events and folds them; raises `StorageError` when nothing was stored."""
        stored: tuple[Stored, ...] = await self._services.journal.ask(
            AppendEvents(session_id=self.session_id, events=events)
        )
        self.fold_committed()
        return stored

    async def append_end(self, *events: DurableEvent) -> tuple[Stored, ...]:
        """Stores the end of a turn, as `append`.

        A session that was delegated ends with it: nothing that it started runs on behind its answer.
        """
        if self.conversation.kind is not SessionKind.MAIN:
            await self._services.programs.end_session(self.session_id)
        return await self.append(*events)

    async def begin_again(
        self, message: RerunTurn, make_turn: Callable[..., Turn], is_busy: bool
    ) -> tuple[Turn, InputTicket]:
        """Sets the last turn aside and begins another for its inputs, in one commit.

        Raises:
            CallboardError: That can't be; nothing is changed.
        """
        self.fold_committed()
        aside = set_aside(self.conversation, message, is_busy=is_busy)
        first = aside.input_ids[0]
        if message.subscription is not None:
            self._audience.add(first, message.subscription)
        try:
            turn = make_turn(first, given=self.conversation.options.again)
            started = msgspec.structs.replace(turn.started(), input_ids=aside.input_ids)
            stored, _ = await self.append(aside, started)
        except BaseException:
            self._audience.remove(first)
            raise
        return turn, InputTicket(first, stored.seq, turn.turn_id)

    async def deliver_steering(self, turn_id: str) -> None:
        """Makes the inputs that steer part of the running turn; what can't be stored waits again.

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

    async def _fold_inbox(self) -> None:
        while True:
            await self._inbox.wait()
            self.fold_committed()

    def fold_committed(self) -> None:
        """Folds and publishes what was committed, in order; never blocks.

        Called by the inbox's task, and by whoever awaited a commit, before it goes on.
        """
        while (stored := self._inbox.take()) is not None:
            if stored.seq <= self.conversation.head_seq:
                continue  # committed while the journal was read: the load has folded it
            self.conversation.fold(stored)
            self._audience.tell(stored)
            self._queue.fold(stored)

    def publish(self, update: LiveEvent) -> None:
        """Tells the listeners of the running turn."""
        self._audience.publish(update)

    async def _load(self) -> None:
        """Folds the journal; raises `StorageError` when that can't be."""
        events = await self._services.store.events(self.session_id)
        if not events:
            raise NotFoundError(f"there is no session {self.session_id}")
        try:
            self.conversation.fold_all(events)
        except CONTRADICTIONS as error:
            raise UnreadableRecord(
                f"the record of {self.session_id} contradicts itself at event "
                f"{self.conversation.head_seq}, so it does not go on. It can be read and exported; "
                "delete it, and begin another"
            ) from error
        self.lineage = await self._services.lineage.above(self.conversation.parent_id)
        for input_id, mode in self.conversation.waiting_modes.items():
            self._queue.add(input_id, mode)
