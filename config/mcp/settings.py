"""`[mcp.NAME]`: a server of the Model Context Protocol, and the tools of it that a person has accepted.

What a server says of itself decides nothing: how dangerous its tools are is said here, and a definition
counts only as it was when it was accepted.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import msgspec

from ...runtime.definitions import Effect, Tier
from ...runtime.errors import ValidationError
from ...runtime.http.address_guard import Endpoint, parse_endpoint
from ...runtime.redaction import redact
from ...runtime.text import parse_host
from ..base_url import checked_base_url, may_carry_key

SERVER_NAME = re.compile(r"[a-z0-9](?:[a-z0-9_-]{0,30}[a-z0-9])?")
"""Stands before `__` in the names of its tools, and names a folder."""
PINS_NAME = "mcp-pins.json"
"""The file of accepted tools (see `pins`), beside managed.toml."""
MCP_KEYS = "mcp"
"""Name under which the secrets of servers are stored, each for its server."""
LOGIN = "login"
"""Name of the login among them, which belongs to the server's URL."""
MAX_SERVERS = 64
"""More than people use; each may be a process."""
MAX_WORDS = 100
"""Words of a command, headers, variables: more belong into a script."""
MAX_TEXT = 8192
"""Characters of one of them."""
MAX_NAMED = 1000
"""Tools whose tier or effect is said; a server has 128, and those that are gone may still be named."""

REFERENCE = re.compile(r"\$\{(key|env):([A-Za-z0-9_.-]{1,64})\}")
"""A value that stands elsewhere: a stored key, or an environment variable of callboard's own."""
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}")
_SECRET_NAME = re.compile(
    r"key|token|secret|passw|pwd|credential|auth|cookie|session|bearer|signature|dsn",
    re.IGNORECASE,
)
_OWN_HEADERS = frozenset(
    {"host", "content-length", "transfer-encoding", "connection", "content-type", "accept"}
)
"""Headers that the transport sets."""
_NEVER_SHOWN = frozenset({"", "/dev", "/proc", "/run", "/sys", "/tmp"})
"""What a program has of its own, or what is the machine's alone."""
_RESERVED = frozenset({"LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT"})

Text = Annotated[str, msgspec.Meta(max_length=MAX_TEXT)]
Words = Annotated[tuple[Text, ...], msgspec.Meta(max_length=MAX_WORDS)]
Texts = Annotated[dict[Text, Text], msgspec.Meta(max_length=MAX_WORDS)]
Tiers = Annotated[dict[Text, Tier], msgspec.Meta(max_length=MAX_NAMED)]
Effects = Annotated[dict[Text, Effect], msgspec.Meta(max_length=MAX_NAMED)]
ClientWord = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_TEXT)]
CallSeconds = Annotated[float, msgspec.Meta(ge=0.001, le=24 * 3600)]
StartSeconds = Annotated[float, msgspec.Meta(ge=0.001, le=600)]
CallCount = Annotated[int, msgspec.Meta(ge=1, le=256)]


class PinnedTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool of a server as a person has accepted it.

    Attributes:
        name: What models call it, as `github__search_issues`.
        original: What its server calls it.
        title, description, parameters, output, annotations: As its server defined it.
        accepted_at_ms: When it was accepted, in Unix milliseconds.
        accepted_by: Who accepted it.
    """

    name: str
    original: str
    title: str = ""
    description: str = ""
    parameters: dict[str, Any] = {}
    output: dict[str, Any] | None = None
    annotations: dict[str, Any] = {}
    accepted_at_ms: int = 0
    accepted_by: str = ""

    @property
    def definition(self) -> dict[str, Any]:
        """What its server says of it: all that a person looks at, and that may not change."""
        return {
            "name": self.original,
            "title": self.title,
            "description": self.description,
            "inputSchema": self.parameters,
            "outputSchema": self.output,
            "annotations": self.annotations,
        }

    @property
    def digest(self) -> str:
        """SHA-256 of the definition as canonical JSON."""
        return _digest(self.definition)

    @property
    def hinted(self) -> tuple[Tier, Effect] | None:
        """The tier and the effect that its server says it has; `None` when that is the most dangerous, or nothing."""
        hints = self.annotations
        if hints.get("readOnlyHint") is True:
            return Tier.READ_ONLY, Effect.READ
        if hints.get("destructiveHint") is False and hints.get("idempotentHint") is True:
            return Tier.SYSTEM, Effect.IDEMPOTENT
        return None


class PromptArgument(msgspec.Struct, frozen=True, kw_only=True):
    """What a prompt of a server wants to be given."""

    name: str
    description: str = ""
    required: bool = False


class ServerPrompt(msgspec.Struct, frozen=True, kw_only=True):
    """A prompt of a server: a text that it makes from arguments, for a person to send."""

    name: str
    title: str = ""
    description: str = ""
    arguments: tuple[PromptArgument, ...] = ()

    @property
    def digest(self) -> str:
        """SHA-256 of the definition as canonical JSON."""
        return _digest(self)


class ServerOffers(msgspec.Struct, frozen=True, kw_only=True):
    """What a server has besides tools.

    Attributes:
        resources: Whether it has any.
        prompts: Its prompts, in its order.
        instructions: How to use its tools, in its words.
    """

    resources: bool = False
    prompts: tuple[ServerPrompt, ...] = ()
    instructions: str = ""

    @property
    def digest(self) -> str:
        """SHA-256 of all of it as canonical JSON."""
        return _digest(self)


def _digest(definition: object) -> str:
    return hashlib.sha256(msgspec.json.encode(definition, order="sorted")).hexdigest()


class McpDraft(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A server as a client describes it; `settings` checks it.

    Attributes:
        name: Its name: the name of its table.
        command: The program that is the server, with its arguments; it runs in the sandbox.
        url: Where a server is reached over HTTP, in place of `command`.
        type: How that server speaks: `http`, or `sse` as in the revision of 2024-11-05.
        headers: What is sent to it with each request. Secrets are references: `Bearer ${key:NAME}`.
        client_id: The client that it knows callboard as, where it takes no new ones; for a login (OAuth).
        client_secret: The secret of that client, as a reference.
        env: Environment variables of the program, besides PATH, HOME, LANG and TMPDIR. Secrets are
            references: `${key:NAME}`, stored by `callboard mcp key`, or `${env:NAME}`.
        network: Hosts with their ports that the program may reach, like `api.example:443`.
        read_only: Files and folders that the program may read, besides the system's and those of the tools on
            PATH, as absolute paths.
        files: What the program sees of the workspace of the session that calls it, at its own path: `none`, `read` or
            `write`. Then each workspace has a program of its own.
        state: Whether the program keeps a home folder, in the data folder; by default its home is in
            memory, and gone when it ends.
        tier: How dangerous its tools are, whatever they say themselves. `elevated`: each of their calls
            asks a person.
        tiers: The same for single tools, by the names that the server uses.
        effects: What may be done with a call whose outcome is not known, by those names: `read` and
            `idempotent` calls are made again, others (`once`) never.
        annotations: Whether what it says of its tools counts (`readOnlyHint` and others): `trusted` has the tier and the
            effect of a tool that nothing is said of here follow from it.
        sampling: Whether it may ask for answers of the session's model; a person is asked each time.
        instructions: Whether models are told how to use its tools in its own words, as a person has accepted them.
        content: Whether what it answers may be a stranger's words. `untrusted`: it taints the session.
        timeout_seconds: How long one call may take.
        start_seconds: How long its start may take.
        max_calls: Calls that it gets at once; others wait.
        start: `lazy` starts it at its first call, `eager` with the runtime.
        enabled: Whether it is used.
    """

    name: Text
    command: Words = ()
    url: Text | None = None
    type: Literal["http", "sse"] = "http"
    headers: Texts = {}
    client_id: ClientWord | None = None
    client_secret: ClientWord | None = None
    env: Texts = {}
    network: Words = ()
    read_only: Words = ()
    files: Literal["none", "read", "write"] = "none"
    state: bool = False
    tier: Tier = Tier.ELEVATED
    tiers: Tiers = {}
    effects: Effects = {}
    annotations: Literal["untrusted", "trusted"] = "untrusted"
    instructions: bool = False
    sampling: bool = False
    content: Literal["untrusted", "trusted"] = "untrusted"
    timeout_seconds: CallSeconds = 60.0
    start_seconds: StartSeconds = 30.0
    max_calls: CallCount = 16
    start: Literal["lazy", "eager"] = "lazy"
    enabled: bool = True

    def settings(self) -> McpSettings:
        """Return the settings, in which nothing is accepted; raise `ValidationError`."""
        try:
            return McpSettings(**msgspec.structs.asdict(self))
        except ValueError as error:
            raise ValidationError(f"{self.name[:64]}: {error}.", field="server") from None


