"""Lenient reading of JSON that a typed decoder refuses.

Servers differ in the types of nearly every field: numbers come as text, text with half a surrogate
pair. Usable values are taken; the rest is `None`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from ..runtime.text import without_surrogates

Data = TypeVar("Data")
Value = TypeVar("Value")

NOTHING = msgspec.Raw()
"""The default of a raw field: it is absent."""

BROKEN = (msgspec.DecodeError, UnicodeError, RecursionError)
"""What a typed decoder raises for bytes of another form."""

MAX_COUNT = 2**53
"""Largest count of tokens; every store and client can hold what is below."""

MAX_ODD_BYTES = 4 * 1024 * 1024
"""Largest event that is read leniently: plain objects take up to 25 times its memory."""


def attempt(decode: Callable[[Data], Value], data: Data) -> Value | None:
    """Return what a decoder makes of the data, `None` if they are broken or of another form."""
    try:
        return decode(data)
    except BROKEN:
        return None


def read_value(raw: msgspec.Raw | bytes) -> Any:
    """Return any JSON as plain values, `None` if it is malformed or too large."""
    data = bytes(raw)
    try:
        return json.loads(data) if len(data) <= MAX_ODD_BYTES else None
    except (ValueError, RecursionError):
        return None


def read_text(value: Any) -> str | None:
    """Return a text that can be encoded, `None` for anything else."""
    if not isinstance(value, str) or value.isascii():
        return value if isinstance(value, str) else None
    return without_surrogates(value)


def read_count(value: Any) -> int | None:
    """Return a count of tokens or a place in a list, also from text or a whole float."""
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value[:20])
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return checked_count(value) if type(value) is int else None


def checked_count(number: int | None) -> int | None:
    """Return the count, `None` if it is out of range."""
    return number if number is not None and 0 <= number < MAX_COUNT else None
