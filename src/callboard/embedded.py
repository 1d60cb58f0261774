"""The runtime inside a Trio program: open it, make a session, prompt it, read the events."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec
import trio

from .actors.permission_broker import Approver
from .config.files import config_folder
from .config.prices import PriceTable
from .config.settings import KeySettings, Settings
from .config.usage_sums import UsageBy, UsageReport, UsageSums, read_usage
from .host import Host, Plan, open_host
from .models import ModelFinder
from .providers.catalog import Wish
from .providers.provider import LocalModel
from .providers.provider_keys import StoredKeys, no_stored_keys
from .providers.provider_table import check_provider
from .providers.recording import open_recorder
from .runtime.definitions import Agent, Preset, ToolDefinition
from .runtime.errors import NotFoundError, ValidationError
from .runtime.events import SessionCreated
from .runtime.history import Attachment
from .runtime.memory_store import open_memory_store
from .runtime.messages import ApprovalAnswer, ApprovalRequest, CreateSession
from .runtime.store import SessionRow, Store, StoreReader
from .tools.registry import ToolRegistry, builtin_tools
from .tools.tool import Tool
from .tools.workspace import open_workspace
from .turn_handle import Turn

if TYPE_CHECKING:
    from .providers.connection_trial import ConnectionReport
    from .providers.model_services import ModelList, ModelServices

COMPLETE_SECONDS = 30.0
"""For a text of some lines; a model that takes longer is the wrong one for it."""


@asynccontextmanager
async def open_runtime(
    *,
    model: str | LocalModel | None = None,
    base_url: str | None = None,
    dialect: str | None = None,
    workspace: str | Path | None = None,
    data: str | Path | None = None,
    tools: Sequence[Tool] = (),
    agents: Sequence[Agent] = (),
    policy: Preset | str | None = None,
    on_approval: Approver | Literal["allow", "deny"] | None = None,
    settings: Settings | None = None,
    environ: Mapping[str, str] | None = None,
    record: str | Path | None = None,
    strict: bool = False,
) -> AsyncGenerator[Runtime, None]:
    """Runs callboard around the block; leaving it ends all turns and closes the store.

    Cancelling the block ends turns in order, within some seconds; nothing is left behind.

    Args:
        model: `PROVIDER/MODEL`, or a model object such as `ScriptedModel`. Without it: the
            configured default, a provider whose key is in the environment, a server on this
            machine, and last the built-in rehearsal model.
        base_url: Any server that speaks a known wire format; `model` is then its model's id.
        dialect: The wire format of `base_url`: `openai_chat`, `openai_responses`, `anthropic` or
            `gemini`. By default the one of the provider whose origin it has, else `openai_chat`.
        workspace: The folder that sessions work in; the current one by default.
        data: The folder of the store and of stored keys; `None` keeps everything in memory.
        tools: Own tools beside the built-in ones.
        agents: Own agents beside `general`.
        policy: The preset, how much runs without asking; overrides the agents' own.
        on_approval: Asks a person: an async function, or `"allow"` or `"deny"` for all. Without
            it, what would ask is denied.
        settings: The configuration; the defaults when `None` (no file is read).
        environ: Where keys are looked up before the stored ones; the process's environment by
            default.
        record: A folder in which the providers' raw answers are kept, a file for each session, with
            keys masked; what was said stands in them. `ReplayProvider` plays them back.
        strict: Lets a crash of an actor end the runtime, for tests.

    Raises:
        NotFoundError: The model or its provider does not exist.
        ConflictError: Another process writes to `data`.
        ValidationError: `tools`, `policy`, `dialect` or `on_approval` is not what it may be.

    Example:
        async with callboard.open_runtime(model="rehearsal", workspace=".") as runtime:
            session = await runtime.create_session()
            print(await session.run("What time is it in Tokyo?"))
    """
    if dialect is not None and base_url is None:
        raise ValidationError("dialect goes with base_url: a provider has its own", field="dialect")
    settings = settings or Settings()
    environ = os.environ if environ is None else environ
    registry = ToolRegistry([*builtin_tools(), *map(_checked_tool, tools)])
    known = _agents(settings, agents, policy)
    _check_fallbacks(known, settings)
    stored = _stored_keys(data, settings.keys, environ)
    choice, local = (None, model) if isinstance(model, LocalModel) else (model, None)
    wish = Wish(
        choice=choice,
        base_url=base_url,
        dialect=dialect,
        settings=settings,
        environ=environ,
        stored=stored,
    )
    finder = ModelFinder(wish, local=local)
    plan = Plan(
        models=finder,
        registry=registry,
        agents=known,
        approver=_approver(on_approval),
        forbidden=() if data is None else (_folder(data), config_folder(environ)),
        limits=settings.limits,
        network=settings.network,
        recorder=None if record is None else await open_recorder(_folder(record)),
        prices=PriceTable(settings.prices),
        strict=strict,
        store=await _open_store(data),  # the last one: what fails before leaves nothing open
    )
    async with open_host(plan) as host:
        await finder.look_around(host.http)
        finder.target(None)
        lists = None if data is None else _folder(data)
        yield Runtime(host, _folder(workspace or "."), finder, lists)


class Runtime:
    """A running callboard; made by `open_runtime`.

    Example:
        session = await runtime.create_session(title="Notes")
        print([row.title for row in await runtime.sessions()])
        print([tool.name for tool in runtime.tools()], runtime.model, runtime.model_reason)
        same = await runtime.get_session(session.session_id)
        print(await same.run("What time is it in Tokyo?"))
    """

    def __init__(
        self,
        host: Host,
        workspace: Path,
        models: ModelFinder,
        data: Path | None = None,
    ) -> None:
        self._host = host
        self._workspace = workspace
        self._models = models
        self._data = data
        self._services: ModelServices | None = None

    @property
    def store(self) -> StoreReader:
        """What is on record: sessions, messages, calls, usage."""
        return self._host.plan.store

    @property
    def model(self) -> str:
        """The default `PROVIDER/MODEL`."""
        target = self._models.target(None)
        return f"{target.provider}/{target.model}"

    @property
    def model_reason(self) -> str:
        """Why it is that one, for a person: "because OPENAI_API_KEY is set"."""
        return self._models.reason

    def tools(self) -> tuple[ToolDefinition, ...]:
        """All tools, in the order in which models see them."""
        return tuple(tool.definition for tool in self._host.plan.registry.list())

    async def create_session(
        self,
        *,
        agent: str = "general",
        workspace: str | Path | None = None,
        model: str | None = None,
        title: str = "",
    ) -> Session:
        """Begins a session; it is on record when this returns.

        Args:
            agent: The name of its agent.
            workspace: The folder that it works in; the runtime's by default.
            model: `PROVIDER/MODEL`; the agent's, else the runtime's by default.
            title: What it is called; by default the first words of its first input.

        Raises:
            ValidationError: The workspace is not a folder that may be one.
            NotFoundError: There is no such agent or model.
        """
        host = self._host
        if agent not in host.plan.agents:
            known = ", ".join(sorted(host.plan.agents))
            raise NotFoundError(f"there is no agent {agent!r}; there are: {known}")
        folder = _folder(workspace) if workspace is not None else self._workspace
        open_workspace(folder, forbidden=host.plan.forbidden).close()
        if model is not None:
            self._models.target(model)
        created = SessionCreated(agent=agent, workspace=str(folder), title=title, model=model)
        session_id: str = await host.directory.ask(CreateSession(created=created))
        return Session(host, session_id)

    async def get_session(self, session_id: str) -> Session:
        """A session on record.

        Raises:
            NotFoundError: There is none of that id.
        """
        if await self.store.session(session_id) is None:
            raise NotFoundError(f"there is no session {session_id}")
        return Session(self._host, session_id)

    async def sessions(self, *, limit: int = 100) -> list[SessionRow]:
        """Sessions on record, the latest activity first."""
        return await self.store.sessions(limit=limit)

    async def usage(self, *, by: UsageBy = "session", since_ms: int = 0) -> UsageReport:
        """What all sessions on record took, and what that costs at present prices.

        Args:
            by: What makes one sum: `call`, `turn`, `session`, `agent`, `model` or `day`.
            since_ms: Only what was stored since, in Unix milliseconds.
        """
        sums = UsageSums(by, self._host.plan.prices)
        return await read_usage(self.store, sums, since_ms=since_ms)

    async def list_models(self, provider: str, *, refresh: bool = False) -> ModelList:
        """The models of a provider: those that it listed last, or lists now to `refresh`.

        When it can't be asked, those that callboard knows of; `problem` says why.

        Raises:
            NotFoundError: There is no such provider.
            CallboardError: It can't be asked, and none of its models are known.
        """
        return await self._model_services().list_models(provider, refresh=refresh)

    async def test_provider(self, provider: str, *, model: str | None = None) -> ConnectionReport:
        """Whether a provider answers, and when not, what of it fails; ten seconds at most.

        A model is asked for a word, which costs some tokens.

        Args:
            provider: Its name.
            model: The model that is asked; its default, else the first that it lists.

        Raises:
            NotFoundError: There is no such provider.
        """
        return await self._model_services().test_provider(provider, model)

    async def complete(
        self,
        prompt: str,
        *,
        model: str | None = None,
        system: str = "",
        seconds: float = COMPLETE_SECONDS,
    ) -> str:
        """A short text outside every session: a title, a summary. Nothing of it is recorded.

        Args:
            prompt: What to write.
            model: `PROVIDER/MODEL`; the runtime's by default. It reasons as little as it can.
            system: The system prompt.
            seconds: How long it may take.

        Raises:
            DeadlineError: It took longer.
            CallboardError: The call failed, or the model refused or wrote nothing.
        """
        target = self._models.target(model)
        services = self._model_services()
        return (await services.complete(target, prompt, system=system, seconds=seconds)).text

    def _model_services(self) -> ModelServices:
        from .providers.model_cache import ModelCache  # here: most programs ask for none of it
        from .providers.model_services import ModelServices

        if self._services is None:
            cache = ModelCache(self._data)
            self._services = ModelServices(self._models.wish, self._host.http, cache)
        return self._services


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

    def prompt(self, text: str, attachments: Iterable[Attachment] = ()) -> Turn:
        """A turn for this input: enter it with `async with`, then iterate over its events.

        The input is stored when the block is entered; while another turn runs it waits for its
        own. Leaving the block before the end cancels the turn and waits until it is gone.
        """
        return Turn(self._host, self.session_id, text, attachments)

    async def run(self, text: str, attachments: Iterable[Attachment] = ()) -> str:
        """Prompts and returns the final answer's text. Cancelling it cancels the turn.

        Raises:
            CallboardError: The turn was not answered; the error's type says why.
        """
        async with self.prompt(text, attachments) as turn:
            return await turn.answer()

    async def usage(self, *, by: UsageBy = "turn") -> UsageReport:
        """What this session took, as `Runtime.usage` gives it for all."""
        sums = UsageSums(by, self._host.plan.prices)
        return await read_usage(self._host.plan.store, sums, session_id=self.session_id)


async def _open_store(data: str | Path | None) -> Store:
    if data is None:
        return open_memory_store()
    from .runtime.sqlite_store import open_disk_store  # here: an app in memory needs it not

    return await open_disk_store(_folder(data))


def _stored_keys(
    data: str | Path | None, settings: KeySettings, environ: Mapping[str, str]
) -> StoredKeys:
    if data is None:
        return no_stored_keys
    from .config.key_store import open_key_store  # here: as above

    return open_key_store(_folder(data), settings, environ).get


def _folder(path: str | Path) -> Path:
    return Path(path).expanduser().absolute()


def _checked_tool(tool: object) -> Tool:
    if isinstance(tool, Tool):
        return tool
    name = getattr(tool, "__name__", repr(tool))
    raise ValidationError(f"{name} is no tool: decorate it with @callboard.tool", field="tools")


def _approver(choice: Approver | Literal["allow", "deny"] | None) -> Approver | None:
    if choice is None or callable(choice):
        return choice
    if (given := str(choice)) not in {"allow", "deny"}:
        raise ValidationError(
            f'on_approval is {given!r}: pass an async function of the request, "allow" or "deny"',
            field="on_approval",
        )

    async def same_for_all(request: ApprovalRequest) -> ApprovalAnswer:
        await trio.lowlevel.checkpoint()
        return ApprovalAnswer(decision=choice, reason="on_approval says so for all calls")

    return same_for_all


def _check_fallbacks(agents: Mapping[str, Agent], settings: Settings) -> None:
    """An unknown provider is told now, and not when it is needed most; its key may come later."""
    for agent in agents.values():
        for choice in agent.fallbacks:
            try:
                check_provider(settings, choice)
            except NotFoundError as error:
                raise NotFoundError(f"A fallback of agent {agent.name!r}: {error}") from error


def _agents(
    settings: Settings, own: Sequence[Agent], policy: Preset | str | None
) -> dict[str, Agent]:
    agents = {"general": settings.agent("general"), **settings.agents}
    agents.update((agent.name, agent) for agent in own)
    if policy is None:
        return agents
    try:
        preset = Preset(policy)
    except ValueError:
        known = ", ".join(Preset)
        raise ValidationError(f"there is no policy {policy!r}; there are: {known}") from None
    return {name: msgspec.structs.replace(a, policy=preset) for name, a in agents.items()}
