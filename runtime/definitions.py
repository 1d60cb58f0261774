"""What tools, calls and agents are, in types that every layer shares."""

from __future__ import annotations

import enum
import hashlib
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

import msgspec

from .budget import Budget
from .errors import ToolError, ValidationError
from .text import StoredInteger, check_hosts


class Resource(msgspec.Struct, frozen=True, order=True):
    """A key on which parallel calls must not overlap: a path in the tree of one workspace.

    Readers share; a writer is alone on the path, all that lies under it and all that it lies under.

    Attributes:
        path: Names with slashes in between, as in `a/b`; `""` is the root and overlaps everything.
        write: Whether the call changes what is there.

    Raises:
        ValidationError: `path` is not such a path.

    Example:
        def keys(arguments):
            return [callboard.Resource(arguments.path, write=False)]

        @callboard.tool(needs=["files.read"], resources=keys)
        def count_bytes(path: str, context: callboard.ToolContext) -> int:
            '''Counts the bytes of a file.'''
            return context.files_read.read(path, limit=1).info.size_bytes
    """

    path: str
    write: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.path, str) or not isinstance(self.write, bool):
            given = f"path={self.path!r}, write={self.write!r}"
            raise ValidationError(
                f"Resource({given}): path must be a text, and write true or false.", field="path"
            )
        if self.path and not _NO_NAMES.isdisjoint(self.path.split("/")):
            raise ValidationError(
                f"{self.path[:100]!r} can't be a key of parallel calls: write it like `a/b`, with no "
                "slash at either end, no empty name, no `.` and no `..`.",
                field="path",
            )


_NO_NAMES = frozenset({"", ".", ".."})
"""Forbidden between slashes: they would give one place two keys."""


