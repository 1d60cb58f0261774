"""What goes out as JSON: whatever texts it has, it can be encoded."""

from __future__ import annotations

from typing import Any

import msgspec

from ..runtime.surrogates import without_surrogates

_ENCODER = msgspec.json.Encoder()


def wire_json(value: object) -> bytes:
    """The JSON of a value; U+FFFD takes the place of halves of surrogate pairs, as on record."""
    try:
        return _ENCODER.encode(value)
    except UnicodeEncodeError:
        return _ENCODER.encode(_whole(msgspec.to_builtins(value, builtin_types=(msgspec.Raw,))))


def _whole(value: Any) -> Any:
    if isinstance(value, str):
        return without_surrogates(value)
    if isinstance(value, dict):
        return {_whole(key): _whole(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_whole(item) for item in value]
    return value
