"""A session in a Trio program: prompt it, follow it, resume it, undo its changes."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Literal, Self, TypeVar, Unpack, overload

from ..config.prices import priced
from ..config.usage_sums import UsageBy, UsageReport, UsageSums, read_usage
from ..runtime.budget import Budget, checked_budget
from ..runtime.changes.undo_report import ChangedCall, UndoReport
from ..runtime.definitions import InputMode, InputSource
from ..runtime.errors import ConflictError, ValidationError
from ..runtime.event_types.turns import RerunWay
from ..runtime.events import Stored, StreamBatch
from ..runtime.history import Attachment, checked_attachments
from ..runtime.identity import RequestKey, TraceContext
from ..runtime.kernel.delivery import AnswerReader, Subscription
from ..runtime.messages import (
    CancelTurn,
    FollowSession,
    InputTicket,
    RerunTurn,
    ResumeTurn,
    SubmitInput,
)
from ..runtime.store.rows import MessageRow
from ..runtime.turn_options import PromptKeywords, options_of_keywords
from .host import Host
from .options import check_turn_options
from .turn import Turn, TurnEvent, checked_text

Value = TypeVar("Value")


class Session:
    """One conversation; made by `Runtime`. A handle: dropping it ends nothing.

    Example:
        print(await session.run("Write 'buy milk' to list.txt."))
        async with session.prompt("Read it back.") as turn:
            print(await turn.answer())
    """

    def __init__(self, host: Host, session_id: str, _command: str = "") -> None:
        self._host, self._command = host, _command
        self.session_id = session_id

    @overload
    def prompt(
        self,
        text: str,
        attachments: Iterable[Attachment] = (),
        *,
        answer: None = None,
        **options: Unpack[PromptKeywords],
    ) -> Turn: ...

    @overload
    def prompt(
        self,
        text: str,
        attachments: Iterable[Attachment] = (),
        *,
        answer: type[Value],
        **options: Unpack[PromptKeywords],
    ) -> Turn[Value]: ...

    @overload
    def prompt(
        self,
        text: str,
        attachments: Iterable[Attachment] = (),
        *,
        answer: Mapping[str, Any],
        **options: Unpack[PromptKeywords],
    ) -> Turn[dict[str, Any]]: ...

    def prompt(
        self,
        text: str,
        attachments: Iterable[Attachment] = (),
        *,
        answer: Any = None,
        **options: Unpack[PromptKeywords],
    ) -> Turn[Any]:
        """Return a turn for this input: enter it with `async with`, then iterate over its events.

        The input is stored when the block is entered; while another turn runs it waits for its
        own. Leaving the block before the end cancels the turn and waits until it is gone.

        Args:
            text: What is asked.
            attachments: Images and files beside it.
            answer: The form of the final answer: a msgspec Struct, a dataclass, a TypedDict, a Pydantic model
                or another type that JSON can carry, or a JSON Schema of an object. `Turn.answer` returns such
                an object; a wrong answer is asked for again, twice at most.
            **options: `budget` (what the turn may use; the limits of its agent and its session hold too);
                `is_untrusted` (whether strangers may have written the text: it then taints the session);
                `trace` (where the program stands in a trace, see `[telemetry]`); and
                in place of the agent's own, for the turn and what it delegates: `model`
                (`PROVIDER/MODEL`), `fallbacks`, `thinking`, `temperature`, `max_output_tokens`, `policy`,
                `tools` (some of the agent's), `unattended` (nobody sits there: what needs a person is denied,
                `deny`, or its question waits on record while the turn goes on, `defer`), `timeout_seconds`
                (of this turn; then it is a `DeadlineError`).

        Raises:
            ValidationError: An option is not valid, or no answer can have the form.
            NotFoundError: There is no such provider.
        """
        form = _form_of(answer)
        subscription = Subscription(None if form is None else form[1])
        return Turn(self._host, self._input(text, attachments, subscription, form, options))

    def _input(
        self,
        text: str,
        attachments: Iterable[Attachment],
        subscription: Subscription | None,
        form: _Form | None,
        keywords: PromptKeywords,
        mode: InputMode = InputMode.QUEUE,
        request: RequestKey | None = None,
    ) -> SubmitInput:
        options = options_of_keywords(keywords, None if form is None else form[0])
        if options is not None:
            # A form that somebody waits for is checked already.
            check_turn_options(self._host, options, mode, has_form=subscription is not None)
        return SubmitInput(
            session_id=self.session_id,
            text=checked_text(text),
            attachments=checked_attachments(attachments),
            budget=checked_budget(keywords.get("budget")),
            mode=mode,
            subscription=subscription,
            request=request,
            options=options,
            widens=None,  # the program decides what its agents may do
            is_untrusted=keywords.get("is_untrusted", False),
            trace=keywords.get("trace") or _current_trace(self._host),
            command=self._command,
        )

    async def submit(
        self,
        text: str,
        attachments: Iterable[Attachment] = (),
        *,
        answer: type | Mapping[str, Any] | None = None,
        mode: InputMode | Literal["queue", "steer", "interrupt"] = InputMode.QUEUE,
        request: RequestKey | None = None,
        **options: Unpack[PromptKeywords],
    ) -> InputTicket:
        """Store an input, whose turn then runs by itself; it is on record when this returns.

        The other arguments are those of `prompt`. A `request` that was done already is refused with a
        `ConflictError`. To see what happens, use `follow`: the `answer` is in `TurnEnded`.

        Args:
            mode: What happens while a turn runs. By default the input waits in a queue for its own
                turn. With `steer`, the model reads it with the next call of the running turn
                (`InputDelivered`); when no such call comes, it waits in the queue. With
                `interrupt`, the running turn is cancelled, and the input's own comes next. When no
                turn runs, every mode begins one.

        Example:
            async with session.follow() as events:
                ticket = await session.submit("What time is it in Tokyo?")
                print(ticket.input_id, "is event", ticket.seq)
                async for event in events:
                    if isinstance(event, callboard.TurnEnded):
                        break
        """
        how = checked_mode(mode, options.get("budget"))
        ticket: InputTicket = await self._host.directory.ask(
            self._input(text, attachments, None, _form_of(answer), options, how, request)
        )
        return ticket

    async def cancel(
        self, reason: str = "cancelled by the program", *, input_id: str | None = None
    ) -> bool:
        """Cancel the running turn; return when everything of it is gone (`False`: none ran).

        With `input_id`, only the turn of that input, which may not have begun yet.
        """
        return await self._host.directory.ask(
            CancelTurn(session_id=self.session_id, reason=reason, input_id=input_id, loads=True)
        )

    def follow(self) -> Following:
        """Follow all that happens in the session from here on: enter it, then iterate.

        Example:
            async with session.follow() as events:
                await session.run("What time is it in Tokyo?")
                async for event in events:
                    if isinstance(event, callboard.TurnEnded):
                        break
        """
        return Following(self._host, self.session_id)

    async def resume(self) -> Turn | None:
        """Return the turn that was suspended when the process ended, to be entered like a new one.

        It asks again what still waits for a person, runs what was allowed meanwhile, and goes on
        with the model. When no turn is suspended, return that of the first waiting input, or one
        that the runtime began by itself for the late result of a deferred call; else `None`. Such a
        turn begins as soon as the call is answered and may be over by now: `follow` before that
        shows it in any case.

        Example:
            turn = await session.resume()
            if turn is not None:
                async with turn:
                    print(await turn.answer())
        """
        for turn in await self._host.plan.store.open_turns():
            if turn.session_id == self.session_id and turn.is_suspended:
                return self._left_turn()
        for row in await self._host.plan.store.open_inputs(self.session_id):
            if row.turn_id is None or row.source is not InputSource.PERSON:
                return self._left_turn()
        return None

    def _left_turn(self) -> Turn:
        message = ResumeTurn(session_id=self.session_id, subscription=Subscription())
        return Turn(self._host, message)

    def _rerun(self, why: RerunWay, message_id: str | None) -> Turn:
        message = RerunTurn(
            session_id=self.session_id,
            why=why,
            message_id=message_id,
            subscription=Subscription(),
            command=self._command,
        )
        return Turn(self._host, message)

    def retry(self, message_id: str | None = None) -> Turn:
        """Return the last turn to run again, when it failed, was cancelled or not answered: enter it.

        What came of it before is set aside (`TurnSetAside`): it stays on record, but the model reads it
        no more. What tools did is not undone; `undo` takes back changes of files.

        Args:
            message_id: A message of that turn, so that no other turn is run by mistake.

        Entering it raises:
            ConflictError: A turn runs or waits, or the last one was answered.
            NotFoundError: The message is not of the last turn.

        Example:
            async with session.prompt("What time is it in Tokyo?"):
                pass  # leaving it cancels it
            async with session.retry() as turn:
                print(await turn.answer())
        """
        return self._rerun("retry", message_id)

    def regenerate(self, message_id: str | None = None) -> Turn:
        """Return the last turn to run again for another answer. See `retry`.

        Example:
            print(await session.run("What time is it in Tokyo?"))
            async with session.regenerate() as turn:
                print(await turn.answer())
        """
        return self._rerun("regenerate", message_id)

    @overload
    async def run(
        self,
        text: str,
        attachments: Iterable[Attachment] = (),
        *,
        answer: None = None,
        **options: Unpack[PromptKeywords],
    ) -> str: ...

    @overload
    async def run(
        self,
        text: str,
        attachments: Iterable[Attachment] = (),
        *,
        answer: type[Value],
        **options: Unpack[PromptKeywords],
    ) -> Value: ...

    @overload
    async def run(
        self,
        text: str,
        attachments: Iterable[Attachment] = (),
        *,
        answer: Mapping[str, Any],
        **options: Unpack[PromptKeywords],
    ) -> dict[str, Any]: ...

    async def run(
        self,
        text: str,
        attachments: Iterable[Attachment] = (),
        *,
        answer: Any = None,
        **options: Unpack[PromptKeywords],
    ) -> Any:
        """Prompt, and return the final answer: its text, or what `answer` says. Cancelling it cancels the turn.

        Arguments are those of `prompt`.

        Raises:
            CallboardError: The turn was not answered; the error's type says why. A `ProviderError` when no
                answer had the form.

        Example:
            import msgspec

            class Verdict(msgspec.Struct):
                is_positive: bool

            model = callboard.ScriptedModel([callboard.reply('{"is_positive": true}')])
            async with callboard.open_runtime(model=model) as runtime:
                session = await runtime.create_session()
                verdict = await session.run("It came fast. Judge this.", answer=Verdict)
                print(verdict.is_positive)
        """
        async with self.prompt(text, attachments, answer=answer, **options) as turn:
            return await turn.answer()

    async def set_budget(self, budget: Budget | None) -> None:
        """Set the session's own budget, from its next turn on; `None` is no limit.

        The budgets of its agent, and of the session that delegated to it, still hold.

        Example:
            await session.set_budget(callboard.Budget(tokens=200_000))
            print(await session.run("What time is it in Tokyo?"))
        """
        await self._host.keeping.set_budget(self.session_id, budget)

    async def messages(
        self,
        *,
        after: int = 0,
        before: int | None = None,
        latest_first: bool = False,
        limit: int = 100,
    ) -> list[MessageRow]:
        """Return what was said, with the cost of each answer where it is known.

        Args:
            after: Only messages behind this position.
            before: Only messages in front of this position.
            latest_first: From the end to the beginning; the next page is `before` the last one's position.
            limit: At most so many.

        Example:
            await session.run("What time is it in Tokyo?")
            for row in await session.messages(latest_first=True, limit=10):
                print(row.position, row.type, row.content, row.stop_reason, row.cost)
        """
        rows = await self._host.plan.store.messages(
            self.session_id, after=after, before=before, latest_first=latest_first, limit=limit
        )
        return priced(rows, self._host.force.prices)

    async def fork(self, message_id: str | None = None, *, title: str = "") -> Session:
        """Return a new session that goes on from a message of this one; it is on record when this returns.

        It has the same agent, model and folder, and what was said up to there. Files are not rolled back: `undo`
        of this session takes back what its calls changed. Permissions that people gave stay with this session.

        Args:
            message_id: An answer, a call or a result: the fork goes on behind it and the results of its calls.
                Of an input, it goes on in front of it, so that something else is asked instead. `None` is the
                end of the last turn that has ended.
            title: What it is called; by default as this one.

        Raises:
            NotFoundError: There is no such message.
            ConflictError: The session is deleted, or was delegated.

        Example:
            print(await session.run("What time is it in Tokyo?"))
            asked = (await session.messages(limit=1))[0]
            fork = await session.fork(asked.message_id)
            print(await fork.run("What time is it in Lisbon?"))
        """
        await self._host.pruning.check()
        return Session(
            self._host, await self._host.keeping.fork(self.session_id, message_id, title=title)
        )

    async def delete_messages(self, message_ids: Iterable[str]) -> tuple[str, ...]:
        """Delete messages: the model, lists, search and exports have them no more. Return their ids.

        A call and its result go together; what the call did stays done, and on record as a call. The journal keeps
        the words until the session is purged, and a summary that was made before may still hold them.

        Raises:
            NotFoundError: There is no such message; nothing was deleted.
            ConflictError: A turn runs, or waits for a person; nothing was deleted.

        Example:
            print(await session.run("My name is Ada. What time is it in Tokyo?"))
            asked = (await session.messages(limit=1))[0]
            print(*await session.delete_messages([asked.message_id]))
        """
        return await self._host.keeping.delete_messages(self.session_id, tuple(message_ids))

    async def rename(self, title: str) -> None:
        """Give the session a title; no model replaces it.

        Raises:
            ValidationError: It is empty, or longer than a title may be.

        Example:
            await session.rename("The clock")
            print([row.title for row in await runtime.sessions()])
        """
        await self._host.keeping.rename(self.session_id, title)

    async def set_agent(self, agent: str) -> None:
        """Give the session another agent, from its next turn on.

        Raises:
            NotFoundError: There is no such agent.

        Example:
            await session.set_agent("general")
            print(await session.run("What time is it in Tokyo?"))
        """
        await self._host.keeping.set_agent([self.session_id], agent)

    async def delete(self) -> None:
        """Hide the session and all below it, and cancel their turns; `restore` takes it back.

        It takes no prompts from here on, and is purged after `[sessions] keep_deleted_days`.

        Example:
            await session.delete()
            await session.restore()
        """
        await self._host.keeping.delete([self.session_id])

    async def restore(self) -> None:
        """Take the deletion back, for all below it too; inputs that waited get their turns."""
        await self._host.keeping.restore([self.session_id])

    async def usage(self, *, by: UsageBy = "turn") -> UsageReport:
        """Return what this session used, as `Runtime.usage` does for all sessions."""
        sums = UsageSums(by, self._host.force.prices)
        return await read_usage(self._host.plan.store, sums, session_id=self.session_id)

    async def changes(self) -> list[ChangedCall]:
        """Return the calls whose changes of files can be undone, in order, and what was undone.

        Those of sessions to which it delegated are among them.
        """
        return await self._host.undoing.changes(self.session_id)

    async def undo(
        self, call_id: str | None = None, *, force: bool = False, dry_run: bool = False
    ) -> UndoReport:
        """Take back what the session's calls changed in files, the latest change first.

        What the sessions changed to which it delegated is undone with it: all, or nothing unless it is forced.
        It is a person's decision: no tool does it. It waits for calls that work in the same workspace.
        What is there now is kept, so that an undoing can be undone: use its id in place of a call's.

        Args:
            call_id: Only this call's changes, or this undoing. Of a call that delegated, what came of it.
            force: Also where a file was changed since.
            dry_run: Only say what would be done.

        Raises:
            NotFoundError: There is nothing to undo.
            ConflictError: A turn of the session runs, or of one below it, or files were changed since: nothing
                is undone.

        Example:
            await session.run("Write 'buy milk' to list.txt.")
            report = await session.undo()
            print(*report.lines, sep="\\n")
        """
        return await self._host.undoing.undo(
            self.session_id, call_id, force=force, dry_run=dry_run, undone_by="application"
        )


_Form = tuple[dict[str, Any], AnswerReader]
"""A JSON Schema, and what reads answers that fit it."""


def _form_of(answer: Any) -> _Form | None:
    if answer is None:
        return None
    from ..tools.schema.answers import SchemaAnswer, TypedAnswer  # here: most prompts have none

    form = SchemaAnswer(answer) if isinstance(answer, Mapping) else TypedAnswer(answer)
    return form.schema, form


def checked_mode(mode: str, budget: Budget | None) -> InputMode:
    """Return what an input is to a running turn; raise `ValidationError` for an unknown mode."""
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
    """The events of a session from now on, made by `Session.follow`.

    No turn waits for a follower. One that reads too slowly gets an `OverloadedError`, and can read the
    record after `seq`. It hears all of a session that is unloaded meanwhile, and loaded again.

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
        """Wait for the next event and return it."""
        event = await self.next_event()
        if event is None:
            raise StopAsyncIteration
        return event

    async def next_event(self) -> TurnEvent | None:
        """Wait for the next event and return it; `None` after the block was left.

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


def _current_trace(host: Host) -> TraceContext | None:
    """Return where the program stands in a trace, if it gets the spans itself."""
    if host.plan.telemetry is None or not host.plan.telemetry.has_processor:
        return None
    from ..runtime.telemetry.export import current_trace

    return current_trace()