class Verdict(enum.StrEnum):
    """What the policy says about a call, from lax to strict."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"

    @property
    def rank(self) -> int:
        """The position from 0 (lax): of two verdicts, the one with the higher rank wins."""
        return _STRICTNESS[self]


_STRICTNESS = {verdict: rank for rank, verdict in enumerate(Verdict)}


class Tier(enum.StrEnum):
    """How dangerous a tool is, from harmless to irreversible.

    Example:
        @callboard.tool(tier=callboard.Tier.READ_ONLY)
        def count_words(text: str) -> int:
            '''Counts the words of a text.'''
            return len(text.split())

        print(count_words.definition.tier.rank < callboard.Tier.SYSTEM.rank)
    """

    READ_ONLY = "read_only"
    WORKSPACE = "workspace"
    SYSTEM = "system"
    ELEVATED = "elevated"

    @property
    def rank(self) -> int:
        """The position from 0 (harmless), for comparing tiers."""
        return _TIER_ORDER.index(self)


_TIER_ORDER = tuple(Tier)
TierWord: TypeAlias = Literal["read_only", "workspace", "system", "elevated"]
"""A tier as a program may also write it."""


class Preset(enum.StrEnum):
    """A named level of the policy, how much runs without asking: see docs/permissions.md.

    Example:
        async with callboard.open_runtime(
            model="rehearsal", policy=callboard.Preset.STRICT, on_approval="deny"
        ) as runtime:
            session = await runtime.create_session()
            print(await session.run("Write 'buy milk' to list.txt."))
    """

    AUTO = "auto"
    BALANCED = "balanced"
    STRICT = "strict"


PresetWord: TypeAlias = Literal["auto", "balanced", "strict"]
"""A preset as a program may also write it."""


class ThinkingEffort(enum.StrEnum):
    """How much a model reasons before it answers."""

    OFF = "off"
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


ThinkingWord: TypeAlias = Literal["off", "low", "medium", "high"]
"""An effort as a program may also write it."""


class SessionKind(enum.StrEnum):
    """What a session is in the session tree."""

    MAIN = "main"
    BRANCH = "branch"
    WORKER = "worker"


class InputSource(enum.StrEnum):
    """Where an input comes from."""

    PERSON = "person"
    """A person, or the program that embeds the runtime."""
    DEFERRED = "deferred"
    """A call that waited for its approval has its result."""
    DELEGATE = "delegate"
    """A delegated session that no call waited for has its answer."""


class InputMode(enum.StrEnum):
    """What an input does while a turn runs; if none runs, it begins one."""

    QUEUE = "queue"
    """It waits for its own turn, after the inputs that wait already."""
    STEER = "steer"
    """The running turn gets it before its next model call; if there is none, it waits in the queue."""
    INTERRUPT = "interrupt"
    """The running turn is cancelled, and its own turn is next, ahead of the queue."""


class Effect(enum.StrEnum):
    """Whether a call may run again when a crash left its outcome unknown."""

    READ = "read"
    """It changes nothing: it may run again, and needs no `CallStarted` before it runs."""
    IDEMPOTENT = "idempotent"
    """It may run again under the same key."""
    ONCE = "once"
    """It never runs again by itself."""


EffectWord: TypeAlias = Literal["read", "idempotent", "once"]
"""An effect as a program may also write it."""


class Capability(enum.StrEnum):
    """A handle that a tool needs to act."""

    FILES_READ = "files.read"
    FILES_WRITE = "files.write"
    PROCESSES = "processes"
    NETWORK = "network"
    MEMORY_READ = "memory.read"
    MEMORY_WRITE = "memory.write"
    CHANNEL = "channel"
    SESSIONS = "sessions"


CapabilityWord: TypeAlias = Literal[
    "files.read",
    "files.write",
    "processes",
    "network",
    "memory.read",
    "memory.write",
    "channel",
    "sessions",
]
"""A capability as a program may also write it."""


class CallStatus(enum.StrEnum):
    """The state of a call, in all layers."""

    PENDING = "pending"
    WAITING = "waiting"
    DEFERRED = "deferred"
    RUNNING = "running"
    SUCCESS = "success"
    ERROR = "error"
    TIMEOUT = "timeout"
    DENIED = "denied"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"

    @property
    def is_final(self) -> bool:
        """Whether a call in this state has its result."""
        return self not in _OPEN_STATES


_OPEN_STATES = frozenset(
    {CallStatus.PENDING, CallStatus.WAITING, CallStatus.DEFERRED, CallStatus.RUNNING}
)


class ErrorType(enum.StrEnum):
    """Why a call failed, for the model; `retry` says what the model may do about it.

    Example:
        for error_type in callboard.ErrorType:
            print(error_type, error_type.retry)
    """

    TOOL_NOT_FOUND = "tool_not_found"
    TOOL_NOT_AVAILABLE = "tool_not_available"
    VALIDATION_ERROR = "validation_error"
    PERMISSION_DENIED = "permission_denied"
    ACCESS_DENIED = "access_denied"
    NOT_EMPTY = "not_empty"
    STORAGE_FULL = "storage_full"
    APPROVAL_EXPIRED = "approval_expired"
    PATH_NOT_ALLOWED = "path_not_allowed"
    FILE_NOT_FOUND = "file_not_found"
    NOT_A_FILE = "not_a_file"
    NOT_A_DIRECTORY = "not_a_directory"
    ALREADY_EXISTS = "already_exists"
    FILE_TOO_LARGE = "file_too_large"
    BINARY_FILE = "binary_file"
    EDIT_CONFLICT = "edit_conflict"
    NETWORK_ERROR = "network_error"
    URL_NOT_ALLOWED = "url_not_allowed"
    SANDBOX_UNAVAILABLE = "sandbox_unavailable"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"
    EXECUTION_ERROR = "execution_error"

    @property
    def retry(self) -> str:
        """`no`, `other_tool`, `arguments`, `later`, `backoff` or `after_check`."""
        return _RETRY.get(self, "no")


ErrorTypeWord: TypeAlias = Literal[
    "tool_not_found",
    "tool_not_available",
    "validation_error",
    "permission_denied",
    "access_denied",
    "not_empty",
    "storage_full",
    "approval_expired",
    "path_not_allowed",
    "file_not_found",
    "not_a_file",
    "not_a_directory",
    "already_exists",
    "file_too_large",
    "binary_file",
    "edit_conflict",
    "network_error",
    "url_not_allowed",
    "sandbox_unavailable",
    "timeout",
    "cancelled",
    "interrupted",
    "execution_error",
]
"""A type of error as a program may also write it."""

_RETRY = {
    ErrorType.TOOL_NOT_FOUND: "other_tool",
    ErrorType.VALIDATION_ERROR: "arguments",
    ErrorType.APPROVAL_EXPIRED: "later",
    ErrorType.FILE_NOT_FOUND: "arguments",
    ErrorType.NOT_A_FILE: "arguments",
    ErrorType.NOT_A_DIRECTORY: "arguments",
    ErrorType.ALREADY_EXISTS: "arguments",
    ErrorType.FILE_TOO_LARGE: "arguments",
    ErrorType.BINARY_FILE: "arguments",
    ErrorType.EDIT_CONFLICT: "arguments",
    ErrorType.NETWORK_ERROR: "later",
    ErrorType.TIMEOUT: "backoff",
    ErrorType.INTERRUPTED: "after_check",
}


class ToolFailure(ToolError):
    """A tool's own, expected failure: raise it inside a tool to give the model a typed error.

    Args:
        error_type: The kind of failure, as an `ErrorType` or its value.
        message: What happened, to what, and what to do.
        details: More for the model, as JSON values (`field`, `tier`, `reason`, …).

    Raises:
        ValidationError: There is no such error type.

    Example:
        @callboard.tool
        def stock_of(article: str) -> int:
            '''Says how many of an article there are.'''
            stock = {"apples": 12}
            if article not in stock:
                message = f"There is no article {article!r}; there are: {', '.join(stock)}."
                raise callboard.ToolFailure(callboard.ErrorType.VALIDATION_ERROR, message)
            return stock[article]
    """

    def __init__(self, error_type: ErrorType | ErrorTypeWord, message: str, **details: Any) -> None:
        super().__init__(message)
        try:
            self.error_type = ErrorType(error_type)
        except ValueError:
            raise ValidationError(
                f"{error_type!r} is not an error type of a ToolFailure (its message: {message}). "
                f"The error types are: {', '.join(ErrorType)}.",
                field="error_type",
            ) from None
        self.details = details


class ToolDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """Everything about a tool but its code.

    Attributes:
        name: Unique, as its source writes it, at most 128 characters; our own are snake_case. A name that
            a provider refuses is sent to it under another.
        description: One sentence, for the model and for people.
        parameters: A JSON Schema of type object.
        output: A JSON Schema of the result's `output`, `true` and `false` among them, or `None`.
        tier: The least tier of any call; a call's arguments may raise it.
        needs: The capabilities without which it can't act.
        timeout_seconds: How long one call may run; waiting for approval does not count.
        approval: `never`, `always`, or `dynamic`: a function of the arguments decides.
        effect: Whether a call may run again after a crash.
        source: The plugin that it comes from, with its version; empty for other tools.
    """

    max_name_length: ClassVar[int] = 128

    name: str
    description: str
    parameters: dict[str, Any]
    output: dict[str, Any] | bool | None = None
    tier: Tier = Tier.SYSTEM
    needs: tuple[Capability, ...] = ()
    timeout_seconds: float = 30.0
    approval: str = "never"
    effect: Effect = Effect.ONCE
    source: str = ""

    @property
    def digest(self) -> str:
        """The content hash to which approvals and grants bind."""
        return hashlib.sha256(msgspec.json.encode(self, order="deterministic")).hexdigest()


class Artifact(msgspec.Struct, frozen=True, kw_only=True):
    """Something that a call produced beside its output.

    Attributes:
        kind: `file`, `directory`, `link`, `output` (the whole of a result that was cut), `attachment` (a file
            in a result), `memory`, `commit`, `session`, or `process` and `process_ended` (a background process that the call started, or
            whose end it reports).
        id: A path relative to the workspace, or the artifact's id.
        size_bytes: Its size.
    """

    kind: str
    id: str
    size_bytes: StoredInteger


class Attachment(msgspec.Struct, frozen=True):
    """An image or a file beside an input, or in the result of a tool.

    Models get text files everywhere, and images and PDF files if their provider accepts them; of others
    they only get the name.

    Attributes:
        media_type: Like `image/png`, `application/pdf` or `text/plain`.
        data: The bytes.
        name: The file's name, for the model and for people; may be empty.

    Example:
        notes = callboard.Attachment("text/plain", b"Milk, bread.", name="list.txt")
        print(await session.run("What is on the list?", attachments=[notes]))
    """

    media_type: str
    data: bytes
    name: str = ""


class Image(msgspec.Struct, frozen=True):
    """An image that a tool returns, alone or in a list with texts, for a model that sees.

    Attributes:
        data: The bytes of a PNG, JPEG, GIF or WebP file.
        name: The file's name, for the model and for people; may be empty.

    Example:
        import base64

        DOT = (
            "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=="
        )

        @callboard.tool
        def draw() -> list:
            '''Draws a dot.'''
            return ["It is small.", callboard.Image(base64.b64decode(DOT), "dot.png")]
    """

    data: bytes
    name: str = ""


class ToolResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a tool.

    Attributes:
        output: A JSON value, for the model.
        display: One line, for people; may be empty.
        artifacts: What the call produced beside its output.
        both_ends: Text fields of `output` that are shortened in their middle if the output is too
            large for the model. Without any, the output is cut at its end.
        attachments: Images and files that the model sees beside the output, if it can.

    Example:
        @callboard.tool
        def weigh(article: str) -> callboard.ToolResult:
            '''Weighs an article.'''
            return callboard.ToolResult(output={"grams": 120}, display=f"{article}: 120 g")
    """

    output: Any = None
    display: str = ""
    artifacts: tuple[Artifact, ...] = ()
    both_ends: tuple[str, ...] = ()
    attachments: tuple[Attachment, ...] = ()


