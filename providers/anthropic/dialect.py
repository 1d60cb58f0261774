"""Anthropic's Messages format: the request builder and the dialect.

Spoken by Anthropic, and by servers of other makers beside Chat Completions. Fields that a family of
models refuses are left out (`families`); `schema` writes schemas. The format has no `seed`.

Thinking: an effort, if the family takes one, else a budget within the limit of the answer. A
tool that must be called wins over thinking, since the API takes only one of them; with families
that always think the choice stays the model's. A budget also needs the last answer to begin with
its own reasoning when the request goes on with its calls: after a change of provider that is
missing, and then this request does without. Where thinking is on anyway it is asked for in words,
since the newer families send it empty otherwise.

Prompt caching: four marks, as many as the API takes, on the tools, the system prompt, and the ends
of this request and of the one before it. A single question without tools is not marked: nothing
comes back to read it, and writing to the cache costs a quarter more. What stands before the marks
is the same bytes in every request; newer models also demand that of what their signed reasoning
followed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from ...runtime.definitions import ThinkingEffort, ToolDefinition
from ...runtime.history import Answer
from ...runtime.stream import StreamError
from .. import attachments
from ..error_answer import read_error_answer
from ..provider import NO_NAMES, HttpRequest, ModelPage, ModelRequest, ToolChoice
from ..tool_names import sent_name
from ..tool_sets import ToolSet, ToolSets
from .decoder import NAME, AnthropicMessagesDecoder
from .families import ClaudeFamily, Switch, claude_family
from .history import CACHE_MARK, HistoryEncoder
from .models import models_request, read_model_list
from .schema import answer_format, tool_schema

PATH = "/messages"

VERSION = "2023-06-01"
"""Version of the API. The next one, 2026-10-21, takes no sampling parameters from any model, and servers of
other makers don't know it."""

MAX_TEMPERATURE = 1.0
"""Anthropic: "Ranges from 0.0 to 1.0". Other formats go to 2; what is higher becomes this."""

MIN_TOP_P_WITH_THINKING = 0.95

_HEADERS = {
    "content-type": "application/json",
    "accept": "text/event-stream",
    "anthropic-version": VERSION,
}
_encode = msgspec.json.Encoder().encode


class AnthropicMessages:
    """The Messages format as a `Dialect`."""

    name = NAME

    def __init__(self) -> None:
        self._tools = ToolSets(_encode_tools)

    def build(self, request: ModelRequest) -> HttpRequest:
        """Build the request. A round is encoded when first seen, then joined as bytes."""
        family = claude_family(request.model)
        is_marked = bool(request.tools) or len(request.rounds) > 1
        names = NO_NAMES
        parts = [b'{"model":', _encode(request.model), b',"stream":true']
        for key, value in _options(request, family):
            parts += [b',"%b":' % key.encode(), _encode(value)]
        if request.tools:
            tools, names = self._tools.encoded(request.tools)
            parts += [b',"tools":', tools]
        elif called := _called_names(request):
            parts += [b',"tools":', _encode([_unknown_tool(name) for name in called])]
        if system := _system(request, family):
            mark = CACHE_MARK if is_marked else b""
            parts += [b',"system":[{"type":"text","text":', _encode(system), mark, b"}]"]
        encoder = HistoryEncoder(request.provider, sees=attachments.sees(request.model))
        messages = encoder.encode(request.rounds, is_marked=is_marked)
        parts += [b',"messages":[', messages, b"]}"]
        return HttpRequest(PATH, _HEADERS, b"".join(parts), names)

    def binds_answer(self, request: ModelRequest) -> bool:
        """Return whether the model takes schemas, and this one can be said."""
        schema = request.answer_schema or {}
        return claude_family(request.model).takes_schema and answer_format(schema) is not None

    def auth_headers(self, key: str) -> dict[str, str]:
        """Return the header that carries the key."""
        return {"x-api-key": key}

    def decoder(self, tool_names: Mapping[str, str] = NO_NAMES) -> AnthropicMessagesDecoder:
        """Return a new decoder for one answer."""
        return AnthropicMessagesDecoder(tool_names)

    def list_models(self, page: str = "") -> HttpRequest:
        """Return the GET for a page of the list of models."""
        return models_request(page, VERSION)

    def read_models(self, body: bytes) -> ModelPage:
        """Return a page of the list, without retired models."""
        return read_model_list(body)

    def read_error(self, status: int, headers: Mapping[str, str], body: bytes) -> StreamError:
        """Return what an answer with an error status means; `headers` are in lower case."""
        return read_error_answer(status, headers, body)


def _encode_tools(tools: ToolSet) -> bytes:
    encoded = _encode([_tool(definition) for definition in tools])
    # On the last tool: a mark covers everything before it.
    return encoded[: -len(b"}]")] + CACHE_MARK + b"}]"


def _tool(definition: ToolDefinition) -> dict[str, Any]:
    return {
        "name": sent_name(definition.name),
        "description": definition.description,
        "input_schema": tool_schema(definition.parameters),
    }


