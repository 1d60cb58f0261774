"""What Open Responses (2026-04-24) wants of every response and event of a stream: names and types, read strictly."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

Number = int | float


class OutputText(msgspec.Struct, tag_field="type", tag="output_text"):
    text: str
    annotations: list[Any]
    logprobs: list[Any]


class Refusal(msgspec.Struct, tag_field="type", tag="refusal"):
    refusal: str


class SummaryText(msgspec.Struct, tag_field="type", tag="summary_text"):
    text: str


Status = Literal["in_progress", "completed", "incomplete"]
Part = OutputText | Refusal | SummaryText


class Message(msgspec.Struct, tag_field="type", tag="message"):
    id: str
    status: Status
    role: Literal["assistant"]
    content: list[OutputText | Refusal]
    phase: Literal["commentary", "final_answer"] | msgspec.UnsetType = msgspec.UNSET


class FunctionCall(msgspec.Struct, tag_field="type", tag="function_call"):
    id: str
    call_id: str
    name: str
    arguments: str
    status: Status


class Reasoning(msgspec.Struct, tag_field="type", tag="reasoning"):
    id: str
    summary: list[SummaryText]


Item = Message | FunctionCall | Reasoning
"""A strict client knows no others."""


class FunctionTool(msgspec.Struct, tag_field="type", tag="function"):
    name: str
    description: str | None
    parameters: dict[str, Any] | None
    strict: bool | None


class InputDetails(msgspec.Struct):
    cached_tokens: int


class OutputDetails(msgspec.Struct):
    reasoning_tokens: int


class Usage(msgspec.Struct):
    input_tokens: int
    input_tokens_details: InputDetails
    output_tokens: int
    output_tokens_details: OutputDetails
    total_tokens: int


class Error(msgspec.Struct):
    code: str
    message: str


class Why(msgspec.Struct):
    reason: str


class Format(msgspec.Struct):
    type: Literal["text", "json_object", "json_schema"]
    schema: dict[str, Any] | None = None


class TextField(msgspec.Struct):
    format: Format


class ChosenFunction(msgspec.Struct, tag_field="type", tag="function"):
    name: str


class AllowedFunctions(msgspec.Struct, tag_field="type", tag="allowed_tools"):
    mode: Literal["none", "auto", "required"]
    tools: list[ChosenFunction]


class Response(msgspec.Struct, tag_field="object", tag="response"):
    """All of these are there; which may be null is told by their types."""

    id: str
    created_at: int
    completed_at: int | None
    status: Literal["queued", "in_progress", "completed", "incomplete", "failed", "cancelled"]
    incomplete_details: Why | None
    model: str
    previous_response_id: str | None
    instructions: str | None
    output: list[Item]
    error: Error | None
    tools: list[FunctionTool]
    tool_choice: Literal["auto", "none", "required"] | ChosenFunction | AllowedFunctions
    truncation: Literal["auto", "disabled"]
    parallel_tool_calls: bool
    text: TextField
    top_p: Number
    presence_penalty: Number
    frequency_penalty: Number
    top_logprobs: int
    temperature: Number
    reasoning: dict[str, Any] | None
    user: str | None
    usage: Usage | None
    max_output_tokens: int | None
    max_tool_calls: int | None
    store: bool
    background: bool
    service_tier: str
    metadata: dict[str, str]
    safety_identifier: str | None
    prompt_cache_key: str | None


class _OfResponse(msgspec.Struct, tag_field="type", kw_only=True):
    sequence_number: int


class Created(_OfResponse, tag="response.created"):
    response: Response


class InProgress(_OfResponse, tag="response.in_progress"):
    response: Response


class Completed(_OfResponse, tag="response.completed"):
    response: Response


class _OfOutput(_OfResponse):
    output_index: Annotated[int, msgspec.Meta(ge=0)]


class ItemAdded(_OfOutput, tag="response.output_item.added"):
    item: Item


class ItemDone(_OfOutput, tag="response.output_item.done"):
    item: Item


class _OfItem(_OfOutput):
    item_id: str


class PartAdded(_OfItem, tag="response.content_part.added"):
    content_index: int
    part: Part


class PartDone(_OfItem, tag="response.content_part.done"):
    content_index: int
    part: Part


class TextDelta(_OfItem, tag="response.output_text.delta"):
    content_index: int
    delta: str
    logprobs: list[Any]


class TextDone(_OfItem, tag="response.output_text.done"):
    content_index: int
    text: str
    logprobs: list[Any]


class ArgumentsDelta(_OfItem, tag="response.function_call_arguments.delta"):
    delta: str


class ArgumentsDone(_OfItem, tag="response.function_call_arguments.done"):
    arguments: str


Event = (
    Created | InProgress | Completed | ItemAdded | ItemDone | PartAdded | PartDone | TextDelta | TextDone
    | ArgumentsDelta | ArgumentsDone
)  # fmt: skip


def events_of(stream: str) -> list[Event]:
    """The events of a stream, in chunks or not, each named as its type and numbered upwards."""
    lines = [each for each in stream.splitlines() if each.startswith(("event: ", "data: "))]
    events: list[Event] = []
    for name, data in zip(lines[::2], lines[1::2], strict=True):
        event: Event = msgspec.json.decode(data.removeprefix("data: "), type=Event)
        assert name == f"event: {event.__struct_config__.tag}"
        events.append(event)
    numbers = [each.sequence_number for each in events]
    assert numbers == sorted(set(numbers))
    return events
