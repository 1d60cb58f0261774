"""The structs of a Messages stream.

`decode_event` reads the usual form at full speed: one struct for all events, whose fields are the
union of theirs, so that an event of a new type is read too, and ignored by its type. What it
refuses is read again by `odd_event`, which takes halves of surrogate pairs and numbers as text.

Counts have a decoder of their own: usage that is broken must not break an answer.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from ...runtime.text import without_surrogates
from ..lenient_json import MAX_ODD_BYTES, NOTHING, attempt, read_value

KNOWN_EVENTS = frozenset(
    {
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
        "error",
    }
)
"""Events that belong to the answer; `ping` and what later versions add do not."""


class Delta(msgspec.Struct, gc=False):
    """A piece of a block, or the end of a message."""

    type: str = ""
    text: str | None = None
    thinking: str | None = None
    partial_json: str | None = None
    signature: str | None = None
    stop_reason: str | None = None
    citation: msgspec.Raw = NOTHING


class WireEvent(msgspec.Struct, gc=False):
    """One event of the stream."""

    type: str = ""
    index: int | None = None
    delta: Delta | None = None
    content_block: msgspec.Raw = NOTHING
    message: msgspec.Raw = NOTHING
    usage: msgspec.Raw = NOTHING
    error: msgspec.Raw = NOTHING


class Block(msgspec.Struct, gc=False):
    """A block as it begins: empty as a rule, whole when the provider does not stream its kind."""

    type: str
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    id: str | None = None
    name: str | None = None
    input: msgspec.Raw = NOTHING
    citations: list[msgspec.Raw] | None = None


class WireMessage(msgspec.Struct, gc=False):
    """A message as it begins, or the whole of it where the server does not stream."""

    type: str = ""
    content: list[msgspec.Raw] | None = None
    stop_reason: str | None = None
    usage: msgspec.Raw = NOTHING


class OutputDetails(msgspec.Struct, gc=False):
    """Counts within the output tokens."""

    thinking_tokens: int | None = None


class UsageCount(msgspec.Struct, gc=False):
    """Counts of tokens in this wire format: `input_tokens` without those of the cache."""

    input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    output_tokens: int | None = None
    output_tokens_details: OutputDetails | None = None


decode_event = msgspec.json.Decoder(WireEvent).decode
decode_block = msgspec.json.Decoder(Block).decode
decode_message = msgspec.json.Decoder(WireMessage).decode
decode_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_usage = msgspec.json.Decoder(UsageCount, strict=False).decode
_decode_odd = msgspec.json.Decoder(WireEvent, strict=False).decode

"""What the decoders of this module raise for malformed input."""


def odd_event(payload: bytes) -> WireEvent | None:
    """Read one event leniently; return an empty one for a type that is not of the answer.

    `None` when it is no JSON object, larger than it may be, or holds values that mean nothing.
    """
    cleaned = clean(payload)
    if cleaned is None:
        return None
    if (event := attempt(_decode_odd, cleaned)) is not None:
        return event
    value = json.loads(cleaned)
    if (
        isinstance(value, dict)
        and str(value.get("type")) not in KNOWN_EVENTS
        and "error" not in value
    ):
        return WireEvent()
    return None


def clean(payload: bytes) -> bytes | None:
    """Return the JSON with replacement characters for halves of surrogate pairs, `None` if it is malformed
    or too large. Such halves are not text, and could not be encoded later."""
    if len(payload) > MAX_ODD_BYTES:
        return None
    try:
        text = json.dumps(json.loads(payload), ensure_ascii=False)
    except (ValueError, RecursionError):
        return None
    return without_surrogates(text).encode()


def error_value(event: WireEvent, payload: bytes) -> Any:
    """Return the error object that an event carries or is."""
    return read_value(payload if event.error is NOTHING else event.error)


def decode_usage(raw: msgspec.Raw) -> UsageCount:
    """Return the counts that are there; none of usage in any other form."""
    return attempt(_decode_usage, raw) or UsageCount()
