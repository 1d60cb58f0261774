"""How a session starts sessions below it, and waits for their results."""

from __future__ import annotations

from collections.abc import Callable

import trio

from ...config.settings import Limits
from ...runtime.budget import Budget
from ...runtime.definitions import ErrorType, SessionKind, ToolFailure
from ...runtime.errors import ActorStopped, ConflictError
from ...runtime.events import ChildCall, SessionCreated
from ...runtime.handles import Delegated, Delegation, SessionsHandle
from ...runtime.history import Call
from ...runtime.kernel.delivery import Subscription, Update
from ...runtime.kernel.mailbox import Mailbox
from ...runtime.messages import (
    CallPlace,
    CreateSession,
    DirectoryMessage,
    InputTicket,
    JournalMessage,
    ResumeTurn,
    SubmitInput,
)
from ...runtime.redaction import mask
from ...runtime.store.interface import Store
from ...runtime.store.projection import MAX_TITLE_LENGTH
from ...runtime.taint.marks import UNMARKED, marked
from ...runtime.text import excerpt
from ...tools.registry import ToolRegistry, is_available
from .detached import ChildResult, Detached, row_marks
from .limits import SessionRoom

Clip = Callable[[CallPlace, Budget | None], Budget | None]
"""Returns what a session may give of a budget to a child; raises `ToolFailure` for nothing."""


class SessionTree:
    """Starts sessions below others, for all sessions of a runtime.

    Args:
        directory: Starts, cancels and wakes sessions.
        journal: Records the results of children that nobody waited for.
        store: The record.
        registry: The tools.
        limits: How deep and how wide the tree may be.
        clip: Says what a session may give of a budget.
    """

    def __init__(
        self,
        directory: Mailbox[DirectoryMessage],
        journal: Mailbox[JournalMessage],
        store: Store,
        registry: ToolRegistry,
        limits: Limits,
        clip: Clip,
    ) -> None:
        self.directory = directory
        self.store = store
        self.clip = clip
        self.room = SessionRoom(store, limits)
        self.detached = Detached(directory, journal, store, self.room)
        self._registry = registry

    def handle(
        self, place: CallPlace, call: Call, show: Callable[[ChildCall], None] | None
    ) -> SessionsHandle | None:
        """Return the handle of a call of `delegate`; `None` for a worker. `show` takes the calls below."""
        return None if place.session_kind is SessionKind.WORKER else _Below(self, place, call, show)

    def tools(self, place: CallPlace, delegation: Delegation) -> tuple[str, ...]:
        """Return the child's tools, some of its parent's; raise `ToolFailure` for others."""
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


class _Below:
    """The handle of one call.

    Attributes:
        read: Marks of the child whose result came back.
    """

    def __init__(
        self,
        tree: SessionTree,
        place: CallPlace,
        call: Call,
        show: Callable[[ChildCall], None] | None,
    ) -> None:
        self.read = UNMARKED
        self._show = show
        self._tree = tree
        self._place = place
        self._call = call

    async def delegate(
        self, delegation: Delegation, on_progress: Callable[[str], None] | None = None
    ) -> Delegated:
        """See `SessionsHandle`. A call that is run again after a crash finds the child it started."""
        tree, place, call_id = self._tree, self._place, self._call.call_id
        begun = await tree.store.children(place.session_id, call_id=call_id)
        if begun:
            tree.room.keep(place.session_id, call_id)
        else:
            await tree.room.take(place, call_id, waits=delegation.wait)
        stays = False
        try:
            subscription = Subscription()
            child_id, ticket = "", None
            # Cancelled half-way, it would leave a session that nobody knows of.
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
                on_progress(f"{delegation.kind} {child_id} runs")
            answer = ChildResult(self._calls_below(child_id, delegation.task))
            return await self._wait(child_id, ticket, subscription, answer)
        finally:
            if not stays:
                tree.room.give_back(place.session_id, call_id)

    def _calls_below(self, child_id: str, task: str) -> Callable[[Update], None] | None:
        if self._show is None:
            return None
        from .calls_below import CallsBelow  # few sessions have any below them

        return CallsBelow(self._call.call_id, child_id, task, self._show).take

    async def _create(self, delegation: Delegation) -> str:
        tree, place = self._tree, self._place
        parent = await tree.store.session(place.session_id)
        created = SessionCreated(
            agent=place.agent.name,
            workspace=place.workspace,
            title=excerpt(mask(delegation.task), MAX_TITLE_LENGTH),
            model=parent.model if parent is not None else None,
            kind=delegation.kind,
            parent_id=place.session_id,
            parent_call_id=self._call.call_id,
            tools=tree.tools(place, delegation),
            budget=tree.clip(place, delegation.budget),
            is_detached=not delegation.wait,
        )
        # The task may repeat what the parent has read.
        inherited = marked(UNMARKED, row_marks(parent), "parent")
        session_id: str = await tree.directory.ask(
            CreateSession(created=created, inherited=inherited)
        )
        return session_id

    async def _submit(
        self, child_id: str, delegation: Delegation, subscription: Subscription
    ) -> InputTicket:
        trace = self._place.trace
        ticket: InputTicket = await self._tree.directory.ask(
            SubmitInput(
                session_id=child_id,
                text=delegation.task,
                subscription=subscription if delegation.wait else None,
                options=self._place.options,
                command=self._place.command,
                trace=None if trace is None else trace.below(self._call.call_id),
            )
        )
        return ticket

    async def _attach(self, child_id: str, subscription: Subscription) -> InputTicket | None:
        """Listen to a child that runs already; return `None` when its turn has ended."""
        try:
            ticket: InputTicket = await self._tree.directory.ask(
                ResumeTurn(session_id=child_id, subscription=subscription)
            )
        except ConflictError:
            return None
        return ticket

    async def _wait(
        self,
        child_id: str,
        ticket: InputTicket | None,
        subscription: Subscription,
        answer: ChildResult,
    ) -> Delegated:
        """Wait for the result; cancelled, cancel the child and wait until that is gone."""
        tree = self._tree
        try:
            answer = await self._result(child_id, ticket, subscription, answer)
            row = await tree.store.session(child_id)
        except BaseException:
            reason = "the session that delegated was cancelled"
            input_id = None if ticket is None else ticket.input_id
            turn_id = self._place.turn_id
            await tree.detached.reap(child_id, turn_id, reason, input_id)  # noqa: ASYNC102
            raise
        self.read = row_marks(row)
        return Delegated(
            session_id=child_id,
            outcome=answer.outcome,
            answer=answer.text,
            message=answer.message,
        )

    async def _result(
        self,
        child_id: str,
        ticket: InputTicket | None,
        subscription: Subscription,
        answer: ChildResult,
    ) -> ChildResult:
        """Return what comes of its turn, or what the record says when that has ended."""
        tree = self._tree
        if ticket is not None:
            try:
                await answer.listen(subscription)
                return answer
            except ConflictError:
                # Suspended, since the runtime closes: it is about to cancel this call too.
                await trio.sleep_forever()
            except ActorStopped:
                # The session crashed; its successor ends the open turn, or goes on with it.
                again = Subscription()
                if await self._attach(child_id, again) is not None:
                    await answer.listen(again)
                    return answer
        return ChildResult.of(await tree.store.events(child_id))
