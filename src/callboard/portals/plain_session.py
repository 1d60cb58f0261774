"""Sessions and turns for plain programs: the same methods as in a Trio program, but they block."""

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
from .portal import Portal, TurnHandle


class Session:
    """One conversation; made by `Runtime`. A handle: dropping it ends nothing."""

    def __init__(self, portal: Portal, session: embedded.Session) -> None:
        self._portal = portal
        self._session = session
        self.session_id = session.session_id

    def prompt(
        self, text: str, attachments: Iterable[Attachment] = (), *, budget: Budget | None = None
    ) -> Turn:
        """A turn for this input: enter it with `with`, then iterate over its events.

        The input is stored when the block is entered; while another turn runs it waits for its
        own. Leaving the block before the end cancels the turn and waits until it is gone.
        """
        return Turn(self._portal, self._session.prompt(text, attachments, budget=budget))

    def follow(self) -> Following:
        """All that happens in the session from here on, as `callboard.Session.follow` gives it."""
        return Following(self._portal, self._session.follow())

    def resume(self) -> Turn | None:
        """The turn that was suspended, as `callboard.Session.resume` gives it."""
        turn = self._portal.call(self._session.resume)
        return None if turn is None else Turn(self._portal, turn)

    def retry(self, message_id: str | None = None) -> Turn:
        """The last turn once more, as `callboard.Session.retry` gives it."""
        return Turn(self._portal, self._session.retry(message_id))

    def regenerate(self, message_id: str | None = None) -> Turn:
        """Another answer of the last turn, as `callboard.Session.regenerate` gives it."""
        return Turn(self._portal, self._session.regenerate(message_id))

    def run(
        self, text: str, attachments: Iterable[Attachment] = (), *, budget: Budget | None = None
    ) -> str:
        """Prompts and returns the final answer's text. Interrupting it cancels the turn.

        Raises:
            CallboardError: The turn was not answered; the error's type says why.
        """
        return self._portal.call(partial(self._session.run, text, attachments, budget=budget))

    def submit(
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
        return self._portal.call(call)

    def cancel(
        self, reason: str = "cancelled by the program", *, input_id: str | None = None
    ) -> bool:
        """Cancels the running turn, as `callboard.Session.cancel` does."""
        call = partial(self._session.cancel, reason, input_id=input_id)
        return self._portal.call(call)

    def set_budget(self, budget: Budget | None) -> None:
        """Gives the session another budget, as `callboard.Session.set_budget` does."""
        self._portal.call(partial(self._session.set_budget, budget))

    def rename(self, title: str) -> None:
        """Gives it another title, as `callboard.Session.rename` does."""
        self._portal.call(partial(self._session.rename, title))

    def delete(self) -> None:
        """Hides the session, as `callboard.Session.delete` does."""
        self._portal.call(self._session.delete)

    def restore(self) -> None:
        """Takes the deletion back, as `callboard.Session.restore` does."""
        self._portal.call(self._session.restore)

    def changes(self) -> list[ChangedCall]:
        """The calls that changed files, as `callboard.Session.changes` gives them."""
        return self._portal.call(self._session.changes)

    def undo(
        self, call_id: str | None = None, *, force: bool = False, dry_run: bool = False
    ) -> UndoReport:
        """Takes back what calls changed in files, as `callboard.Session.undo` does."""
        return self._portal.call(partial(self._session.undo, call_id, force=force, dry_run=dry_run))

    def usage(self, *, by: UsageBy = "turn") -> UsageReport:
        """What this session took and cost, as `callboard.Session.usage` gives it."""
        return self._portal.call(partial(self._session.usage, by=by))


class Following:
    """What happens in a session from here on; made by `Session.follow`."""

    def __init__(self, portal: Portal, following: embedded.Following) -> None:
        self._portal = portal
        self._following = following

    def __enter__(self) -> Self:
        self._portal.call(self._following.__aenter__)
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(ActorStopped):  # with its runtime, it is gone too
            self._portal.call(partial(self._following.__aexit__, None, None, None))

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> TurnEvent:
        """The next event; waits for it."""
        event = self._portal.call(self._following.next_event)
        if event is None:
            raise StopIteration
        return event


class Turn(TurnHandle):
    """One turn, from an input to the final answer; made by `Session.prompt`."""

    def __enter__(self) -> Self:
        try:
            self._portal.call(self._turn.__aenter__)
            self._portal.turns.add(self._turn)
        except ConflictError:
            raise  # entered before: whoever did so leaves it
        except BaseException:
            # Interrupted in the moment in which it was entered, it has nobody else to leave it.
            self._leave()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._leave()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> TurnEvent:
        """The next event; waits for it, and ends behind `TurnEnded`."""
        event = self._next_event()
        if event is None:
            raise StopIteration
        return event

    def next_events(self) -> list[TurnEvent]:
        """Everything that has come since, at once; waits for some, and is empty at the end."""
        first = self._next_event()
        return [] if first is None else [first, *self._fetched()]

    def answer(self) -> str:
        """Reads to the end and returns the final answer's text.

        Raises:
            CallboardError: The turn was not answered; the error's type says why.
        """
        return self._portal.call(self._turn.answer)

    def cancel(self, reason: str = "cancelled by the program") -> None:
        """Cancels the turn; returns when everything of it is gone. Its events can still be read."""
        self._portal.call(partial(self._turn.cancel, reason))

    def _next_event(self) -> TurnEvent | None:
        event = self._turn.next_event_nowait()
        if event is not None or self._turn.ended is not None:
            return event
        try:
            self._portal.call(self._turn.wait_events)
        except ActorStopped:
            if (event := self._turn.next_event_nowait()) is None:
                raise
            return event  # what the portal fetched when it closed
        return self._turn.next_event_nowait()

    def _leave(self) -> None:
        self._portal.turns.discard(self._turn)
        if self._turn.input_id and self._turn.ended is None:
            with suppress(ActorStopped):  # with its session or its runtime, the turn is gone too
                self._portal.call(partial(self._turn.__aexit__, None, None, None))
