"""OpenAI's Responses format: the request builder and the dialect.

Also spoken by xAI, OpenRouter, DeepSeek, LM Studio, vLLM and Azure. Nothing is kept at the provider
(`store: false`): each request holds the whole conversation, and reasoning models are asked for
their reasoning in encrypted form, to get it back in the next request.

The format has no seed and no stop sequences; they are left out, as is whatever the model would
refuse (`openai.families`). An id that names its vendor, as at gateways, is known by what follows.

Tools go out with their schemas as they are, and `strict` only when the schema is in strict form
already: the mode forbids optional arguments. The field is always sent, since the API's default is strict.
The schema of an answer is strict where `strict_schema` can say it so.

Prompts are cached by the provider itself, from the longest beginning that it knows: tools, system
prompt and finished rounds are the same bytes in every request. Calls may be parallel, which is the
API's own choice, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from ...runtime.definitions import ThinkingEffort, ToolDefinition
from ..openai.dialect import OpenAiDialect, answer_schema
from ..openai.families import OpenAiFamily, openai_family
from ..openai.strict_schema import strict_schema
from ..provider import NO_NAMES, HttpRequest, ModelRequest, ToolChoice
from ..tool_names import sent_name
from ..tool_sets import ToolSet, ToolSets
from .decoder import OpenAiResponsesDecoder
from .history import ResponsesHistory
from .wire import NAME

PATH = "/responses"

MIN_OUTPUT_TOKENS = 16
"""OpenAI: "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16"."""

_HEADERS = {"content-type": "application/json", "accept": "text/event-stream"}
_GPT_WITHOUT_EFFORT = ("gpt-3", "gpt-4", "chatgpt-")
_GROK_WITHOUT_EFFORT = "grok-4"
"""xAI: it reasons, sends that encrypted, and refuses an effort."""

_encode = msgspec.json.Encoder().encode


class OpenAiResponses(OpenAiDialect):
    """Responses as a `Dialect`."""

    name = NAME

    def __init__(self) -> None:
        self._tools = ToolSets(_encode_tools)

    def build(self, request: ModelRequest) -> HttpRequest:
        """Build the request. A round is encoded when first seen, then joined as bytes."""
        names = NO_NAMES
        head = [b'{"model":', _encode(request.model), b',"stream":true,"store":false']
        if request.tools:
            tools, names = self._tools.encoded(request.tools)
            head += [b',"tools":', tools]
        for key, value in _options(request):
            head += [b',"%b":' % key.encode(), _encode(value)]
        items = ResponsesHistory(request.provider, request.model).encode(request.rounds)
        body = b"".join((*head, b',"input":[', b",".join(items), b"]}"))
        return HttpRequest(PATH, _HEADERS, body, names)

    def binds_answer(self, request: ModelRequest) -> bool:
        """Return `True`: all models take schemas."""
        return True

    def decoder(self, tool_names: Mapping[str, str] = NO_NAMES) -> OpenAiResponsesDecoder:
        """Return a new decoder for one answer."""
        return OpenAiResponsesDecoder(tool_names)


def _encode_tools(tools: ToolSet) -> bytes:
    return _encode([_tool(definition) for definition in tools])


def _tool(definition: ToolDefinition) -> dict[str, Any]:
    parameters = definition.parameters
    return {
        "type": "function",
        "name": sent_name(definition.name),
        "description": definition.description,
        "parameters": parameters,
        "strict": strict_schema(parameters) == parameters,
    }


def _options(request: ModelRequest) -> Iterator[tuple[str, Any]]:
    """Yield the fields between the tools and the conversation."""
    name = request.model.rpartition("/")[2]
    family = openai_family(name)
    reasoning = _reasoning(request.thinking, family, name)
    if request.system:
        yield "instructions", request.system
    if request.max_output_tokens is not None:
        yield "max_output_tokens", max(request.max_output_tokens, MIN_OUTPUT_TOKENS)
    if family.takes_sampling(reasoning.get("effort")):
        if request.temperature is not None:
            yield "temperature", request.temperature
        if request.top_p is not None:
            yield "top_p", request.top_p
    if reasoning:
        yield "reasoning", reasoning
    if family.is_reasoning or name.startswith(_GROK_WITHOUT_EFFORT):
        # "Encrypted content is not supported with this model", say the others.
        yield "include", ["reasoning.encrypted_content"]
    yield from _choice_of_tool(request)
    if request.answer_schema is not None:
        yield "text", {"format": {"type": "json_schema", **answer_schema(request.answer_schema)}}


def _reasoning(thinking: ThinkingEffort | None, family: OpenAiFamily, name: str) -> dict[str, str]:
    """Return how much to reason, and whether to summarize: only if an effort is asked for.

    OpenAI gives summaries to verified organisations alone and fails the requests of others.
    """
    if thinking is None:
        return {}
    reasoning = {}
    effort = family.effort(thinking)
    if family.is_reasoning:
        if effort is not None:
            reasoning["effort"] = effort
        if thinking is not ThinkingEffort.OFF:
            reasoning["summary"] = "auto"
    elif thinking is not ThinkingEffort.OFF and _takes_effort(name):
        reasoning["effort"] = thinking.value
    return reasoning


def _takes_effort(name: str) -> bool:
    """Return whether a model outside OpenAI's reasoning families takes an effort."""
    return not name.startswith((*_GPT_WITHOUT_EFFORT, _GROK_WITHOUT_EFFORT)) and "-chat" not in name


def _choice_of_tool(request: ModelRequest) -> Iterator[tuple[str, Any]]:
    """Return the choice of tool: the API refuses one without tools, or one that is not offered."""
    offered = [definition.name for definition in request.tools]
    if request.forced_tool in offered and request.forced_tool is not None:
        yield "tool_choice", {"type": "function", "name": sent_name(request.forced_tool)}
    elif offered and request.forced_tool is not None:
        yield "tool_choice", ToolChoice.REQUIRED
    elif offered and request.tool_choice is not ToolChoice.AUTO:
        yield "tool_choice", request.tool_choice


OPENAI_RESPONSES = OpenAiResponses()
"""The dialect of OpenAI and of every compatible server."""
