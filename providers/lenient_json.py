"""Values out of JSON that is not as its format says, for what a typed decoder refuses.

Servers differ in the types of nearly every field: numbers come as text, text with half a surrogate
pair. What can be used is taken; the rest is `None`.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from ..runtime.text import without_surrogates

NOTHING = msgspec.Raw()
"""The default of a raw field: it was not there."""

BROKEN = (msgspec.DecodeError, UnicodeError, RecursionError)
"""What a typed decoder raises for bytes that are not as it wants them."""

MAX_COUNT = 2**53
"""Beyond it a token count is no count; every store and client can hold what is below."""

MAX_ODD_BYTES = 4 * 1024 * 1024
"""Of what is read leniently: as plain objects its JSON takes up to 25 times the memory."""


def read_value(raw: msgspec.Raw | bytes) -> Any:
    """Any JSON as plain values; `None` when it is none, or larger than it may be."""
    data = bytes(raw)
    try:
        return json.loads(data) if len(data) <= MAX_ODD_BYTES else None
    except (ValueError, RecursionError):
        return None


def read_text(value: Any) -> str | None:
    """A text that can be encoded; `None` for anything else."""
    if not isinstance(value, str) or value.isascii():
        return value if isinstance(value, str) else None
    return without_surrogates(value)


def read_count(value: Any) -> int | None:
    """A count of tokens or a place in a list, also as text or with a fraction of zero."""
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value[:20])
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return checked_count(value) if type(value) is int else None


def checked_count(number: int | None) -> int | None:
    """The count, unless it can be none."""
    return number if number is not None and 0 <= number < MAX_COUNT else None