MAX_OUTPUT_TOKENS = 10_000_000
"""More than any model writes at once; catches a typing error."""
MAX_TEMPERATURE = 2.0
"""The highest that any provider accepts; some refuse more than 1."""
MAX_FALLBACKS = 16
"""Each fallback is looked up before a turn begins, and more never fail at once."""
MAX_MODEL_CHARS = 512
"""The longest `PROVIDER/MODEL`: some servers name a model by the path of its file."""

ModelName = Annotated[str, msgspec.Meta(max_length=MAX_MODEL_CHARS)]
Fallbacks = Annotated[tuple[ModelName, ...], msgspec.Meta(max_length=MAX_FALLBACKS)]

MAX_DESCRIPTION_CHARS = 1000
"""What an agent is for, in a list of agents."""
MAX_AGENT_SKILLS = 100
"""As many skills as are read in one place."""

GENERAL_AGENT = "general"
"""The agent that is always there, called General Assistant: sessions whose agent is gone go on with it."""

GENERAL_DESCRIPTION = "General Assistant: answers, and acts with every tool there is."

GENERAL_PROMPT = (
    "You are a careful assistant that acts through tools. Ask for several tools at once when the "
    "calls do not depend on each other. Say plainly what you did and what failed."
)


class Agent(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A named configuration of a session.

    Attributes:
        name: Unique; `general`, the General Assistant, is built in.
        description: What it is for, for people.
        prompt: The system prompt.
        tools: Names of the tools it may use; `None` is all.
        model: Its preferred `PROVIDER/MODEL`, or `None` for the default.
        policy: The preset: how much runs without asking.
        auto_hosts: Hosts that its web_fetch and http_request may read from without a question, beside
            those of `[network] auto`.
        max_output_tokens: The limit of one model call, or `None` for the provider's own.
        temperature: The sampling temperature, or `None` for the provider's own.
        thinking: How much the model reasons before it answers, or `None` for the model's default.
        fallbacks: `PROVIDER/MODEL`s to use, in this order, when the ones before them fail.
        defer: Whether turns continue while a person is asked; the model gets the answer later.
        turn_budget: The most that each turn may use.
        session_budget: The most that a whole session may use.
        skills: Names of the skills that it is told of; `None` is all.
        created_at_ms, updated_at_ms: When a program or a command made and last changed it, in Unix
            milliseconds; `None` for an agent of callboard.toml or of the program itself.

    Example:
        reader = callboard.Agent(
            name="reader", prompt="You read files.", tools=("list_directory", "read_file")
        )
        async with callboard.open_runtime(model="rehearsal", agents=[reader]) as runtime:
            session = await runtime.create_session(agent="reader")
            print(await session.run("List the files here."))
    """

    name: str = GENERAL_AGENT
    description: Annotated[str, msgspec.Meta(max_length=MAX_DESCRIPTION_CHARS)] = ""
    prompt: str = GENERAL_PROMPT
    tools: tuple[str, ...] | None = None
    model: str | None = None
    policy: Preset = Preset.BALANCED
    auto_hosts: tuple[str, ...] = ()
    max_output_tokens: Annotated[int, msgspec.Meta(ge=1, le=MAX_OUTPUT_TOKENS)] | None = None
    temperature: Annotated[float, msgspec.Meta(ge=0, le=MAX_TEMPERATURE)] | None = None
    thinking: ThinkingEffort | None = None
    fallbacks: Fallbacks = ()
    defer: bool = False
    turn_budget: Budget | None = None
    session_budget: Budget | None = None
    skills: Annotated[tuple[str, ...], msgspec.Meta(max_length=MAX_AGENT_SKILLS)] | None = None
    created_at_ms: int | None = None
    updated_at_ms: int | None = None

    def __post_init__(self) -> None:
        # A plain text is equal to its preset but not identical, and rules compare by identity.
        msgspec.structs.force_setattr(self, "policy", Preset(self.policy))
        if self.auto_hosts:
            check_hosts(self.auto_hosts, "auto_hosts")
        if isinstance(self.fallbacks, str):
            raise ValueError(f"fallbacks: {self.fallbacks!r} is one text; write a list")
        if len(self.fallbacks) > MAX_FALLBACKS:
            raise ValueError(
                f"fallbacks: {len(self.fallbacks)} are too many; at most {MAX_FALLBACKS} are allowed"
            )
        for choice in self.fallbacks:
            provider, _, model = choice.partition("/")
            if not provider or not model:
                example = "as in openai/gpt-5-mini"
                raise ValueError(f"fallbacks: {choice!r} is not PROVIDER/MODEL, {example}")


class Binding(msgspec.Struct, frozen=True, kw_only=True):
    """Which calls of a tool a grant covers. A call may have only arguments that are bound here.

    Attributes:
        arguments: Canonical JSON of the arguments that must be equal.
        paths: Patterns of paths in the workspace, by argument.
        hosts: Hosts of URLs, by argument.
        free: Arguments with any value.
        programs: A digest of what a call that runs programs would run; empty for other calls.
    """

    arguments: str
    paths: dict[str, str] = {}
    hosts: dict[str, str] = {}
    free: tuple[str, ...] = ()
    programs: str = ""
