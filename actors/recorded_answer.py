"""An answer on record, as the model said it: in the events that its stream had."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from ..providers.dialects import dialect_named
from ..providers.provider import Endpoint, ModelTarget
from ..runtime.errors import NotFoundError
from ..runtime.events import MessageCompleted
from ..runtime.history import Call, Opaque, Part, Refusal, Text, Thinking
from ..runtime.stream import (
    AnyStreamEvent,
    Done,
    OpaquePart,
    RefusalDelta,
    StopReason,
    TextDelta,
    ThinkingDelta,
    ThinkingEnd,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)


def target_of(provider: str, model: str, dialect: str) -> ModelTarget:
    """The model that an answer is recorded of; it is nowhere, and can't be asked."""
    name, _, place = dialect.partition("@")
    try:
        spoken = dialect_named(name)
    except NotFoundError:  # a model in the process
        return ModelTarget(provider=provider, model=model)
    endpoint = Endpoint(name=provider, dialect=spoken, base_url=f"http://{place}")
    return ModelTarget(provider=provider, model=model, endpoint=endpoint)


def whole_answer(said: MessageCompleted) -> list[AnyStreamEvent]:
    """All that the model said, with its end."""
    usage = [said.usage] if said.usage is not None else []
    return [*pieces(said), *usage, Done(_stop(said.stop_reason))]


def pieces(said: MessageCompleted) -> list[AnyStreamEvent]:
    """What the model said, without an end."""
    return [each for index, part in enumerate(said.parts) for each in _said(index, part)]


def _said(index: int, part: Part) -> Iterator[AnyStreamEvent]:
    match part:
        case Text(text):
            yield TextDelta(text)
        case Refusal(text):
            yield RefusalDelta(text)
        case Thinking(text, signature):
            if text:
                yield ThinkingDelta(text)
            if signature is not None:
                yield ThinkingEnd(signature)
        case Opaque(dialect, kind, data):
            yield OpaquePart(dialect, kind, data)
        case Call(call_id, name, arguments):
            yield ToolCallStart(index, call_id, name)
            yield ToolCallDelta(index, arguments)
            yield ToolCallEnd(index)
        case _:
            assert_never(part)


def _stop(reason: str) -> StopReason:
    try:
        return StopReason(reason)
    except ValueError:  # a later callboard's
        return StopReason.END
