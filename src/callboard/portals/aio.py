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
from collections.abc import Awaitable, Callable, Generator, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Unpack

from ..config.usage_sums import UsageBy, UsageReport
from ..embedding import runtime as embedded
from ..embedding.options import checked_tools
from ..embedding.status import RuntimeStatus
from ..runtime.budget import Budget
from ..runtime.handles import PersonAnswer
from ..runtime.identity import RequestKey
from ..runtime.messages import ApprovalAnswer, ApprovalRequest
from ..runtime.store.lists import Hit
from ..runtime.store.rows import ApprovalRow, GrantRow, SessionRow
from .aio_session import Following as Following
from .aio_session import Session as Session
from .aio_session import Turn as Turn
from .channels import adapted_channel
from .event_loop import EventLoop, Records, close_portal, cross
from .portal import Portal, RuntimeHandle, RuntimeOptions

if TYPE_CHECKING:
    from ..providers.catalog.connection_test import ConnectionReport
    from ..providers.catalog.services import ModelList

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
        request: RequestKey | None = None,
    ) -> Session:
        """Begins a session, as `callboard.Runtime.create_session` does."""
        create = partial(
            self._runtime.create_session,
            agent=agent,
            workspace=workspace,
            model=model,
            title=title,
            budget=budget,
            request=request,
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

    async def search(self, query: str, *, limit: int = 20) -> list[Hit]:
        """Sessions in which words were said, as `callboard.Runtime.search` gives them."""
        return await cross(self._portal, partial(self._runtime.search, query, limit=limit))

    async def purge(self, session_ids: Sequence[str]) -> list[str]:
        """Removes deleted sessions for good, as `callboard.Runtime.purge` does."""
        return await cross(self._portal, partial(self._runtime.purge, session_ids))

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

    async def status(self) -> RuntimeStatus:
        """What it does right now, as `callboard.Runtime.status` says it."""
        return await cross(self._portal, self._runtime.status)

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
