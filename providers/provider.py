"""The interface between a model and the runtime."""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, Protocol, runtime_checkable
from urllib.parse import urlsplit

import msgspec

from ..runtime.definitions import ThinkingEffort, ToolDefinition
from ..runtime.history import Round
from ..runtime.redaction import Secret
from ..runtime.stream import AnyStreamEvent, StreamError

NO_NAMES: Mapping[str, str] = MappingProxyType({})
"""No tool of a request was renamed, the usual case."""


class ToolChoice(enum.StrEnum):
    """Whether a model may, must or must not call a tool."""

    AUTO = "auto"
    REQUIRED = "required"
    NONE = "none"


class ModelRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One call of a model, in no wire format.

    Attributes:
        model: The model's id at its provider.
        provider: The provider's name: what only a provider understands of an answer (signatures,
            opaque parts) goes back to the provider that gave it, in its own dialect.
        system: The system prompt; may be empty.
        rounds: The conversation; the last round has no answer yet, or ends with results.
        tools: The tools that it may call.
        max_output_tokens: Limit of the answer, `None` for the provider's default.
        temperature: The sampling temperature, `None` for the provider's default.
        top_p: The nucleus of the sampling, `None` for the provider's default.
        seed: Makes sampling repeatable, if the provider supports it.
        stop_sequences: Texts at which the answer ends.
        thinking: How much the model reasons before it answers, `None` for its default.
        tool_choice: Whether it may, must or must not call a tool.
        forced_tool: The one tool that it must call; wins over `tool_choice`.
        answer_schema: The JSON Schema that the text of the answer must match, or `None`.
    """

    model: str
    provider: str = ""
    rounds: Sequence[Round]
    system: str = ""
    tools: tuple[ToolDefinition, ...] = ()
    max_output_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    stop_sequences: tuple[str, ...] = ()
    thinking: ThinkingEffort | None = None
    tool_choice: ToolChoice = ToolChoice.AUTO
    forced_tool: str | None = None
    answer_schema: Mapping[str, Any] | None = None


class HttpRequest(msgspec.Struct, frozen=True):
    """A request to send: a POST if it has a body, else a GET.

    Attributes:
        path: The path after the endpoint's base URL, with its query.
        headers: All headers but those that carry the key.
        body: The JSON text; empty for a GET.
        tool_names: The tools that had to be renamed for this format: our name by the sent one.
    """

    path: str
    headers: Mapping[str, str]
    body: bytes = b""
    tool_names: Mapping[str, str] = NO_NAMES


class ListedModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model as its provider lists it.

    Attributes:
        model: Its id, as in `PROVIDER/MODEL`.
        title: Its name for people; may be empty.
        context_tokens: Size of its context window, if the provider says it.
        max_output_tokens: Longest answer, if the provider says it.
    """

    model: str
    title: str = ""
    context_tokens: int | None = None
    max_output_tokens: int | None = None


class ModelPage(msgspec.Struct, frozen=True):
    """A page of a provider's list of models; `next_page` is empty on the last.

    A llama.cpp or Ollama server is named by `local_server`: what context windows it gives stands elsewhere.
    """

    models: tuple[ListedModel, ...]
    next_page: str = ""
    local_server: Literal["", "llamacpp", "ollama"] = ""


class Decoder(Protocol):
    """Turns the bytes of one answer into stream events. One object per answer, no I/O.

    Attributes:
        is_whole: Whether `finish` would find a whole answer now; if so, the caller waits less long
            for the rest of the bytes.
        is_doubtful: Whether what `finish` would take for the end may come with every piece: then only
            bytes that end as they should end the answer, not a connection that breaks.
    """

    @property
    def is_whole(self) -> bool:
        """Whether the answer is whole, though more bytes may follow."""
        ...

    @property
    def is_doubtful(self) -> bool:
        """Whether the end that was seen may not be one."""
        ...

    def feed(self, data: bytes) -> list[AnyStreamEvent]:
        """Return the events that these bytes complete; none after a terminal event.

        Never raises: broken input becomes a `StreamError`.
        """
        ...

    def finish(self) -> list[AnyStreamEvent]:
        """Return what the end of the bytes means: an error, unless the answer has ended."""
        ...


