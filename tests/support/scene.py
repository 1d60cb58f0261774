"""What the tests of actors share: actors over a store in memory, and what a sound record is."""

from __future__ import annotations

import enum
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, cast

import trio

from callboard.actors.budget.budgets import BudgetBook
from callboard.actors.calls.call import CallPreparation
from callboard.actors.calls.dispatcher import ToolDispatcher
from callboard.actors.delegation.tree import SessionTree
from callboard.actors.directory import Directory, LiveSessions
from callboard.actors.handles.open_handles import OpenHandles
from callboard.actors.journal import Journal
from callboard.actors.model.stream import ModelStream, StartModelCall
from callboard.actors.people.lineage import Channels
from callboard.actors.permissions.asking import Approver, ApproverChannel
from callboard.actors.permissions.broker import PermissionBroker
from callboard.actors.permissions.record import BrokerServices
from callboard.actors.services import SessionServices
from callboard.actors.session.session import Session
from callboard.config.policy.policy import PolicyBook
from callboard.config.prices import PriceTable
from callboard.config.settings import Limits
from callboard.providers.provider import LocalModel, ModelTarget
from callboard.providers.testing.scripted import ScriptedModel
from callboard.runtime.channel import Channel
from callboard.runtime.definitions import Agent, SessionKind
from callboard.runtime.errors import CallboardError, NotFoundError, StorageFull
from callboard.runtime.events import (
    CallDeferred,
    CallFinished,
    CallProgress,
    CallProposed,
    ChildCall,
    DurableEvent,
    InputAccepted,
    InputCancelled,
    MessageCompleted,
    SessionCreated,
    Stored,
    TurnEnded,
    TurnStarted,
)
from callboard.runtime.handles import ReadableFiles, WritableFiles
from callboard.runtime.history import Call
from callboard.runtime.http.client import HttpClient
from callboard.runtime.kernel.delivery import EventInboxes, Subscription
from callboard.runtime.kernel.lease_gate import LeaseGate
from callboard.runtime.kernel.mailbox import Mailbox
from callboard.runtime.kernel.supervisor import Actor, Supervisor
from callboard.runtime.messages import (
    AppendEvents,
    BrokerMessage,
    CallPlace,
    DirectoryMessage,
    DispatcherMessage,
    InputTicket,
    JournalMessage,
    RunCalls,
    SessionMessage,
    SubmitInput,
)
from callboard.runtime.store.interface import Committed, Store
from callboard.runtime.store.memory_store import open_memory_store
from callboard.runtime.store.rows import Append, CommitResult
from callboard.tools.registry import ToolRegistry
from callboard.tools.tool import Tool

Refuse = Callable[[Sequence[Append]], CallboardError | None]


def has(appends: Sequence[Append], kind: type[DurableEvent]) -> bool:
    return any(isinstance(event, kind) for each in appends for event in each.events)


def full_for(kind: type[DurableEvent], *, once: bool = False) -> Refuse:
    """No room for events of a kind, or for the first of them alone."""
    refused: list[StorageFull] = []

    def refuse(appends: Sequence[Append]) -> CallboardError | None:
        if not has(appends, kind) or (once and refused):
            return None
        refused.append(StorageFull("no room: the disk is full"))
        return refused[-1]

    return refuse


class Manner(enum.Enum):
    """How a fake store commits what an actor does not wait for itself."""

    WAITED_FOR = "waited for"
    AT_ONCE = "at once"
    LATER = "later"


