"""A response and its events, as OpenAI's clients read them."""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType

from ..problems import ErrorBody as ErrorBody
from ..usage import ResponseUsage


class OutputText(msgspec.Struct):
    """Words of the answer."""

    text: str
    type: str = "output_text"
    annotations: list[str] = []
    logprobs: list[str] = []


class OutputRefusal(msgspec.Struct):
    """Words with which the model refused."""

    refusal: str
    type: str = "refusal"


class MessageItem(msgspec.Struct):
    """A message."""

    id: str
    content: list[OutputText | OutputRefusal]
    status: str = "in_progress"
    phase: str | UnsetType = UNSET
    role: str = "assistant"
    type: str = "message"


class SummaryText(msgspec.Struct):
    """What the model thought."""

    text: str
    type: str = "summary_text"


class ReasoningItem(msgspec.Struct):
    """Its reasoning."""

    id: str
    summary: list[SummaryText]
    status: str = "in_progress"
    type: str = "reasoning"


class FunctionCallItem(msgspec.Struct):
    """A call of a client's tool."""

    id: str
    call_id: str
    name: str
    arguments: str
    status: str = "in_progress"
    type: str = "function_call"


class CallErrorText(msgspec.Struct):
    """Words about a call that failed, as servers of MCP have them."""

    text: str
    type: str = "text"


class CallError(msgspec.Struct):
    """Why a call of an agent's tool failed."""

    content: list[CallErrorText]
    type: str = "mcp_tool_execution_error"


class McpCallItem(msgspec.Struct):
    """A call of an agent's tool, which has run here."""

    id: str
    name: str
    arguments: str
    status: str = "in_progress"
    output: str | None = None
    error: CallError | None = None
    server_label: str = "callboard"
    type: str = "mcp_call"


class ApprovalItem(msgspec.Struct):
    """A question about a call of an agent's tool."""

    id: str
    name: str
    arguments: str
    server_label: str = "callboard"
    type: str = "mcp_approval_request"


class InputContent(msgspec.Struct, omit_defaults=True):
    """A part of what was asked: words, an image or a file."""

    type: str
    text: str | None = None
    image_url: str | None = None
    detail: str | None = None
    filename: str | None = None
    file_data: str | None = None


class InputMessageItem(msgspec.Struct):
    """What a person said."""

    id: str
    content: list[InputContent]
    role: str = "user"
    status: str = "completed"
    type: str = "message"


class FunctionOutputItem(msgspec.Struct):
    """The result of a call of a client's tool."""

    id: str
    call_id: str
    output: str
    status: str = "completed"
    type: str = "function_call_output"


class ApprovalResponseItem(msgspec.Struct):
    """The answer to a question about a call."""

    id: str
    approval_request_id: str
    approve: bool
    reason: str | None = None
    type: str = "mcp_approval_response"


GivenItem = (
    InputMessageItem | MessageItem | FunctionCallItem | FunctionOutputItem | ApprovalResponseItem
)


class GivenItems(msgspec.Struct):
    """A page of what a response was asked."""

    data: list[GivenItem]
    first_id: str | None
    last_id: str | None
    has_more: bool
    object: str = "list"


class CompactionItem(msgspec.Struct):
    """What stands in the place of a conversation; only callboard reads its content again."""

    id: str
    encrypted_content: str
    type: str = "compaction"


class Compacted(msgspec.Struct):
    """That content: see `request.KeptTalk`, which reads it."""

    summary: str
    items: list[GivenItem]


class CompactedBody(msgspec.Struct):
    """A conversation that was summed up: what the next request has as its input."""

    id: str
    created_at: int
    output: list[CompactionItem]
    usage: ResponseUsage
    object: str = "response.compaction"


class TokenCountBody(msgspec.Struct):
    """How many tokens a model would read."""

    input_tokens: int
    object: str = "response.input_tokens"


class DeletedResponse(msgspec.Struct):
    """A response that is gone."""

    id: str
    object: str = "response"
    deleted: bool = True


OutputItem = MessageItem | ReasoningItem | FunctionCallItem | McpCallItem | ApprovalItem


class FunctionOfClient(msgspec.Struct):
    """A tool of the client, as its response names it."""

    name: str
    parameters: msgspec.Raw
    description: str
    strict: bool = False
    type: str = "function"


class IncompleteWhy(msgspec.Struct):
    """Why a response is incomplete."""

    reason: str


class ResponseError(msgspec.Struct):
    """Why a response failed."""

    code: str
    message: str


class ReasoningOptions(msgspec.Struct):
    """How much the model was asked to reason."""

    effort: str
    summary: str | None


class TextForm(msgspec.Struct, omit_defaults=True):
    """The form of an answer; a schema has a name, whatever its client called it."""

    type: str
    name: str = ""
    schema: msgspec.Raw | UnsetType = UNSET


class AnswerText(msgspec.Struct):
    """How the answer is written."""

    format: TextForm


class ChosenFunction(msgspec.Struct, tag_field="type", tag="function"):
    """The client's tool that the model had to call."""

    name: str


class AllowedFunctions(msgspec.Struct, tag_field="type", tag="allowed_tools"):
    """Those of the client's tools that the model may call, or must call one of."""

    mode: str
    tools: list[ChosenFunction]


class ResponseBody(msgspec.Struct, kw_only=True):
    """A response, with every field that Open Responses wants; what nothing was said of is as OpenAI has it then."""

    id: str
    created_at: int
    completed_at: int | None = None
    model: str
    status: str
    output: list[OutputItem]
    tools: list[FunctionOfClient]
    instructions: str | None
    metadata: dict[str, str]
    previous_response_id: str | None = None
    error: ResponseError | None = None
    incomplete_details: IncompleteWhy | None = None
    usage: ResponseUsage | None = None
    background: bool = False
    store: bool = True
    object: str = "response"
    parallel_tool_calls: bool = True
    tool_choice: str | ChosenFunction | AllowedFunctions = "auto"
    temperature: float = 1.0
    top_p: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    top_logprobs: int = 0
    max_output_tokens: int | None = None
    max_tool_calls: int | None = None
    reasoning: ReasoningOptions | None = None
    truncation: str = "auto"
    service_tier: str = "default"
    user: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    text: AnswerText


class ResponseEvent(msgspec.Struct, kw_only=True):
    """An event of a stream; which fields it has depends on its type."""

    type: str
    sequence_number: int
    response: ResponseBody | UnsetType = UNSET
    output_index: int | UnsetType = UNSET
    item_id: str | UnsetType = UNSET
    item: OutputItem | UnsetType = UNSET
    content_index: int | UnsetType = UNSET
    summary_index: int | UnsetType = UNSET
    part: OutputText | OutputRefusal | SummaryText | UnsetType = UNSET
    delta: str | UnsetType = UNSET
    text: str | UnsetType = UNSET
    refusal: str | UnsetType = UNSET
    arguments: str | UnsetType = UNSET
    logprobs: list[str] | UnsetType = UNSET
