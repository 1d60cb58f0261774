"""What is known of a JSON text before it is decoded, and the decoders of what clients send."""

from __future__ import annotations

import re
import threading
from typing import Any, TypeVar

import msgspec

Kind = TypeVar("Kind")

_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+"?', re.DOTALL)
_MAKING = threading.Lock()
_decoders: dict[type, msgspec.json.Decoder[Any]] = {}


def decoder(kind: type[Kind]) -> msgspec.json.Decoder[Kind]:
    """Return the decoder of a type, made by one thread at a time: two that did so at once would crash."""
    if (found := _decoders.get(kind)) is None:
        with _MAKING:
            if (found := _decoders.get(kind)) is None:
                found = _decoders[kind] = msgspec.json.Decoder(kind)
    return found


def has_more_values(text: bytes, most: int) -> bool:
    """Return whether a JSON text has more values than that, nearly: they are as many as its commas.

    Decoders hold the interpreter's lock until they are done.
    """
    commas = text.count(b",")
    if commas <= most:
        return False
    return commas - sum(text.count(b",", *found.span()) for found in _STRING.finditer(text)) > most
