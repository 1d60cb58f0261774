"""Builds a runtime and nests its parts so that leaving a block is the shutdown order.

HTTP and store          outermost: closed last
  journal               vital
    broker, dispatcher
      directory, sessions
        the program that embeds it
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import msgspec
import trio

from ..actors.budget.budgets import BudgetBook
from ..actors.calls.call import CallPreparation
from ..actors.calls.dispatcher import MAILBOX_CAPACITY as DISPATCHER_CAPACITY
from ..actors.calls.dispatcher import ToolDispatcher
from ..actors.conversation.inputs import GivenOptions
from ..actors.delegation.tree import SessionTree
from ..actors.directory import MAILBOX_CAPACITY as DIRECTORY_CAPACITY
from ..actors.directory import Directory, LiveSessions
from ..actors.handles.memories import JournaledMemories
from ..actors.handles.memory_search import IndexedMemories
from ..actors.handles.open_handles import OpenHandles
from ..actors.journal import MAILBOX_CAPACITY as JOURNAL_CAPACITY
from ..actors.journal import Journal
from ..actors.people.lineage import Channels
from ..actors.people.speech import Speech
from ..actors.people.user_questions import UserQuestions
from ..actors.permissions.broker import MAILBOX_CAPACITY as BROKER_CAPACITY
from ..actors.permissions.broker import PermissionBroker
from ..actors.permissions.record import BrokerServices
from ..actors.services import Models, NoPrograms, SessionServices
from ..actors.session.recovery import close_all_left_open
from ..actors.upkeep.keeping import SessionKeeping
from ..actors.upkeep.pruning import SessionPruning
from ..actors.upkeep.titles import Titles
from ..actors.upkeep.undo import Undoing
from ..config.in_force import InForce
from ..config.sections import TitleSource
from ..config.settings import Settings
from ..providers.recording import Recorder
from ..runtime.changes.version_log import VersionStore
from ..runtime.channel import Channel
from ..runtime.definitions import Agent
from ..runtime.disk.own_folders import OwnFolders
from ..runtime.errors import ConflictError
from ..runtime.http.address_guard import AddressGuard
from ..runtime.http.client import HttpClient, open_http_client
from ..runtime.kernel.delivery import EventInboxes
from ..runtime.kernel.locks import WorkspaceLocks
from ..runtime.kernel.mailbox import Mailbox
from ..runtime.kernel.supervisor import Supervisor
from ..runtime.memory.index import MemoryIndex
from ..runtime.messages import (
    RUNTIME_CLOSED,
    BrokerMessage,
    DirectoryMessage,
    DispatcherMessage,
    JournalMessage,
    ReloadGrants,
    RevokeGrant,
    StopSessions,
    TakeUpQuestions,
)
from ..runtime.store.interface import Store
from ..runtime.taint.marked_files import MarkedFiles
from ..runtime.taint.tracked_network import Connect
from ..runtime.turns.activity import Activity
from ..tools.registry import ToolRegistry
from ..tools.skills.shelf import SkillShelf
from ..tools.web.client import WebClient
from ..tools.workshop import Workshop

if TYPE_CHECKING:
    from ..actors.cluster.node import ClusterNode
    from ..config.setting_rows import SettingsChange
    from ..runtime.http.client import AsyncClient
    from ..runtime.kernel.lease_gate import LeaseGate
    from ..runtime.kernel.live_lists import LiveLists
    from ..runtime.telemetry.telemetry import Telemetry
    from ..tools.client_tool import ClientCalls
    from ..tools.mcp.servers import McpServers
    from ..tools.mcp.session_servers import SessionServers
    from ..tools.plugins import Plugin
    from ..tools.processes.watchdog import Watchdog
    from ..tools.sandbox.sandbox import Sandbox
    from ..tools.web.search import SearchPlace

STOP_SECONDS = 15.0
"""How long sessions may take to end their turns when the runtime closes; then they are cancelled."""


CLOSED = "this runtime is closed; open a new one"
"""Said to who calls it then: an actor that ends for good ends with its runtime."""


OpenServers: TypeAlias = "Callable[[ToolRegistry, Connect | None, HttpClient, Callable[[], None], Callable[[str], bool]], McpServers]"
"""Makes the servers of a registry, with what makes connections, what is told that a list has changed, and what says
whether a session is loaded."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a host is built from.

    Attributes:
        store: Opened by the caller; closed by the host.
        models: Finds the model of a turn.
        registry: The tools.
        plugins: The enabled plugins, loaded or failed.
        force: The configuration in force.
        channel: Where people are, or `None` when there is nobody to ask.
        forbidden: Folders that no workspace may hold.
        recorder: Keeps the raw answers of providers, or `None`.
        strict: Turns the isolation of actors off: a crash ends the runtime.
        is_policy_given: Whether the program has given the preset of all agents.
        wakes: Whether sessions begin the turns of waiting inputs by themselves.
        skills: Where skills are.
        search: Returns where searches are made, or `None` when no engine is configured now.
        sandbox: Where programs run, or `None` where none may.
        open_servers: Makes the servers whose tools the settings of `[mcp]` name; `None` makes none.
        workshop: What development tools need from outside; `None` gives them nothing.
        versions: Keeps the content that files had before calls changed them.
        folders: Folders that are made for sessions and removed with them.
        memory_index: Finds memories by their meaning; `None` searches by words. The host closes it.
        own_agents: The agents that the program gives itself, by name.
        remake_agents: Returns all agents by name for other settings; `None` keeps them.
        http: The program's own httpx client for every request; the program closes it.
        app: What the program gives its tools.
        telemetry: Makes traces and metrics; `None` makes none.
        node: This process's part in a cluster, over the database of the store; `None` when it is alone.
    """

    store: Store
    models: Models
    registry: ToolRegistry
    force: InForce = msgspec.field(default_factory=InForce)
    plugins: tuple[Plugin, ...] = ()
    channel: Channel | None = None
    forbidden: Sequence[Path] = ()
    recorder: Recorder | None = None
    strict: bool = False
    is_policy_given: bool = False
    wakes: bool = True
    skills: SkillShelf = msgspec.field(default_factory=lambda: SkillShelf(None))
    search: Callable[[], SearchPlace | None] = lambda: None
    sandbox: Sandbox | None = None
    open_servers: OpenServers | None = None
    workshop: Workshop | None = None
    versions: VersionStore = msgspec.field(default_factory=lambda: VersionStore(None))
    folders: OwnFolders = msgspec.field(default_factory=lambda: OwnFolders(None))
    memory_index: MemoryIndex | None = None
    own_agents: Mapping[str, Agent] = {}
    remake_agents: Callable[[Settings], Mapping[str, Agent]] | None = None
    http: AsyncClient | None = None
    app: object = None
    telemetry: Telemetry | None = None
    node: ClusterNode | None = None


class Host:
    """A running runtime: the addresses of its actors.

    Models are reached over `http`, which connects anywhere; tools over `web`, which is guarded, and
    programs over `connect`, which is the same guard.

    Attributes:
        force: The configuration in force; `limits` and `agents` are views of it.
    """

    guard: AddressGuard | None = None
    _watchdog: Watchdog | None = None  # of a node of a cluster
    follows_usage = False
    status_watch: object = None  # a `StatusWatch`, once a program has followed the status

    def __init__(
        self, plan: Plan, http: HttpClient, web: HttpClient, connect: Connect | None = None
    ) -> None:
        self.plan = plan
        self.force = plan.force
        self.limits = plan.force.limits
        self.agents = plan.force.agents
        self.http = http
        self.web = web
        self._connect = connect
        self.inboxes = EventInboxes()
        self.marked_files = MarkedFiles()
        self._trust(plan.force.settings)
        self.locks = WorkspaceLocks()
        self.activity = Activity()
        self.live: LiveSessions = {}
        self.budgets = BudgetBook(plan.store, plan.force.prices, self.agents)
        self.given = GivenOptions()
        self.channels = Channels(plan.channel, self.given.people)
        self._supervisors: list[Supervisor] = []
        self.mcp: McpServers | None = None
        self._services: trio.Nursery | None = None
        self._use_servers(plan.force.settings)
        self.journal: Mailbox[JournalMessage] = Mailbox("journal", JOURNAL_CAPACITY, CLOSED)
        self.broker: Mailbox[BrokerMessage] = Mailbox("permission broker", BROKER_CAPACITY, CLOSED)
        self.dispatcher: Mailbox[DispatcherMessage] = Mailbox(
            "tool dispatcher", DISPATCHER_CAPACITY, CLOSED
        )
        self.directory: Mailbox[DirectoryMessage] = Mailbox("directory", DIRECTORY_CAPACITY, CLOSED)
        self.tree = SessionTree(
            self.directory,
            self.journal,
            plan.store,
            plan.registry,
            self.limits,
            clip=self.budgets.clip,
        )
        self.questions = UserQuestions(self.journal, plan.store, self.limits)
        end = (plan.sandbox or NoPrograms()).end_session
        self.keeping = SessionKeeping(
            self.journal,
            self.directory,
            plan.store,
            plan.versions,
            plan.folders,
            self.agents,
            end,
            plan.node,
        )
        self.pruning = SessionPruning(self.keeping, plan.store, lambda: self.settings.sessions)
        self.undoing = Undoing(
            self.journal,
            plan.store,
            plan.versions,
            plan.forbidden,
            locks=self.locks,
            marked_files=self.marked_files,
            holding=plan.node.locks.holding if plan.node and plan.node.own_folders else None,
            owners=plan.node,
            running=plan.sandbox.background.describe_running
            if plan.sandbox
            else lambda session_id: (),
        )
        self.titles = Titles(self._session_services())

    @property
    def settings(self) -> Settings:
        """The settings in force."""
        return self.force.settings

    def take(self, change: SettingsChange) -> None:
        """Have what is not read at each use follow the configuration in force."""
        self._trust(change.settings)
        if "mcp" in change.changed:
            self._use_servers(change.settings)
        if self.guard is not None:
            self.guard.allow_only(change.settings.network.endpoints)

    @cached_property
    def lists(self) -> LiveLists:
        """Tells who follows lists that one has changed."""
        from ..runtime.kernel.live_lists import LiveLists  # here: most programs follow none

        return LiveLists()

    def _use_servers(self, settings: Settings) -> None:
        """Have servers and their tools follow the settings; most programs have none."""
        if settings.mcp and self.plan.open_servers is not None:
            self.servers()
        if self.mcp is not None:
            self.mcp.take(settings.mcp)

    def servers(self) -> McpServers:
        """Return the servers of `[mcp]`, of which there may be none yet; raise `ConflictError` where none can be."""
        if self.mcp is None:
            if self.plan.open_servers is None:
                raise ConflictError("this runtime runs no programs, and so no servers")
            self.mcp = self.plan.open_servers(
                self.plan.registry,
                self._connect,
                self.web,
                self._tell_tools,
                self.live.__contains__,
            )
            if self._services is not None:
                self._services.start_soon(self.mcp.serve, name="mcp servers")
        return self.mcp

    @cached_property
    def session_servers(self) -> SessionServers:
        """The servers that clients bring for single sessions; raise `ConflictError` where none can be."""
        from ..tools.mcp.session_servers import SessionServers  # here: most runtimes have none

        if self._services is None:
            raise ConflictError("the runtime does not run")
        places = self.servers().places
        return SessionServers(self.plan.registry, places, lambda: self.settings.mcp, self._services)

    def _tell_tools(self) -> None:
        from ..runtime.kernel.live_lists import ListName  # here: only servers tell it

        self.lists.changed(ListName.TOOLS)

    def _trust(self, settings: Settings) -> None:
        self.marked_files.trust(settings.workspaces.trust, settings.workspaces.untrusted)

    def storage_problem(self) -> str:
        """Return why nothing can be stored now; empty while it can."""
        node = self.plan.node
        return self.plan.store.health.problem() or ("" if node is None else node.problem)

    @property
    def restarts(self) -> dict[str, int]:
        """How often crashed actors were restarted, by name."""
        return {name: count for each in self._supervisors for name, count in each.restarts.items()}

    @property
    def failure(self) -> BaseException | None:
        """The error that ends the host, once that is certain; its parts may still be ending."""
        failures = (supervisor.failure for supervisor in self._supervisors)
        return next((_innermost(failure) for failure in failures if failure is not None), None)

    async def serve(self, stop: trio.Event, *, task_status: trio.TaskStatus[None]) -> None:  # noqa: ASYNC128  inside
        """Run all actors until `stop` is set; then sessions end first and the journal last.

        Telemetry hears of all that, and ends behind it.
        """
        if (telemetry := self.plan.telemetry) is None:
            await self._serve(stop, task_status=task_status)
            return
        async with telemetry.running(self.inboxes, self.plan.store):
            await self._serve(stop, task_status=task_status)

    async def _serve(self, stop: trio.Event, *, task_status: trio.TaskStatus[None]) -> None:
        plan = self.plan
        memories = JournaledMemories(self.journal, plan.store, plan.node)
        indexed: IndexedMemories | None = None
        if plan.memory_index is not None:
            indexed = IndexedMemories(memories, plan.store, plan.memory_index)
        handles = self._handles(indexed or memories)
        try:
            async with trio.open_nursery() as outer:
                journals = self._supervisor(outer)
                await journals.start(
                    "journal",
                    lambda: Journal(self.journal, plan.store, self.inboxes),
                    self.journal,
                )
                due = self.marked_files.load(await plan.store.marked_files())
                if plan.node is None:
                    cut_off = await close_all_left_open(plan.store, self.journal)
                    await self.undoing.clear_unfinished(cut_off)
                else:
                    await plan.node.join()  # it owns nothing yet, and so has nothing to recover
                if due:
                    from ..actors.upkeep.marks_due import look_behind  # here: seldom are any

                    outer.start_soon(
                        look_behind, self.journal, self.marked_files, due, name="marks"
                    )
                if plan.sandbox is not None:
                    await outer.start(plan.sandbox.serve, name="sandbox")
                if self.mcp is not None:
                    await outer.start(self.mcp.serve, name="mcp servers")
                self._services = outer
                if indexed is not None:
                    await outer.start(indexed.serve, name="index of memories")
                async with trio.open_nursery() as inner:
                    await self._start_actors(self._supervisor(inner), handles)
                    inner.start_soon(self.pruning.serve, name="pruning of sessions")
                    if plan.node is not None:
                        plan.node.take_over = self._take_over
                        plan.node.reload_grants = self._reload_grants
                        await inner.start(plan.node.run, name="node of the cluster")
                    if self.settings.sessions.titles is TitleSource.MODEL:
                        titles = partial(self.titles.serve, asks_local=True)
                        inner.start_soon(titles, name="titles")
                    task_status.started()
                    await stop.wait()
                    await self._stop_sessions()
                    inner.cancel_scope.cancel(reason="the runtime closed")
                if plan.node is not None:
                    await plan.node.leave()
                outer.cancel_scope.cancel(reason="the runtime closed")
        finally:
            self._services = None
            handles.close()
            await self._end_watchdog()  # noqa: ASYNC102  it shields and bounds itself
            if plan.node is not None:
                plan.node.close()
            # The supervisor closed them, except those whose actor never started.
            for mailbox in (self.directory, self.dispatcher, self.broker, self.journal):
                mailbox.close()

    async def _end_watchdog(self) -> None:
        if self._watchdog is not None:
            await self._watchdog.aclose()

    async def _stop_sessions(self) -> None:
        if self.plan.node is not None:
            await self.plan.node.begin_leaving()
        with trio.move_on_after(STOP_SECONDS):
            await self.directory.ask(StopSessions(reason=RUNTIME_CLOSED))

    async def _take_over(self, session_ids: Sequence[str]) -> None:
        """Recover sessions that came from other nodes, as after a crash; then wake what waits in them."""
        node = self.plan.node
        assert node is not None, "only a node of a cluster is given sessions"
        cut_off = await close_all_left_open(self.plan.store, self.journal, session_ids)
        await self.undoing.clear_unfinished(cut_off)
        for session_id in session_ids:
            node.own(session_id)
        await self.broker.ask(TakeUpQuestions())
        await self.tree.detached.take_up()

    async def revoke(self, grant_id: str, revoked_by: str) -> None:
        """End a remembered answer; see `Runtime.revoke`."""
        if (node := self.plan.node) is not None:
            for grant in await self.plan.store.grants(grant_id=grant_id):
                await node.claim(grant.session_id)  # its end is an event there
        await self.broker.ask(RevokeGrant(grant_id=grant_id, revoked_by=revoked_by))

    async def _reload_grants(self) -> None:
        await self.broker.ask(ReloadGrants())

    @cached_property
    def _gate(self) -> LeaseGate | None:
        if self.plan.node is None:
            return None
        from ..actors.cluster.opening import open_gate  # here: most runtimes are alone

        gate, self._watchdog = open_gate(self.plan.node, self.plan.sandbox)
        return gate

    def _handles(self, memories: JournaledMemories | IndexedMemories) -> OpenHandles:
        plan = self.plan
        return OpenHandles(
            plan.store,
            plan.forbidden,
            network=WebClient(self.web),
            speech=Speech(self.channels, self.questions, self.journal),
            tree=self.tree,
            journal=self.journal,
            shelf=plan.skills,
            engine=plan.search,
            sandbox=plan.sandbox,
            workshop=plan.workshop,
            connect=self._connect,
            memories=memories,
            versions=plan.versions,
            marked_files=self.marked_files,
            is_confined=None if plan.node is None else plan.node.is_confined,
        )

    @cached_property
    def client_calls(self) -> ClientCalls:
        """Where calls of clients' tools wait for their results."""
        from ..tools.client_tool import ClientCalls  # here: most runtimes have none

        return ClientCalls()

    def _supervisor(self, nursery: trio.Nursery) -> Supervisor:
        supervisor = Supervisor(nursery, strict=self.plan.strict)
        self._supervisors.append(supervisor)
        return supervisor

    async def _start_actors(self, supervisor: Supervisor, handles: OpenHandles) -> None:
        plan = self.plan
        preparation = CallPreparation(
            plan.registry,
            handles,
            self.limits,
            self.marked_files,
            plan.versions,
            plan.app,
            lambda: self.client_calls,
        )
        broker_services = BrokerServices(
            store=plan.store,
            preparation=preparation,
            agents=self.agents,
            gone_agents=plan.force.gone,
            policies=self.force.policies,
            channels=self.channels,
            limits=self.limits,
            sessions=self.directory,
        )
        await supervisor.start(
            "permission broker",
            lambda: PermissionBroker(self.broker, self.journal, broker_services),
            self.broker,
        )
        await supervisor.start(
            "tool dispatcher",
            lambda: ToolDispatcher(
                self.dispatcher,
                self.journal,
                self.broker,
                preparation,
                self.limits,
                self.activity,
                self.locks,
                self.force.policies,
                self._gate,
            ),
            self.dispatcher,
        )
        services = self._session_services()
        await supervisor.start(
            "directory",
            lambda: Directory(self.directory, services, supervisor, self.live),
            self.directory,
        )

    def _session_services(self) -> SessionServices:
        plan = self.plan
        return SessionServices(
            journal=self.journal,
            dispatcher=self.dispatcher,
            store=plan.store,
            inboxes=self.inboxes,
            http=self.http,
            limits=self.limits,
            models=plan.models,
            tools=plan.registry,
            agents=self.agents,
            gone_agents=plan.force.gone,
            budgets=self.budgets,
            channels=self.channels,
            given=self.given,
            tree=self.tree,
            recorder=plan.recorder,
            strict=plan.strict,
            is_policy_given=plan.is_policy_given,
            wakes=plan.wakes,
            skills=plan.skills,
            activity=self.activity,
            programs=plan.sandbox or NoPrograms(),
            marked_files=self.marked_files,
            tracing=None if plan.telemetry is None else plan.telemetry.tracing,
            owners=plan.node,
            gate=self._gate,
        )


