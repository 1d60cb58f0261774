"""A scripted answer in the bytes of the Messages format, as Anthropic sends it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from ...runtime.stream import StreamError, Usage
from .chat_wire import known_counts
from .script import Reply, ScriptedCall, argument_pieces, signature_of, status_of

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


def reply_events(reply: Reply, number: int) -> list[bytes]:
    """Return the server-sent events of an answer; `number` makes its ids unique."""
    message = _Message()
    message.begin(number, reply.usage)
    if signature := signature_of(reply, number):
        message.think(reply.thinking, signature)
    if reply.text or reply.refusal:
        message.write([*reply.text, *reply.refusal])
    for index, call in enumerate(reply.calls):
        message.call(call, call.call_id or f"toolu_{number}_{index}")
    if reply.finish is not None:
        refused = bool(reply.refusal) and reply.finish == "stop"
        reason = "refusal" if refused else _STOP_REASONS.get(reply.finish, reply.finish)
        message.end(reason, reply.usage)
    return message.events


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


class _Message:
    """The events of one message; a block ends where the next one begins, or the message ends."""

    def __init__(self) -> None:
        self.events: list[bytes] = []
        self._blocks = 0

    def begin(self, number: int, usage: Usage | None) -> None:
        message: dict[str, Any] = {
            "id": f"msg_{number}",
            "type": "message",
            "role": "assistant",
            "model": "scripted",
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
        }
        if usage is not None:
            message["usage"] = {**_read(usage), "output_tokens": 1}
        self._add("message_start", message=message)

    def think(self, pieces: Sequence[str], signature: str) -> None:
        self._open({"type": "thinking", "thinking": "", "signature": ""})
        for piece in pieces:
            self._piece({"type": "thinking_delta", "thinking": piece})
        self._piece({"type": "signature_delta", "signature": signature})

    def write(self, pieces: Sequence[str]) -> None:
        self._open({"type": "text", "text": ""})
        for piece in pieces:
            self._piece({"type": "text_delta", "text": piece})

    def call(self, call: ScriptedCall, call_id: str) -> None:
        self._open({"type": "tool_use", "id": call_id, "name": call.name, "input": {}})
        for piece in ("", *argument_pieces(call.arguments)):
            self._piece({"type": "input_json_delta", "partial_json": piece})

    def end(self, reason: str, usage: Usage | None) -> None:
        self._close()
        delta = {"stop_reason": reason, "stop_sequence": None}
        if usage is None:
            self._add("message_delta", delta=delta)
        else:
            self._add("message_delta", delta=delta, usage={**_read(usage), **_written(usage)})
        self._add("message_stop")

    def _open(self, block: dict[str, Any]) -> None:
        self._close()
        self._blocks += 1
        self._add("content_block_start", index=self._blocks - 1, content_block=block)
        if self._blocks == 1:
            self.events.append(PING)

    def _piece(self, delta: dict[str, Any]) -> None:
        self._add("content_block_delta", index=self._blocks - 1, delta=delta)

    def _close(self) -> None:
        if self._blocks:
            self._add("content_block_stop", index=self._blocks - 1)

    def _add(self, kind: str, **fields: Any) -> None:
        data = _encode({"type": kind, **fields})
        self.events.append(b"event: %b\ndata: %b\n\n" % (kind.encode(), data))


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
