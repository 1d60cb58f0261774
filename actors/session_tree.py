"""The session tree: how a session starts others below it, hears from them, and ends them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

import trio

from ..config.settings import Limits
from ..runtime.budget import Budget
from ..runtime.definitions import ErrorType, InputSource, SessionKind, ToolFailure
from ..runtime.errors import ActorStopped, CallboardError, ConflictError
from ..runtime.events import (
    DurableEvent,
    InputAccepted,
    InputCancelled,
    SessionCreated,
)
from ..runtime.excerpt import excerpt
from ..runtime.handles import Delegated, Delegation, SessionsHandle
from ..runtime.history import Call
from ..runtime.identity import new_id
from ..runtime.mailbox import Mailbox
from ..runtime.messages import (
    UNMARKED,
    AppendEvents,
    CallPlace,
    CancelTurn,
    CreateSession,
    DirectoryMessage,
    InputTicket,
    JournalMessage,
    ResumeTurn,
    SessionMarks,
    SubmitInput,
    WakeSession,
)
from ..runtime.projection import MAX_TITLE_LENGTH
from ..runtime.redaction import redacting_logger
from ..runtime.store import SessionRow, StoreReader
from ..runtime.subscription import Subscription
from ..tools.left_running import left_running
from ..tools.registry import ToolRegistry, is_available
from .child_answer import ChildAnswer, told
from .session_marks import marked

logger = redacting_logger(__name__)

REAP_SECONDS = 8.0
"""How long a cancelled call waits until the session that it started is gone: less than its turn
waits for the call, so that what is left is named."""

MAX_CALLS_OF_A_TURN = 1000
"""Calls among which those of a cancelled turn are looked for, the latest first."""

Clip = Callable[[CallPlace, Budget | None], Budget | None]
"""What a session may give of this budget to one below it; raises `ToolFailure` for nothing."""


def as_asked(place: CallPlace, budget: Budget | None) -> Budget | None:
    """Where nothing is bounded."""
    return budget


class SessionTree:
    """What sessions of a runtime do with those below them.

    Args:
        directory: Starts, cancels and wakes sessions.
        journal: Where the answer of one that nobody waited for is put on record.
        store: The record.
        registry: The tools.
        limits: How deep and how wide the tree may be.
        clip: What a session may give of a budget.
    """

    def __init__(
        self,
        directory: Mailbox[DirectoryMessage],
        journal: Mailbox[JournalMessage],
        store: StoreReader,
        registry: ToolRegistry,
        limits: Limits,
        clip: Clip = as_asked,
    ) -> None:
        self.directory = directory
        self.store = store
        self.limits = limits
        self.clip = clip
        self._journal = journal
        self._registry = registry
        self._running: defaultdict[str, set[str]] = defaultdict(set)

    def handle(self, place: CallPlace, call: Call) -> SessionsHandle | None:
        """What a call of `delegate` acts through; a worker has none."""
        return None if place.session_kind is SessionKind.WORKER else _Below(self, place, call)

    # ── room ─────────────────────────────────────────────────────────────────────────────────────

    def begin(self, place: CallPlace, call: Call) -> None:
        """Takes room for a session below this one; raises `ToolFailure` when there is none."""
        depth, most = len(place.lineage) + 1, self.limits.max_session_depth
        if depth > most:
            raise ToolFailure(
                ErrorType.EXECUTION_ERROR,
                f"Not started: this session is {depth - 1} below the main one, and sessions go "
                f"{most} deep (max_session_depth). Do the task here, with your own tools.",
            )
        running, wide = self._running[place.session_id], self.limits.max_child_sessions
        if len(running) >= wide:
            raise ToolFailure(
                ErrorType.EXECUTION_ERROR,
                f"Not started: {len(running)} sessions run below this one, and that is the most "
                "(max_child_sessions). Wait until one has answered, or do the task here.",
            )
        running.add(call.call_id)

    def end(self, parent_id: str, call_id: str) -> None:
        """Gives the room back. Idempotent."""
        running = self._running.get(parent_id)
        if running is not None:
            running.discard(call_id)
            if not running:
                del self._running[parent_id]

    def tools(self, place: CallPlace, delegation: Delegation) -> tuple[str, ...]:
        """The child's tools by name, which are some of its parent's; raises `ToolFailure`."""
        kind = delegation.kind
        own = self._registry.definitions(place.agent.tools, place.session_kind)
        there = tuple(each.name for each in own if is_available(each, kind))
        if delegation.tools is None:
            return there
        missing = [name for name in delegation.tools if name not in there]
        if missing:
            raise ToolFailure(
                ErrorType.TOOL_NOT_AVAILABLE,
                f"Not started: a {kind} of this session can't have {', '.join(missing)[:200]}. "
                f"It can have: {', '.join(there)}.",
            )
        return tuple(dict.fromkeys(delegation.tools))

    # ── those that nobody waits for ──────────────────────────────────────────────────────────────

    async def take_up(self) -> None:
        """Sees to those of an earlier process: their parents hear how they ended, or they go on."""
        try:
            open_turns = {turn.session_id for turn in await self.store.open_turns()}
            for row in await self.store.children(is_detached=True):
                if row.session_id in open_turns:
                    await self.directory.tell(WakeSession(session_id=row.session_id))
                else:
                    await self.deliver(row.session_id)
        except CallboardError as error:
            logger.error("sessions that nobody waits for can't be taken up: %s", error)

    async def deliver(self, child_id: str, *, wakes: bool = True) -> None:
        """Puts the answer of one that has ended on its parent's record, once, and wakes that.

        What can't be stored now is delivered by the next process.
        """
        try:
            row = await self.store.session(child_id)
            if row is None or row.parent_id is None or not row.is_detached:
                return
            answer = ChildAnswer.of(await self.store.events(child_id))
            parent = await self.store.session(row.parent_id)
            events = [*marks_of(row, parent), self._late(row, told(child_id, answer))]
            self.end(row.parent_id, row.parent_call_id)
            await self._append(row.parent_id, *events)
            if wakes:
                await self.directory.tell(WakeSession(session_id=row.parent_id))
        except CallboardError as error:
            logger.error("the answer of %s is not delivered: %s", child_id, error)

    async def cancel_detached(self, parent_id: str, turn_id: str, reason: str) -> None:
        """Ends those that a cancelled turn started and did not wait for; shielded and bounded.

        Their parent has it on record that they were cancelled, and no turn of its own for it.
        """
        with trio.CancelScope(shield=True):
            try:
                rows = await self._detached_of(parent_id, turn_id)
            except CallboardError as error:
                logger.error("sessions below %s can't be found: %s", parent_id, error)
                return
            async with trio.open_nursery() as nursery:
                for row in rows:
                    nursery.start_soon(self._cancel_detached, row, turn_id, reason)

    async def _detached_of(self, parent_id: str, turn_id: str) -> list[SessionRow]:
        rows = await self.store.children(parent_id, is_detached=True)
        if not rows:
            return []
        calls = await self.store.calls(
            session_id=parent_id, name="delegate", limit=MAX_CALLS_OF_A_TURN
        )
        own = {call.call_id for call in calls if call.turn_id == turn_id}
        return [row for row in rows if row.parent_call_id in own]

    async def _cancel_detached(self, row: SessionRow, turn_id: str, reason: str) -> None:
        assert row.parent_id is not None
        late = self._late(row, f"The session {row.session_id} was cancelled: {reason}.")
        dropped = InputCancelled(input_id=late.input_id, reason=reason)
        try:
            await self._append(row.parent_id, late, dropped)
        except CallboardError as error:
            logger.error("that %s is cancelled is not on record: %s", row.session_id, error)
        self.end(row.parent_id, row.parent_call_id)
        await self.reap(row.session_id, turn_id, reason)

    async def reap(
        self, child_id: str, turn_id: str, reason: str, input_id: str | None = None
    ) -> None:
        """Cancels a session below a turn, and names it as left over when it is not gone in time."""
        cancel = CancelTurn(session_id=child_id, reason=reason, input_id=input_id)
        try:
            with trio.move_on_after(REAP_SECONDS, shield=True) as bound:
                await self.directory.ask(cancel)
        except CallboardError as error:
            logger.error("the session %s can't be cancelled: %s", child_id, error)
            return
        if bound.cancelled_caught:
            left_running().add(turn_id, f"session {child_id}")

    def _late(self, row: SessionRow, text: str) -> InputAccepted:
        return InputAccepted(
            input_id=new_id("input"),
            text=text,
            source=InputSource.DELEGATE,
            call_id=row.parent_call_id,
            child_id=row.session_id,
        )

    async def _append(self, session_id: str, *events: DurableEvent) -> None:
        await self._journal.ask(AppendEvents(session_id=session_id, events=events))


class _Below:
    """What one call starts.

    Attributes:
        read: What the session has read whose answer came back.
    """

    def __init__(self, tree: SessionTree, place: CallPlace, call: Call) -> None:
        self.read = UNMARKED
        self._tree = tree
        self._place = place
        self._call = call

    async def delegate(
        self, delegation: Delegation, on_progress: Callable[[str], None] | None = None
    ) -> Delegated:
        """See `SessionsHandle`; a call that was begun by an earlier process finds what it began."""
        tree, place, call_id = self._tree, self._place, self._call.call_id
        tree.begin(place, self._call)
        stays = False
        try:
            subscription = Subscription()
            child_id, ticket = "", None
            begun = await tree.store.children(place.session_id, call_id=call_id)
            # A start that is cancelled half-way would leave a session that nobody knows of.
            with trio.CancelScope(shield=True):
                if begun:
                    child_id = begun[0].session_id
                    ticket = await self._attach(child_id, subscription)
                else:
                    child_id = await self._create(delegation)
                    ticket = await self._submit(child_id, delegation, subscription)
            if not delegation.wait:
                stays = True
                return Delegated(session_id=child_id, outcome="running")
            if on_progress is not None:
                on_progress(f"{delegation.kind} {child_id} runs\n")
            return await self._answer(child_id, ticket, subscription)
        finally:
            if not stays:
                tree.end(place.session_id, call_id)

    async def _create(self, delegation: Delegation) -> str:
        tree, place = self._tree, self._place
        parent = await tree.store.session(place.session_id)
        created = SessionCreated(
            agent=place.agent.name,
            workspace=place.workspace,
            title=excerpt(delegation.task, MAX_TITLE_LENGTH),
            model=parent.model if parent is not None else None,
            kind=delegation.kind,
            parent_id=place.session_id,
            parent_call_id=self._call.call_id,
            tools=tree.tools(place, delegation),
            budget=tree.clip(place, delegation.budget),
            is_detached=not delegation.wait,
        )
        # The task may repeat what its parent has read.
        inherited = marked(UNMARKED, _marks(parent), "parent")
        session_id: str = await tree.directory.ask(
            CreateSession(created=created, inherited=inherited)
        )
        return session_id

    async def _submit(
        self, child_id: str, delegation: Delegation, subscription: Subscription
    ) -> InputTicket:
        ticket: InputTicket = await self._tree.directory.ask(
            SubmitInput(
                session_id=child_id,
                text=delegation.task,
                subscription=subscription if delegation.wait else None,
            )
        )
        return ticket

    async def _attach(self, child_id: str, subscription: Subscription) -> InputTicket | None:
        """Goes on listening; `None` when it has ended meanwhile."""
        try:
            ticket: InputTicket = await self._tree.directory.ask(
                ResumeTurn(session_id=child_id, subscription=subscription)
            )
        except ConflictError:
            return None
        return ticket

    async def _answer(
        self, child_id: str, ticket: InputTicket | None, subscription: Subscription
    ) -> Delegated:
        """Listens to the end; cancelled, it cancels the session and waits until that is gone."""
        tree = self._tree
        try:
            answer = await self._heard(child_id, ticket, subscription)
            row = await tree.store.session(child_id)
        except BaseException:
            reason = "the session that delegated was cancelled"
            input_id = None if ticket is None else ticket.input_id
            await tree.reap(child_id, self._place.turn_id, reason, input_id)  # noqa: ASYNC102
            raise
        self.read = _marks(row)
        return Delegated(
            session_id=child_id,
            outcome=answer.outcome,
            answer=answer.text,
            message=answer.message,
        )

    async def _heard(
        self, child_id: str, ticket: InputTicket | None, subscription: Subscription
    ) -> ChildAnswer:
        """What is told of its turn, or what the record says of one that has ended."""
        tree = self._tree
        answer = ChildAnswer()
        if ticket is not None:
            try:
                await answer.listen(subscription)
                return answer
            except ConflictError:
                # It is suspended since the runtime closes, which is about to cancel this call too.
                await trio.sleep_forever()
            except ActorStopped:
                # It crashed; its successor ends what was open, or goes on with it.
                again = Subscription()
                if await self._attach(child_id, again) is not None:
                    await answer.listen(again)
                    return answer
        return ChildAnswer.of(await tree.store.events(child_id))


def marks_of(child: SessionRow, parent: SessionRow | None) -> tuple[DurableEvent, ...]:
    """What the parent gets with the answer of a child that has read more than itself."""
    return marked(_marks(parent), _marks(child), "delegate", child.parent_call_id)


def _marks(row: SessionRow | None) -> SessionMarks:
    if row is None:
        return UNMARKED
    return SessionMarks(is_tainted=row.is_tainted, has_private=row.has_private)
