"""Settings of single tables: `[git]`, `[tests]`, `[memory]`, `[notify]`, `[openai]`, `[plugins]`, `[sandbox]`, `[server]`,
`[mcp_server]`, `[workspaces]`, `[sessions]`, `[telemetry]`."""

from __future__ import annotations

import enum
import ipaddress
import os
import re
from collections.abc import Mapping
from typing import Annotated, Literal, TypeAlias
from urllib.parse import urlsplit

import msgspec

from ..runtime.definitions import GENERAL_AGENT, Tier
from ..runtime.http.address_guard import HERE
from .base_url import checked_base_url, may_carry_key
from .mcp.settings import REFERENCE, Texts, check_header

OTEL_KEY = "otel"
"""Name under which the key of the collector of `[telemetry]` is stored, and referred to."""
GIT_KEYS = "git"
"""Name under which credentials of git servers are stored, each for its origin."""

MAX_WORDS = 100
"""Words of a command at most; a longer one belongs in a script."""

_HOST = re.compile(r"(?=.{1,253}$)([a-z0-9]([a-z0-9.-]*[a-z0-9])?|[0-9a-f:]+:[0-9a-f:.]+)")
"""A host as URLs have it in the end: a name or an address, a port never."""
_NO_NAME = frozenset("<>\n\r\0")
"""Characters that git can't write into the author line of a commit."""


class GitSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who `git_commit` commits as.

    Attributes:
        name, email: What stands in commits; both or neither. `None` is what the user's own git
            configuration says.
    """

    name: str | None = None
    email: str | None = None

    def __post_init__(self) -> None:
        if (self.name is None) != (self.email is None):
            raise ValueError("name and email belong together: set both, or neither")
        for field, value in (("name", self.name), ("email", self.email)):
            if value is not None and not is_name(value):
                raise ValueError(f"{field} is one line of text without < and >")


class TestSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `run_tests` runs.

    Attributes:
        command: The program and its arguments, run in the workspace; empty is what fits the project.
    """

    command: Annotated[tuple[str, ...], msgspec.Meta(max_length=MAX_WORDS)] = ()


def is_name(text: str) -> bool:
    """Whether git can write it as a name or an address."""
    return bool(text.strip()) and _NO_NAME.isdisjoint(text) and text.isprintable()


class MemorySearch(enum.StrEnum):
    """How memories are found."""

    WORDS = "words"
    VECTORS = "vectors"


class MemoryPlace(enum.StrEnum):
    """Where vectors are kept."""

    SQLITE = "sqlite"
    LANCEDB = "lancedb"


class MemorySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `memory_search` searches.

    Attributes:
        search: `words` is full text, and needs nothing to be installed; `vectors` is that and what
            texts mean, with the extra `vectors`.
        store: Where the vectors are: `sqlite`, a file in the data folder, or `lancedb`, a table
            there, with the extra `lancedb`. What is remembered is in the journal, whatever this says.
    """

    search: MemorySearch = MemorySearch.WORDS
    store: MemoryPlace = MemoryPlace.SQLITE

    def __post_init__(self) -> None:
        if self.store is MemoryPlace.LANCEDB and self.search is MemorySearch.WORDS:
            raise ValueError(
                'search: LanceDB keeps vectors: say search = "vectors" beside store = "lancedb"'
            )


MAX_URL_CHARS = 2048
"""Longest URL of a service."""


MAX_NODE_CHARS = 64
"""Longest name of a node: a host's label has at most 63."""
NODE_NAME = r"^([a-zA-Z0-9][a-zA-Z0-9._-]*)?$"
MAX_CAPACITY = 1000
"""The largest share of a node; shares are compared with each other."""


ROOT_NAME = r"[a-z0-9][a-z0-9._-]*"
MAX_ROOT_CHARS = 40
"""Longest name of a root: it stands before the path of each session that is listed."""
MAX_ROOTS = 64
"""Named roots of a node: for each set of nodes that has some of them, who takes what is computed once."""


class RootSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A named root: a folder below which sessions work, under one name on all nodes of a cluster that have it.

    Attributes:
        path: The folder on this machine, as an absolute path. A root alone may stand as that: `projects = "/srv/projects"`.
        shared: Whether it is one file system on all nodes.
    """

    path: str
    shared: bool = False

    def __post_init__(self) -> None:
        path = self.path
        if not path.startswith("/") or os.path.normpath(path).strip("/") == "" or "\0" in path:
            raise ValueError(f"path: {path!r} is not an absolute path below /")
        if len(path.encode()) > MAX_PATH_BYTES:
            raise ValueError(f"path: it has at most {MAX_PATH_BYTES} bytes")


def checked_roots(given: Mapping[str, str | RootSettings]) -> dict[str, RootSettings]:
    """Return named roots, each with its folder; raise `ValueError` for a bad name, and for one root in another."""
    if len(given) > MAX_ROOTS:
        raise ValueError(f"there are {len(given)} roots, and at most {MAX_ROOTS} may be")
    found: dict[str, RootSettings] = {}
    for name, root in given.items():
        if not re.fullmatch(ROOT_NAME, name) or len(name) > MAX_ROOT_CHARS:
            raise ValueError(
                f"{name!r} is no name of a root: it has small letters, digits, '.', '_' and '-', at most {MAX_ROOT_CHARS}"
            )
        its = RootSettings(path=root) if isinstance(root, str) else root
        at = os.path.normpath(its.path)
        for other, known in found.items():
            if os.path.commonpath([at, (there := os.path.normpath(known.path))]) in {at, there}:
                raise ValueError(
                    f"{name} ({its.path}) and {other} ({known.path}) are the same folder, or one lies in the other: a "
                    "session would belong to both"
                )
        found[name] = its
    return found


class NotifySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the daemon says that something waits for a person.

    Attributes:
        webhook: A URL that is posted to; `https`, or `http` on this machine. A name that leads to an
            address which is not public has to stand in `[network] allow`, too. Whoever has the URL
            may be able to post there: it is shown nowhere but by its host.
    """

    webhook: str | None = None

    def __post_init__(self) -> None:
        if self.webhook is not None and (problem := _problem(self.webhook)):
            raise ValueError(f"webhook: {problem}")


WebhookEvent: TypeAlias = Literal["question", "turn", "failure", "budget"]


