"""Every setting, with its unit, its default and the reason for it.

Settings are strict: an unknown name is an error, so that a typing mistake is never a default.
They are frozen: a change of the configuration makes new ones.
"""

from __future__ import annotations

import enum
import re
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import msgspec

from ..runtime.definitions import GENERAL_AGENT, GENERAL_DESCRIPTION, Agent, Preset
from ..runtime.errors import NotFoundError, ValidationError
from ..runtime.hooks.hook import Hook
from ..runtime.http.address_guard import Endpoint, parse_endpoint
from ..runtime.schedules.schedule import Schedule
from ..runtime.stream import MAX_ARGUMENT_BYTES
from ..runtime.text import check_hosts, did_you_mean
from .base_url import checked_base_url
from .mcp.settings import McpSettings, check_servers
from .policy.rules import PlacedRule
from .prices import Price
from .sections import (
    ClusterSettings,
    GitSettings,
    McpServerSettings,
    MemorySettings,
    NotifySettings,
    OpenAiSettings,
    PluginSettings,
    RootSettings,
    SandboxSettings,
    ServerSettings,
    SessionSettings,
    TelemetrySettings,
    TestSettings,
    Webhook,
    WorkspaceSettings,
    checked_roots,
)

MAX_COUNT = 100_000
"""No count of concurrent things is sensibly higher. It catches typing mistakes."""

MAX_BYTES = 8 * 1024 * 1024
"""No result is sensibly larger: it is two million tokens, and must fit an event beside its whole."""

MAX_SECONDS = 7 * 24 * 3600.0
"""A week; it keeps `inf` and `nan` out of deadlines."""

MAX_RETRIES = 20
"""No number of retries is sensibly higher: each waits longer than the one before."""

MAX_DEPTH = 16
"""Each level waits for the one below it, and is read when a session is loaded."""

VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
"""The name of an environment variable, as shells take it."""

Count = Annotated[int, msgspec.Meta(ge=1, le=MAX_COUNT)]
Bytes = Annotated[int, msgspec.Meta(ge=1024, le=MAX_BYTES)]
ArgumentBytes = Annotated[int, msgspec.Meta(ge=1024, le=MAX_ARGUMENT_BYTES)]
Seconds = Annotated[float, msgspec.Meta(gt=0, le=MAX_SECONDS)]
ModelId = Annotated[str, msgspec.Meta(min_length=1, max_length=256)]


class DialectName(enum.StrEnum):
    """The wire formats."""

    OPENAI_CHAT = "openai_chat"
    OPENAI_RESPONSES = "openai_responses"
    ANTHROPIC = "anthropic"
    GEMINI = "gemini"