class Dialect(Protocol):
    """One wire format: builds requests, reads answers, refusals and lists of models."""

    name: str

    def build(self, request: ModelRequest) -> HttpRequest:
        """Build the request in this format. Finished rounds are encoded once and kept."""
        ...

    def binds_answer(self, request: ModelRequest) -> bool:
        """Return whether the provider binds its text to the `answer_schema`, or is only asked to in words."""
        ...

    def auth_headers(self, key: str) -> dict[str, str]:
        """Return the headers that carry the key."""
        ...

    def decoder(self, tool_names: Mapping[str, str] = NO_NAMES) -> Decoder:
        """Return a new decoder for one answer; `tool_names` are those of the request."""
        ...

    def list_models(self, page: str = "") -> HttpRequest:
        """Return the GET for a page of the provider's list of models; `""` is the first page."""
        ...

    def read_models(self, body: bytes) -> ModelPage:
        """Return a page of the list, without models that can't hold a conversation.

        Raises:
            ProviderError: The body is not a model list.
        """
        ...

    def read_error(self, status: int, headers: Mapping[str, str], body: bytes) -> StreamError:
        """Return what an answer with an error status means; the text holds no secret."""
        ...


Emit = Callable[[list[AnyStreamEvent]], Awaitable[None]]


@runtime_checkable
class LocalModel(Protocol):
    """A model that runs in this process, such as the rehearsal model and scripted models."""

    async def run(self, request: ModelRequest, emit: Emit) -> None:
        """Emit the answer's events in batches, ending with a terminal event.

        `emit` may block while the consumer is slow. It is cancelled with the turn.
        """
        ...


class CallRecording(Protocol):
    """The recording of one model call; see `recording.Recording`."""

    def begin(self, status: int, headers: Mapping[str, str]) -> None:
        """Note the head of the answer."""
        ...

    def add(self, data: bytes) -> None:
        """Add a piece of the answer."""
        ...

    async def write(self) -> None:
        """Append the call to its file."""
        ...


class CallRecorder(Protocol):
    """Records model calls; see `recording.Recorder`."""

    def recording(
        self, session_id: str, endpoint: Endpoint, request: ModelRequest, post: HttpRequest
    ) -> CallRecording:
        """Return the recording of a call that begins now."""
        ...


LENT_SIGN = " #"
"""Stands between the name of a lent model and its number; no model's own name has it."""


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """A configured provider: its place, wire format and key.

    Attributes:
        name: The provider's name, as in `PROVIDER/MODEL`.
        dialect: Its wire format.
        base_url: Everything before the wire format's path, without a slash at its end.
        key: The secret; `None` for servers that want none.
        recorder: Records its answers, beside that of the runtime.
    """

    name: str
    dialect: Dialect
    base_url: str
    key: Secret | None = None
    recorder: CallRecorder | None = None

    @property
    def cuts_off(self) -> bool:
        """Whether it is an Ollama server, which cuts off what is longer than its window and does not say so.

        It is known by its usual name or port.
        """
        return self.name == "ollama" or ":11434" in self.base_url


class ModelTarget(msgspec.Struct, frozen=True, kw_only=True):
    """A model that a turn can call: at an endpoint, or in this process.

    Attributes:
        provider: The provider's name, as in `PROVIDER/MODEL`.
        model: The model's id there.
        endpoint: Where it is; `None` for a model in this process.
        local: The model in this process; `None` for an endpoint's.
    """

    provider: str
    model: str
    endpoint: Endpoint | None = None
    local: LocalModel | None = None

    @property
    def dialect(self) -> str:
        """The wire format whose signatures and opaque parts it understands."""
        return self.endpoint.dialect.name if self.endpoint is not None else self.provider

    @property
    def place(self) -> str:
        """`HOST:PORT` where the provider's name does not tell, as with `--base-url`."""
        is_named = self.endpoint is None or self.provider != "custom"
        return "" if is_named or self.endpoint is None else urlsplit(self.endpoint.base_url).netloc

    @property
    def signer(self) -> str:
        """Whose signatures it understands: the provider, with its place if it has one."""
        return f"{self.provider}@{self.place}" if self.place else self.provider

    @property
    def recorded_dialect(self) -> str:
        """The name of the wire format in an answer's record, with the place if it has one."""
        return f"{self.dialect}@{self.place}" if self.place else self.dialect