class Webhook(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the daemon says what happened, by a POST.

    With a secret in the store of keys (`callboard keys set webhook:NAME`) each is signed by Standard Webhooks.

    Attributes:
        name: Unique.
        url: Where; `https`, or `http` on this machine. As `[notify] webhook`.
        events: What is said: `question` (something waits for a person), `turn` (a turn has ended, however),
            `failure` (one has failed) and `budget` (one has used up its budget).
        paused: Whether nothing is said.
    """

    name: str
    url: str
    events: tuple[WebhookEvent, ...] = ("question", "failure", "budget")
    paused: bool = False

    def __post_init__(self) -> None:
        if problem := _problem(self.url):
            raise ValueError(f"url: {problem}")
        if not self.events:
            raise ValueError("events: it is empty; say what is to be heard of")

    @property
    def endpoint(self) -> tuple[str, int]:
        """The one host and port that it may be sent to."""
        where = urlsplit(self.url)
        return where.hostname or "", where.port or (443 if where.scheme == "https" else 80)


def _problem(url: str) -> str:
    """Return what is wrong with a webhook, or `""`; never the URL, which may be a secret."""
    try:
        where = urlsplit(url)
        port = where.port
    except ValueError:
        return "it is not a URL"
    if len(url) > MAX_URL_CHARS or not url.isascii() or not url.isprintable() or " " in url:
        return f"it is not a URL: it has spaces, control or non-ASCII characters, or more than {MAX_URL_CHARS}"
    if where.scheme not in {"https", "http"} or not where.hostname or port == 0:
        return "it is not a URL like https://hooks.example/callboard"
    if where.username is not None or where.fragment:
        return "it has a user's name or a fragment: leave them out"
    host = where.hostname
    is_here = ipaddress.ip_address(host).is_loopback if is_address(host) else host == HERE
    return "" if is_here or where.scheme == "https" else "http is for this machine alone: say https"


def is_address(host: str) -> bool:
    """Whether a host is an IP address rather than a name."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


class PluginSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A plugin that is installed beside callboard; what is not named here is never imported.

    Attributes:
        name: Its name, as `callboard tools` shows it: the name of its table.
        enabled: Whether it is used.
        version: The only version that is used; `None` is any.
        tier: How dangerous its tools are, whatever they say themselves. `elevated`: each of their
            calls asks a person.
        tiers: The same for single tools, by name; they win over `tier`.
    """

    name: str
    enabled: bool = False
    version: str | None = None
    tier: Tier = Tier.ELEVATED
    tiers: dict[str, Tier] = msgspec.field(default_factory=dict)

    def tier_of(self, tool_name: str) -> Tier:
        """The tier of one of its tools."""
        return self.tiers.get(tool_name, self.tier)


MIB = 1024 * 1024

MAX_AMOUNT = 1024 * 1024 * MIB
"""A TiB: more than a machine has for one program. It catches typing mistakes."""

Amount = Annotated[int, msgspec.Meta(ge=MIB, le=MAX_AMOUNT)]


class Strength(enum.StrEnum):
    """How well a sandbox isolates, as its self-test found at the start."""

    FULL = "full"
    PARTIAL = "partial"
    NONE = "none"

    @property
    def rank(self) -> int:
        """0 for none."""
        return (Strength.NONE, Strength.PARTIAL, Strength.FULL).index(self)


class SandboxSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The sandbox of `run_code` and `shell`.

    Attributes:
        minimum: How much it must hold (`full` or `partial`); below it those tools are not offered.
        read_only: Folders that programs may read besides the system's own and those of the tools
            on PATH, as absolute paths.
        cpu_seconds: Processor time of all processes of a program together. 600: as long as a call
            may take, on one processor.
        memory_bytes: Memory of all its processes together. 2 GiB: a compiler or a test suite fits.
        processes: Its processes at once. 256: a parallel build fits, a fork bomb does not.
        file_bytes: The largest file that it may write. 1 GiB.
        temporary_bytes: The size of /tmp, which is in memory and goes with the program. 256 MiB.
        temporary_files: Files in /tmp and /dev/shm, which are in memory. 100,000: an archive is
            unpacked there, and the kernel's memory is not filled with names.
        output_bytes: How much of each of stdout and stderr is kept: beginning and end. 1 MiB.
        network: Whether programs that models write may ask to reach hosts, through a guarded proxy
            (`run_code` and `shell` with `network`). Off: a program can send away what it reads.
        network_bytes: What one program may send and receive there together. 1 GiB: the packages of
            a large installation fit.
        run_as: The user that runs sandboxes when callboard runs as root. Not said: the ordinary user that
            a workspace belongs to, and in other workspaces root. "root" means root everywhere.
        self_test_hours: After how many hours the sandbox is tested again. 6: an update of the
            system is noticed on the same day.

    Example:
        sandbox = callboard.SandboxSettings(read_only=("/usr/share",), network=True, processes=64)
        async with callboard.open_runtime(settings=callboard.Settings(sandbox=sandbox)) as runtime:
            session = await runtime.create_session()  # run_code and shell work with these bounds
    """

    minimum: Strength = Strength.FULL
    read_only: tuple[str, ...] = ()
    cpu_seconds: Annotated[int, msgspec.Meta(ge=1, le=7 * 24 * 3600)] = 600
    memory_bytes: Amount = 2048 * MIB
    processes: Annotated[int, msgspec.Meta(ge=8, le=100_000)] = 256
    file_bytes: Amount = 1024 * MIB
    temporary_bytes: Amount = 256 * MIB
    temporary_files: Annotated[int, msgspec.Meta(ge=100, le=100_000_000)] = 100_000
    output_bytes: Annotated[int, msgspec.Meta(ge=1024, le=256 * MIB)] = MIB
    network: bool = False
    network_bytes: Amount = 1024 * MIB
    run_as: Annotated[str, msgspec.Meta(min_length=1, max_length=64)] | None = None
    self_test_hours: Annotated[int, msgspec.Meta(ge=1, le=24 * 365)] = 6

    def __post_init__(self) -> None:
        if self.minimum is Strength.NONE:
            raise ValueError(
                "minimum: say full or partial, since nothing that a model asks for runs without a sandbox"
            )
        for path in self.read_only:
            if not path.startswith("/") or path.rstrip("/") == "" or "\0" in path:
                raise ValueError(f"read_only: {path!r} is not an absolute path below /")


class OpenAiSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is spoken below `/v1/` of the daemon.

    Attributes:
        max_body_bytes: The largest request. 8 MiB: decoding one holds up everybody else for 20 to 40 ms.
        items: Whether responses have calls of the agent's tools (`all`), or only what the Open Responses standard
            has (`plain`).
        tool_progress: Whether clients of chat completions hear of calls in the model's reasoning.
    """

    max_body_bytes: Annotated[int, msgspec.Meta(ge=64 * 1024, le=64 * MIB)] = 8 * MIB
    items: Literal["all", "plain"] = "all"
    tool_progress: Literal["reasoning", "off"] = "reasoning"


Count = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]
Seconds = Annotated[float, msgspec.Meta(gt=0, le=24 * 3600)]
FrameBytes = Annotated[int, msgspec.Meta(ge=64 * 1024, le=256 * 1024 * 1024)]
BufferBytes = Annotated[int, msgspec.Meta(ge=64 * 1024, le=64 * 1024 * 1024 * 1024)]

MAX_PATH_BYTES = 4095
"""Longest path that a system call takes."""


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The socket of `callboard serve`.

    Attributes:
        host: The address to listen on. 127.0.0.1; any other one needs `--expose` besides.
        port: The port. 8790; 0 takes a free one.
        allowed_hosts: Names that clients may call it by, as `host` or `host:port`, beside its own
            address and localhost. A page that makes a browser call it by another name is refused.
        allowed_origins: Origins of web pages that may connect, like `https://board.example`, beside
            the console's own.
        public_url: Where browsers reach the daemon from elsewhere, through a proxy: `https://board.example`. People
            who log in at a server of MCP come back there. It is among the allowed hosts and origins.
        console: Whether it serves the web console. True: its page holds no data, and logs in like every client.
        roots: Folders below which a client may choose workspaces, as absolute paths. Without one, each
            session gets a folder of its own in the data folder.
        max_connections: Connections at once. 2,000: as many descriptors are left for the rest where
            a process may have 4,096. Where it may have too few, fewer are let in.
        max_peer_connections: Connections at once from one address. 1,000: all clients of a machine.
        max_token_connections: Connections at once with one token. 500: half of those of a machine.
        max_frame_bytes: The size of one message of a client. 32 MiB: the attachments of an input.
        max_outbox_bytes: Bytes that wait for a slow client. 4 MiB: some seconds of a busy session.
        max_buffered_bytes: Bytes that messages of all clients hold together: unfinished, being worked
            on, or waiting to be read. 128 MiB; one token may hold half of it, or one message.
        head_seconds: Time for the head of a request. 5: it is a kilobyte.
        send_seconds: Time in which a client takes 64 KiB, or sends so much of a message that it has
            begun. 10: a slow line does it.
        ping_seconds: Time between pings; a client that misses two is cut off. 20: proxies forget
            after 60.
        max_http_turns: Turns at once that were begun by HTTP, and not over callboard's own protocol. 64.
        drain_seconds: Time that turns have to end when the daemon stops. 20: supervisors kill
            after 90.
        log_level: What the daemon logs: `debug`, `info`, `warning` or `error`. `info`: what begins,
            ends and fails.
    """

    host: str = "127.0.0.1"
    port: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 8790
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    public_url: str | None = None
    console: bool = True
    roots: tuple[str, ...] = ()
    max_connections: Count = 2000
    max_peer_connections: Count = 1000
    max_token_connections: Count = 500
    max_frame_bytes: FrameBytes = 32 * 1024 * 1024
    max_outbox_bytes: FrameBytes = 4 * 1024 * 1024
    max_buffered_bytes: BufferBytes = 128 * 1024 * 1024
    head_seconds: Seconds = 5.0
    send_seconds: Seconds = 10.0
    ping_seconds: Seconds = 20.0
    max_http_turns: Count = 64
    drain_seconds: Seconds = 20.0
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    def __post_init__(self) -> None:
        for root in self.roots:
            if not root.startswith("/") or os.path.normpath(root).strip("/") == "" or "\0" in root:
                raise ValueError(f"roots: {root!r} is not an absolute path below /")
            if len(root.encode()) > MAX_PATH_BYTES:
                raise ValueError(f"roots: a path has at most {MAX_PATH_BYTES} bytes")
        for origin in self.allowed_origins:
            if not origin.startswith(("http://", "https://")) or origin.endswith("/"):
                raise ValueError(
                    f"allowed_origins: {origin!r} is not an origin like https://board.example:8443"
                )
        if self.public_url is not None:
            _check_public(self.public_url)


def _check_public(url: str) -> None:
    where = urlsplit(url)
    if (
        url != f"{where.scheme}://{where.netloc}"
        or where.username is not None
        or not may_carry_key(checked_base_url(url))
    ):
        raise ValueError("public_url: it is not an address like https://board.example")


class McpServerSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The daemon as a server of the Model Context Protocol, at `/mcp`.

    Attributes:
        enabled: Whether it is one.
        agents: Those that its clients may ask; by default all that their tokens are for.
        tools: Tools that its clients may call themselves, without a model; each call is one of a session of that
            client, and is decided by the policy like any other.
        agent: Whose session that is.
        workspace: The folder where the sessions of its clients work, below a root of the daemon, as an absolute
            path; by default each has a folder of its own.
    """

    enabled: bool = False
    agents: tuple[str, ...] = ()
    tools: Annotated[tuple[str, ...], msgspec.Meta(max_length=128)] = ()
    agent: str = GENERAL_AGENT
    workspace: str | None = None


MAX_DAYS = 3650.0
"""Ten years; it keeps `inf` and `nan` out."""
MAX_STORE_MIB = 16 * 1024 * 1024
"""16 TiB: about the largest file that SQLite writes with its usual pages."""


class TitleSource(enum.StrEnum):
    """Where the title of a session comes from, when nobody gave it one."""

    MODEL = "model"
    """Its model, which is asked after the first answer, beside the turns."""
    WORDS = "words"
    """The first words of its first input."""


TRUSTED_WORDS = ("attachments", "stdin")
"""What may be trusted that is no folder."""


class WorkspaceSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whose content files are; what strangers may have written taints the session that reads it.

    Attributes:
        trust: Folders and files whose content is the person's own, whatever came into them: absolute
            paths, or with `~/`. `attachments` and `stdin` trust what is attached and piped in.
        untrusted: Folders and files whose content is not. `~/Downloads`. Of both, the innermost counts.
    """

    trust: tuple[str, ...] = ()
    untrusted: tuple[str, ...] = ("~/Downloads",)

    def __post_init__(self) -> None:
        for name, paths in (("trust", self.trust), ("untrusted", self.untrusted)):
            words = TRUSTED_WORDS if name == "trust" else ()
            for path in paths:
                is_path = path.startswith(("/", "~/")) and "\0" not in path
                if path not in words and (not is_path or len(path.encode()) > MAX_PATH_BYTES):
                    known = "".join(f", or {word!r}" for word in sorted(words))
                    raise ValueError(f"{name}: {path!r} is not an absolute path, like ~/src{known}")


class SessionSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long sessions are kept, and where their titles come from.

    Attributes:
        keep_deleted_days: How long a deleted session can be restored; then it is purged. 30: a month,
            as in the bins of mail programs.
        keep_idle_days: After how long without activity a session is deleted, with all below it; where
            something runs or waits, never. 0, the default: they stay.
        max_store_mib: How much the store may hold. Above it, deleted sessions are purged before their
            time, the oldest first; when that is not enough, no session begins. 0, the default: no
            bound but the disk's.
        titles: Where titles come from. By default a daemon, where people have lists of sessions,
            asks the model, if a provider serves it; a program that embeds callboard makes no model
            call that it did not ask for.
    """

    keep_deleted_days: Annotated[float, msgspec.Meta(gt=0, le=MAX_DAYS)] = 30.0
    keep_idle_days: Annotated[float, msgspec.Meta(ge=0, le=MAX_DAYS)] = 0.0
    max_store_mib: Annotated[int, msgspec.Meta(ge=0, le=MAX_STORE_MIB)] = 0
    titles: TitleSource | None = None


class ClusterSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """This daemon's part in a cluster of several, which share a store in PostgreSQL.

    Attributes:
        node: The name of this one, which stays the same when it is started again. Without a name, the daemon
            is alone, and refuses to start beside another one on its store.
        url: Where the other nodes and clients reach it; `http://HOST:PORT` of its socket by default.
        capacity: How large its share of the sessions is, compared with that of others.
    """

    node: Annotated[str, msgspec.Meta(max_length=MAX_NODE_CHARS, pattern=NODE_NAME)] = ""
    url: Annotated[str, msgspec.Meta(max_length=MAX_URL_CHARS)] = ""
    capacity: Annotated[int, msgspec.Meta(ge=1, le=MAX_CAPACITY)] = 1


class TelemetrySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where traces, metrics and logs are sent, by OpenTelemetry's protocol over HTTP.

    Attributes:
        enabled: Whether they are made. It needs the packages of `callboard[otel]`.
        endpoint: The collector's base URL, below which `/v1/traces` and its kind are; without it
            `OTEL_EXPORTER_OTLP_ENDPOINT` and its kind say where.
        headers: Sent with each request. A secret is a reference: `Bearer ${key:otel}`, stored by
            `callboard keys set otel`, or `${env:NAME}`.
        sample: The share of traces that are kept; of a turn that stands in a trace of its sender's, the
            sender decides.
        content: Whether what was said goes along: prompts, answers, arguments and results. `none`, the
            default: ids, names, sizes and times alone.
        service_name: What the service is called.
        propagate: Hosts of model servers and web servers that are told the place in the trace, by the header
            `traceparent`: `api.example.com`. None by default: ids are a way out.
        signals: Which of `traces`, `metrics` and `logs` are sent; some collectors take only traces. `logs` are what
            was said in calls of models, and nothing without `content`.
    """

    enabled: bool = False
    endpoint: str | None = None
    headers: Texts = {}
    sample: Annotated[float, msgspec.Meta(ge=0, le=1)] = 1.0
    content: Literal["none", "full"] = "none"
    service_name: Annotated[str, msgspec.Meta(min_length=1, max_length=200)] = "callboard"
    propagate: tuple[str, ...] = ()
    signals: tuple[Literal["traces", "metrics", "logs"], ...] = ("traces", "metrics", "logs")

    def __post_init__(self) -> None:
        if self.endpoint is not None:
            msgspec.structs.force_setattr(self, "endpoint", checked_base_url(self.endpoint))
        msgspec.structs.force_setattr(self, "propagate", tuple(map(_told_host, self.propagate)))
        for name, value in self.headers.items():
            check_header(name, value, f"callboard keys set {OTEL_KEY}")
            for kind, key in REFERENCE.findall(value):
                if kind == "key" and key != OTEL_KEY:
                    raise ValueError(
                        f"headers: {name} names the key {key}: the one for a collector is "
                        f"${{key:{OTEL_KEY}}}, stored by `callboard keys set {OTEL_KEY}`"
                    )
                if kind == "key" and self.endpoint is None:
                    raise ValueError(
                        f"headers: {name} has a stored key, which is for one place: name the endpoint"
                    )
                if self.endpoint is not None and not may_carry_key(self.endpoint):
                    raise ValueError(
                        "endpoint: headers with secrets are sent by https, or to this machine alone"
                    )


def _told_host(host: str) -> str:
    name = host.lower().rstrip(".")
    if not _HOST.fullmatch(name):
        raise ValueError(
            f"propagate: {host!r} is not a host: write api.example.com, without a scheme, a port or a path"
        )
    return name
