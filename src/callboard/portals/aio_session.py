"""Sessions and turns for programs on asyncio, or another event loop."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Literal, Self

from ..config.usage_sums import UsageBy, UsageReport
from ..embedding import runtime as embedded
from ..embedding.turn import TurnEvent
from ..runtime.budget import Budget
from ..runtime.changes.undo_report import ChangedCall, UndoReport
from ..runtime.definitions import InputMode
from ..runtime.errors import ActorStopped, ConflictError
from ..runtime.history import Attachment
from ..runtime.identity import RequestKey
from ..runtime.messages import InputTicket
from .event_loop import cross, wait_gone
from .portal import GONE_SECONDS, Crossing, Portal, TurnHandle


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

    def retry(self, message_id: str | None = None) -> Turn:
        """The last turn once more, as `callboard.Session.retry` gives it."""
        return Turn(self._portal, self._session.retry(message_id))

    def regenerate(self, message_id: str | None = None) -> Turn:
        """Another answer of the last turn, as `callboard.Session.regenerate` gives it."""
        return Turn(self._portal, self._session.regenerate(message_id))

    async def run(
        self, text: str, attachments: Iterable[Attachment] = (), *, budget: Budget | None = None
    ) -> str:
        """Prompts and returns the final answer's text. Cancelling it cancels the turn.

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
        """Stores an input, whose turn runs by itself, as `callboard.Session.submit` does."""
        call = partial(
            self._session.submit, text, attachments, budget=budget, mode=mode, request=request
        )
        return await cross(self._portal, call)

    async def cancel(
        self, reason: str = "cancelled by the program", *, input_id: str | None = None
    ) -> bool:
        """Cancels the running turn, as `callboard.Session.cancel` does."""
        call = partial(self._session.cancel, reason, input_id=input_id)
        return await cross(self._portal, call)

    async def set_budget(self, budget: Budget | None) -> None:
        """Gives the session another budget, as `callboard.Session.set_budget` does."""
        await cross(self._portal, partial(self._session.set_budget, budget))

    async def rename(self, title: str) -> None:
        """Gives it another title, as `callboard.Session.rename` does."""
        await cross(self._portal, partial(self._session.rename, title))

    async def delete(self) -> None:
        """Hides the session, as `callboard.Session.delete` does."""
        await cross(self._portal, self._session.delete)

    async def restore(self) -> None:
        """Takes the deletion back, as `callboard.Session.restore` does."""
        await cross(self._portal, self._session.restore)

    async def changes(self) -> list[ChangedCall]:
        """The calls that changed files, as `callboard.Session.changes` gives them."""
        return await cross(self._portal, self._session.changes)

    async def undo(
        self, call_id: str | None = None, *, force: bool = False, dry_run: bool = False
    ) -> UndoReport:
        """Takes back what calls changed in files, as `callboard.Session.undo` does."""
        undo = partial(self._session.undo, call_id, force=force, dry_run=dry_run)
        return await cross(self._portal, undo)

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
            await cross(self._portal, partial(self._following.__aexit__, None, None, None))  # noqa: ASYNC102  an event loop has no scopes

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
