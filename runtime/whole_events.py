"""Stream events whose texts are whole: what is told live can be encoded, and counts as on record."""

from __future__ import annotations

import msgspec

from .event_codec import with_texts
from .stream import AnyStreamEvent, TextDelta
from .surrogates import without_surrogates

_ENCODER = msgspec.json.Encoder()


def whole_events(events: list[AnyStreamEvent]) -> list[AnyStreamEvent]:
    """These events, with U+FFFD for each half of a surrogate pair; nearly always the very list."""
    if all(map(_is_whole, events)):
        return events
    return [with_texts(event, without_surrogates) for event in events]


def _is_whole(event: AnyStreamEvent) -> bool:
    if type(event) is TextDelta and event.text.isascii():
        return True
    try:
        _ENCODER.encode(event)
    except UnicodeEncodeError:
        return False
    return True