class FakeStore:
    """A store in memory that takes a step to commit, as a disk does, and can fail.

    Attributes:
        commits: What each transaction stored.
        refuse: Asked before each commit for the error that it shall end in.
        manner: How it takes what is to be stored soon: at once as memory does, later in a callback as
            a disk does, or not at all, so that everything is waited for.
    """

    def __init__(
        self, refuse: Refuse = lambda _: None, *, manner: Manner = Manner.WAITED_FOR
    ) -> None:
        self.inner = open_memory_store()
        self.commits: list[list[Append]] = []
        self.refuse = refuse
        self.manner = manner
        self.is_slow = manner is Manner.LATER

    def commit_soon(self, appends: Sequence[Append], done: Committed) -> bool:
        match self.manner:
            case Manner.WAITED_FOR:
                return False
            case Manner.AT_ONCE:
                self._commit(appends, done)
            case Manner.LATER:
                token = trio.lowlevel.current_trio_token()
                token.run_sync_soon(self._commit, appends, done)
        return True

    def _commit(self, appends: Sequence[Append], done: Committed) -> None:
        error: Exception | None
        try:
            error = self.refuse(appends)
        except Exception as crash:
            error = crash
        if error is not None:
            done(error)
            return
        self.commits.append(list(appends))
        self.inner.commit_soon(appends, done)

    async def commit(self, appends: Sequence[Append]) -> list[CommitResult]:
        await trio.lowlevel.checkpoint()
        if (error := self.refuse(appends)) is not None:
            raise error
        stored = await self.inner.commit(appends)
        self.commits.append(list(appends))
        return stored

    async def aclose(self) -> None:
        """Keeps its content, so that a test can look, and a second runtime can go on."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


class NoHandles(OpenHandles):
    """Handles for tools that touch nothing."""

    def __init__(self) -> None:
        none: Any = None
        super().__init__(
            none, (), network=none, connect=none, speech=none, tree=none, journal=none, shelf=none,
            memories=none, versions=none, marked_files=none,
        )  # fmt: skip

    def files_read(self, workspace: str) -> ReadableFiles:
        return cast(ReadableFiles, None)

    def files_write(self, workspace: str) -> WritableFiles:
        return cast(WritableFiles, None)


class OneModel:
    """The same model for every turn; `failure` is raised in its place.

    Attributes:
        others: The models behind it, by `PROVIDER/MODEL`.
    """

    def __init__(self, model: LocalModel) -> None:
        self.model = model
        self.failure: CallboardError | None = None
        self.others: dict[str, LocalModel] = {}

    def target(self, choice: str | None, preferred: str | None = None) -> ModelTarget:
        if self.failure is not None:
            raise self.failure
        return ModelTarget(provider="local", model="scripted", local=self.model)

    def fallback(self, name: str) -> ModelTarget:
        provider, _, model = name.partition("/")
        if name not in self.others:
            raise NotFoundError(f"There is no {name}.")
        return ModelTarget(provider=provider, model=model, local=self.others[name])


class Scene:
    """The actors of one runtime and their addresses, each started by name."""

    def __init__(
        self,
        *,
        tools: Iterable[Tool] = (),
        model: LocalModel | None = None,
        approver: Approver | None = None,
        channel: Channel | None = None,
        limits: Limits | None = None,
        agents: Sequence[Agent] = (Agent(),),
        store: FakeStore | None = None,
    ) -> None:
        self.fake = store or FakeStore()
        self.store = cast(Store, self.fake)
        self.inboxes = EventInboxes()
        self.live: LiveSessions = {}
        self.limits = limits or Limits(model_retries=0)
        self.approver = approver
        self.channel = channel
        self.registry = ToolRegistry(tools)
        self.models = OneModel(model or ScriptedModel([]))
        self.agents = {agent.name: agent for agent in agents}
        self.journal: Mailbox[JournalMessage] = Mailbox("journal", 64)
        self.broker: Mailbox[BrokerMessage] = Mailbox("permission broker", 64)
        self.dispatcher: Mailbox[DispatcherMessage] = Mailbox("tool dispatcher", 64)
        self.directory: Mailbox[DirectoryMessage] = Mailbox("directory", 64)
        self.session: Mailbox[SessionMessage] = Mailbox("session s1", 64)
        self.model_stream: Mailbox[StartModelCall] = Mailbox("model stream", 2)
        self.running_dispatcher: ToolDispatcher | None = None
        self.budgets = BudgetBook(self.store, PriceTable(), self.agents)
        self.gate: LeaseGate | None = None
        self._started: set[str] = set()

    @property
    def services(self) -> SessionServices:
        return SessionServices(
            journal=self.journal,
            dispatcher=self.dispatcher,
            store=self.store,
            inboxes=self.inboxes,
            http=cast(HttpClient, None),
            limits=self.limits,
            models=self.models,
            tools=self.registry,
            agents=self.agents,
            channels=self.channels,
            budgets=self.budgets,
            tree=SessionTree(
                self.directory,
                self.journal,
                self.store,
                self.registry,
                self.limits,
                clip=lambda place, budget: budget,
            ),
        )

    @property
    def channels(self) -> Channels:
        channel = self.channel
        if channel is None and self.approver is not None:
            channel = ApproverChannel(self.approver)
        return Channels(channel)

    @property
    def preparation(self) -> CallPreparation:
        return CallPreparation(self.registry, NoHandles(), self.limits)

    def make_journal(self) -> Journal:
        return Journal(self.journal, self.store, self.inboxes)

    def make_broker(self) -> PermissionBroker:
        services = BrokerServices(
            store=self.store,
            preparation=self.preparation,
            agents=self.agents,
            policies=PolicyBook(),
            channels=self.channels,
            limits=self.limits,
            sessions=self.directory,
        )
        return PermissionBroker(self.broker, self.journal, services)

    def make_dispatcher(self) -> ToolDispatcher:
        self.running_dispatcher = ToolDispatcher(
            self.dispatcher, self.journal, self.broker, self.preparation, self.limits
        )
        return self.running_dispatcher

    async def start(self, nursery: trio.Nursery, *names: str) -> None:
        """Starts these actors, in this order; each is named as its mailbox here."""
        supervisor = Supervisor(nursery)
        for name in names:
            await supervisor.start(name, self._make(name, supervisor), getattr(self, name))

    def start_soon(self, nursery: trio.Nursery, name: str) -> None:
        """Starts an actor without waiting; giving it up ends nothing else."""
        supervisor = Supervisor(nursery)
        mailbox: Mailbox[Any] = getattr(self, name)
        supervisor.start_soon(name, self._make(name, supervisor), mailbox, vital=False)

    def close_unused(self) -> None:
        """Closes the mailboxes of actors that were never started: no supervisor does."""
        for name in {"journal", "broker", "dispatcher", "directory", "session", "model_stream"}:
            if name not in self._started:
                getattr(self, name).close()

    def _make(self, name: str, supervisor: Supervisor) -> Callable[[], Actor]:
        self._started.add(name)

        if name == "directory":
            return lambda: Directory(self.directory, self.services, supervisor, self.live)
        make: Callable[[], Actor] = getattr(self, f"make_{name}")
        return make

    def make_session(self) -> Session:
        return Session("s1", self.session, self.services)

    def make_model_stream(self) -> ModelStream:
        return ModelStream(self.model_stream, cast(HttpClient, None), self.limits, gate=self.gate)

    async def append(self, session_id: str, *events: DurableEvent) -> tuple[Stored, ...]:
        stored: tuple[Stored, ...] = await self.journal.ask(
            AppendEvents(session_id=session_id, events=events)
        )
        return stored

    async def create(self, session_id: str = "s1", agent: str = "general") -> str:
        """Puts a session on record without asking an actor."""
        await self.fake.inner.commit(
            [Append(session_id, (SessionCreated(agent=agent, workspace="/work"),))]
        )
        return session_id

    async def submit(self, to: Mailbox[Any], session_id: str, text: str) -> Heard:
        """Submits an input; the ticket and what is heard of its turn."""
        subscription = Subscription()
        ticket: InputTicket = await to.ask(
            SubmitInput(session_id=session_id, text=text, subscription=subscription)
        )
        return Heard(ticket, subscription)

    async def events(self, session_id: str = "s1") -> list[DurableEvent]:
        return [stored.event for stored in await self.store.events(session_id)]


class Heard:
    """A consumer of one turn."""

    def __init__(self, ticket: InputTicket, subscription: Subscription) -> None:
        self.ticket = ticket
        self.subscription = subscription
        self.updates: list[object] = []

    async def to_the_end(self) -> TurnEnded:
        """Reads until the end; gives how the turn ended, or raises what the session hung up with."""
        while updates := await self.subscription.take():
            self.updates += updates
        last = self.updates[-1]
        assert isinstance(last, Stored)
        if isinstance(last.event, InputCancelled):
            return TurnEnded(turn_id="", outcome="cancelled", message=last.event.reason)
        assert isinstance(last.event, TurnEnded)
        return last.event


SESSION_ACTORS = ("journal", "broker", "dispatcher", "session")
"""A session, and what it needs for turns."""


@asynccontextmanager
async def open_scene(scene: Scene, *names: str) -> AsyncGenerator[trio.Nursery, None]:
    """Runs actors of the scene around the block; every one is cancelled at its end."""
    async with trio.open_nursery() as nursery:
        await scene.start(nursery, *names)
        yield nursery  # ruff: ignore[fallible-context-manager] a failing test cancels it all the same
        nursery.cancel_scope.cancel(reason="the test is over")
    scene.close_unused()


def place_of(session_id: str = "s1", agent: Agent | None = None) -> CallPlace:
    return CallPlace(
        session_id=session_id, turn_id="t", agent=agent or Agent(),
        session_kind=SessionKind.MAIN, workspace="/work", channel="application",
    )  # fmt: skip


async def run_calls(
    scene: Scene,
    calls: Sequence[Call],
    *,
    agent: Agent | None = None,
    scope: trio.CancelScope | None = None,
    session_id: str = "s1",
) -> list[CallProgress | ChildCall]:
    """Asks the dispatcher as a turn does: leaving early cancels and waits for the end."""
    outlet, gone = trio.open_memory_channel[None](0)
    lines: list[CallProgress | ChildCall] = []
    scope = scope or trio.CancelScope()
    message = MessageCompleted(
        turn_id="t", message_id="m", parts=tuple(calls), provider="p", model="m",
        stop_reason="tool_calls",
    )  # fmt: skip
    proposed = tuple(
        CallProposed(
            turn_id="t", message_id="m", call_id=call.call_id, index=index, name=call.name,
            arguments=call.arguments,
        )
        for index, call in enumerate(calls)
    )  # fmt: skip
    with gone:
        await scene.dispatcher.tell(
            RunCalls(
                place=place_of(session_id, agent), calls=tuple(calls),
                preamble=(message, *proposed), show=lines.append, outlet=outlet,
                scope=scope,
            )
        )  # fmt: skip
        try:
            async for _ in gone:
                pass
            return lines
        except BaseException:
            scope.cancel()
            with trio.fail_after(10, shield=True):
                async for _ in gone:
                    pass
            raise


async def assert_sound(store: Any, session_id: str = "s1", *, ended: bool = True) -> None:
    """Asserts what holds of every record: no gap, turns one by one, one result a call.

    With `ended` every turn has its end and every call its result; without, the last turn may lack
    them, as after a cut from which nobody has recovered.
    """
    stored: list[Stored] = await store.events(session_id)
    assert [each.seq for each in stored] == list(range(1, len(stored) + 1))
    running: str | None = None
    proposed: list[str] = []
    finished: list[str] = []
    deferred: set[str] = set()
    accepted: list[str] = []
    for event in (each.event for each in stored):
        match event:
            case InputAccepted(input_id=input_id):
                accepted.append(input_id)
            case TurnStarted(turn_id=turn_id, input_ids=input_ids):
                assert running is None
                running = turn_id
                assert set(input_ids) <= set(accepted)
            case CallProposed(call_id=call_id):
                proposed.append(call_id)
            case CallFinished(call_id=call_id):
                assert call_id in proposed
                finished.append(call_id)
                deferred.discard(call_id)
            case CallDeferred(call_id=call_id):
                deferred.add(call_id)
            case TurnEnded(turn_id=turn_id):
                assert turn_id == running
                running = None
                assert sorted([*finished, *deferred]) == sorted(proposed)
            case _:
                pass
    assert len(set(proposed)) == len(proposed)
    assert len(set(finished)) == len(finished)
    if ended:
        assert running is None
        assert sorted([*finished, *deferred]) == sorted(proposed)


async def quietly(do: Callable[[], Awaitable[object]]) -> None:
    """For a task of a scenario that may be told that the actor has ended."""
    with suppress(CallboardError):
        await do()
