"""The interface between a model and the runtime."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol, runtime_checkable

import msgspec

from ..runtime.definitions import ToolDefinition
from ..runtime.history import Round
from ..runtime.secrets import Secret
from ..runtime.stream import AnyStreamEvent, StreamError


class ModelRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One call of a model, in nobody's wire format.

    Attributes:
        model: The model's id at its provider.
        system: The system prompt; may be empty.
        rounds: The conversation; the last round has no answer yet, or ends with results.
        tools: What it may ask for.
        max_output_tokens: The limit of this call, or `None` for the provider's own.
        temperature: The sampling temperature, or `None` for the provider's own.
    """

    model: str
    rounds: Sequence[Round]
    system: str = ""
    tools: tuple[ToolDefinition, ...] = ()
    max_output_tokens: int | None = None
    temperature: float | None = None


class HttpRequest(msgspec.Struct, frozen=True):
    """A POST that a builder wants made. `headers` hold no key: the model stream adds it."""

    path: str
    headers: Mapping[str, str]
    body: bytes


class Decoder(Protocol):
    """Turns the bytes of one answer into stream events; one object per answer, no I/O."""

    def feed(self, data: bytes) -> list[AnyStreamEvent]:
        """What these bytes complete. After a terminal event it returns nothing more.

        Never raises: broken input becomes a `StreamError`.
        """
        ...

    def finish(self) -> list[AnyStreamEvent]:
        """What the end of the bytes means: nothing behind a terminal event, else an error."""
        ...


class Dialect(Protocol):
    """One wire format: how to ask, how to read the answer, how to read a refusal."""

    name: str

    def build(self, request: ModelRequest) -> HttpRequest:
        """The request in this format; finished rounds are encoded once and kept."""
        ...

    def auth_headers(self, key: str) -> dict[str, str]:
        """The headers that carry the key."""
        ...

    def decoder(self) -> Decoder:
        """A new decoder for one answer."""
        ...

    def read_error(self, status: int, headers: Mapping[str, str], body: bytes) -> StreamError:
        """What an answer with an error status means; the text holds no secret."""
        ...


Emit = Callable[[list[AnyStreamEvent]], Awaitable[None]]


@runtime_checkable
class LocalModel(Protocol):
    """A model that runs in this process: the rehearsal model, scripted models."""

    async def run(self, request: ModelRequest, emit: Emit) -> None:
        """Emits the answer's events in batches, ending with a terminal event.

        `emit` may block while the consumer is slow. Cancelled when the turn is.
        """
        ...


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """A provider as configured: where it is, what it speaks, with which key.

    Attributes:
        name: The provider's name, as in `PROVIDER/MODEL`.
        dialect: Its wire format.
        base_url: Everything before the wire format's path, without a slash at its end.
        key: The secret; `None` for servers that want none.
    """

    name: str
    dialect: Dialect
    base_url: str
    key: Secret | None = None


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