class McpSettings(McpDraft, frozen=True, kw_only=True):
    """A server of the Model Context Protocol, in the configuration.

    Attributes:
        tools: The tools that a person has accepted; they stand in a file of their own.
        offers: What it had besides them when they were accepted.
    """

    tools: tuple[PinnedTool, ...] = ()
    offers: ServerOffers = ServerOffers()

    def __post_init__(self) -> None:
        if SERVER_NAME.fullmatch(self.name) is None or "__" in self.name:
            raise ValueError(
                f"{self.name!r} can't be a server's name: it has at most 32 lower-case letters, digits, - "
                "and single _, and begins and ends with a letter or a digit"
            )
        if bool(self.command) == (self.url is not None):
            raise ValueError("say command or url: one of them, and not both")
        if self.url is None:
            self._check_command()
        else:
            self._check_url(self.url)

    def _check_command(self) -> None:
        if self.headers or self.type != "http":
            raise ValueError(
                "headers and type are for a url; a program gets none, env has its variables"
            )
        if not self.command[0].strip():
            raise ValueError("command: there is no program in it")
        for word in self.command:
            if "\0" in word or not word.isprintable():
                raise ValueError("command: a word in it has control characters")
            if redact(word) != word:
                raise ValueError(
                    "command: a word in it looks like a key, which would stand in the list of processes: "
                    'write env = { NAME = "${key:NAME}" }'
                )
        for path in self.read_only:
            if not path.startswith("/") or path.rstrip("/") in _NEVER_SHOWN or "\0" in path:
                raise ValueError(
                    f"read_only: {path[:200]!r} is not an absolute path, or holds more than a program may see"
                )
        for name, value in self.env.items():
            if _VARIABLE.fullmatch(name) is None or name.upper() in _RESERVED:
                raise ValueError(f"env: {name[:64]!r} can't be a variable's name here")
            _check_secret("env", name, value)
        if self.files != "none" and self.start == "eager":
            raise ValueError(
                'start: with files, the first call in a workspace starts the program; "eager" is for one that '
                "serves all of them"
            )
        try:
            _ = self.endpoints
        except ValueError as error:
            raise ValueError(f"network: {error}") from None

    def _check_url(self, url: str) -> None:
        if self.env or self.network or self.read_only or self.state or self.files != "none":
            raise ValueError(
                "env, network, read_only, files and state are for a command; a url has headers"
            )
        if problem := _url_problem(url):
            raise ValueError(f"url: {problem}")  # not repeated: it may hold a secret
        for name, value in self.headers.items():
            check_header(name, value)
        if not may_carry_key(url) and any(map(REFERENCE.search, self.headers.values())):
            raise ValueError(
                "url: headers with secrets are sent by https, or to this machine alone"
            )
        if self.client_secret is not None:
            if self.client_id is None:
                raise ValueError("client_secret: it goes with client_id")
            _check_secret("client_secret", "client_secret", self.client_secret)

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """The entries of `network`, parsed."""
        return tuple(map(parse_endpoint, self.network))

    @property
    def host(self) -> str | None:
        """The host of its URL."""
        return None if self.url is None else parse_host(urlsplit(self.url).netloc)[0]

    @property
    def source(self) -> str:
        """What the definitions of its tools name as their source."""
        return f"mcp {self.name}"

    @property
    def place(self) -> str:
        """Where it is, for people: its command, or the host of its URL."""
        return " ".join(self.command) if self.url is None else _shown(self.url)

    def tier_of(self, tool: PinnedTool) -> Tier:
        """The tier of one of its tools."""
        hinted = tool.hinted if self.annotations == "trusted" else None
        return self.tiers.get(tool.original, self.tier if hinted is None else hinted[0])

    def effect_of(self, tool: PinnedTool) -> Effect:
        """What may be done with a call of one of its tools whose outcome is not known."""
        hinted = tool.hinted if self.annotations == "trusted" else None
        return self.effects.get(tool.original, Effect.ONCE if hinted is None else hinted[1])


