"""A scripted answer in the bytes of Responses, as OpenAI sends it."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from ...runtime.stream import StreamError, Usage
from .chat_wire import error_body, error_words, known_counts, model_list
from .script import ScriptedCall, ScriptedReply, argument_pieces, signature_of, status_of

__all__ = ["PING", "error_body", "error_events", "model_list", "reply_events"]

_REASONS = {"length": "max_output_tokens", "max_tokens": "max_output_tokens"}
_WHOLE = frozenset({"stop", "tool_calls", "completed"})
_BEGUN = base64.b64encode(b"reasoning that has only begun").decode()
"""The encrypted reasoning with which an item begins: it is another one at its end."""
_encode = msgspec.json.Encoder().encode

PING = b": ping\n\n"

Item = dict[str, Any]


def reply_events(reply: ScriptedReply, number: int) -> list[bytes]:
    """Return the server-sent events of an answer; `number` makes its ids unique."""
    response = _Response(number)
    response.begin()
    if signature := signature_of(reply, number):
        response.think(reply.thinking, signature)
    if reply.text:
        response.write(reply.text)
    if reply.refusal:
        response.refuse(reply.refusal)
    for index, call in enumerate(reply.calls):
        response.call(call, call.call_id or f"call_{number}_{index}")
    if reply.finish is not None:
        response.end(reply.finish, reply.usage)
    return response.events


def error_events(error: StreamError) -> list[bytes]:
    """Return a response that failed."""
    response = _Response(1)
    kind, code = error_words(status_of(error))
    response.fail(code or kind, error.message)
    return response.events


class _Response:
    """The events of one response; an item ends where the next one begins, or the response ends."""

    def __init__(self, number: int) -> None:
        self.events: list[bytes] = []
        self._number = number
        self._output: list[Item] = []
        self._end_item: Callable[[], None] | None = None

    def begin(self) -> None:
        self._add("response.created", response=self._whole("in_progress"))
        self._add("response.in_progress", response=self._whole("in_progress"))

    def think(self, pieces: Sequence[str], signature: str) -> None:
        begun = {"type": "reasoning", "summary": [], "encrypted_content": _BEGUN}
        item_id = self._open("rs", begun)
        at = {"item_id": item_id, "output_index": len(self._output), "summary_index": 0}
        text = "".join(pieces)
        part = {"type": "summary_text", "text": text}
        if text:
            self._add("response.reasoning_summary_part.added", **at, part={**part, "text": ""})
        for piece in pieces:
            self._add("response.reasoning_summary_text.delta", **at, delta=piece)

        def end() -> None:
            if text:
                self._add("response.reasoning_summary_text.done", **at, text=text)
                self._add("response.reasoning_summary_part.done", **at, part=part)
            summary = [part] if text else []
            self._done({**begun, "id": item_id, "summary": summary, "encrypted_content": signature})

        self._end_item = end

    def write(self, pieces: Sequence[str]) -> None:
        whole = {"type": "output_text", "annotations": [], "logprobs": [], "text": "".join(pieces)}
        self._say("response.output_text", "text", pieces, whole, logprobs=[])

    def refuse(self, pieces: Sequence[str]) -> None:
        whole = {"type": "refusal", "refusal": "".join(pieces)}
        self._say("response.refusal", "refusal", pieces, whole)

    def call(self, call: ScriptedCall, call_id: str) -> None:
        item = {"type": "function_call", "call_id": call_id, "name": call.name}
        item_id = self._open("fc", {**item, "status": "in_progress", "arguments": ""})
        at = {"item_id": item_id, "output_index": len(self._output)}
        for piece in argument_pieces(call.arguments):
            self._add("response.function_call_arguments.delta", **at, delta=piece)

        def end() -> None:
            whole = {"name": call.name, "arguments": call.arguments}
            self._add("response.function_call_arguments.done", **at, **whole)
            self._done({**item, **whole, "id": item_id, "status": "completed"})

        self._end_item = end

    def end(self, finish: str, usage: Usage | None) -> None:
        self._close()
        status, details = "completed", None
        if finish not in _WHOLE:
            status, details = "incomplete", {"reason": _REASONS.get(finish, finish)}
        response = self._whole(status, incomplete_details=details, output=self._output)
        if usage is not None:
            response["usage"] = _usage(usage)
        self._add(f"response.{status}", response=response)

    def fail(self, code: str, message: str) -> None:
        error = {"code": code, "message": message}
        self._add("response.failed", response=self._whole("failed", error=error))

    def _say(
        self, event: str, field: str, pieces: Sequence[str], whole: Item, **beside: Any
    ) -> None:
        message = {"type": "message", "role": "assistant"}
        item_id = self._open("msg", {**message, "status": "in_progress", "content": []})
        at = {"item_id": item_id, "output_index": len(self._output), "content_index": 0}
        self._add("response.content_part.added", **at, part={**whole, field: ""})
        for piece in pieces:
            self._add(f"{event}.delta", **at, delta=piece, **beside)

        def end() -> None:
            self._add(f"{event}.done", **at, **{field: whole[field]}, **beside)
            self._add("response.content_part.done", **at, part=whole)
            self._done({**message, "id": item_id, "status": "completed", "content": [whole]})

        self._end_item = end

    def _open(self, prefix: str, item: Item) -> str:
        self._close()
        place = len(self._output)
        item_id = f"{prefix}_{self._number}_{place}"
        self._add("response.output_item.added", output_index=place, item={**item, "id": item_id})
        return item_id

    def _close(self) -> None:
        if self._end_item is not None:
            self._end_item()
            self._end_item = None

    def _done(self, item: Item) -> None:
        self._add("response.output_item.done", output_index=len(self._output), item=item)
        self._output.append(item)

    def _whole(self, status: str, **fields: Any) -> dict[str, Any]:
        response = {
            "id": f"resp_{self._number}",
            "object": "response",
            "created_at": 1,
            "status": status,
            "error": None,
            "incomplete_details": None,
            "instructions": None,
            "metadata": {},
            "model": "scripted",
            "output": [],
            "parallel_tool_calls": True,
            "temperature": 1.0,
            "tool_choice": "auto",
            "tools": [],
            "top_p": 1.0,
            "usage": None,
        }
        return {**response, **fields}

    def _add(self, kind: str, **fields: Any) -> None:
        data = _encode({"type": kind, "sequence_number": len(self.events), **fields})
        self.events.append(b"event: %b\ndata: %b\n\n" % (kind.encode(), data))


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": known_counts(
            cached_tokens=usage.cached_tokens, cache_write_tokens=usage.cache_write_tokens
        ),
        "output_tokens": usage.output_tokens,
        "output_tokens_details": known_counts(reasoning_tokens=usage.reasoning_tokens),
        "total_tokens": (usage.input_tokens or 0) + (usage.output_tokens or 0),
    }
