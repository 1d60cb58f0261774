"""The runtime for plain programs: the same methods as in a Trio program, but they block.

    with callboard.start_in_thread() as runtime:
        session = runtime.create_session()
        with session.prompt("What time is it in Tokyo?") as turn:
            for event in turn:
                ...

Any thread may call them. Ctrl-C, or whatever else interrupts one of them, cancels what it waits
for, and is raised when that is gone.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from functools import partial, wraps
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, Self, TypeVar, Unpack

import trio

from ..actors.permissions.asking import Approver
from ..config.usage_sums import UsageBy, UsageReport
from ..embedding import runtime as embedded
from ..embedding.status import RuntimeStatus
from ..runtime.budget import Budget
from ..runtime.handles import PersonAnswer
from ..runtime.identity import RequestKey
from ..runtime.messages import ApprovalAnswer, ApprovalRequest
from ..runtime.store.interface import StoreReader
from ..runtime.store.lists import Hit
from ..runtime.store.rows import ApprovalRow, GrantRow, SessionRow
from .channels import adapted_channel
from .plain_session import Following as Following
from .plain_session import Session as Session
from .plain_session import Turn as Turn
from .portal import Portal, RuntimeHandle, RuntimeOptions

if TYPE_CHECKING:
    from ..providers.catalog.connection_test import ConnectionReport
    from ..providers.catalog.services import ModelList

MAX_APPROVAL_THREADS = 64
"""Questions that wait for a person at once; more wait for their turn, or expire."""

BlockingApprover = Callable[[ApprovalRequest], ApprovalAnswer | str | bool]
"""Asks a person, or answers for them, in a thread of its own: `allow`, `deny`, a bool, or a whole
answer."""

Answer = TypeVar("Answer")
Args = ParamSpec("Args")


def start_in_thread(
    *,
    on_approval: BlockingApprover | Approver | Literal["allow", "deny", "wait"] | None = None,
    **options: Unpack[RuntimeOptions],
) -> Runtime:
    """Runs callboard in a thread of its own, until the `with` block is left, or `close` is called.

    Args:
        on_approval: Asks a person: a function, which is called in a worker thread, or an `async
            def` for Trio; or `"allow"` or `"deny"` for all. Without it, what would ask is denied.
        **options: As `open_runtime` takes them. Own tools that are `async def` run on Trio, and so
            do such methods of a channel; its others are called in worker threads.

    Raises:
        CallboardError: As `open_runtime` does; the thread is gone then.

    Example:
        with callboard.start_in_thread(model="rehearsal") as runtime:
            session = runtime.create_session()
            with session.prompt("What time is it in Tokyo?") as turn:
                for event in turn:
                    print(event)
    """
    approver = _in_thread(on_approval) if callable(on_approval) else on_approval
    channel = adapted_channel(options.get("channel"), _in_thread)
    portal = Portal({**options, "on_approval": approver, "channel": channel})
    try:
        return Runtime(portal, portal.started.result())
    except BaseException:
        portal.stop()
        portal.join()
        raise


class Runtime(RuntimeHandle):
    """A running callboard; made by `start_in_thread`.

    Attributes:
        store: What is on record: sessions, messages, calls, usage.
    """

    def __init__(self, portal: Portal, runtime: embedded.Runtime) -> None:
        super().__init__(portal, runtime)
        self.store = Records(portal, runtime.store)

    def create_session(
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
        return Session(self._portal, self._portal.call(create))

    def get_session(self, session_id: str) -> Session:
        """A session on record.

        Raises:
            NotFoundError: There is none of that id.
        """
        found = self._portal.call(partial(self._runtime.get_session, session_id))
        return Session(self._portal, found)

    def sessions(self, *, limit: int = 100) -> list[SessionRow]:
        """Sessions on record, the latest activity first."""
        return self._portal.call(partial(self._runtime.sessions, limit=limit))

    def search(self, query: str, *, limit: int = 20) -> list[Hit]:
        """Sessions in which words were said, as `callboard.Runtime.search` gives them."""
        return self._portal.call(partial(self._runtime.search, query, limit=limit))

    def purge(self, session_ids: Sequence[str]) -> list[str]:
        """Removes deleted sessions for good, as `callboard.Runtime.purge` does."""
        return self._portal.call(partial(self._runtime.purge, session_ids))

    def usage(self, *, by: UsageBy = "session", since_ms: int = 0) -> UsageReport:
        """What all sessions took and cost, as `callboard.Runtime.usage` gives it."""
        return self._portal.call(partial(self._runtime.usage, by=by, since_ms=since_ms))

    def approvals(self, *, state: str | None = "waiting") -> list[ApprovalRow]:
        """Questions to a person, as `callboard.Runtime.approvals` gives them."""
        return self._portal.call(partial(self._runtime.approvals, state=state))

    def approval(self, approval_id: str, *, arguments: str | None = None) -> ApprovalRequest:
        """A question as it is put to a person, as `callboard.Runtime.approval` gives it."""
        return self._portal.call(partial(self._runtime.approval, approval_id, arguments=arguments))

    def answer(self, approval_id: str, answer: ApprovalAnswer | Literal["allow", "deny"]) -> None:
        """Answers a question, as `callboard.Runtime.answer` does."""
        self._portal.call(partial(self._runtime.answer, approval_id, answer))

    def answer_question(self, question_id: str, answer: PersonAnswer | str) -> None:
        """Answers a model's question, as `callboard.Runtime.answer_question` does."""
        self._portal.call(partial(self._runtime.answer_question, question_id, answer))

    def grants(self) -> list[GrantRow]:
        """The remembered answers that hold, in the order in which they were given."""
        return self._portal.call(self._runtime.grants)

    def status(self) -> RuntimeStatus:
        """What it does right now, as `callboard.Runtime.status` says it."""
        return self._portal.call(self._runtime.status)

    def revoke(self, grant_id: str, *, revoked_by: str = "application") -> None:
        """Ends a remembered answer, as `callboard.Runtime.revoke` does."""
        self._portal.call(partial(self._runtime.revoke, grant_id, revoked_by=revoked_by))

    def list_models(self, provider: str, *, refresh: bool = False) -> ModelList:
        """The models of a provider, as `callboard.Runtime.list_models` gives them."""
        return self._portal.call(partial(self._runtime.list_models, provider, refresh=refresh))

    def test_provider(self, provider: str, *, model: str | None = None) -> ConnectionReport:
        """Whether a provider answers, as `callboard.Runtime.test_provider` finds it out."""
        return self._portal.call(partial(self._runtime.test_provider, provider, model=model))

    def complete(
        self, prompt: str, *, model: str | None = None, system: str = "", seconds: float = 30.0
    ) -> str:
        """A short text outside every session, as `callboard.Runtime.complete` gives it."""
        ask = partial(self._runtime.complete, prompt, model=model, system=system, seconds=seconds)
        return self._portal.call(ask)

    def close(self) -> None:
        """Ends all turns, closes the store and ends the thread. Idempotent.

        Raises:
            Exception: What the runtime ended with before, if it did.
        """
        self._portal.stop()
        self._portal.join()
        self._portal.check_end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None:
            self.close()
            return
        self._portal.stop()
        self._portal.join()