@asynccontextmanager
async def open_host(plan: Plan) -> AsyncGenerator[Host, None]:
    """Run a host around the block, and close the plan's store at the end.

    Cancelling the block does not cut the actors off: they end in order, within `STOP_SECONDS`.
    An exception of the block comes out as it is.
    """
    stop = trio.Event()
    raised: BaseException | None = None
    try:
        settings = plan.force.settings
        guard = AddressGuard(settings.network.endpoints)
        async with (
            open_http_client(
                connect_seconds=settings.limits.connect_seconds, given=plan.http
            ) as http,
            open_http_client(connect=guard.connect, given=plan.http, check=guard.check) as web,
        ):
            host = Host(plan, http, web, guard.connect)
            host.guard = guard
            plan.force.watch(host.take)

            shield = trio.CancelScope()

            async def serve(task_status: trio.TaskStatus[None]) -> None:  # noqa: ASYNC128  inside
                with shield:
                    await host.serve(stop, task_status=task_status)

            async with trio.open_nursery() as nursery:
                await nursery.start(serve, name="callboard")
                # From here on a cancellation ends the actors in order. Not before: a start that is
                # cancelled has promised nothing, and `stop` is not set for it.
                shield.shield = True
                try:
                    yield host
                except BaseException as error:  # noqa: ASYNC103  raised again below
                    raised = error
                finally:
                    stop.set()
    except BaseExceptionGroup as group:
        raise _innermost(group) from None
    finally:
        with trio.CancelScope(shield=True):
            await plan.store.aclose()
    if raised is not None:
        raise raised


def _innermost(error: BaseException) -> BaseException:
    """Return the only exception of a group: callers catch our errors, not groups of one."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
