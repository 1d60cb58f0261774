"""The runtime for asyncio programs: the same methods as in a Trio program, as coroutines.

Cancelling a task that waits here cancels what it waits for, and the task goes on being cancelled
when that is gone.

Example:
    import asyncio

    async def main() -> None:
        async with callboard.aio.open_runtime(model="rehearsal") as runtime:
            session = await runtime.create_session()
            async with session.prompt("What time is it in Tokyo?") as turn:
                print([event async for event in turn])

    asyncio.run(main())
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, Unpack

from . import embedded
from .channel_elsewhere import adapted_channel
from .config.usage_sums import UsageBy, UsageReport
from .event_loop import EventLoop
from .loop_waiting import Records, close_portal, cross, wait_gone
from .options import checked_tools
from .portal import GONE_SECONDS, Crossing, Portal, RuntimeHandle, RuntimeOptions, TurnHandle
from .runtime.budget import Budget
from .runtime.errors import ActorStopped, ConflictError
from .runtime.handles import PersonAnswer
from .runtime.history import Attachment
from .runtime.messages import ApprovalAnswer, ApprovalRequest
from .runtime.store import ApprovalRow, GrantRow, SessionRow
from .turn_handle import TurnEvent

if TYPE_CHECKING:
    from .providers.connection_trial import ConnectionReport
    from .providers.model_services import ModelList

LoopApprover = Callable[
    [ApprovalRequest], Awaitable[ApprovalAnswer | str | bool] | ApprovalAnswer | str | bool
]
"""Asks a person, or answers for them, on the event loop: `allow`, `deny`, a bool, or a whole
answer."""


def open_runtime(
    *,
    on_approval: LoopApprover | Literal["allow", "deny", "wait"] | None = None,
    **options: Unpack[RuntimeOptions],
) -> Opening:
    """Runs callboard beside the running event loop: `async with open_runtime(…) as runtime:`.

    Or, where no block spans its life, as in a notebook: `runtime = await open_runtime(…)`, and at
    last `await runtime.aclose()`.

    Args:
        on_approval: Asks a person: a coroutine function, or a plain one that doesn't block, called
            on this event loop; or `"allow"` or `"deny"` for all. Without it, what would ask is
            denied.
        **options: As `callboard.open_runtime` takes them. Own tools that are `async def` run on
            this event loop, and so do the methods of a channel.

    Raises:
        CallboardError: As `callboard.open_runtime` does, when it is entered or awaited.
    """
    return Opening(on_approval, options)


class Opening:
    """A runtime that opens when this is entered or awaited; made by `open_runtime`."""

    def __init__(
        self,
        on_approval: LoopApprover | Literal["allow", "deny", "wait"] | None,
        options: RuntimeOptions,
    ) -> None:
        self._on_approval = on_approval
        self._options = options
        self._runtime: Runtime | None = None

    def __await__(self) -> Generator[Any, None, Runtime]:
        return self._open().__await__()

    async def __aenter__(self) -> Runtime:
        self._runtime = await self._open()
        return self._runtime

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._runtime is not None
        await self._runtime.leave(error)

    async def _open(self) -> Runtime:
        loop = EventLoop()
        tools = [loop.adapted(tool) for tool in checked_tools(self._options.get("tools", ()))]
        choice = self._on_approval
        approver = partial(loop.call, choice) if callable(choice) else choice
        channel = adapted_channel(
            self._options.get("channel"), lambda method: partial(loop.call, method)
        )
        portal = Portal(
            {**self._options, "tools": tools, "on_approval": approver, "channel": channel}
        )
        try:
            return Runtime(portal, await asyncio.wrap_future(portal.started))
        except BaseException:
            await close_portal(portal)
            raise


class Runtime(RuntimeHandle):
    """A running callboard; made by `open_runtime`.

    Attributes:
        store: What is on record: sessions, messages, calls, usage.
    """

    def __init__(self, portal: Portal, runtime: embedded.Runtime) -> None:
        super().__init__(portal, runtime)
        self.store = Records(portal, runtime.store)

    async def create_session(
        self,
        *,
        agent: str = "general",
        workspace: str | Path | None = None,
        model: str | None = None,
        title: str = "",
        budget: Budget | None = None,
    ) -> Session:
        """Begins a session, as `callboard.Runtime.create_session` does."""
        create = partial(
            self._runtime.create_session,
            agent=agent,
            workspace=workspace,
            model=model,
            title=title,
            budget=budget,
        )
        return Session(self._portal, await cross(self._portal, create))

    async def get_session(self, session_id: str) -> Session:
        """A session on record.

        Raises:
            NotFoundError: There is none of that id.
        """
        found = await cross(self._portal, partial(self._runtime.get_session, session_id))
        return Session(self._portal, found)

    async def sessions(self, *, limit: int = 100) -> list[SessionRow]:
        """Sessions on record, the latest activity first."""
        return await cross(self._portal, partial(self._runtime.sessions, limit=limit))

    async def usage(self, *, by: UsageBy = "session", since_ms: int = 0) -> UsageReport:
        """What all sessions took and cost, as `callboard.Runtime.usage` gives it."""
        return await cross(self._portal, partial(self._runtime.usage, by=by, since_ms=since_ms))

    async def approvals(self, *, state: str | None = "waiting") -> list[ApprovalRow]:
        """Questions to a person, as `callboard.Runtime.approvals` gives them."""
        return await cross(self._portal, partial(self._runtime.approvals, state=state))

    async def approval(self, approval_id: str, *, arguments: str | None = None) -> ApprovalRequest:
        """A question as it is put to a person, as `callboard.Runtime.approval` gives it."""
        showing = partial(self._runtime.approval, approval_id, arguments=arguments)
        return await cross(self._portal, showing)

    async def answer(
        self, approval_id: str, answer: ApprovalAnswer | Literal["allow", "deny"]
    ) -> None:
        """Answers a question, as `callboard.Runtime.answer` does."""
        await cross(self._portal, partial(self._runtime.answer, approval_id, answer))

    async def answer_question(self, question_id: str, answer: PersonAnswer | str) -> None:
        """Answers a model's question, as `callboard.Runtime.answer_question` does."""
        answering = partial(self._runtime.answer_question, question_id, answer)
        await cross(self._portal, answering)

    async def grants(self) -> list[GrantRow]:
        """The remembered answers that hold, in the order in which they were given."""
        return await cross(self._portal, self._runtime.grants)

    async def revoke(self, grant_id: str, *, revoked_by: str = "application") -> None:
        """Ends a remembered answer, as `callboard.Runtime.revoke` does."""
        await cross(self._portal, partial(self._runtime.revoke, grant_id, revoked_by=revoked_by))

    async def list_models(self, provider: str, *, refresh: bool = False) -> ModelList:
        """The models of a provider, as `callboard.Runtime.list_models` gives them."""
        ask = partial(self._runtime.list_models, provider, refresh=refresh)
        return await cross(self._portal, ask)

    async def test_provider(self, provider: str, *, model: str | None = None) -> ConnectionReport:
        """Whether a provider answers, as `callboard.Runtime.test_provider` finds it out."""
        ask = partial(self._runtime.test_provider, provider, model=model)
        return await cross(self._portal, ask)

    async def complete(
        self, prompt: str, *, model: str | None = None, system: str = "", seconds: float = 30.0
    ) -> str:
        """A short text outside every session, as `callboard.Runtime.complete` gives it."""
        ask = partial(self._runtime.complete, prompt, model=model, system=system, seconds=seconds)
        return await cross(self._portal, ask)

    async def aclose(self) -> None:
        """Ends all turns, closes the store and ends the thread. Idempotent; a cancel comes later.

        Raises:
            Exception: What the runtime ended with before, if it did.
        """
        await self.leave(None)

    async def leave(self, error: BaseException | None) -> None:
        """As `aclose`, under this exception of the block, which then takes precedence."""
        cancelled = await close_portal(self._portal)
        if cancelled is not None:
            raise cancelled
        if error is None:
            self._portal.check_end()


