"""The structs of a Responses stream, and a lenient reader of odd forms.

`decode_event` reads the usual form at full speed; nearly all events are one piece of text. Items
and the final response stay raw in it, and `read_item` and `read_response` look into them. What a
typed decoder refuses is read again as plain JSON, from which is taken what can be used: arguments
as an object, content as a string, numbers as text, half a surrogate pair.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from ...runtime.text import without_surrogates
from ..lenient_json import NOTHING, attempt, read_count, read_text, read_value
from ..openai.usage import UsageCount, odd_usage

NAME = "openai_responses"


MAX_ANNOTATION_BYTES = 1024 * 1024
"""Citations of one text: thousands of them fit."""


class WireEvent(msgspec.Struct):
    """One event of the stream."""

    type: str = ""
    delta: str | None = None
    output_index: int | None = None
    content_index: int | None = None
    summary_index: int | None = None
    item_id: str | None = None
    text: str | None = None
    arguments: str | None = None
    item: msgspec.Raw = NOTHING
    annotation: msgspec.Raw = NOTHING
    response: msgspec.Raw = NOTHING


class ContentPart(msgspec.Struct):
    """A part of a message, or of reasoning."""

    type: str = ""
    text: str | None = None
    refusal: str | None = None
    annotations: msgspec.Raw = NOTHING


class OutputItem(msgspec.Struct):
    """An item of the answer."""

    type: str = ""
    id: str | None = None
    call_id: str | None = None
    name: str | None = None
    status: str | None = None
    arguments: str | None = None
    input: str | None = None
    phase: str | None = None
    encrypted_content: str | None = None
    content: list[ContentPart] | None = None
    summary: list[ContentPart] | None = None


class IncompleteDetails(msgspec.Struct, gc=False):
    """Why an answer is incomplete."""

    reason: str | None = None


class Response(msgspec.Struct):
    """The whole answer, as the last event has it."""

    status: str | None = None
    output: list[msgspec.Raw] | None = None
    usage: UsageCount | None = None
    incomplete_details: IncompleteDetails | None = None
    error: msgspec.Raw = NOTHING


class Shown:
    """What was shown of a text, in the pieces in which it came; `is_whole` once its end came."""

    __slots__ = ("_chars", "_measured", "is_whole", "pieces")

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.is_whole = False
        self._measured = 0
        self._chars = 0

    @property
    def chars(self) -> int:
        """The length; it costs no more than the pieces that came since it was last asked for."""
        self._chars += sum(map(len, self.pieces[self._measured :]))
        self._measured = len(self.pieces)
        return self._chars

    def begins(self, whole: str) -> bool:
        """Return whether something was shown, and the whole text begins with it."""
        return 0 < self.chars <= len(whole) and whole.startswith("".join(self.pieces))

    def missing(self, whole: str) -> str:
        """Return what the whole text adds to what was shown; nothing if they differ otherwise."""
        # A shorter one is not compared: servers that repeat it would make that quadratic.
        if len(whole) > self.chars and whole.startswith("".join(self.pieces)):
            return whole[self._chars :]
        return ""


decode_event = msgspec.json.Decoder(WireEvent).decode
_decode_item = msgspec.json.Decoder(OutputItem).decode
_decode_response = msgspec.json.Decoder(Response).decode
_decode_list = msgspec.json.Decoder(list[msgspec.Raw]).decode


def odd_event(payload: bytes) -> WireEvent | None:
    """Read one event leniently; return `None` if it is not a JSON object, or too large."""
    value = _object(payload)
    if value is None:
        return None
    return WireEvent(
        type=read_text(value.get("type")) or "",
        delta=read_text(value.get("delta")),
        output_index=read_count(value.get("output_index")),
        content_index=read_count(value.get("content_index")),
        summary_index=read_count(value.get("summary_index")),
        item_id=read_text(value.get("item_id")),
        text=read_text(value.get("text")),
        arguments=_arguments(value.get("arguments")),
        item=_raw(value.get("item")),
        annotation=_raw(value.get("annotation")),
        response=_raw(value.get("response")),
    )


def read_item(raw: msgspec.Raw) -> OutputItem | None:
    """Read an item of the answer; return `None` if it is not one."""
    item = attempt(_decode_item, raw)
    if item is not None or (value := _object(bytes(raw))) is None:
        return item
    return OutputItem(
        type=read_text(value.get("type")) or "",
        id=read_text(value.get("id")),
        call_id=read_text(value.get("call_id")),
        name=read_text(value.get("name")),
        arguments=_arguments(value.get("arguments")),
        input=read_text(value.get("input")),
        phase=read_text(value.get("phase")),
        encrypted_content=read_text(value.get("encrypted_content")),
        content=_parts(value.get("content")),
        summary=_parts(value.get("summary")),
    )


def read_response(raw: msgspec.Raw | bytes) -> Response | None:
    """Read the whole answer; return `None` if it is not one."""
    response = attempt(_decode_response, raw)
    if response is not None or (value := _object(bytes(raw))) is None:
        return response
    output, usage, details = (value.get(k) for k in ("output", "usage", "incomplete_details"))
    return Response(
        status=read_text(value.get("status")),
        output=[_raw(item) for item in output] if isinstance(output, list) else None,
        usage=odd_usage(usage),
        incomplete_details=(
            IncompleteDetails(read_text(details.get("reason")))
            if isinstance(details, dict)
            else None
        ),
        error=_raw(value.get("error")),
    )


def read_annotations(parts: list[ContentPart] | None) -> list[msgspec.Raw]:
    """Return the citations of a message; none of more than can be kept."""
    found: list[msgspec.Raw] = []
    for part in parts or ():
        raw = memoryview(part.annotations)
        if 2 < len(raw) <= MAX_ANNOTATION_BYTES:
            found += filter(is_object, attempt(_decode_list, raw) or ())
    return found


def is_object(raw: msgspec.Raw) -> bool:
    """Return whether it is a JSON object."""
    return bytes(memoryview(raw)[:1]) == b"{"


def _object(data: bytes) -> dict[str, Any] | None:
    value = read_value(data)
    return value if isinstance(value, dict) else None


def _parts(value: Any) -> list[ContentPart] | None:
    if isinstance(value, str):
        return [ContentPart("output_text", read_text(value))]
    if not isinstance(value, list):
        return None
    return [
        ContentPart(
            type=read_text(part.get("type")) or "",
            text=read_text(part.get("text")),
            refusal=read_text(part.get("refusal")),
            annotations=_raw(part.get("annotations")),
        )
        for part in value
        if isinstance(part, dict)
    ]


def _arguments(value: Any) -> str | None:
    return (
        without_surrogates(json.dumps(value, ensure_ascii=False))
        if isinstance(value, dict)
        else read_text(value)
    )


def _raw(value: Any) -> msgspec.Raw:
    if value is None:
        return NOTHING
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (ValueError, RecursionError):
        return NOTHING
    return msgspec.Raw(without_surrogates(text).encode())
