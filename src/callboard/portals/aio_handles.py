"""Runtime, sessions and turns for asyncio programs: the methods of a Trio program, as coroutines.

`scripts/plain-portal` generates `plain_handles` from this module by dropping `async` and `await`, so
that there the same methods block. Everything that differs between the two is in `event_loop` and
`threads`, under the same names: `cross`, `cross_to_end`, `close_portal` and `waiting`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self

from ..config.usage_sums import UsageBy, UsageReport
from ..embedding import runtime as embedded
from ..embedding.status import RuntimeStatus
from ..embedding.turn import TurnEvent
from ..runtime.budget import Budget
from ..runtime.changes.undo_report import ChangedCall, UndoReport
from ..runtime.definitions import InputMode
from ..runtime.errors import ActorStopped, ConflictError
from ..runtime.handles import PersonAnswer
from ..runtime.history import Attachment
from ..runtime.identity import RequestKey
from ..runtime.messages import ApprovalAnswer, ApprovalRequest, InputTicket
from ..runtime.store.interface import StoreReader
from ..runtime.store.lists import Hit
from ..runtime.store.rows import ApprovalRow, GrantRow, SessionRow
from .event_loop import close_portal, cross, cross_to_end, waiting
from .portal import Portal, RuntimeHandle, TurnHandle

if TYPE_CHECKING:
    from ..providers.catalog.connection_test import ConnectionReport
    from ..providers.catalog.services import ModelList


class Runtime(RuntimeHandle):
    """A running callboard, made by `open_runtime`.

    Attributes:
        store: Reads the record: sessions, messages, calls, usage.
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
        """Create a session; see `callboard.Runtime.create_session`."""
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
        """Return a stored session.

        Raises:
            NotFoundError: No session has that id.
        """
        found = await cross(self._portal, partial(self._runtime.get_session, session_id))
        return Session(self._portal, found)

    async def sessions(self, *, limit: int = 100) -> list[SessionRow]:
        """Return stored sessions, latest activity first."""
        return await cross(self._portal, partial(self._runtime.sessions, limit=limit))

    async def search(self, query: str, *, limit: int = 20) -> list[Hit]:
        """Search messages of all sessions; see `callboard.Runtime.search`."""
        return await cross(self._portal, partial(self._runtime.search, query, limit=limit))

    async def purge(self, session_ids: Sequence[str]) -> list[str]:
        """Remove deleted sessions for good; see `callboard.Runtime.purge`."""
        return await cross(self._portal, partial(self._runtime.purge, session_ids))

    async def usage(self, *, by: UsageBy = "session", since_ms: int = 0) -> UsageReport:
        """Return tokens and cost of all sessions; see `callboard.Runtime.usage`."""
        return await cross(self._portal, partial(self._runtime.usage, by=by, since_ms=since_ms))

    async def approvals(self, *, state: str | None = "waiting") -> list[ApprovalRow]:
        """Return approval questions; see `callboard.Runtime.approvals`."""
        return await cross(self._portal, partial(self._runtime.approvals, state=state))

    async def approval(self, approval_id: str, *, arguments: str | None = None) -> ApprovalRequest:
        """Return a waiting question as a person sees it; see `callboard.Runtime.approval`."""
        showing = partial(self._runtime.approval, approval_id, arguments=arguments)
        return await cross(self._portal, showing)

    async def answer(
        self, approval_id: str, answer: ApprovalAnswer | Literal["allow", "deny"]
    ) -> None:
        """Answer an approval question; see `callboard.Runtime.answer`."""
        await cross(self._portal, partial(self._runtime.answer, approval_id, answer))

    async def answer_question(self, question_id: str, answer: PersonAnswer | str) -> None:
        """Answer a model's question; see `callboard.Runtime.answer_question`."""
        answering = partial(self._runtime.answer_question, question_id, answer)
        await cross(self._portal, answering)

    async def grants(self) -> list[GrantRow]:
        """Return the grants in force, oldest first."""
        return await cross(self._portal, self._runtime.grants)

    async def status(self) -> RuntimeStatus:
        """Return the work in progress; see `callboard.Runtime.status`."""
        return await cross(self._portal, self._runtime.status)

    async def revoke(self, grant_id: str, *, revoked_by: str = "application") -> None:
        """Revoke a grant; see `callboard.Runtime.revoke`."""
        await cross(self._portal, partial(self._runtime.revoke, grant_id, revoked_by=revoked_by))

    async def list_models(self, provider: str, *, refresh: bool = False) -> ModelList:
        """Return a provider's models; see `callboard.Runtime.list_models`."""
        ask = partial(self._runtime.list_models, provider, refresh=refresh)
        return await cross(self._portal, ask)

    async def test_provider(self, provider: str, *, model: str | None = None) -> ConnectionReport:
        """Test the connection to a provider; see `callboard.Runtime.test_provider`."""
        ask = partial(self._runtime.test_provider, provider, model=model)
        return await cross(self._portal, ask)

    async def complete(
        self, prompt: str, *, model: str | None = None, system: str = "", seconds: float = 30.0
    ) -> str:
        """Return a short text written outside of sessions; see `callboard.Runtime.complete`."""
        ask = partial(self._runtime.complete, prompt, model=model, system=system, seconds=seconds)
        return await cross(self._portal, ask)

    async def aclose(self) -> None:
        """End all turns, close the store and end the thread. Idempotent.

        Cancelling it does not stop the closing; the cancellation is raised when that is done.

        Raises:
            Exception: The runtime's own error, if one ended it before.
        """
        await close_portal(self._portal)
        self._portal.check_end()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await close_portal(self._portal)  # noqa: ASYNC102  an event loop has no scopes
        if error is None:  # the block's own error takes precedence
            self._portal.check_end()


