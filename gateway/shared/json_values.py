"""How many values a JSON text has, before it is decoded: decoders hold the interpreter's lock until they are done."""

from __future__ import annotations

import re

_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+"?', re.DOTALL)


def has_more_values(text: bytes, most: int) -> bool:
    """Return whether a JSON text has more values than that, nearly: they are as many as its commas."""
    commas = text.count(b",")
    if commas <= most:
        return False
    return commas - sum(text.count(b",", *found.span()) for found in _STRING.finditer(text)) > most
