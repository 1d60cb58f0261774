"""A scripted answer in the bytes of Chat Completions, as OpenAI sends it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from ..runtime.stream import StreamError, Usage
from .script import Reply, ScriptedCall

ARGUMENT_PIECE_CHARS = 16
"""Arguments come in pieces, as models write them; long ones in at most `MAX_PIECES` pieces."""
MAX_PIECES = 256

_HEAD = {
    "id": "chatcmpl-scripted",
    "object": "chat.completion.chunk",
    "created": 1,
    "model": "scripted",
}
_encode = msgspec.json.Encoder().encode

DONE = b"data: [DONE]\n\n"
PING = b": ping\n\n"


def reply_events(reply: Reply, number: int) -> list[bytes]:
    """The server-sent events of an answer; `number` makes its call ids unique."""
    events = [_delta(role="assistant", content="")]
    events += [_delta(reasoning_content=piece) for piece in reply.thinking]
    events += [_delta(content=piece) for piece in reply.text]
    events += [_delta(refusal=piece) for piece in reply.refusal]
    for index, call in enumerate(reply.calls):
        events += _call(index, call, call.call_id or f"call_{number}_{index}")
    if reply.finish is None:
        return events
    events.append(_choice({}, reply.finish))
    if reply.usage is not None:
        events.append(_event({**_HEAD, "choices": [], "usage": _usage(reply.usage)}))
    return [*events, DONE]


def text_event(text: str) -> bytes:
    """One piece of text."""
    return _delta(content=text)


def error_event(error: StreamError) -> bytes:
    """An error in the middle of a stream."""
    word = {"overloaded": "overloaded_error", "auth": "authentication_error"}
    default = "server_error" if error.retryable else "invalid_request_error"
    kind = word.get(error.error_type, default)
    return _event({"error": {"message": error.message, "type": kind, "code": None}})


def error_body(message: str, kind: str = "invalid_request_error") -> bytes:
    """The body of an answer with an error status."""
    return _encode({"error": {"message": message, "type": kind, "param": None, "code": None}})


def model_list(models: tuple[str, ...]) -> bytes:
    """The body of `GET /models`."""
    data = [
        {"id": model, "object": "model", "created": 1, "owned_by": "script"} for model in models
    ]
    return _encode({"object": "list", "data": data})


def _call(index: int, call: ScriptedCall, call_id: str) -> Iterator[bytes]:
    function = {"name": call.name, "arguments": ""}
    start = {"index": index, "id": call_id, "type": "function", "function": function}
    yield _delta(tool_calls=[start])
    size = max(ARGUMENT_PIECE_CHARS, -(-len(call.arguments) // MAX_PIECES))
    for at in range(0, len(call.arguments), size):
        piece = {"arguments": call.arguments[at : at + size]}
        yield _delta(tool_calls=[{"index": index, "function": piece}])


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": (usage.input_tokens or 0) + (usage.output_tokens or 0),
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }


def _delta(**delta: Any) -> bytes:
    return _choice(delta, None)


def _choice(delta: dict[str, Any], finish: str | None) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    return _event({**_HEAD, "choices": [choice]})


def _event(value: dict[str, Any]) -> bytes:
    return b"data: " + _encode(value) + b"\n\n"