def _called_names(request: ModelRequest) -> list[str]:
    """Return the tools that the history calls: the API wants them defined."""
    names = {
        call.name: None
        for item in request.rounds
        for each in item.items
        if isinstance(each, Answer)
        for call in each.calls
    }
    return list(names)


def _unknown_tool(name: str) -> dict[str, Any]:
    return {"name": sent_name(name), "input_schema": {"type": "object"}}


def _system(request: ModelRequest, family: ClaudeFamily) -> str:
    schema = request.answer_schema
    system = request.system if request.system.strip() else ""
    if schema is None or (family.takes_schema and answer_format(schema) is not None):
        return system
    rule = (
        f"Answer with JSON, and nothing else, that matches this schema: {_encode(schema).decode()}"
    )
    return f"{system}\n\n{rule}" if system else rule


def _options(request: ModelRequest, family: ClaudeFamily) -> Iterator[tuple[str, Any]]:
    """Yield the fields between the model and the tools."""
    max_tokens = request.max_output_tokens or family.max_tokens
    yield "max_tokens", max_tokens
    choice = _choice_of_tool(request, family)
    if choice is not None:
        yield "tool_choice", choice
    is_forced = choice is not None and choice["type"] in {"any", "tool"}
    thinking = _thinking(request, family, max_tokens, is_forced=is_forced)
    if thinking is not None:
        yield "thinking", thinking
    yield from _sampling(request, family, thinks=_is_on(thinking))
    config = _output_config(request, family, is_forced=is_forced)
    if config:
        yield "output_config", config
    # Anthropic: "each stop sequence must contain non-whitespace".
    stops = [text for text in request.stop_sequences if text.strip()]
    if stops:
        yield "stop_sequences", stops


def _choice_of_tool(request: ModelRequest, family: ClaudeFamily) -> dict[str, Any] | None:
    if not request.tools:
        return {"type": "none"} if _called_names(request) else None
    if request.forced_tool is None and request.tool_choice is ToolChoice.NONE:
        return {"type": "none"}
    if not family.takes_force:
        return None
    if request.forced_tool in {definition.name for definition in request.tools}:
        return {"type": "tool", "name": sent_name(request.forced_tool or "")}
    if request.forced_tool is not None or request.tool_choice is ToolChoice.REQUIRED:
        return {"type": "any"}
    return None


def _thinking(
    request: ModelRequest, family: ClaudeFamily, max_tokens: int, *, is_forced: bool
) -> dict[str, Any] | None:
    """Return the parameter; without one the model thinks as it likes, or does not think."""
    effort = ThinkingEffort.OFF if is_forced else request.thinking
    if not family.thinks:
        return None
    if effort is ThinkingEffort.OFF:
        match family.off:
            case Switch.DISABLED:
                return {"type": "disabled"}
            case Switch.BETWEEN_TOOLS:
                return {"type": "between_tools"}
            case _:
                return None
    if family.is_adaptive:
        if effort is None and family.off is Switch.OMIT:
            return None
        return {"type": "adaptive", "display": "summarized"}
    if effort is None or not _may_think(request):
        return None
    budget = family.budget(effort, max_tokens)
    return {"type": "enabled", "budget_tokens": budget} if budget is not None else None


def _is_on(thinking: dict[str, Any] | None) -> bool:
    return thinking is not None and thinking["type"] in {"enabled", "adaptive"}


def _may_think(request: ModelRequest) -> bool:
    """Return whether the last answer, if its calls continue, opens with its own reasoning.

    Anthropic: "When `thinking` is enabled, a final `assistant` message must start with a thinking
    block".
    """
    for item in reversed(request.rounds):
        for each in reversed(item.items):
            if isinstance(each, Answer):
                return not each.calls or HistoryEncoder(request.provider).starts_with_thinking(each)
    return True


def _sampling(
    request: ModelRequest, family: ClaudeFamily, *, thinks: bool
) -> Iterator[tuple[str, Any]]:
    temperature, top_p = request.temperature, request.top_p
    if not family.takes_sampling:
        return
    if thinks:
        if top_p is not None and top_p >= MIN_TOP_P_WITH_THINKING:
            yield "top_p", top_p
        return
    if temperature is not None:
        yield "temperature", min(temperature, MAX_TEMPERATURE)
    if top_p is not None and (temperature is None or family.takes_both):
        yield "top_p", top_p


def _output_config(
    request: ModelRequest, family: ClaudeFamily, *, is_forced: bool
) -> dict[str, Any]:
    config: dict[str, Any] = {}
    effort = request.thinking
    if effort is ThinkingEffort.OFF:
        effort = ThinkingEffort.LOW if family.off is Switch.NEVER else None
    if family.is_adaptive and effort is not None and not is_forced:
        config["effort"] = effort.value
    if request.answer_schema is not None and family.takes_schema:
        schema = answer_format(request.answer_schema)
        if schema is not None:
            config["format"] = {"type": "json_schema", "schema": schema}
    return config


ANTHROPIC = AnthropicMessages()
"""The dialect of Anthropic and of every compatible server."""