def key_place(server: str, key: str) -> str:
    """Return where a stored secret of a server belongs: no other server gets it."""
    return f"{server}/{key}"


def prefix_of(server: str) -> str:
    """Return what the names of a server's tools begin with."""
    return f"{server.replace('-', '_')}__"


def check_servers(servers: Mapping[str, McpSettings]) -> None:
    """Raise `ValueError` for servers that can't be used beside each other."""
    if len(servers) > MAX_SERVERS:
        raise ValueError(f"{len(servers)} servers are too many; {MAX_SERVERS} may be configured")
    seen: dict[str, str] = {}
    for name in servers:
        if (other := seen.setdefault(prefix_of(name), name)) != name:
            raise ValueError(f"{other} and {name} would name their tools alike; rename one of them")


def references(server: McpSettings) -> tuple[tuple[str, str], ...]:
    """Return the references that a server's values make, as pairs of `key` or `env` and a name."""
    client = (server.client_id or "", server.client_secret or "")
    values = [*server.env.values(), *server.headers.values(), *client]
    return tuple(dict.fromkeys(pair for value in values for pair in REFERENCE.findall(value)))


def resolved(values: Mapping[str, str], find: Callable[[str, str], str]) -> dict[str, str]:
    """Return values with what they refer to in place of the references; `find` raises for what is missing."""
    return {
        name: REFERENCE.sub(lambda match: find(match[1], match[2]), value)
        for name, value in values.items()
    }


def is_secret_name(name: str) -> bool:
    """Whether the value of a variable or header of this name is likely to be a secret."""
    return _SECRET_NAME.search(name) is not None


def check_header(name: str, value: str, store: str = "callboard mcp key") -> None:
    """Raise `ValueError` for a header that can't be set, or has a literal secret; `store` is the command for one."""
    if _HEADER.fullmatch(name) is None or name.lower() in _OWN_HEADERS:
        raise ValueError(f"headers: {name[:64]!r} can't be set here")
    _check_secret("headers", name, value, store)


def _check_secret(field: str, name: str, value: str, store: str = "callboard mcp key") -> None:
    """Raise `ValueError` for a literal secret, which is never repeated."""
    if len(value) > MAX_TEXT or "\0" in value or "\n" in value or "\r" in value:
        raise ValueError(f"{field}: the value of {name} is too long, or has a line break")
    rest = REFERENCE.sub("", value)
    if "${" in rest:
        raise ValueError(
            f"{field}: {name} has a reference that is none: write ${{key:NAME}} or ${{env:NAME}}"
        )
    if REFERENCE.search(value) is not None and redact(rest) == rest:
        return
    if (is_secret_name(name) and value.strip()) or redact(value) != value:
        raise ValueError(
            f"{field}: the value of {name} looks like a secret, which never stands in a configuration: "
            f"write ${{key:NAME}} in its place, and store it with `{store}`"
        )


def _url_problem(url: str) -> str:
    """Return what is wrong with a server's URL, or `""`; never the URL."""
    try:
        where = urlsplit(url)
        port = where.port
    except ValueError:
        return "it is not a URL"
    if len(url) > MAX_TEXT or not url.isascii() or not url.isprintable() or " " in url:
        return "it has spaces, control or non-ASCII characters, or is too long"
    if where.scheme not in {"https", "http"} or not where.hostname or port == 0:
        return "it is not a URL like https://mcp.example/mcp"
    if where.username is not None or where.fragment:
        return "it has a user's name or a fragment: leave them out, and use headers"
    try:
        checked_base_url(f"{where.scheme}://{where.netloc}")
    except ValueError as error:
        return str(error)
    return "it holds what looks like a key: use headers" if redact(url) != url else ""


def _shown(url: str) -> str:
    where = urlsplit(url)
    return f"{where.scheme}://{where.netloc}{where.path}"
