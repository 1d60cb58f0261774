"""The runtime inside a Trio program: open it, make a session, prompt it, read the events."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec
import trio

from ..actors.permissions.asking import Approver
from ..actors.upkeep.keeping import checked_title
from ..config.files import config_folder
from ..config.in_force import InForce
from ..config.settings import DialectName, DialectWord, Settings
from ..config.usage_sums import UsageBy, UsageReport, UsageSums, read_usage
from ..config.validation import checked
from ..providers.catalog.catalog import ModelSelection
from ..providers.provider import LocalModel
from ..providers.recording import Recorder, open_recorder
from ..runtime.budget import Budget, checked_budget
from ..runtime.channel import Channel, UserQuestion
from ..runtime.definitions import Agent, Preset, PresetWord
from ..runtime.disk.own_folders import OwnFolders
from ..runtime.errors import NotFoundError, ShortTracebacks
from ..runtime.events import DurableEvent, SessionCreated
from ..runtime.handles import PersonAnswer
from ..runtime.identity import RequestKey
from ..runtime.kernel.user_code import check_trio
from ..runtime.messages import (
    AnswerApproval,
    ApprovalAnswer,
    ApprovalRequest,
    CreateSession,
    ShowApproval,
)
from ..runtime.store.interface import Store, StoreReader
from ..runtime.store.lists import Hit, WordSearch
from ..runtime.store.memory_store import open_memory_store
from ..runtime.store.rows import ApprovalRow, ApprovalState, GrantRow, SessionRow
from ..runtime.text import did_you_mean
from ..tools.builtin import KnownTool, builtin_tools
from ..tools.plugins import load_plugins
from ..tools.registry import ToolRegistry
from ..tools.sandbox.sandbox import Sandbox
from ..tools.skills.shelf import SkillShelf
from ..tools.tool import Tool
from ..tools.workspace.workspace import open_workspace
from .access import memory_index, node_of, search_place, servers_of, telemetry_of, workshop_of
from .host import Host, Plan, open_host
from .models import ModelFinder, RuntimeModels, open_finder
from .options import (
    agents_of,
    channel_of,
    check_app,
    check_options,
    check_tools_of,
    checked_tools,
    folder_of,
    http_of,
    versions_of,
)
from .session import Following as Following
from .session import Session as Session
from .status import RuntimeStatus as RuntimeStatus
from .status import status_of
from .tools import RuntimeTools
from .tools import host_of as host_of

if TYPE_CHECKING:
    from ..config.setting_rows import SettingsChange
    from ..runtime.http.client import GivenHttp
    from ..runtime.telemetry.telemetry import SpanProcessor
    from ..tools.skills.book import SkillBook
    from .agents import RuntimeAgents
    from .configuration import Configuration
    from .settable import RuntimeSettings
    from .unattended.hooks import RuntimeHooks
    from .unattended.schedules import RuntimeSchedules


@asynccontextmanager
async def open_runtime(
    *,
    model: str | LocalModel | None = None,
    base_url: str | None = None,
    dialect: DialectName | DialectWord | None = None,
    workspace: str | Path | None = None,
    data: str | Path | None = None,
    tools: Sequence[Tool] = (),
    app: object = None,
    agents: Sequence[Agent] = (),
    policy: Preset | PresetWord | None = None,
    on_approval: Approver | Literal["allow", "deny", "wait"] | None = None,
    channel: Channel | None = None,
    settings: Settings | None = None,
    config: str | Path | None = None,
    environ: Mapping[str, str] | None = None,
    record: str | Path | None = None,
    http: GivenHttp | None = None,
    strict: bool = False,
    wake: bool = True,
    fire: bool = False,
    span_processor: SpanProcessor | None = None,
) -> AsyncGenerator[Runtime, None]:
    """Run callboard around the block; leaving it ends all turns and closes the store.

    Cancelling the block ends turns in order, within some seconds; nothing is left behind.

    Args:
        model: `PROVIDER/MODEL`, or a model object such as `ScriptedModel`. Without it: the
            configured default, a provider whose key is in the environment, a server on this
            machine, and last the built-in rehearsal model.
        base_url: Any server that speaks a known wire format; `model` is then its model's id.
        dialect: The wire format of `base_url`: `openai_chat`, `openai_responses`, `anthropic` or
            `gemini`. By default that of a known provider at the same origin, else `openai_chat`.
        workspace: The folder that sessions work in; the current one by default.
        data: The folder of the store and of stored keys; `None` keeps everything in memory.
        tools: Own tools beside the built-in ones.
        app: An object of the program for its own tools, such as its database: `app` of their
            `ToolContext`. The program closes it.
        agents: Own agents beside `general`.
        policy: The preset, how much runs without asking; overrides the agents' own.
        on_approval: Asks a person: an async function; or `"allow"` or `"deny"` for all, or `"wait"`
            for `Runtime.answer`. Without it and a channel, what would ask is denied.
        channel: Where people are: they are asked about calls, answer questions of models and read
            their messages. `on_approval` is the short form of one that only approves.
        settings: The configuration; the defaults when `None`. No file is read: `load_settings` does.
        config: In place of `settings`, the path of a callboard.toml, which need not exist. It is read, with
            the managed.toml beside it, in which agents and settings are kept that the program changes;
            `Runtime.reload` reads both again.
        environ: Where keys are looked up before the stored ones; the process's environment by
            default.
        record: A folder for the providers' raw answers, one file for each session. Keys are masked;
            what was said is not. `ReplayProvider` plays them back.
        http: An httpx client or transport of the program's own, which it closes: every request goes through
            it, to models and from tools, as for a proxy, a company's certificates or `httpx.MockTransport`.
            Tools are still kept from addresses that are not public, as far as this machine resolves them.
        strict: Lets a crash of an actor end the runtime, for tests.
        wake: Lets sessions on record begin the turns of late answers by themselves, and of inputs
            that waited when an earlier runtime ended; without it they wait for `Session.resume`,
            which suits a runtime that is soon closed again.
        fire: Lets the schedules of the configuration fire, as in `callboard serve`.
        span_processor: A span processor of OpenTelemetry's SDK that gets the spans of all turns, in place of
            the collector of `[telemetry]`; their parent is the program's own current span. The program
            shuts it down. It needs the extra `otel`.

    Raises:
        NotFoundError: The model or its provider does not exist.
        ConflictError: Another process writes to `data`.
        RuntimeError: It is not Trio that runs the caller.
        ValidationError: An option is not what it may be.

    Example:
        async with callboard.open_runtime(model="rehearsal", workspace=".") as runtime:
            session = await runtime.create_session()
            print(await session.run("What time is it in Tokyo?"))
    """
    check_trio(
        "callboard.open_runtime",
        "Use callboard.aio.open_runtime under asyncio, callboard.start_in_thread without an event loop",
    )
    with ShortTracebacks():
        check_options(model=model, base_url=base_url, dialect=dialect, workspace=workspace)
        check_options(settings=settings, environ=environ)
        configuration = None
        if config is not None:
            from .configuration import open_configuration  # here: most programs have no files

            settings, configuration = await open_configuration(folder_of(config=config), settings)
        settings = Settings() if settings is None else checked(settings, "settings")
        environ = os.environ if environ is None else environ
        folder = None if data is None else folder_of(data=data)
        wish = ModelSelection(
            base_url=base_url, dialect=dialect, settings=settings, environ=environ
        )
        finder = open_finder(wish, model, folder)
        own_folder = () if configuration is None else (configuration.folder,)
        files = (*map(Path, settings.files), *own_folder)
        forbidden = files if folder is None else (folder, config_folder(environ), *files)
        sandbox = Sandbox(settings.sandbox, forbidden=forbidden, data=folder)
        program_tools = checked_tools(tools)
        check_app(program_tools, app)
        own_tools: list[KnownTool] = [*builtin_tools(), *program_tools]
        brought = await load_plugins(settings.plugins, [tool.name for tool in own_tools])
        all_tools: list[KnownTool] = [*own_tools, *brought.tools]
        force = InForce(settings, agents_of(settings, agents, policy))
        registry = ToolRegistry(all_tools, sandbox.why_not, lambda: sandbox.version)
        plan = Plan(
            models=finder,
            registry=registry,
            plugins=brought.plugins,
            force=force,
            own_agents={agent.name: agent for agent in agents},
            remake_agents=lambda new: agents_of(new, agents, policy),
            is_policy_given=policy is not None,
            channel=channel_of(channel, on_approval),
            recorder=None if record is None else await open_recorder(folder_of(record=record)),
            strict=strict,
            http=http_of(http),
            app=app,
            wakes=wake,
            search=lambda: search_place(force.settings, finder.wish),
            forbidden=forbidden,
            skills=SkillShelf(folder),
            node=(node := node_of(settings)),
            versions=versions_of(folder, node),
            folders=OwnFolders(folder),
            memory_index=memory_index(settings.memory, folder),
            workshop=workshop_of(lambda: force.settings, finder.wish),
            sandbox=sandbox,
            open_servers=servers_of(sandbox, folder, finder.wish),
            telemetry=telemetry_of(force, registry, finder.wish, span_processor),
            store=await (  # the last one: what fails before leaves nothing open
                node.open_store(folder) if node else _open_store(folder, settings.store.url)
            ),
        )
        check_tools_of(agents, [tool.definition.name for tool in all_tools], settings.mcp)
    async with open_host(plan) as host:
        with ShortTracebacks():
            await finder.look_around(host.http)
            finder.target(None)  # a default model that can't be used is an error at the start
        runtime = Runtime(host, folder_of(workspace=workspace or "."), finder, folder)
        if configuration is not None:
            give_configuration(runtime, configuration)
            await runtime.agents.finish_deletions()
        async with AsyncExitStack() as stack:
            if fire:
                from .unattended.scheduler import firing  # here: most programs have no schedules

                await stack.enter_async_context(firing(runtime.schedules))
            yield runtime


class Runtime(RuntimeTools, RuntimeModels):
    """A running callboard; made by `open_runtime`.

    Example:
        session = await runtime.create_session(title="Notes")
        print([row.title for row in await runtime.sessions()])
        print([tool.name for tool in runtime.tools()], runtime.model, runtime.model_reason)
        same = await runtime.get_session(session.session_id)
        print(await same.run("What time is it in Tokyo?"))
    """

    def __init__(
        self, host: Host, workspace: Path, models: ModelFinder, data: Path | None = None
    ) -> None:
        self._host = host
        self._workspace = workspace
        self._models = models
        self._data = data
        self._configuration: Configuration | None = None

    @property
    def store(self) -> StoreReader:
        """Reads the record: sessions, messages, calls, usage."""
        return self._host.plan.store

    @cached_property
    def agents(self) -> RuntimeAgents:
        """The agents in force: lists, makes, changes, copies and deletes them."""
        from .agents import RuntimeAgents  # here: most have the agents that they began with

        return RuntimeAgents(self._host, self._files)

    @cached_property
    def settings(self) -> RuntimeSettings:
        """The settings in force: lists them, and sets those that bound and pace work."""
        from .settable import RuntimeSettings  # here: most keep what they began with

        return RuntimeSettings(self._host, self._files)

    @cached_property
    def skills(self) -> SkillBook:
        """What tells models how to work in a workspace: lists, reads, allows and revokes it."""
        from ..tools.skills.book import SkillBook  # here: most programs have none

        return SkillBook(self._data, self._workspace, self._host.lists)

    @cached_property
    def schedules(self) -> RuntimeSchedules:
        """The schedules in force: lists, makes, changes, pauses and runs them."""
        from .unattended.schedules import RuntimeSchedules  # here: most programs have none

        return RuntimeSchedules(self, self._data, lambda: self._configuration)

    @cached_property
    def hooks(self) -> RuntimeHooks:
        """The hooks in force: lists, makes, changes and removes them."""
        from ..runtime.hooks.hook import SECRET_PLACE
        from .unattended.hooks import RuntimeHooks  # here: most programs have none

        def has_secret(name: str) -> bool:
            return SECRET_PLACE in self._models.wish.stored_places(name)

        return RuntimeHooks(self._host, self._files, has_secret)

    @property
    def model(self) -> str:
        """The default `PROVIDER/MODEL`."""
        target = self._models.target(None)
        return f"{target.provider}/{target.model}"

    @property
    def model_reason(self) -> str:
        """Why it is that one, for a person: "because OPENAI_API_KEY is set"."""
        return self._models.reason

    async def reload(self, settings: Settings | None = None) -> SettingsChange:
        """Put another configuration in force, whole or not at all, without a restart.

        Turns that begin afterwards follow it; one that runs keeps its agent and its models. Return what
        changed, and what waits for a restart.

        Args:
            settings: The configuration; without it, the files of `config` are read again.

        Raises:
            ConflictError: There are no files.
            CallboardError: The configuration can't be used; the one in force stays.

        Example:
            change = await runtime.reload(callboard.Settings(limits=callboard.Limits(max_repeats=5)))
            print(change.changed, change.waiting)
        """
        from .reconfiguring import reconfigure  # here: most programs never do

        with ShortTracebacks():
            if settings is None:
                return await self._files().apply(self._host)
            return await reconfigure(self._host, checked(settings, "settings"))

    def _files(self) -> Configuration:
        from .configuration import files_of  # here: most programs have none

        return files_of(self._configuration)

    async def wait_lists(self, known: Mapping[str, int]) -> dict[str, int]:
        """Wait until one of these lists has changed; return the revisions of all of them.

        Read the list then, and pass what this returned the next time: nothing is missed meanwhile, and
        any number of changes is one. A revision of 0 returns at once.

        Raises:
            ValidationError: There is no such list.

        Example:
            revisions = await runtime.wait_lists({"agents": 0})
            print([agent.name for agent in await runtime.agents.list()], revisions)
        """
        from .list_changes import wait_lists  # here: most programs follow none

        return await wait_lists(self._host, known)

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
        """Create a session; it is on record when this returns.

        Args:
            agent: The name of its agent.
            workspace: The folder that it works in; the runtime's by default.
            model: `PROVIDER/MODEL`; the agent's, else the runtime's by default.
            title: What it is called; by default the first words of its first input.
            budget: What the whole session may use, with all that it delegates.
            request: A request that was done already is refused with a `ConflictError`.

        Raises:
            ValidationError: The workspace is not a folder that may be one.
            NotFoundError: There is no such agent or model.
            StorageError: There is no room for it; `[sessions] max_store_mib` may say how much there is.
        """
        created = SessionCreated(
            agent=agent,
            workspace="",
            title=checked_title(title),
            model=model,
            budget=checked_budget(budget),
            request=request,
        )
        return await self._begin(created, workspace)

    async def _begin(
        self,
        created: SessionCreated,
        workspace: str | Path | None,
        first: tuple[DurableEvent, ...] = (),
    ) -> Session:
        host = self._host
        if created.agent not in host.agents:
            known = ", ".join(sorted(host.agents))
            close = did_you_mean(created.agent, host.agents)
            raise NotFoundError(f"there is no agent {created.agent!r}; there are: {known}.{close}")
        folder = folder_of(workspace=workspace) if workspace is not None else self._workspace
        open_workspace(folder, forbidden=host.plan.forbidden).close()
        if created.model is not None:
            self._models.target(created.model)
        await host.pruning.check()
        created = msgspec.structs.replace(created, workspace=str(folder))
        session_id: str = await host.directory.ask(CreateSession(created=created, inherited=first))
        return Session(host, session_id)

    async def get_session(self, session_id: str) -> Session:
        """Return a stored session.

        Raises:
            NotFoundError: No session has that id.
        """
        if await self.store.session(session_id) is None:
            raise NotFoundError(f"there is no session {session_id}")
        return Session(self._host, session_id)

    async def sessions(self, *, limit: int = 100) -> list[SessionRow]:
        """Return stored sessions, latest activity first."""
        return await self.store.sessions(limit=limit)

    async def usage(self, *, by: UsageBy = "session", since_ms: int = 0) -> UsageReport:
        """Return tokens of all sessions, and their cost at present prices.

        Args:
            by: What makes one sum: `call`, `turn`, `session`, `agent`, `model` or `day`.
            since_ms: Only what was stored since, in Unix milliseconds.
        """
        sums = UsageSums(by, self._host.force.prices)
        return await read_usage(self.store, sums, since_ms=since_ms)

    async def search(self, query: str, *, limit: int = 20) -> list[Hit]:
        """Return sessions with a message that has all these words, the best first.

        Example:
            await (await runtime.create_session()).run("What time is it in Tokyo?")
            for hit in await runtime.search("tokyo"):
                print(hit.session.title, hit.snippet)
        """
        return await self._host.keeping.search(WordSearch(query=query, limit=limit))

    async def purge(self, session_ids: Sequence[str]) -> list[str]:
        """Remove deleted sessions and their children for good; return the removed ids.

        Their messages, questions, grants, memories, usage and copies for `undo` are gone then.

        Raises:
            NotFoundError: One of them does not exist.
            ConflictError: One is not deleted; nothing was removed.

        Example:
            await session.delete()
            await runtime.purge([session.session_id])
        """
        return await self._host.keeping.purge(session_ids)

    async def status(self) -> RuntimeStatus:
        """Return the work in progress: loaded sessions, running turns and calls, background programs."""
        await trio.lowlevel.checkpoint()
        return status_of(self._host)

    async def approvals(self, *, state: ApprovalState | None = "waiting") -> list[ApprovalRow]:
        """Return approval questions, the latest first.

        Args:
            state: Only questions in this state; `None` is every question on record.

        Example:
            for question in await runtime.approvals():
                await runtime.answer(question.approval_id, "deny")
        """
        return await self._host.plan.store.approvals(state=state)

    async def approval(self, approval_id: str, *, arguments: str | None = None) -> ApprovalRequest:
        """Return a waiting question as a person would see it now; this does not answer it.

        Args:
            approval_id: The question.
            arguments: Other arguments, as a JSON object. They are validated and judged by the policy,
                and the question is shown as it would be about them, with its own preview.

        Raises:
            NotFoundError: There is no such question.
            ConflictError: It is answered already, or has expired.
            ValidationError: An answer with these arguments would be refused.

        Example:
            for question in await runtime.approvals():
                request = await runtime.approval(question.approval_id)
                print(request.tool, request.reason, request.preview, request.scopes)
        """
        showing = ShowApproval(approval_id=approval_id, arguments=arguments)
        request: ApprovalRequest = await self._host.broker.ask(showing)
        return request

    async def answer(
        self, approval_id: str, answer: ApprovalAnswer | Literal["allow", "deny"]
    ) -> None:
        """Answer an approval question of a running or suspended turn, and store the answer.

        Raises:
            NotFoundError: There is no such question.
            ConflictError: It is answered already, or has expired.
            ValidationError: The answer is refused; the question stays open.
        """
        whole = answer if isinstance(answer, ApprovalAnswer) else ApprovalAnswer(decision=answer)
        await self._host.broker.ask(AnswerApproval(approval_id=approval_id, answer=whole))

    async def questions(self) -> list[UserQuestion]:
        """Return the open questions of models (`ask_user`) and of servers, those of suspended turns first."""
        return await self._host.questions.listed()

    async def answer_question(self, question_id: str, answer: PersonAnswer | str) -> None:
        """Answer an open question of a model (`ask_user`), and store the answer.

        A suspended turn takes the answer when it goes on.

        Raises:
            NotFoundError: There is no such question.
            ConflictError: It is answered already, or its call has ended.
            ValidationError: The answer is refused; the question stays open.
        """
        await self._host.questions.answer(question_id, answer)

    async def grants(self) -> list[GrantRow]:
        """Return the remembered answers in force, oldest first."""
        return await self._host.plan.store.grants()

    async def revoke(self, grant_id: str, *, revoked_by: str = "application") -> None:
        """End a remembered answer, at once and for queued calls too.

        Raises:
            NotFoundError: There is no such grant.
            ConflictError: It is revoked already, or the session in which it was given runs on another node.
        """
        await self._host.revoke(grant_id, revoked_by)


async def begin_session(
    runtime: Runtime,
    created: SessionCreated,
    workspace: Path,
    first: tuple[DurableEvent, ...],
) -> Session:
    """Create a session, as `Runtime.create_session` does, with its first events in the same commit."""
    return await runtime._begin(created, workspace, first)


def wish_of(runtime: Runtime) -> ModelSelection:
    """Return the settings of a runtime and where it looks up keys."""
    return runtime._models.wish


def configuration_of(runtime: Runtime) -> Configuration | None:
    """Return the files of a runtime's configuration; `None` when its program has its own settings."""
    return runtime._configuration


def give_configuration(runtime: Runtime, configuration: Configuration | None) -> None:
    """Let a runtime have the files of its configuration."""
    runtime._configuration = configuration


async def lend(
    runtime: Runtime,
    wish: ModelSelection,
    recorder: Recorder | None = None,
    name: str | None = None,
) -> tuple[str, str]:
    """See `ModelFinder.lend`."""
    return await runtime._models.lend(wish, runtime._host.http, recorder, name)


def data_of(runtime: Runtime) -> Path | None:
    """Return the data folder of a runtime; `None` when everything is in memory."""
    return runtime._data


def forget_keys(runtime: Runtime) -> None:
    """Look keys up again from the next request on: one was stored or removed."""
    runtime._models.forget_keys()
    from .list_changes import tell_keys_changed  # here: few programs store keys

    tell_keys_changed(runtime._host)


async def _open_store(data: Path | None, url: str | None = None) -> Store:
    if data is None and url is None:
        return open_memory_store()
    from ..runtime.store.sqlite_store import open_kept_store  # here: an app in memory needs it not

    return await open_kept_store(data, url)
