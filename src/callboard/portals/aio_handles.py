"""Runtime, sessions and turns for asyncio programs: the methods of a Trio program, as coroutines.

`scripts/plain-portal` generates `plain_handles` from this module by dropping `async` and `await`, so
that there the same methods block. Everything that differs between the two is in `event_loop` and
`threads`, under the same names: `cross`, `cross_to_end`, `close_portal`, `forwarded` and
`forwarded_to`.

A method with the arguments of the Trio object's method is `forwarded`: it has its signature and its
documentation, whose examples are therefore for Trio.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any, Self, Unpack, overload

from ..embedding import runtime as embedded
from ..embedding.agents import RuntimeAgents
from ..embedding.settable import RuntimeSettings
from ..embedding.turn import Turn as TrioTurn
from ..embedding.turn import TurnEvent, Value
from ..embedding.unattended.hooks import RuntimeHooks
from ..embedding.unattended.schedules import RuntimeSchedules
from ..runtime.errors import ActorStopped, ConflictError
from ..runtime.history import Attachment
from ..runtime.store.interface import StoreReader
from ..runtime.turn_options import PromptKeywords
from ..tools.skills.book import SkillBook
from .event_loop import close_portal, cross, cross_to_end, forwarded, forwarded_to
from .portal import Handle, Portal, RuntimeHandle, TurnHandle


class Records(Handle[StoreReader]):
    """Everything on record; see `StoreReader` for each method."""

    events = forwarded(StoreReader.events)
    session = forwarded(StoreReader.session)
    sessions = forwarded(StoreReader.sessions)
    messages = forwarded(StoreReader.messages)
    calls = forwarded(StoreReader.calls)
    usage = forwarded(StoreReader.usage)
    approvals = forwarded(StoreReader.approvals)
    grants = forwarded(StoreReader.grants)
    full_output = forwarded(StoreReader.full_output)
    finished_call = forwarded(StoreReader.finished_call)
    open_turns = forwarded(StoreReader.open_turns)
    open_questions = forwarded(StoreReader.open_questions)
    open_inputs = forwarded(StoreReader.open_inputs)
    waking_sessions = forwarded(StoreReader.waking_sessions)
    children = forwarded(StoreReader.children)
    spending = forwarded(StoreReader.spending)
    memories = forwarded(StoreReader.memories)
    found_memories = forwarded(StoreReader.found_memories)
    marked_files = forwarded(StoreReader.marked_files)


class Session(Handle[embedded.Session]):
    """One conversation, made by `Runtime`. It is a handle: dropping it ends nothing."""

    def __init__(self, portal: Portal, session: embedded.Session) -> None:
        super().__init__(portal, session)
        self.session_id = session.session_id

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

        Entering the block stores the input; it waits in a queue while another turn runs. Leaving the
        block before the end cancels the turn and waits until it is gone. For the arguments see
        `callboard.Session.prompt`.
        """
        turn: TrioTurn[Any] = self._inner.prompt(text, attachments, answer=answer, **options)
        return Turn(self._portal, turn)

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
        """Prompt, and return the final answer; see `callboard.Session.run`."""
        made = partial(self._inner.run, text, attachments, answer=answer, **options)
        return await cross(self._portal, made)

    def follow(self) -> Following:
        """Follow the session from now on; see `callboard.Session.follow`."""
        return Following(self._portal, self._inner.follow())

    async def resume(self) -> Turn | None:
        """Return the suspended turn, if there is one; see `callboard.Session.resume`."""
        turn = await cross(self._portal, self._inner.resume)
        return None if turn is None else Turn(self._portal, turn)

    def retry(self, message_id: str | None = None) -> Turn:
        """Return a turn that retries the last one; see `callboard.Session.retry`."""
        return Turn(self._portal, self._inner.retry(message_id))

    def regenerate(self, message_id: str | None = None) -> Turn:
        """Return a turn for another answer; see `callboard.Session.regenerate`."""
        return Turn(self._portal, self._inner.regenerate(message_id))

    async def fork(self, message_id: str | None = None, *, title: str = "") -> Session:
        """Return a session that goes on from a message of this one; see `callboard.Session.fork`."""
        made = await cross(self._portal, partial(self._inner.fork, message_id, title=title))
        return Session(self._portal, made)

    messages = forwarded(embedded.Session.messages)
    delete_messages = forwarded(embedded.Session.delete_messages)
    submit = forwarded(embedded.Session.submit)
    cancel = forwarded(embedded.Session.cancel)
    set_budget = forwarded(embedded.Session.set_budget)
    rename = forwarded(embedded.Session.rename)
    set_agent = forwarded(embedded.Session.set_agent)
    delete = forwarded(embedded.Session.delete)
    restore = forwarded(embedded.Session.restore)
    changes = forwarded(embedded.Session.changes)
    undo = forwarded(embedded.Session.undo)
    usage = forwarded(embedded.Session.usage)


class Following(Handle[embedded.Following]):
    """The events of a session from now on, made by `Session.follow`."""

    async def __aenter__(self) -> Self:
        await cross(self._portal, self._inner.__aenter__)
        return self

    async def __aexit__(self, *_: object) -> None:
        with suppress(ActorStopped):  # the runtime has ended, and this with it
            await cross(self._portal, partial(self._inner.__aexit__, None, None, None))  # noqa: ASYNC102  an event loop has no scopes

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> TurnEvent:
        """Wait for the next event and return it."""
        event = await cross(self._portal, self._inner.next_event)
        if event is None:
            raise StopAsyncIteration
        return event