class Session:
    """One conversation; made by `Runtime`. A handle: dropping it ends nothing."""

    def __init__(self, portal: Portal, session: embedded.Session) -> None:
        self._portal = portal
        self._session = session
        self.session_id = session.session_id

    def prompt(
        self, text: str, attachments: Iterable[Attachment] = (), *, budget: Budget | None = None
    ) -> Turn:
        """A turn for this input: enter it with `async with`, then iterate over its events.

        The input is stored when the block is entered; while another turn runs it waits for its
        own. Leaving the block before the end cancels the turn and waits until it is gone.
        """
        return Turn(self._portal, self._session.prompt(text, attachments, budget=budget))

    def follow(self) -> Following:
        """All that happens in the session from here on, as `callboard.Session.follow` gives it."""
        return Following(self._portal, self._session.follow())

    async def resume(self) -> Turn | None:
        """The turn that was suspended, as `callboard.Session.resume` gives it."""
        turn = await cross(self._portal, self._session.resume)
        return None if turn is None else Turn(self._portal, turn)

    async def run(
        self, text: str, attachments: Iterable[Attachment] = (), *, budget: Budget | None = None
    ) -> str:
        """Prompts and returns the final answer's text. Cancelling it cancels the turn.

        Raises:
            CallboardError: The turn was not answered; the error's type says why.
        """
        run = partial(self._session.run, text, attachments, budget=budget)
        return await cross(self._portal, run)

    async def set_budget(self, budget: Budget | None) -> None:
        """Gives the session another budget, as `callboard.Session.set_budget` does."""
        await cross(self._portal, partial(self._session.set_budget, budget))

    async def usage(self, *, by: UsageBy = "turn") -> UsageReport:
        """What this session took and cost, as `callboard.Session.usage` gives it."""
        return await cross(self._portal, partial(self._session.usage, by=by))


