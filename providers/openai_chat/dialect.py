"""OpenAI's Chat Completions format: the request builder and the dialect.

Also spoken by Ollama, llama.cpp, vLLM, DeepSeek, Groq, OpenRouter, Mistral and most others. `servers` decides
which fields each server gets beside those that all accept, `openai.families` those of OpenAI's own
models; fields that a server or model refuses are left out.

Tools go out with their schemas as they are, not `strict`: that mode forbids optional arguments, and
compatible servers ignore or refuse it. The schema of an answer is strict where `strict_schema` can
say it so.

Prompts are cached by the servers themselves, from the longest beginning that they know: tools,
system prompt and finished rounds are the same bytes in every request. Only Anthropic's models at
OpenRouter are marked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from ...runtime.definitions import ThinkingEffort, ToolDefinition
from .. import attachments
from ..openai.dialect import OpenAiDialect, answer_schema
from ..openai.families import openai_family
from ..provider import NO_NAMES, HttpRequest, ModelRequest, ToolChoice
from ..tool_names import sent_name
from ..tool_sets import ToolSet, ToolSets
from .decoder import NAME, OpenAiChatDecoder
from .history import ChatHistory
from .servers import COMPATIBLE, OPENAI, ChatServer, ThinkingStyle, server_at

PATH = "/chat/completions"

MAX_STOPS = 4
"""OpenAI: "up to 4 sequences"; a request with more fails."""

_HEADERS = {"content-type": "application/json", "accept": "text/event-stream"}
_encode = msgspec.json.Encoder().encode

_CAN_BE_SWITCHED_OFF = ("anthropic/", "qwen/", "z-ai/")
"""Vendors whose models can switch reasoning off; OpenRouter fails a request that switches off others."""


class OpenAiChat(OpenAiDialect):
    """Chat Completions as a `Dialect`.

    Args:
        server: What the server takes.
    """

    name = NAME

    def __init__(self, server: ChatServer = COMPATIBLE) -> None:
        self._server = server
        self._tools = ToolSets(_encode_tools)

    def build(self, request: ModelRequest) -> HttpRequest:
        """Build the request. A round is encoded when first seen, then joined as bytes."""
        names = NO_NAMES
        head = [
            b'{"model":',
            _encode(request.model),
            b',"stream":true,"stream_options":{"include_usage":true}',
        ]
        if self._offers_tools(request):
            tools, names = self._tools.encoded(request.tools)
            head += [b',"tools":', tools]
        for key, value in self._options(request):
            head += [b',"%b":' % key.encode(), _encode(value)]
        head.append(b',"messages":[')
        sees = attachments.sees(request.model)
        messages = ChatHistory(self._server, request.provider, sees=sees).encode(request.rounds)
        system = self._system(request)
        if system:
            messages.insert(0, _encode({"role": "system", "content": system}))
        body = b"".join((*head, b",".join(messages), b"]}"))
        return HttpRequest(PATH, _HEADERS, body, names)

    def binds_answer(self, request: ModelRequest) -> bool:
        """Return whether the server takes schemas."""
        return self._server.takes_schema

    def decoder(self, tool_names: Mapping[str, str] = NO_NAMES) -> OpenAiChatDecoder:
        """Return a new decoder for one answer."""
        return OpenAiChatDecoder(tool_names)

    def _offers_tools(self, request: ModelRequest) -> bool:
        if self._server.thinking is ThinkingStyle.DEEPSEEK and _forbids_tools(request):
            return False  # its thinking mode refuses `tool_choice`, whatever it says
        return bool(request.tools)

    def _system(self, request: ModelRequest) -> str:
        if request.answer_schema is None or self._server.takes_schema:
            return request.system
        schema = _encode(request.answer_schema).decode()
        rule = f"Answer with one JSON object, and nothing else, that matches this schema: {schema}"
        return f"{request.system}\n\n{rule}" if request.system else rule

    def _options(self, request: ModelRequest) -> Iterator[tuple[str, Any]]:
        """Yield the fields between the tools and the messages, named as the server wants them."""
        server = self._server
        family = openai_family(request.model)
        is_openai = server.thinking is ThinkingStyle.OPENAI
        effort = _openai_effort(request) if is_openai else None
        if request.max_output_tokens is not None:
            yield server.max_tokens_field, request.max_output_tokens
        if not is_openai or family.takes_sampling(effort):
            if request.temperature is not None:
                yield "temperature", request.temperature
            if request.top_p is not None:
                yield "top_p", request.top_p
        if request.seed is not None and server.seed_field is not None:
            yield server.seed_field, request.seed
        stops = [text for text in request.stop_sequences if text][:MAX_STOPS]
        if stops and server.takes_stop and not (is_openai and family.is_reasoning):
            yield "stop", stops
        if effort is not None:
            yield "reasoning_effort", effort
        elif not is_openai:
            yield from _thinking_options(server.thinking, request)
        if self._offers_tools(request):
            yield from _choice_of_tool(request)
        if request.answer_schema is not None:
            yield "response_format", _answer_format(request.answer_schema, server)
        if server.takes_cache_mark and request.model.startswith("anthropic/"):
            yield "cache_control", {"type": "ephemeral"}


def _encode_tools(tools: ToolSet) -> bytes:
    return _encode([_tool(definition) for definition in tools])


def _tool(definition: ToolDefinition) -> dict[str, Any]:
    function = {
        "name": sent_name(definition.name),
        "description": definition.description,
        "parameters": definition.parameters,
    }
    return {"type": "function", "function": function}


def _answer_format(schema: Mapping[str, Any], server: ChatServer) -> dict[str, Any]:
    if not server.takes_schema:
        return {"type": "json_object"}
    return {"type": "json_schema", "json_schema": answer_schema(schema)}


def _forced(request: ModelRequest) -> str | None:
    """Return the tool that must be called, if it is offered."""
    is_offered = any(definition.name == request.forced_tool for definition in request.tools)
    return request.forced_tool if is_offered else None


def _must_call(request: ModelRequest) -> bool:
    return bool(request.tools) and (
        request.forced_tool is not None or request.tool_choice is ToolChoice.REQUIRED
    )


def _forbids_tools(request: ModelRequest) -> bool:
    return request.forced_tool is None and request.tool_choice is ToolChoice.NONE


def _choice_of_tool(request: ModelRequest) -> Iterator[tuple[str, Any]]:
    forced = _forced(request)
    if forced is not None:
        yield "tool_choice", {"type": "function", "function": {"name": sent_name(forced)}}
    elif _must_call(request):
        yield "tool_choice", "required"
    elif _forbids_tools(request):
        yield "tool_choice", "none"


def _openai_effort(request: ModelRequest) -> str | None:
    family = openai_family(request.model)
    if request.tools and family.reasons_without_tools_only:
        # "Function tools with reasoning_effort are not supported for … in /v1/chat/completions",
        # also when none is sent. The Responses format has no such limit.
        return "none"
    return family.effort(request.thinking)


def _thinking_options(style: ThinkingStyle, request: ModelRequest) -> Iterator[tuple[str, Any]]:
    thinking = request.thinking
    if style is ThinkingStyle.DEEPSEEK and _must_call(request):
        thinking = ThinkingEffort.OFF
    if thinking is None or style is ThinkingStyle.NEVER:
        return
    is_off = thinking is ThinkingEffort.OFF
    match style:
        case ThinkingStyle.DEEPSEEK:
            yield "thinking", {"type": "disabled" if is_off else "enabled"}
            if not is_off:
                yield "reasoning_effort", thinking.value
        case ThinkingStyle.OPENROUTER:
            yield "reasoning", _openrouter_reasoning(request.model, thinking)
        case ThinkingStyle.OPEN_WEIGHTS:
            if "gpt-oss" in request.model:
                yield "reasoning_effort", "low" if is_off else thinking.value
        case ThinkingStyle.MINIMAL:
            yield "reasoning_effort", "minimal" if is_off else thinking.value
        case _:
            if not is_off:
                yield "reasoning_effort", thinking.value


def _openrouter_reasoning(model: str, thinking: ThinkingEffort) -> dict[str, Any]:
    if thinking is not ThinkingEffort.OFF:
        return {"effort": thinking.value}
    return {"enabled": False} if model.startswith(_CAN_BE_SWITCHED_OFF) else {"effort": "low"}


OPENAI_CHAT = OpenAiChat()
"""The dialect of every compatible server that is not known."""

OPENAI_OWN_CHAT = OpenAiChat(OPENAI)
"""The dialect of api.openai.com."""

_by_server: dict[str, OpenAiChat] = {COMPATIBLE.name: OPENAI_CHAT, OPENAI.name: OPENAI_OWN_CHAT}


def openai_chat_at(base_url: str) -> OpenAiChat:
    """Return the dialect of the server at this base URL; one object for each kind of server."""
    server = server_at(base_url)
    return _by_server.setdefault(server.name, OpenAiChat(server))