class Records:
    """What is on record; see `StoreReader` for each method."""

    def __init__(self, portal: Portal, store: StoreReader) -> None:
        self.events = _blocking(portal, store.events)
        self.session = _blocking(portal, store.session)
        self.sessions = _blocking(portal, store.sessions)
        self.messages = _blocking(portal, store.messages)
        self.calls = _blocking(portal, store.calls)
        self.usage = _blocking(portal, store.usage)
        self.approvals = _blocking(portal, store.approvals)
        self.grants = _blocking(portal, store.grants)
        self.full_output = _blocking(portal, store.full_output)
        self.open_turns = _blocking(portal, store.open_turns)
        self.open_inputs = _blocking(portal, store.open_inputs)
        self.waking_sessions = _blocking(portal, store.waking_sessions)
        self.children = _blocking(portal, store.children)
        self.spending = _blocking(portal, store.spending)
        self.memories = _blocking(portal, store.memories)
        self.found_memories = _blocking(portal, store.found_memories)
        self.marked_files = _blocking(portal, store.marked_files)


def _blocking(portal: Portal, method: Callable[Args, Awaitable[Answer]]) -> Callable[Args, Answer]:
    @wraps(method)
    def call(*args: Args.args, **kwargs: Args.kwargs) -> Answer:
        return portal.call(partial(method, *args, **kwargs))

    return call


def _in_thread(function: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
    if inspect.iscoroutinefunction(function):
        return function
    limiter = trio.CapacityLimiter(MAX_APPROVAL_THREADS)

    async def ask(question: object) -> Any:
        # A callable object may hide that it is asynchronous; Trio lets no thread return a coroutine.
        (answer,) = await trio.to_thread.run_sync(
            lambda: (function(question),), abandon_on_cancel=True, limiter=limiter
        )
        return await answer if inspect.isawaitable(answer) else answer

    return ask