class Turn(TurnHandle[Value]):
    """One turn, from an input to the final answer, made by `Session.prompt`."""

    async def __aenter__(self) -> Self:
        try:
            await cross(self._portal, self._inner.__aenter__)
            self._portal.turns.add(self._inner)
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

    async def answer(self) -> Value:
        """Read to the end and return the final answer; see `callboard.Turn.answer`."""
        return await cross(self._portal, self._inner.answer)

    cancel = forwarded(TrioTurn[Any].cancel)

    async def _next_event(self) -> TurnEvent | None:
        event = self._inner.next_event_nowait()
        if event is not None or self._inner.ended is not None:
            return event
        try:
            await cross(self._portal, self._inner.wait_events)
        except ActorStopped:
            if (event := self._inner.next_event_nowait()) is None:
                raise
            return event  # the portal fetched it when it closed
        return self._inner.next_event_nowait()

    async def _leave(self) -> None:
        self._portal.turns.discard(self._inner)
        if self._inner.input_id and self._inner.ended is None:
            with suppress(ActorStopped):  # session or runtime have ended, and the turn with them
                await cross_to_end(self._portal, partial(self._inner.__aexit__, None, None, None))


class HooksHandle(Handle[RuntimeHooks]):
    """The hooks in force; see `callboard.Runtime.hooks`."""

    list = forwarded(RuntimeHooks.list)
    get = forwarded(RuntimeHooks.get)
    create = forwarded(RuntimeHooks.create)
    update = forwarded(RuntimeHooks.update)
    delete = forwarded(RuntimeHooks.delete)


class SchedulesHandle(Handle[RuntimeSchedules]):
    """The schedules in force; see `callboard.Runtime.schedules`."""

    list = forwarded(RuntimeSchedules.list)
    get = forwarded(RuntimeSchedules.get)
    create = forwarded(RuntimeSchedules.create)
    update = forwarded(RuntimeSchedules.update)
    delete = forwarded(RuntimeSchedules.delete)
    pause = forwarded(RuntimeSchedules.pause)
    resume = forwarded(RuntimeSchedules.resume)
    run = forwarded(RuntimeSchedules.run)
    next = forwarded(RuntimeSchedules.next)
    firings = forwarded(RuntimeSchedules.firings)


class AgentsHandle(Handle[RuntimeAgents]):
    """The agents in force; see `callboard.Runtime.agents`."""

    list = forwarded(RuntimeAgents.list)
    get = forwarded(RuntimeAgents.get)
    create = forwarded(RuntimeAgents.create)
    update = forwarded(RuntimeAgents.update)
    clone = forwarded(RuntimeAgents.clone)
    delete = forwarded(RuntimeAgents.delete)


class SettingsHandle(Handle[RuntimeSettings]):
    """The settings in force; see `callboard.Runtime.settings`."""

    list = forwarded(RuntimeSettings.list)
    get = forwarded(RuntimeSettings.get)
    set = forwarded(RuntimeSettings.set)


class SkillsHandle(Handle[SkillBook]):
    """What tells models how to work in a workspace; see `callboard.Runtime.skills`."""

    list = forwarded(SkillBook.list)
    get = forwarded(SkillBook.get)
    allow = forwarded(SkillBook.allow)
    revoke = forwarded(SkillBook.revoke)


class Runtime(RuntimeHandle):
    """A running callboard, made by `open_runtime`.

    Attributes:
        store: Reads the record: sessions, messages, calls, usage.
        agents: The agents in force: lists, makes, changes, copies and deletes them.
        settings: The settings in force: lists them, and sets those that bound and pace work.
        skills: What tells models how to work in a workspace: lists, reads, allows and revokes it.
        schedules: The schedules in force: lists, makes, changes, pauses and runs them.
        hooks: The hooks in force: lists, makes, changes and removes them.
    """

    def __init__(self, portal: Portal, runtime: embedded.Runtime) -> None:
        super().__init__(portal, runtime)
        self.store = Records(portal, runtime.store)
        self.agents = AgentsHandle(portal, runtime.agents)
        self.schedules = SchedulesHandle(portal, runtime.schedules)
        self.hooks = HooksHandle(portal, runtime.hooks)
        self.settings = SettingsHandle(portal, runtime.settings)
        self.skills = SkillsHandle(portal, runtime.skills)

    create_session = forwarded_to(Session, embedded.Runtime.create_session)
    get_session = forwarded_to(Session, embedded.Runtime.get_session)
    sessions = forwarded(embedded.Runtime.sessions)
    search = forwarded(embedded.Runtime.search)
    purge = forwarded(embedded.Runtime.purge)
    usage = forwarded(embedded.Runtime.usage)
    approvals = forwarded(embedded.Runtime.approvals)
    approval = forwarded(embedded.Runtime.approval)
    answer = forwarded(embedded.Runtime.answer)
    questions = forwarded(embedded.Runtime.questions)
    answer_question = forwarded(embedded.Runtime.answer_question)
    grants = forwarded(embedded.Runtime.grants)
    revoke = forwarded(embedded.Runtime.revoke)
    status = forwarded(embedded.Runtime.status)
    call_tool = forwarded(embedded.Runtime.call_tool)
    call_tools = forwarded(embedded.Runtime.call_tools)
    register = forwarded(embedded.Runtime.register)
    unregister = forwarded(embedded.Runtime.unregister)
    list_models = forwarded(embedded.Runtime.list_models)
    test_provider = forwarded(embedded.Runtime.test_provider)
    complete = forwarded(embedded.Runtime.complete)
    reload = forwarded(embedded.Runtime.reload)
    wait_lists = forwarded(embedded.Runtime.wait_lists)

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
