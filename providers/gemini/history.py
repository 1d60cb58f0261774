"""A round of the conversation as Gemini's parts.

What a provider signed goes back to it alone, and on the part that it came with (see
`decoder`). Everything else that only its maker understands is dropped: thoughts without a
signature, thoughts and opaque parts of other providers.

A model that thinks refuses a call without a signature in the turn that runs. Calls of other models,
in a session that changed its provider, have none: the first call of such an answer gets the value
that the service documents for that, `skip_thought_signature_validator`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from ...runtime.history import (
    Answer,
    Attachment,
    Call,
    Input,
    Opaque,
    Refusal,
    Result,
    Round,
    Text,
    Thinking,
)
from .. import attachments
from ..lenient_json import attempt
from ..tool_names import sent_name
from .decoder import NAME

UNSIGNED = "skip_thought_signature_validator"
"""The documented signature of a call that the provider's models did not make."""

MAX_DEPTH = 90
"""Depth of arguments and results sent as JSON; the service reads a hundred levels in all."""

MEDIA_TYPES = frozenset(
    {
        "image/png",
        "image/jpeg",
        "image/webp",
        "image/heic",
        "image/heif",
        "application/pdf",
        "audio/wav",
        "audio/x-wav",
        "audio/mp3",
        "audio/mpeg",
        "audio/aiff",
        "audio/aac",
        "audio/ogg",
        "audio/flac",
        "video/mp4",
        "video/mpeg",
        "video/quicktime",
        "video/webm",
    }
)
"""Types that models read as they are. Texts go as text, of the rest only the name goes."""

_TEXT_TYPES = frozenset(
    {
        "application/json",
        "application/xml",
        "application/yaml",
        "application/x-yaml",
        "application/toml",
        "application/javascript",
        "application/x-sh",
    }
)
_NOT_SENT = frozenset({"grounding_metadata", "citation_metadata", "url_context_metadata"})
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
_Part = dict[str, Any]


def encoded_round(item: Round, provider: str, *, needs_signatures: bool) -> bytes:
    """Return three lines of parts, joined by commas: inputs, answer, results; any may be empty.

    They are made once for a provider and a kind of model, and kept. JSON made here has no line feeds.
    """
    key = f"{NAME}/{provider}/{needs_signatures:d}"
    encoded = item.encoded.get(key)
    if encoded is None:
        inputs, answer, results = _parts(item, provider, needs_signatures)
        lines = (b",".join(map(_encode, parts)) for parts in (inputs, answer, results))
        encoded = item.encoded[key] = b"\n".join(lines)
    return encoded


def _parts(
    item: Round, provider: str, needs_signatures: bool
) -> tuple[list[_Part], list[_Part], list[_Part]]:
    inputs: list[_Part] = []
    answer: list[_Part] = []
    results: list[_Part] = []
    files: list[_Part] = []
    made: dict[str, _Part] = {}
    for each in item.items:
        if isinstance(each, Input):
            inputs += _input(each)
        elif isinstance(each, Answer):
            is_own = each.dialect == NAME and each.provider == provider
            answer += _answer(each, made, is_own=is_own, needs_signatures=needs_signatures)
        else:
            results.append(_result(each, made.get(each.call_id)))
            # Beside the response: only the newest models take files inside of one.
            files += map(_attachment, each.attachments)
    results += files
    return inputs, answer, results


def _input(item: Input) -> Iterator[_Part]:
    for attachment in item.attachments:
        yield _attachment(attachment)
    if item.text:
        yield {"text": item.text}


def _attachment(item: Attachment) -> _Part:
    media_type = attachments.media_type(item)
    name = item.name or "a file"
    if media_type in MEDIA_TYPES and item.data:
        return {"inlineData": {"mimeType": media_type, "data": attachments.as_base64(item)}}
    if media_type.startswith("text/") or media_type in _TEXT_TYPES:
        return {"text": f"{name}:\n\n{item.data.decode('utf-8', 'replace')}"}
    return {"text": f"[{name} ({media_type or 'of unknown type'}) can't be shown to this model.]"}


def _answer(
    answer: Answer, made: dict[str, _Part], *, is_own: bool, needs_signatures: bool
) -> list[_Part]:
    """Return the parts of an answer; `made` gets each call as it is sent, by our id."""
    parts: list[_Part] = []
    # The part that an opaque part directly after it belongs to.
    signable: _Part | None = None
    for part in answer.parts:
        signed, signable = signable, None
        if isinstance(part, Text | Refusal):
            if part.text:
                parts.append({"text": part.text})
                signable = parts[-1]
        elif isinstance(part, Call):
            call = {"name": sent_name(part.name), "args": _object(part.arguments) or {}}
            made[part.call_id] = call
            parts.append({"functionCall": call})
            signable = parts[-1]
        elif isinstance(part, Thinking):
            if is_own and part.signature:
                thought = {"text": part.text, "thought": True, "thoughtSignature": part.signature}
                parts.append(thought)
        elif is_own and part.dialect == NAME:
            _add_opaque(part, signed, parts)
    calls = [part for part in parts if "functionCall" in part]
    if needs_signatures and calls and "thoughtSignature" not in calls[0]:
        calls[0]["thoughtSignature"] = UNSIGNED
    # Thoughts alone, or signatures without a part, are not an answer.
    return parts if any(part.get("text") != "" and "thought" not in part for part in parts) else []


def _add_opaque(opaque: Opaque, signed: _Part | None, parts: list[_Part]) -> None:
    """Add a part that was kept whole, or its data to the last part."""
    data = attempt(_decode, opaque.data)
    if opaque.kind in _NOT_SENT or not isinstance(data, dict):
        return
    if opaque.kind == "function_call":
        if signed is not None and "functionCall" in signed:
            if data.get("id"):
                signed["functionCall"]["id"] = data["id"]
            if data.get("thoughtSignature"):
                signed["thoughtSignature"] = data["thoughtSignature"]
    elif opaque.kind == "text_signature":
        text = signed.get("text", "") if signed is not None else ""
        chars = data.get("chars")
        if not isinstance(chars, int) or not 0 <= chars <= len(text):
            return
        if text:
            parts.pop()
        kept = len(text) - chars
        if kept:
            parts.append({"text": text[:kept]})
        parts.append({"text": text[kept:], "thoughtSignature": data.get("thoughtSignature")})
    else:
        parts.append(data)


def _result(result: Result, call: _Part | None) -> _Part:
    """Return a result under the name and id of the call as it was sent."""
    response = _object(result.content)
    if response is None:
        response = {"error" if result.is_error else "result": result.content}
    sent: _Part = {"name": call["name"] if call else sent_name(result.name), "response": response}
    if call is not None and "id" in call:
        sent["id"] = call["id"]
    return {"functionResponse": sent}


def _object(text: str) -> dict[str, Any] | None:
    """Return the JSON object in a text, `None` for any other text or one that is refused."""
    value = attempt(_decode, text)
    if not isinstance(value, dict):
        return None
    if text.count("{") + text.count("[") > MAX_DEPTH and _is_deep(value):
        return None
    return value


def _is_deep(value: Any) -> bool:
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        inner: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                inner += item.values()
            elif isinstance(item, list):
                inner += item
        if not inner:
            return False
        level = inner
    return True
