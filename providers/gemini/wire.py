"""The structs of a Gemini stream, and a lenient reader of odd forms.

`decode_chunk` reads the usual form at full speed. Parts of a kind that has no field here (code that
ran at the provider, images, whatever comes next) are kept whole, by `other_part`. What
`decode_chunk` refuses is read again as plain JSON by `odd_chunk`, which takes what it can use.
"""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

from ..lenient_json import NOTHING, attempt, read_count, read_text, read_value


class FunctionCall(msgspec.Struct, gc=False):
    """A call, or a piece of one: `partialArgs` and `willContinue` stream its arguments."""

    name: str | None = None
    id: str | None = None
    args: msgspec.Raw = NOTHING
    partialArgs: msgspec.Raw = NOTHING
    willContinue: bool | None = None


class Part(msgspec.Struct, gc=False):
    """A piece of the answer; of another kind if it has neither text nor a call."""

    text: str | None = None
    thought: bool | None = None
    thoughtSignature: str | None = None
    functionCall: FunctionCall | None = None


class Content(msgspec.Struct, gc=False):
    """The parts of a chunk."""

    parts: list[Part] | None = None


class Candidate(msgspec.Struct, gc=False):
    """A piece of one of the answers; all but the first are ignored."""

    content: Content | None = None
    finishReason: str | None = None
    finishMessage: str | None = None
    index: int | None = None
    groundingMetadata: msgspec.Raw = NOTHING
    citationMetadata: msgspec.Raw = NOTHING
    urlContextMetadata: msgspec.Raw = NOTHING


class UsageCount(msgspec.Struct, gc=False):
    """Counts of tokens in this wire format, of the answer so far."""

    promptTokenCount: int | None = None
    candidatesTokenCount: int | None = None
    thoughtsTokenCount: int | None = None
    cachedContentTokenCount: int | None = None


class Chunk(msgspec.Struct, gc=False):
    """One event of the stream."""

    candidates: list[Candidate] | None = None
    usageMetadata: UsageCount | None = None
    promptFeedback: msgspec.Raw = NOTHING
    error: msgspec.Raw = NOTHING


class _RawContent(msgspec.Struct):
    parts: list[msgspec.Raw] | None = None


class _RawCandidate(msgspec.Struct):
    content: _RawContent | None = None


class _RawChunk(msgspec.Struct):
    candidates: list[_RawCandidate] = []


decode_chunk = msgspec.json.Decoder(Chunk).decode
_decode_raw_chunk = msgspec.json.Decoder(_RawChunk).decode
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode
_CAPITAL = re.compile(r"(?<!^)(?=[A-Z])")
_ASIDE = frozenset(
    {"text", "thought", "thoughtSignature", "functionCall", "videoMetadata", "mediaResolution"}
)


class OddChunk(msgspec.Struct):
    """A chunk in any form.

    Attributes:
        candidate: Its first candidate.
        parts: The JSON of that one's parts.
        usage: Its counts.
        block_reason: Why the prompt was refused; may be empty.
        error: The error object that it carries or is.
    """

    candidate: Candidate | None
    parts: list[msgspec.Raw]
    usage: UsageCount | None
    block_reason: str
    error: Any


def raw_parts(payload: bytes, place: int) -> list[msgspec.Raw]:
    """Return the parts of one candidate as they came, of a payload that `decode_chunk` read."""
    content = _decode_raw_chunk(payload).candidates[place].content
    return (content.parts or []) if content is not None else []


def other_part(raw: msgspec.Raw) -> tuple[str, msgspec.Raw]:
    """Return the kind of a part and its JSON; the kind is empty if there is nothing to keep."""
    if (value := attempt(_decode, raw)) is None:
        return "", NOTHING
    kind = next((key for key in value if key not in _ASIDE), "")
    # Encoded again: the text is not checked before it is decoded.
    return _CAPITAL.sub("_", kind[:40]).lower(), msgspec.Raw(_encode(value))


def sound_json(raw: msgspec.Raw) -> Any:
    """Return a value that is kept as it came, `None` if it is empty or unsound JSON."""
    return None if raw is NOTHING else attempt(_decode, raw) or None


def odd_chunk(payload: bytes) -> OddChunk | None:
    """Read one event leniently; return `None` if it is not a JSON object, or too large."""
    value = read_value(payload)
    # Gemini sends an error object in a list when it was not asked for events.
    if isinstance(value, list) and value:
        value = value[0]
    if not isinstance(value, dict):
        return None
    candidates = value.get("candidates")
    candidate, parts = None, list[dict[str, Any]]()
    for item in candidates if isinstance(candidates, list) else ():
        if isinstance(item, dict) and read_count(item.get("index")) in {None, 0}:
            parts = _parts(item)
            candidate = _candidate(item, parts)
            break
    feedback = value.get("promptFeedback")
    blocked = read_text(feedback.get("blockReason")) if isinstance(feedback, dict) else None
    if blocked == "BLOCK_REASON_UNSPECIFIED":
        blocked = None
    is_known = bool(candidates) or "usageMetadata" in value or "promptFeedback" in value
    error = value.get("error")
    if not error and not is_known and ("message" in value or "detail" in value):
        error = value
    usage = _usage(value.get("usageMetadata"))
    return OddChunk(candidate, [_raw(part) for part in parts], usage, blocked or "", error or None)


def partial_arguments(raw: msgspec.Raw) -> list[dict[str, Any]]:
    """Return the pieces of streamed arguments; ignore anything else among them."""
    pieces = sound_json(raw)
    return [p for p in pieces if isinstance(p, dict)] if isinstance(pieces, list) else []


def _parts(candidate: dict[str, Any]) -> list[dict[str, Any]]:
    content = candidate.get("content")
    parts = content.get("parts") if isinstance(content, dict) else None
    return [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []


def _candidate(value: dict[str, Any], parts: list[dict[str, Any]]) -> Candidate:
    return Candidate(
        content=Content([_part(part) for part in parts]),
        finishReason=read_text(value.get("finishReason")),
        finishMessage=read_text(value.get("finishMessage")),
        groundingMetadata=_raw(value.get("groundingMetadata")),
        citationMetadata=_raw(value.get("citationMetadata")),
        urlContextMetadata=_raw(value.get("urlContextMetadata")),
    )


def _part(value: dict[str, Any]) -> Part:
    call = value.get("functionCall")
    return Part(
        text=read_text(value.get("text")),
        thought=value.get("thought") in (True, "true"),
        thoughtSignature=read_text(value.get("thoughtSignature")),
        functionCall=FunctionCall(
            name=read_text(call.get("name")),
            id=read_text(call.get("id")),
            args=_raw(call.get("args")),
            partialArgs=_raw(call.get("partialArgs")),
            willContinue=call.get("willContinue") in (True, "true"),
        )
        if isinstance(call, dict)
        else None,
    )


def _usage(value: Any) -> UsageCount | None:
    if not isinstance(value, dict):
        return None
    return UsageCount(*(read_count(value.get(name)) for name in UsageCount.__struct_fields__))


def _raw(value: Any) -> msgspec.Raw:
    return NOTHING if value is None else msgspec.Raw(json.dumps(value).encode())
