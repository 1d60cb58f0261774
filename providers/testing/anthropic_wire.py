"""A scripted answer in the bytes of the Messages format, as Anthropic sends it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from ...runtime.stream import StreamError, Usage
from .chat_wire import known_counts
from .script import ScriptedReply, argument_pieces, signature_of, status_of

_STOP_REASONS = {
    "stop": "end_turn",
    "tool_calls": "tool_use",
    "length": "max_tokens",
    "content_filter": "refusal",
}
_ERRORS = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_encode = msgspec.json.Encoder().encode

PING = b'event: ping\ndata: {"type": "ping"}\n\n'


def reply_events(reply: ScriptedReply, number: int) -> list[bytes]:
    """Return the server-sent events of an answer; `number` makes its ids unique."""
    message: dict[str, Any] = {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": "scripted",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
    }
    if reply.usage is not None:
        message["usage"] = {**_read(reply.usage), "output_tokens": 1}
    events = [_event("message_start", message=message)]
    blocks = list(_blocks(reply, number))
    for index, (block, deltas) in enumerate(blocks):
        events.append(_event("content_block_start", index=index, content_block=block))
        if index == 0:
            events.append(PING)
        events += [_event("content_block_delta", index=index, delta=delta) for delta in deltas]
        # An answer that is cut off leaves its last block open.
        if reply.finish is not None or index + 1 < len(blocks):
            events.append(_event("content_block_stop", index=index))
    if reply.finish is not None:
        refused = bool(reply.refusal) and reply.finish == "stop"
        reason = "refusal" if refused else _STOP_REASONS.get(reply.finish, reply.finish)
        end: dict[str, Any] = {"delta": {"stop_reason": reason, "stop_sequence": None}}
        if reply.usage is not None:
            end["usage"] = {**_read(reply.usage), **_written(reply.usage)}
        events += [_event("message_delta", **end), _event("message_stop")]
    return events


def error_events(error: StreamError) -> list[bytes]:
    """Return an error in the middle of a stream."""
    body = error_body(status_of(error), error.message)
    return [b"event: error\ndata: " + body + b"\n\n"]


def error_body(status: int, message: str) -> bytes:
    """Return the body of an answer with an error status."""
    kind = _ERRORS.get(status, "api_error" if status >= 500 else "invalid_request_error")
    error = {"type": kind, "message": message}
    return _encode({"type": "error", "error": error, "request_id": "req_scripted"})


def model_list(models: Sequence[str]) -> bytes:
    """Return the body of `GET /models`."""
    data = [
        {
            "type": "model",
            "id": model,
            "display_name": f"{model}, scripted",
            "created_at": "2026-01-01T00:00:00Z",
            "max_input_tokens": 200_000,
            "max_tokens": 64_000,
        }
        for model in models
    ]
    first, last = (models[0], models[-1]) if models else (None, None)
    return _encode({"data": data, "has_more": False, "first_id": first, "last_id": last})


def _blocks(
    reply: ScriptedReply, number: int
) -> Iterator[tuple[dict[str, Any], list[dict[str, str]]]]:
    """Yield each block as it begins, and its pieces."""
    if signature := signature_of(reply, number):
        deltas = [{"type": "thinking_delta", "thinking": piece} for piece in reply.thinking]
        deltas.append({"type": "signature_delta", "signature": signature})
        yield {"type": "thinking", "thinking": "", "signature": ""}, deltas
    if said := (*reply.text, *reply.refusal):
        yield {"type": "text", "text": ""}, [{"type": "text_delta", "text": p} for p in said]
    for index, call in enumerate(reply.calls):
        call_id = call.call_id or f"toolu_{number}_{index}"
        pieces = ("", *argument_pieces(call.arguments))
        yield (
            {"type": "tool_use", "id": call_id, "name": call.name, "input": {}},
            [{"type": "input_json_delta", "partial_json": piece} for piece in pieces],
        )


def _event(kind: str, **fields: Any) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), _encode({"type": kind, **fields}))


def _read(usage: Usage) -> dict[str, int]:
    """Return tokens read; `input_tokens` here excludes the cache's."""
    cached, written = usage.cached_tokens, usage.cache_write_tokens
    read = usage.input_tokens
    return known_counts(
        input_tokens=None if read is None else read - (cached or 0) - (written or 0),
        cache_read_input_tokens=cached,
        cache_creation_input_tokens=written,
    )


def _written(usage: Usage) -> dict[str, Any]:
    written: dict[str, Any] = known_counts(output_tokens=usage.output_tokens)
    if usage.reasoning_tokens is not None:
        written["output_tokens_details"] = {"thinking_tokens": usage.reasoning_tokens}
    return written