class Records:
    """Everything on record; see `StoreReader` for each method."""

    def __init__(self, portal: Portal, store: StoreReader) -> None:
        self.events = waiting(portal, store.events)
        self.session = waiting(portal, store.session)
        self.sessions = waiting(portal, store.sessions)
        self.messages = waiting(portal, store.messages)
        self.calls = waiting(portal, store.calls)
        self.usage = waiting(portal, store.usage)
        self.approvals = waiting(portal, store.approvals)
        self.grants = waiting(portal, store.grants)
        self.full_output = waiting(portal, store.full_output)
        self.open_turns = waiting(portal, store.open_turns)
        self.open_inputs = waiting(portal, store.open_inputs)
        self.waking_sessions = waiting(portal, store.waking_sessions)
        self.children = waiting(portal, store.children)
        self.spending = waiting(portal, store.spending)
        self.memories = waiting(portal, store.memories)
        self.found_memories = waiting(portal, store.found_memories)
        self.marked_files = waiting(portal, store.marked_files)


class Session:
    """One conversation, made by `Runtime`. It is a handle: dropping it ends nothing."""

    def __init__(self, portal: Portal, session: embedded.Session) -> None:
        self._portal = portal
        self._session = session
        self.session_id = session.session_id

    def prompt(
        self, text: str, attachments: Iterable[Attachment] = (), *, budget: Budget | None = None
    ) -> Turn:
        """Return a turn for this input: enter it with `async with`, then iterate over its events.

        Entering the block stores the input; it waits in a queue while another turn runs. Leaving the
        block before the end cancels the turn and waits until it is gone.
        """
        return Turn(self._portal, self._session.prompt(text, attachments, budget=budget))

    def follow(self) -> Following:
        """Follow the session from now on; see `callboard.Session.follow`."""
        return Following(self._portal, self._session.follow())

    async def resume(self) -> Turn | None:
        """Return the suspended turn, if there is one; see `callboard.Session.resume`."""
        turn = await cross(self._portal, self._session.resume)
        return None if turn is None else Turn(self._portal, turn)

    def retry(self, message_id: str | None = None) -> Turn:
        """Return a turn that retries the last one; see `callboard.Session.retry`."""
        return Turn(self._portal, self._session.retry(message_id))

    def regenerate(self, message_id: str | None = None) -> Turn:
        """Return a turn for another answer; see `callboard.Session.regenerate`."""
        return Turn(self._portal, self._session.regenerate(message_id))

    async def run(
        self, text: str, attachments: Iterable[Attachment] = (), *, budget: Budget | None = None
    ) -> str:
        """Prompt and return the text of the final answer. Cancelling this cancels the turn.

        Raises:
            CallboardError: The turn was not answered; the error's type says why.
        """
        run = partial(self._session.run, text, attachments, budget=budget)
        return await cross(self._portal, run)

    async def submit(
        self,
        text: str,
        attachments: Iterable[Attachment] = (),
        *,
        budget: Budget | None = None,
        mode: InputMode | Literal["queue", "steer", "interrupt"] = InputMode.QUEUE,
        request: RequestKey | None = None,
    ) -> InputTicket:
        """Store an input whose turn runs by itself; see `callboard.Session.submit`."""
        call = partial(
            self._session.submit, text, attachments, budget=budget, mode=mode, request=request
        )
        return await cross(self._portal, call)

    async def cancel(
        self, reason: str = "cancelled by the program", *, input_id: str | None = None
    ) -> bool:
        """Cancel the running turn; see `callboard.Session.cancel`."""
        call = partial(self._session.cancel, reason, input_id=input_id)
        return await cross(self._portal, call)

    async def set_budget(self, budget: Budget | None) -> None:
        """Replace the session's budget; see `callboard.Session.set_budget`."""
        await cross(self._portal, partial(self._session.set_budget, budget))

    async def rename(self, title: str) -> None:
        """Rename the session; see `callboard.Session.rename`."""
        await cross(self._portal, partial(self._session.rename, title))

    async def delete(self) -> None:
        """Hide the session; see `callboard.Session.delete`."""
        await cross(self._portal, self._session.delete)

    async def restore(self) -> None:
        """Undo the deletion; see `callboard.Session.restore`."""
        await cross(self._portal, self._session.restore)

    async def changes(self) -> list[ChangedCall]:
        """Return the calls that changed files; see `callboard.Session.changes`."""
        return await cross(self._portal, self._session.changes)

    async def undo(
        self, call_id: str | None = None, *, force: bool = False, dry_run: bool = False
    ) -> UndoReport:
        """Undo changes of files; see `callboard.Session.undo`."""
        undo = partial(self._session.undo, call_id, force=force, dry_run=dry_run)
        return await cross(self._portal, undo)

    async def usage(self, *, by: UsageBy = "turn") -> UsageReport:
        """Return this session's tokens and cost; see `callboard.Session.usage`."""
        return await cross(self._portal, partial(self._session.usage, by=by))