DialectWord: TypeAlias = Literal["openai_chat", "openai_responses", "anthropic", "gemini"]
"""A wire format as a program may also write it."""


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Bounds of everything that a model, a provider or a tool could make large or slow.

    Attributes:
        max_calls_per_session: Tool calls of one session that run at once. 128: a response of a
            model that fans out widely still runs in one wave.
        max_calls_per_runtime: Tool calls of all sessions that run at once. 512: four such sessions,
            within the usual 1,024 open files of a process.
        max_calls_per_response: Calls of one response that run at all; the rest get an error result.
            256: twice a wave, far above what models ask for when they work as they should.
        max_arguments_bytes: Where the arguments of a call are cut while they stream, with an error
            result for that call. 1 MiB, and at most that: as much as read_file gives at once.
        max_result_bytes: How much of a result the model gets; the whole is kept as an artifact.
            64 KiB: about 16,000 tokens.
        connect_seconds: Time to connect to a provider. 30: RFC-000's figure.
        first_byte_seconds: Time from a request to the first byte of its answer. 60: models that
            think before they speak, and local ones that load, need it.
        idle_seconds: Time between two reads of an answer. 60: RFC-000's figure.
        progress_seconds: Time between two events that carry content; pings do not. 120: twice the
            idle time, because a provider that still pings is at least alive.
        model_call_seconds: Time for one whole model call. 900: long reasoning fits, a stuck one ends.
        model_retries: How often a failed model call is made again before the next model has its
            turn, where the failure may pass and nothing has run. 3: the usual number of clients.
        retry_wait_seconds: The longest wait before a model call is made again, whatever the provider
            asks for; one that asks for more is given up. 60: longer, and a person would rather know.
        max_tool_seconds: The longest that a call may execute, whatever its tool and its own `timeout`
            argument say; one that only waits, for a person or a session, has its own. 600: ten minutes.
        approval_seconds: How long a question to a person waits before silence is a denial. 600: a
            person may be away for a coffee, not for the day.
        deferred_seconds: The same for a question that its turn does not wait for. 604,800, a week:
            whoever is away comes back to it; an older yes is hardly meant any more.
        max_session_depth: How far sessions may delegate below a main one: 1 is its children. 3: a
            plan, its parts, and workers that look things up; what is deeper repeats itself.
        max_child_sessions: Sessions below one session that run at once. 8: as many as people follow,
            and few enough that three levels of them don't flood a provider.
        max_repeats: How often the same call with the same arguments and the same result may repeat
            in a turn before the loop guard ends it. 25: polling is still possible.

    Example:
        limits = callboard.Limits(approval_seconds=60, max_result_bytes=16 * 1024)
        async with callboard.open_runtime(settings=callboard.Settings(limits=limits)) as runtime:
            print(await (await runtime.create_session()).run("What time is it in Tokyo?"))
    """

    max_calls_per_session: Count = 128
    max_calls_per_runtime: Count = 512
    max_calls_per_response: Count = 256
    max_arguments_bytes: ArgumentBytes = MAX_ARGUMENT_BYTES
    max_result_bytes: Bytes = 64 * 1024
    connect_seconds: Seconds = 30.0
    first_byte_seconds: Seconds = 60.0
    idle_seconds: Seconds = 60.0
    progress_seconds: Seconds = 120.0
    model_call_seconds: Seconds = 900.0
    model_retries: Annotated[int, msgspec.Meta(ge=0, le=MAX_RETRIES)] = 3
    retry_wait_seconds: Seconds = 60.0
    max_tool_seconds: Seconds = 600.0
    approval_seconds: Seconds = 600.0
    deferred_seconds: Seconds = 7 * 24 * 3600.0
    max_session_depth: Annotated[int, msgspec.Meta(ge=0, le=MAX_DEPTH)] = 3
    max_child_sessions: Count = 8
    max_repeats: Count = 25


if TYPE_CHECKING:
    _AnyLimits = Limits
else:
    _AnyLimits = object


class LiveLimits(_AnyLimits):  # type: ignore[misc]  # pyright: ignore[reportGeneralTypeIssues]
    """Takes the place of `Limits` while the configuration can change; each read sees the limits of now.

    Attributes:
        now: The limits that hold; a new object takes the place of the old one.
    """

    now: Limits

    def __init__(self, limits: Limits) -> None:
        self.now = limits

    def __setattr__(self, name: str, value: Any) -> None:
        # Each limit is an attribute: a look-up by `__getattr__` takes ten times as long.
        assert name == "now"
        for field in value.__struct_fields__:
            super().__setattr__(field, getattr(value, field))
        super().__setattr__(name, value)


class NetworkSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where tools may connect beside public hosts.

    Attributes:
        allow: Hosts with their ports, like `127.0.0.1:8080` or `searx.local:443`: exactly these,
            whatever their addresses. `.corp.example:443` is every name below corp.example, at any
            depth, but not itself. Providers need no entry.
        auto: Hosts that web_fetch and http_request may read from without a question:
            `docs.python.org`, `.example.org` for every name below it; a port other than those of
            http and https is written behind it.

    Example:
        network = callboard.NetworkSettings(allow=("localhost:8080", "wiki.example:443"))
        async with callboard.open_runtime(settings=callboard.Settings(network=network)) as runtime:
            session = await runtime.create_session()  # its tools may reach those two hosts as well
    """

    allow: tuple[str, ...] = ()
    auto: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        try:
            _ = self.endpoints
        except ValueError as error:
            raise ValueError(f"allow: {error}") from None
        if self.auto:
            check_hosts(self.auto, "auto")

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """The entries, parsed."""
        return tuple(map(parse_endpoint, self.allow))


class SearchEngine(enum.StrEnum):
    """The search engines whose wire formats callboard speaks."""

    SEARXNG = "searxng"
    BRAVE = "brave"
    TAVILY = "tavily"


class SearchSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where `web_search` asks.

    Attributes:
        engine: Which engine; `None` is none, and searches say how to name one.
        base_url: Where it is, for SearXNG: an instance of your own, which `network.allow` lists
            when it is not public. For the others, a proxy of your own in their place.
    """

    engine: SearchEngine | None = None
    base_url: str | None = None

    def __post_init__(self) -> None:
        if self.base_url is not None:
            msgspec.structs.force_setattr(self, "base_url", checked_base_url(self.base_url))
            if self.engine is None:
                choices = ", ".join(SearchEngine)
                raise ValueError(f"base_url: engine says what is there: one of {choices}")
        elif self.engine is SearchEngine.SEARXNG:
            raise ValueError(
                "base_url: SearXNG is hosted by oneself: say where, like https://searx.example"
            )


class MasterSource(enum.StrEnum):
    """Where the master key of stored keys is kept."""

    FILE = "file"
    KEYRING = "keyring"
    CREDENTIAL = "credential"


class KeySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How provider keys are kept at rest.

    Attributes:
        master: Where the master key is; `None` is a systemd credential when the process has one,
            else a file in the configuration folder. What is named and not there is an error:
            nothing is looked for elsewhere.
    """

    master: MasterSource | None = None


class StoreSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where sessions are kept.

    Attributes:
        url: `postgresql://USER@HOST/DATABASE`, with the extra `callboard[postgres]`; `None` is a file of the
            data folder. It holds no password: that comes from `PGPASSFILE` (`~/.pgpass`), `PGSERVICE` or
            `PGPASSWORD`.
    """

    url: str | None = None

    def __post_init__(self) -> None:
        if self.url is not None:
            from ..runtime.store.postgres.address import address_of  # here: few have a database

            try:
                address_of(self.url, may_hold_password=False)
            except ValidationError as error:
                raise ValueError(f"url: {error}") from error


class ProviderSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A provider that the operator configured; it replaces a built-in one of the same name.

    Attributes:
        name: The provider's name, as in `PROVIDER/MODEL`: the name of its table.
        base_url: Everything before the wire format's own path, for example
            `http://127.0.0.1:8000/v1`.
        dialect: Its wire format; `None` is the one of the built-in provider at this base URL, else
            of the one of this name, else Chat Completions.
        key_env: The environment variable that holds its key, or `None` when it wants none. The key
            itself never stands in the configuration.
        model: Its model when only the provider is named; `None` is the first of `models`, else that
            of the built-in provider of this name.
        models: Models that it has, whether or not it lists them.

    Example:
        box = callboard.ProviderSettings(name="box", base_url="http://127.0.0.1:8000/v1", model="m")
        settings = callboard.Settings(model="box", providers={"box": box})
        async with callboard.open_runtime(settings=settings) as runtime:
            print(runtime.model)
    """

    name: str
    base_url: str
    dialect: DialectName | None = None
    key_env: str | None = None
    model: str | None = None
    models: tuple[ModelId, ...] = ()

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "base_url", checked_base_url(self.base_url))
        if self.key_env is not None and VARIABLE.fullmatch(self.key_env) is None:
            # Not repeated: somebody may have put the key itself there.
            raise ValueError("key_env is the name of an environment variable, and never the key")


class ManagedSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What commands write, in managed.toml; the operator's own file wins over it.

    Attributes:
        model: The default `PROVIDER/MODEL`.
        inactive: Providers that are not to be used, by name; built-in ones too.
        providers: Providers that were added, by name.
        agents: Agents that programs and commands made, by name.
        deleted_agents: Names of deleted agents whose sessions have yet to move to General Assistant.
        schedules: Schedules that programs and commands made, by name.
        paused_schedules: Names of schedules that are paused; those of the operator's file too.
        hooks: Hooks that programs and commands made, by name.
        mcp: Servers of the Model Context Protocol that were added, by name.
        limits, sessions, git: Settings of these tables, by name, where the operator's file says nothing.
    """

    model: str | None = None
    inactive: tuple[str, ...] = ()
    providers: dict[str, ProviderSettings] = msgspec.field(default_factory=dict)
    agents: dict[str, Agent] = msgspec.field(default_factory=dict)
    deleted_agents: tuple[str, ...] = ()
    schedules: dict[str, Schedule] = msgspec.field(default_factory=dict)
    paused_schedules: tuple[str, ...] = ()
    hooks: dict[str, Hook] = msgspec.field(default_factory=dict)
    mcp: dict[str, McpSettings] = msgspec.field(default_factory=dict)
    limits: dict[str, Any] = msgspec.field(default_factory=dict)
    sessions: dict[str, Any] = msgspec.field(default_factory=dict)
    git: dict[str, Any] = msgspec.field(default_factory=dict)

    @property
    def tables(self) -> dict[str, dict[str, Any]]:
        """The settings of tables, by table."""
        return {name: getattr(self, name) for name in MANAGED_TABLES}


MANAGED_TABLES: dict[str, type[msgspec.Struct]] = {
    "limits": Limits,
    "sessions": SessionSettings,
    "git": GitSettings,
}
"""Tables that programs and commands may write: they bound and pace work, and say who commits. None says who
may do what."""


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole configuration.

    Attributes:
        model: The default `PROVIDER/MODEL`; `None` looks for a key, then for a local server.
        policy: How much runs without asking, for agents that don't say it themselves.
        limits: The bounds.
        network: Where tools may connect.
        search: Where searches are made.
        memory: How memories are found.
        sandbox: What programs that models ask for may see and use up.
        git: Who `git_commit` commits as.
        tests: What `run_tests` runs.
        server: How `callboard serve` is reached.
        openai: What is spoken below `/v1/` of the daemon.
        mcp_server: What it offers to clients of the Model Context Protocol.
        cluster: This daemon's part in a cluster of several.
        roots: Folders below which sessions work, by the names that they have on all nodes of a cluster; see
            `RootSettings`.
        workspaces: Whose content files are.
        sessions: What becomes of sessions.
        notify: Where people are notified of questions.
        telemetry: Where traces and metrics go.
        keys: How provider keys are kept.
        store: Where sessions are kept.
        inactive: Providers that are not to be used, by name; built-in ones too.
        providers: Configured providers, by name.
        plugins: Settings of plugins, by name; those that are not enabled are not used.
        mcp: Servers of the Model Context Protocol, by name.
        agents: Configured agents, by name; `general` exists without being listed.
        hooks: What other systems may begin here by a POST, by name.
        webhooks: Where other systems are told what happened here, by name.
        schedules: Prompts that are sent by themselves at planned times, by name.
        prices: What models cost, by `PROVIDER/MODEL`; they win over the prices that ship.
        rules: The policy's rules, those of agents too, each with its place in the file.
        files: The files that say all this, by absolute paths, whether or not they exist. No session works where
            it could write to them. They are no setting of a file: whoever reads it says where it is.

    Example:
        settings = callboard.Settings(
            policy=callboard.Preset.STRICT,
            sandbox=callboard.SandboxSettings(memory_bytes=512 * 1024**2),
        )
        async with callboard.open_runtime(settings=settings, on_approval="deny") as runtime:
            print([tool.name for tool in runtime.tools()])
    """

    model: str | None = None
    policy: Preset = Preset.BALANCED
    limits: Limits = Limits()
    network: NetworkSettings = NetworkSettings()
    search: SearchSettings = SearchSettings()
    memory: MemorySettings = MemorySettings()
    sandbox: SandboxSettings = SandboxSettings()
    git: GitSettings = GitSettings()
    tests: TestSettings = TestSettings()
    server: ServerSettings = ServerSettings()
    openai: OpenAiSettings = OpenAiSettings()
    mcp_server: McpServerSettings = McpServerSettings()
    cluster: ClusterSettings = ClusterSettings()
    roots: dict[str, str | RootSettings] = msgspec.field(default_factory=dict)
    workspaces: WorkspaceSettings = WorkspaceSettings()
    sessions: SessionSettings = SessionSettings()
    notify: NotifySettings = NotifySettings()
    telemetry: TelemetrySettings = TelemetrySettings()
    keys: KeySettings = KeySettings()
    store: StoreSettings = StoreSettings()
    inactive: tuple[str, ...] = ()
    providers: dict[str, ProviderSettings] = msgspec.field(default_factory=dict)
    plugins: dict[str, PluginSettings] = msgspec.field(default_factory=dict)
    mcp: dict[str, McpSettings] = msgspec.field(default_factory=dict)
    agents: dict[str, Agent] = msgspec.field(default_factory=dict)
    hooks: dict[str, Hook] = msgspec.field(default_factory=dict)
    webhooks: dict[str, Webhook] = msgspec.field(default_factory=dict)
    schedules: dict[str, Schedule] = msgspec.field(default_factory=dict)
    prices: dict[str, Price] = msgspec.field(default_factory=dict)
    rules: tuple[PlacedRule, ...] = ()
    files: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.mcp:
            check_servers(self.mcp)
        if self.roots:
            try:
                checked_roots(self.roots)
            except ValueError as error:
                raise ValueError(f"roots: {error}") from None

    @property
    def named_roots(self) -> dict[str, RootSettings]:
        """The named roots, each with its folder."""
        return checked_roots(self.roots)

    def agent(self, name: str = GENERAL_AGENT) -> Agent:
        """Return the agent of that name.

        Raises:
            NotFoundError: It does not exist; the message lists those that do.
        """
        if name in self.agents:
            return self.agents[name]
        if name == GENERAL_AGENT:
            return Agent(policy=self.policy, description=GENERAL_DESCRIPTION)
        known = sorted({GENERAL_AGENT, *self.agents})
        raise NotFoundError(
            f"There is no agent {name!r}.{did_you_mean(name, known)} Agents: {', '.join(known)}. "
            f"Others are configured as [agents.NAME] in callboard.toml."
        )
