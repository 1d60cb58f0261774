"""OpenAI's Chat Completions format: the request builder and the dialect.

Also spoken by Ollama, llama.cpp, vLLM, DeepSeek, Groq, OpenRouter, Mistral and most others, so the
request holds only what all of them accept, in the form that all of them accept.

Left out of the history on purpose: reasoning (servers refuse it, ignore it or bill it), and opaque
parts, which belong to other formats or to one gateway.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from ..runtime.definitions import ToolDefinition
from ..runtime.history import Answer, Call, Input, Item, Result, Round
from ..runtime.stream import StreamError
from .error_answer import read_error_answer
from .openai_chat_decoder import NAME, OpenAiChatDecoder
from .provider import NO_NAMES, HttpRequest, ModelRequest

PATH = "/chat/completions"

MAX_KEPT_TOOL_SETS = 16
"""Encoded tool lists that are kept: one for each agent in use, with room for switching."""

MAX_NAME_CHARS = 64
"""OpenAI: function names match `^[a-zA-Z0-9_-]{1,64}$`; one that does not fails the request."""

_HEADERS = {"content-type": "application/json", "accept": "text/event-stream"}
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")
_encode = msgspec.json.Encoder().encode
_decode_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class OpenAiChat:
    """The `Dialect`.

    Args:
        max_tokens_field: The name of the limit of the answer. `max_tokens` is what compatible
            servers know; OpenAI's own newer models refuse it and take `max_completion_tokens`.
    """

    name = NAME

    def __init__(self, *, max_tokens_field: str = "max_tokens") -> None:
        self._max_tokens_key = b',"%b":' % max_tokens_field.encode()
        self._tools: deque[tuple[tuple[ToolDefinition, ...], bytes]] = deque(
            maxlen=MAX_KEPT_TOOL_SETS
        )

    def build(self, request: ModelRequest) -> HttpRequest:
        """The request; a round is encoded when it is first seen, and then joined as bytes."""
        head = [
            b'{"model":',
            _encode(request.model),
            b',"stream":true,"stream_options":{"include_usage":true}',
        ]
        if request.tools:
            head += [b',"tools":', self._encode_tools(request.tools)]
        if request.max_output_tokens is not None:
            head += [self._max_tokens_key, _encode(request.max_output_tokens)]
        if request.temperature is not None:
            head += [b',"temperature":', _encode(request.temperature)]
        head.append(b',"messages":[')
        messages = [r.encoded.get(NAME) or _encode_round(r) for r in request.rounds]
        if request.system:
            messages.insert(0, _encode({"role": "system", "content": request.system}))
        body = b"".join((*head, b",".join(filter(None, messages)), b"]}"))
        return HttpRequest(PATH, _HEADERS, body)

    def auth_headers(self, key: str) -> dict[str, str]:
        """The header that carries the key."""
        return {"authorization": f"Bearer {key}"}

    def decoder(self, tool_names: Mapping[str, str] = NO_NAMES) -> OpenAiChatDecoder:
        """A new decoder for one answer."""
        return OpenAiChatDecoder()

    def read_error(self, status: int, headers: Mapping[str, str], body: bytes) -> StreamError:
        """What an answer with an error status means; `headers` in lower case."""
        return read_error_answer(status, headers, body)

    def _encode_tools(self, tools: tuple[ToolDefinition, ...]) -> bytes:
        for known, encoded in self._tools:
            if known is tools or known == tools:
                return encoded
        encoded = _encode([_tool(definition) for definition in tools])
        self._tools.appendleft((tools, encoded))
        return encoded


def _tool(definition: ToolDefinition) -> dict[str, Any]:
    function = {
        "name": definition.name,
        "description": definition.description,
        "parameters": definition.parameters,
    }
    return {"type": "function", "function": function}


def _encode_round(item: Round) -> bytes:
    """The messages of a round, joined by commas; empty when there are none."""
    encoded = item.encoded.get(NAME)
    if encoded is None:
        encoded = b",".join(map(_encode, _messages(item.items)))
        item.encoded[NAME] = encoded
    return encoded


def _messages(items: tuple[Item, ...]) -> Iterator[dict[str, Any]]:
    inputs: list[str] = []
    for item in items:
        if isinstance(item, Input):
            inputs.append(item.text)
            continue
        if inputs:
            yield _user(inputs)
            inputs = []
        if isinstance(item, Answer):
            yield _assistant(item)
        elif isinstance(item, Result):
            yield {"role": "tool", "tool_call_id": item.call_id, "content": item.content}
    if inputs:
        yield _user(inputs)


def _user(inputs: list[str]) -> dict[str, Any]:
    # One message: chat templates of local servers refuse two messages of a role in a row.
    return {"role": "user", "content": "\n\n".join(inputs)}


def _assistant(answer: Answer) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": answer.text}
    calls = answer.calls
    if calls:
        # OpenAI: content is required "unless tool_calls is specified"; some refuse "" beside them.
        message["content"] = answer.text or None
        message["tool_calls"] = [_call(call) for call in calls]
    return message


def _call(call: Call) -> dict[str, Any]:
    function = {"name": _name(call.name), "arguments": _arguments(call.arguments)}
    return {"id": call.call_id, "type": "function", "function": function}


def _name(name: str) -> str:
    """A name that is accepted: models make up names, and the history must stay sendable."""
    return _NOT_IN_NAMES.sub("_", name)[:MAX_NAME_CHARS] or "unnamed"


def _arguments(text: str) -> str:
    """The model's own text when it is a JSON object, else `{}`.

    Servers whose chat template decodes the arguments answer 500 to anything else, for ever, since
    it is in the history. The call's error result, which follows, says what was wrong with it.
    """
    try:
        _decode_object(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return "{}"
    return text


OPENAI_CHAT = OpenAiChat()
"""For every compatible server."""

OPENAI_OWN_CHAT = OpenAiChat(max_tokens_field="max_completion_tokens")
"""For api.openai.com."""
