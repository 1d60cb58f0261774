"""A session as a Trio program holds it: prompt it, and go on with what was left."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from types import TracebackType
from typing import Literal, Self

from ..config.usage_sums import UsageBy, UsageReport, UsageSums, read_usage
from ..runtime.budget import Budget, checked_budget
from ..runtime.changes.undo_report import ChangedCall, UndoReport
from ..runtime.definitions import InputMode, InputSource
from ..runtime.errors import ConflictError, ValidationError
from ..runtime.events import SessionBudgetSet, Stored, StreamBatch
from ..runtime.history import Attachment, checked_attachments
from ..runtime.identity import RequestKey
from ..runtime.kernel.delivery import Subscription
from ..runtime.messages import AppendEvents, CancelTurn, FollowSession, InputTicket, SubmitInput
from .host import Host
from .turn import Turn, TurnEvent, checked_text, left_turn, turn_again


class Session:
    """One conversation; made by `Runtime`. A handle: dropping it ends nothing.

    Example:
        print(await session.run("Write 'buy milk' to list.txt."))
        async with session.prompt("Read it back.") as turn:
            print(await turn.answer())
    """

    def __init__(self, host: Host, session_id: str) -> None:
        self._host = host
        self.session_id = session_id

    def prompt(
        self, text: str, attachments: Iterable[Attachment] = (), *, budget: Budget | None = None
    ) -> Turn:
        """A turn for this input: enter it with `async with`, then iterate over its events.

        The input is stored when the block is entered; while another turn runs it waits for its
        own. Leaving the block before the end cancels the turn and waits until it is gone.

        Args:
            text: What is asked.
            attachments: Images and files beside it.
            budget: What the turn may use, at most; its agent's and its session's hold too.
        """
        return Turn(self._host, self.session_id, text, attachments, budget)

    async def submit(
        self,
        text: str,
        attachments: Iterable[Attachment] = (),
        *,
        budget: Budget | None = None,
        mode: InputMode | Literal["queue", "steer", "interrupt"] = InputMode.QUEUE,
        request: RequestKey | None = None,
    ) -> InputTicket:
        """Stores an input, whose turn runs by itself; on record when this returns.

        The first arguments are those of `prompt`; a `request` that was done already is refused with
        a `ConflictError`. `follow` tells what comes of it.

        Args:
            mode: What it is to a turn that runs. By default it waits for its own, in a queue. With
                `steer`, that turn is told it before its next model call (`InputDelivered`); when
                none comes, it waits in the queue. With `interrupt`, that turn is cancelled, and its
                own comes next. When no turn runs, it begins one in any case.

        Example:
            async with session.follow() as events:
                ticket = await session.submit("What time is it in Tokyo?")
                print(ticket.input_id, "is event", ticket.seq)
                async for event in events:
                    if isinstance(event, callboard.TurnEnded):
                        break
        """
        ticket: InputTicket = await self._host.directory.ask(
            SubmitInput(
                session_id=self.session_id,
                text=checked_text(text),
                attachments=checked_attachments(attachments),
                budget=checked_budget(budget),
                mode=checked_mode(mode, budget),
                request=request,
            )
        )
        return ticket

    async def cancel(
        self, reason: str = "cancelled by the program", *, input_id: str | None = None
    ) -> bool:
        """Cancels the running turn; returns when everything of it is gone (`False`: none ran).

        With `input_id`, the turn of that input alone, which may wait for its beginning.
        """
        return await self._host.directory.ask(
            CancelTurn(session_id=self.session_id, reason=reason, input_id=input_id, loads=True)
        )

    def follow(self) -> Following:
        """All that happens in the session from here on, whoever prompted: enter it, then iterate.

        Example:
            async with session.follow() as events:
                await session.run("What time is it in Tokyo?")
                async for event in events:
                    if isinstance(event, callboard.TurnEnded):
                        break
        """
        return Following(self._host, self.session_id)

    async def resume(self) -> Turn | None:
        """The turn that was suspended when the process ended, to be entered like a new one.

        It asks again what still waits for a person, runs what was allowed meanwhile, and goes on
        with the model. Without one, the turn of the first input that waits on record, or that the
        runtime itself began: the late result of a deferred call. `None` when nothing goes on.

        Example:
            turn = await session.resume()
            if turn is not None:
                async with turn:
                    print(await turn.answer())
        """
        for turn in await self._host.plan.store.open_turns():
            if turn.session_id == self.session_id and turn.is_suspended:
                return left_turn(self._host, self.session_id)
        for row in await self._host.plan.store.open_inputs(self.session_id):
            if row.turn_id is None or row.source is not InputSource.PERSON:
                return left_turn(self._host, self.session_id)
        return None

    def retry(self, message_id: str | None = None) -> Turn:
        """The last turn once more, which failed, was cancelled or else not answered: enter it.

        What the person said is not said twice: what came of it before is set aside (`TurnSetAside`),
        stays on record, and is read by the model no more. What tools did is not undone; `undo` takes
        back changes of files.

        Args:
            message_id: A message of that turn, for who must not mean another one.

        Entering it raises:
            ConflictError: A turn runs or waits, or the last one was answered.
            NotFoundError: The message is not of the last turn.

        Example:
            async with session.prompt("What time is it in Tokyo?"):
                pass  # leaving it cancels it
            async with session.retry() as turn:
                print(await turn.answer())
        """
        return turn_again(self._host, self.session_id, "retry", message_id)

    def regenerate(self, message_id: str | None = None) -> Turn:
        """The last turn once more, for another answer; the one before is set aside. See `retry`.

        Example:
            print(await session.run("What time is it in Tokyo?"))
            async with session.regenerate() as turn:
                print(await turn.answer())
        """
        return turn_again(self._host, self.session_id, "regenerate", message_id)

    async def run(
        self, text: str, attachments: Iterable[Attachment] = (), *, budget: Budget | None = None
    ) -> str:
        """Prompts and returns the final answer's text. Cancelling it cancels the turn.

        Arguments are those of `prompt`.

        Raises:
            CallboardError: The turn was not answered; the error's type says why.
        """
        async with self.prompt(text, attachments, budget=budget) as turn:
            return await turn.answer()

    async def set_budget(self, budget: Budget | None) -> None:
        """Gives the session another budget of its own, from its next turn on; `None` is no limit.

        Those of its agent, and of the session that delegated to it, hold all the same.

        Example:
            await session.set_budget(callboard.Budget(tokens=200_000))
            print(await session.run("What time is it in Tokyo?"))
        """
        event = SessionBudgetSet(budget=checked_budget(budget))
        await self._host.journal.ask(AppendEvents(session_id=self.session_id, events=(event,)))

    async def rename(self, title: str) -> None:
        """Gives it another title; no model replaces one that was given.

        Raises:
            ValidationError: It is empty, or longer than a title may be.

        Example:
            await session.rename("The clock")
            print([row.title for row in await runtime.sessions()])
        """
        await self._host.keeping.rename(self.session_id, title)

    async def delete(self) -> None:
        """Hides the session and all below it, and cancels their turns; `restore` takes it back.

        It takes no prompts from here on, and is purged after `[sessions] keep_deleted_days`.

        Example:
            await session.delete()
            await session.restore()
        """
        await self._host.keeping.delete([self.session_id])

    async def restore(self) -> None:
        """Takes the deletion back, for all below it too; inputs that waited have their turns."""
        await self._host.keeping.restore([self.session_id])

    async def usage(self, *, by: UsageBy = "turn") -> UsageReport:
        """What this session took, as `Runtime.usage` gives it for all."""
        sums = UsageSums(by, self._host.plan.prices)
        return await read_usage(self._host.plan.store, sums, session_id=self.session_id)

    async def changes(self) -> list[ChangedCall]:
        """The calls whose changes of files can be undone, in their order, and what was undone."""
        return await self._host.undoing.changes(self.session_id)

    async def undo(
        self, call_id: str | None = None, *, force: bool = False, dry_run: bool = False
    ) -> UndoReport:
        """Takes back what the session's calls changed in files, the latest change first.

        It is a person's decision, not a model's: nothing is asked, and no tool does it. It waits for
        the calls that work in the same workspace. What is there now is kept, so that an undoing can
        be undone: its id stands in the place of a call's.

        Args:
            call_id: Only this call's changes, or this undoing.
            force: Also where a file was changed since.
            dry_run: Only say what would be done.

        Raises:
            NotFoundError: There is nothing to undo.
            ConflictError: A turn of the session runs, or files were changed since: nothing is undone.

        Example:
            await session.run("Write 'buy milk' to list.txt.")
            report = await session.undo()
            print(*report.lines, sep="\\n")
        """
        return await self._host.undoing.undo(
            self.session_id, call_id, force=force, dry_run=dry_run, undone_by="application"
        )


def checked_mode(mode: str, budget: Budget | None) -> InputMode:
    """What an input is to a turn that runs; raises `ValidationError`."""
    if mode not in {each.value for each in InputMode}:
        raise ValidationError(
            f"the mode of an input is queue, steer or interrupt, not {mode!r}", field="mode"
        )
    if mode == InputMode.STEER and budget is not None:
        raise ValidationError(
            "an input that steers a turn has no budget: it becomes part of that turn, which has its "
            "own. Leave the budget out, or queue the input.",
            field="budget",
        )
    return InputMode(mode)


class Following:
    """What happens in a session from here on; made by `Session.follow`.

    No turn waits for whoever follows: who reads slower than the session goes on is cut off with an
    `OverloadedError`, and can read the record behind `seq`. A session that is followed stays loaded.

    Attributes:
        seq: The `seq` of the last event on record that was seen.
        at_ms: When that one was stored, in Unix milliseconds.
    """

    def __init__(self, host: Host, session_id: str) -> None:
        self._host = host
        self._session_id = session_id
        self._subscription = Subscription()
        self._is_entered = False
        self._events: deque[TurnEvent | Stored] = deque()
        self.seq = 0
        self.at_ms = 0

    async def __aenter__(self) -> Self:
        if self._is_entered:
            raise ConflictError("a following is entered once: call session.follow again")
        self._is_entered = True
        await self._host.directory.ask(
            FollowSession(session_id=self._session_id, subscription=self._subscription)
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._subscription.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> TurnEvent:
        """The next event; waits for it."""
        event = await self.next_event()
        if event is None:
            raise StopAsyncIteration
        return event

    async def next_event(self) -> TurnEvent | None:
        """The next event; `None` when it was left.

        Raises:
            ActorStopped: The session, or the runtime, has ended.
            OverloadedError: Too much waits to be read.
        """
        if not self._is_entered:
            raise ConflictError("enter it first: `async with session.follow() as events:`")
        while not self._events:
            updates = await self._subscription.take()
            if not updates:
                return None
            for update in updates:
                self._events.extend(update.events if isinstance(update, StreamBatch) else (update,))
        event = self._events.popleft()
        if not isinstance(event, Stored):
            return event
        self.seq, self.at_ms = event.seq, event.at_ms
        return event.event