class Following:
    """What happens in a session from here on; made by `Session.follow`."""

    def __init__(self, portal: Portal, following: embedded.Following) -> None:
        self._portal = portal
        self._following = following

    async def __aenter__(self) -> Self:
        await cross(self._portal, self._following.__aenter__)
        return self

    async def __aexit__(self, *_: object) -> None:
        with suppress(ActorStopped):  # with its runtime, it is gone too
            await cross(self._portal, partial(self._following.__aexit__, None, None, None))

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> TurnEvent:
        """The next event; waits for it."""
        event = await cross(self._portal, self._following.next_event)
        if event is None:
            raise StopAsyncIteration
        return event


class Turn(TurnHandle):
    """One turn, from an input to the final answer; made by `Session.prompt`."""

    async def __aenter__(self) -> Self:
        try:
            await cross(self._portal, self._turn.__aenter__)
            self._portal.turns.add(self._turn)
        except ConflictError:
            raise  # entered before: whoever did so leaves it
        except BaseException:
            # Cancelled in the moment in which it was entered, it has nobody else to leave it.
            await self._leave()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._leave()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> TurnEvent:
        """The next event; waits for it, and ends behind `TurnEnded`."""
        event = await self._next_event()
        if event is None:
            raise StopAsyncIteration
        return event

    async def next_events(self) -> list[TurnEvent]:
        """Everything that has come since, at once; waits for some, and is empty at the end."""
        first = await self._next_event()
        return [] if first is None else [first, *self._fetched()]

    async def answer(self) -> str:
        """Reads to the end and returns the final answer's text.

        Raises:
            CallboardError: The turn was not answered; the error's type says why.
        """
        return await cross(self._portal, self._turn.answer)

    async def cancel(self, reason: str = "cancelled by the program") -> None:
        """Cancels the turn; returns when everything of it is gone. Its events can still be read."""
        await cross(self._portal, partial(self._turn.cancel, reason))

    async def _next_event(self) -> TurnEvent | None:
        event = self._turn.next_event_nowait()
        if event is not None or self._turn.ended is not None:
            return event
        try:
            await cross(self._portal, self._turn.wait_events)
        except ActorStopped:
            if (event := self._turn.next_event_nowait()) is None:
                raise
            return event  # what the portal fetched when it closed
        return self._turn.next_event_nowait()

    async def _leave(self) -> None:
        """Leaves the turn, whatever cancels the task meanwhile; that cancel comes afterwards."""
        self._portal.turns.discard(self._turn)
        if not self._turn.input_id or self._turn.ended is not None:
            return
        crossing = Crossing(partial(self._turn.__aexit__, None, None, None))
        with suppress(ActorStopped):  # with its session or its runtime, the turn is gone too
            self._portal.submit(crossing)
            cancelled = await wait_gone(crossing.future, GONE_SECONDS)
            if cancelled is not None:
                raise cancelled
            if crossing.future.done():
                crossing.future.result()
