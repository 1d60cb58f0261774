"""A scripted answer in the bytes of Chat Completions, as OpenAI sends it.

Its reasoning is the `reasoning_content` of compatible servers, which has no signature.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from ...runtime.stream import StreamError, Usage
from .script import ScriptedCall, ScriptedReply, argument_pieces, status_of

_HEAD = {
    "id": "chatcmpl-scripted",
    "object": "chat.completion.chunk",
    "created": 1,
    "model": "scripted",
}
_ERRORS = {
    401: ("invalid_request_error", "invalid_api_key"),
    402: ("insufficient_quota", "insufficient_quota"),
    404: ("invalid_request_error", "model_not_found"),
    429: ("requests", "rate_limit_exceeded"),
    503: ("service_unavailable_error", "server_is_overloaded"),
    529: ("service_unavailable_error", "server_is_overloaded"),
}
_encode = msgspec.json.Encoder().encode

DONE = b"data: [DONE]\n\n"
PING = b": ping\n\n"


def reply_events(reply: ScriptedReply, number: int) -> list[bytes]:
    """Return the server-sent events of an answer; `number` makes its call ids unique."""
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


def error_events(error: StreamError) -> list[bytes]:
    """Return an error in the middle of a stream."""
    return [b"data: " + error_body(status_of(error), error.message) + b"\n\n", DONE]


def error_body(status: int, message: str) -> bytes:
    """Return the body of an answer with an error status, which Responses share."""
    kind, code = error_words(status)
    return _encode({"error": {"message": message, "type": kind, "param": None, "code": code}})


def error_words(status: int) -> tuple[str, str | None]:
    """Return an error's type and code."""
    default = "server_error" if status >= 500 else "invalid_request_error"
    return _ERRORS.get(status, (default, None))


def model_list(models: Sequence[str]) -> bytes:
    """Return the body of `GET /models`."""
    data = [
        {"id": model, "object": "model", "created": 1, "owned_by": "script"} for model in models
    ]
    return _encode({"object": "list", "data": data})


def _call(index: int, call: ScriptedCall, call_id: str) -> Iterator[bytes]:
    function = {"name": call.name, "arguments": ""}
    start = {"index": index, "id": call_id, "type": "function", "function": function}
    yield _delta(tool_calls=[start])
    for piece in argument_pieces(call.arguments):
        yield _delta(tool_calls=[{"index": index, "function": {"arguments": piece}}])


def _usage(usage: Usage) -> dict[str, Any]:
    cached, reasoned = usage.cached_tokens, usage.reasoning_tokens
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": (usage.input_tokens or 0) + (usage.output_tokens or 0),
        "prompt_tokens_details": known_counts(
            cached_tokens=cached, cache_write_tokens=usage.cache_write_tokens
        ),
        "completion_tokens_details": known_counts(reasoning_tokens=reasoned),
    }


def known_counts(**counts: int | None) -> dict[str, int]:
    """Return counts without those that are unknown."""
    return {name: count for name, count in counts.items() if count is not None}


def _delta(**delta: Any) -> bytes:
    return _choice(delta, None)


def _choice(delta: dict[str, Any], finish: str | None) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    return _event({**_HEAD, "choices": [choice]})


def _event(value: dict[str, Any]) -> bytes:
    return b"data: " + _encode(value) + b"\n\n"