class Following:
    """The events of a session from now on, made by `Session.follow`."""

    def __init__(self, portal: Portal, following: embedded.Following) -> None:
        self._portal = portal
        self._following = following

    async def __aenter__(self) -> Self:
        await cross(self._portal, self._following.__aenter__)
        return self

    async def __aexit__(self, *_: object) -> None:
        with suppress(ActorStopped):  # the runtime has ended, and this with it
            await cross(self._portal, partial(self._following.__aexit__, None, None, None))  # noqa: ASYNC102  an event loop has no scopes

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> TurnEvent:
        """Wait for the next event and return it."""
        event = await cross(self._portal, self._following.next_event)
        if event is None:
            raise StopAsyncIteration
        return event


class Turn(TurnHandle):
    """One turn, from an input to the final answer, made by `Session.prompt`."""

    async def __aenter__(self) -> Self:
        try:
            await cross(self._portal, self._turn.__aenter__)
            self._portal.turns.add(self._turn)
        except ConflictError:
            raise  # entered before: whoever did so leaves it
        except BaseException:
            # Cancelled just after it was entered: `__aexit__` will not be called.
            await self._leave()  # noqa: ASYNC102  an event loop has no scopes
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._leave()  # noqa: ASYNC102  an event loop has no scopes

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> TurnEvent:
        """Wait for the next event and return it; the iteration ends after `TurnEnded`."""
        event = await self._next_event()
        if event is None:
            raise StopAsyncIteration
        return event

    async def next_events(self) -> list[TurnEvent]:
        """Wait for events and return all that have come; an empty list is the end."""
        first = await self._next_event()
        return [] if first is None else [first, *self._fetched()]

    async def answer(self) -> str:
        """Read to the end and return the text of the final answer.

        Raises:
            CallboardError: The turn was not answered; the error's type says why.
        """
        return await cross(self._portal, self._turn.answer)

    async def cancel(self, reason: str = "cancelled by the program") -> None:
        """Cancel the turn and wait until it is gone. Its events can still be read."""
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
            return event  # the portal fetched it when it closed
        return self._turn.next_event_nowait()

    async def _leave(self) -> None:
        self._portal.turns.discard(self._turn)
        if self._turn.input_id and self._turn.ended is None:
            with suppress(ActorStopped):  # session or runtime have ended, and the turn with them
                await cross_to_end(self._portal, partial(self._turn.__aexit__, None, None, None))
