"""The structs of a Chat Completions stream, and a lenient reader of odd forms.

`decode_chunk` reads the usual form at full speed. Servers differ in the types of nearly every
field, so what it refuses is read again as plain JSON by `odd_chunk`, which takes what it can use
and ignores the rest: content as a list of parts, arguments as an object, numbers as text, a whole
`message` in place of a `delta`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec

from ..lenient_json import NOTHING, read_count, read_text, read_value
from ..openai.usage import UsageCount, odd_usage


class FunctionPiece(msgspec.Struct, gc=False):
    """The name of a call, and a piece of its arguments."""

    name: str | None = None
    arguments: str | None = None


class CallPiece(msgspec.Struct):
    """A piece of a call; `extra_content` is what Gemini adds, a signature."""

    index: int | None = None
    id: str | None = None
    function: FunctionPiece | None = None
    extra_content: msgspec.Raw = NOTHING


class Delta(msgspec.Struct):
    """A piece of the answer."""

    content: str | None = None
    tool_calls: list[CallPiece] | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    refusal: str | None = None
    reasoning_details: msgspec.Raw = NOTHING
    annotations: msgspec.Raw = NOTHING


class Choice(msgspec.Struct):
    """A piece of one of the answers; all but the first are ignored."""

    delta: Delta | None = None
    finish_reason: str | None = None
    index: int = 0
    message: msgspec.Raw = NOTHING
    error: msgspec.Raw = NOTHING


class Chunk(msgspec.Struct):
    """One event of the stream; `x_groq` is where Groq says why it broke off."""

    choices: list[Choice] = []
    usage: UsageCount | None = None
    error: msgspec.Raw = NOTHING
    x_groq: msgspec.Raw = NOTHING


decode_chunk = msgspec.json.Decoder(Chunk).decode


class OddChunk(msgspec.Struct):
    """A chunk in any form.

    Attributes:
        deltas: Pieces of the answer.
        messages: The same of a whole `message`, which may repeat what deltas said.
        finish_reason: Why the model stopped.
        usage: Tokens.
        error: The error object that it carries or is.
    """

    deltas: list[Delta]
    messages: list[Delta]
    finish_reason: str | None
    usage: UsageCount | None
    error: Any


def odd_chunk(payload: bytes) -> OddChunk | None:
    """Read one event leniently; return `None` if it is not a JSON object, or too large."""
    value = read_value(payload)
    if not isinstance(value, dict):
        return None
    deltas: list[Delta] = []
    messages: list[Delta] = []
    finish_reason = None
    choices = value.get("choices")
    for choice in choices if isinstance(choices, list) else ():
        if isinstance(choice, dict) and read_count(choice.get("index")) in {None, 0}:
            deltas += _deltas(choice.get("delta"))
            messages += _deltas(choice.get("message"))
            finish_reason = read_text(choice.get("finish_reason")) or finish_reason
    usage = odd_usage(value.get("usage"))
    choices = choices if isinstance(choices, list) else []
    error = _error(value, [value, value.get("x_groq"), *choices[:1]])
    return OddChunk(deltas, messages, finish_reason, usage, error)


def _error(value: dict[str, Any], places: list[Any]) -> Any:
    for place in places:
        if isinstance(place, dict) and (error := place.get("error")):
            return error
    # vLLM and Mistral send the error object itself as the event.
    if value.get("object") == "error":
        return value
    if len(places) == 2 and "usage" not in value and ("message" in value or "detail" in value):
        return value
    return None


def _deltas(value: Any) -> Iterator[Delta]:
    if not isinstance(value, dict):
        return
    yield Delta(
        reasoning=read_text(value.get("reasoning")),
        reasoning_content=read_text(value.get("reasoning_content")),
        reasoning_details=_raw_list(value.get("reasoning_details")),
    )
    content = value.get("content")
    if isinstance(content, list):
        for part in content:
            yield from _content_part(part)
    else:
        yield Delta(content=read_text(content))
    yield Delta(
        refusal=read_text(value.get("refusal")),
        tool_calls=_calls(value.get("tool_calls")),
        annotations=_raw_list(value.get("annotations")),
    )


def _content_part(part: Any) -> Iterator[Delta]:
    if isinstance(part, str):
        yield Delta(content=read_text(part))
    elif isinstance(part, dict):
        if part.get("type") == "thinking":
            yield Delta(reasoning="".join(_texts(part.get("thinking"))))
        elif part.get("type") == "refusal":
            yield Delta(refusal=read_text(part.get("refusal")))
        else:
            yield Delta(content=read_text(part.get("text")))


def _texts(value: Any) -> Iterator[str]:
    for item in value if isinstance(value, list) else [value]:
        text = read_text(item.get("text") if isinstance(item, dict) else item)
        if text:
            yield text


def _calls(value: Any) -> list[CallPiece] | None:
    if not isinstance(value, list):
        return None
    return [_call(call) for call in value if isinstance(call, dict)]


def _call(call: dict[str, Any]) -> CallPiece:
    function = call.get("function")
    if not isinstance(function, dict):
        function = {}
    arguments = function.get("arguments")
    if isinstance(arguments, dict):
        arguments = json.dumps(arguments, ensure_ascii=False)
    identity = call.get("id")
    if isinstance(identity, int):
        identity = str(identity)
    return CallPiece(
        index=read_count(call.get("index")),
        id=read_text(identity),
        function=FunctionPiece(read_text(function.get("name")), read_text(arguments)),
        extra_content=_raw_object(call.get("extra_content")),
    )


def _raw_object(value: Any) -> msgspec.Raw:
    if not isinstance(value, dict) or not value:
        return NOTHING
    return msgspec.Raw(json.dumps(value).encode())


def _raw_list(value: Any) -> msgspec.Raw:
    if not isinstance(value, list) or not value:
        return NOTHING
    return msgspec.Raw(json.dumps(value).encode())
