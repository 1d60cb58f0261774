"""A scripted answer in the bytes of `streamGenerateContent?alt=sse`, as Google sends it.

Calls come whole and without ids, unless the script names them. What proves the reasoning stands on
the first call, else on an empty text at the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from ...runtime.stream import StreamError, Usage
from .chat_wire import known_counts
from .script import ScriptedCall, ScriptedReply, signature_of, status_of

_FINISH_REASONS = {
    "stop": "STOP",
    "tool_calls": "STOP",
    "length": "MAX_TOKENS",
    "content_filter": "SAFETY",
}
_ERRORS = {
    401: "UNAUTHENTICATED",
    402: "RESOURCE_EXHAUSTED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
    529: "UNAVAILABLE",
}
_encode = msgspec.json.Encoder().encode
_decode_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode

PING = b": ping\r\n\r\n"


def reply_events(reply: ScriptedReply, number: int) -> list[bytes]:
    """Return the server-sent events of an answer.

    Raises:
        ValueError: A call's arguments are no JSON object, which this format can't write.
    """
    signature = signature_of(reply, number)
    chunks = [_chunk(part, number) for part in _parts(reply, signature)]
    if reply.finish is not None:
        refused = bool(reply.refusal) and reply.finish == "stop"
        last: dict[str, Any] = {"text": ""}
        if signature and not reply.calls:
            last["thoughtSignature"] = signature
        chunk = _chunk(last, number)
        reason = "SAFETY" if refused else _FINISH_REASONS.get(reply.finish, reply.finish)
        chunk["candidates"][0]["finishReason"] = reason
        if reply.usage is not None:
            chunk["usageMetadata"] = _usage(reply.usage)
        chunks.append(chunk)
    return [_event(_encode(chunk)) for chunk in chunks]


def error_events(error: StreamError) -> list[bytes]:
    """Return an error in the middle of a stream."""
    return [_event(error_body(status_of(error), error.message))]


def error_body(status: int, message: str) -> bytes:
    """Return the body of an answer with an error status."""
    word = _ERRORS.get(status, "INTERNAL" if status >= 500 else "INVALID_ARGUMENT")
    return _encode({"error": {"code": status, "message": message, "status": word}})


def model_list(models: Sequence[str]) -> bytes:
    """Return the body of `GET /models`."""
    listed = [
        {
            "name": f"models/{model}",
            "displayName": f"{model}, scripted",
            "inputTokenLimit": 1_048_576,
            "outputTokenLimit": 65_536,
            "supportedGenerationMethods": ["generateContent", "countTokens"],
        }
        for model in models
    ]
    return _encode({"models": listed})


def _parts(reply: ScriptedReply, signature: str) -> Iterator[dict[str, Any]]:
    for piece in reply.thinking:
        yield {"text": piece, "thought": True}
    for piece in (*reply.text, *reply.refusal):
        yield {"text": piece}
    for index, call in enumerate(reply.calls):
        part: dict[str, Any] = {"functionCall": _call(call)}
        if signature and index == 0:
            part["thoughtSignature"] = signature
        yield part


def _call(call: ScriptedCall) -> dict[str, Any]:
    try:
        arguments = _decode_object(call.arguments or "{}")
    except msgspec.DecodeError as error:
        raise ValueError(
            f"Gemini's format can't write arguments that are no JSON object: {call.arguments!r}"
        ) from error
    sent: dict[str, Any] = {"name": call.name, "args": arguments}
    if call.call_id:
        sent["id"] = call.call_id
    return sent


def _chunk(part: dict[str, Any], number: int) -> dict[str, Any]:
    candidate = {"content": {"parts": [part], "role": "model"}, "index": 0}
    return {
        "candidates": [candidate],
        "modelVersion": "scripted",
        "responseId": f"response-{number}",
    }


def _usage(usage: Usage) -> dict[str, int]:
    """Return tokens; `candidatesTokenCount` here excludes the reasoning's."""
    written = usage.output_tokens
    if written is not None:
        written -= usage.reasoning_tokens or 0
    return known_counts(
        promptTokenCount=usage.input_tokens,
        candidatesTokenCount=written,
        thoughtsTokenCount=usage.reasoning_tokens,
        cachedContentTokenCount=usage.cached_tokens,
        totalTokenCount=(usage.input_tokens or 0) + (usage.output_tokens or 0),
    )


def _event(data: bytes) -> bytes:
    return b"data: " + data + b"\r\n\r\n"
