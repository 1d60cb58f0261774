"""Texts and numbers that fit: excerpts, texts without lone surrogates, integers with bounds."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated

import msgspec

MIN_LIKENESS = 0.7
"""How similar a suggested name must be: two letters may be wrong, but not half of them."""

_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
"""Characters that move a cursor, end a line or change the direction of a text."""


def excerpt(text: str, limit: int) -> str:
    """Return the first words of a text, on one line of at most `limit` characters; `…` marks a cut."""
    # Only the beginning is split: the text may have megabytes.
    start = text[: limit * 8]
    line = " ".join(_CONTROLS.sub(" ", start).split())
    if len(line) <= limit:
        return line
    cut = line[: limit - 1]
    space = cut.rfind(" ")
    # Cut within a word if there is hardly a space: one long word, or Chinese.
    return (cut[:space] if space > limit // 2 else cut).rstrip() + "…"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ` Did you mean "…"?` about the known name that is most like this one, or nothing."""
    from difflib import get_close_matches  # few errors are about a name

    found = get_close_matches(name, known, 1, MIN_LIKENESS)
    return f' Did you mean "{found[0]}"?' if found else ""


def json_size(value: object) -> int:
    """Return how many bytes a value's JSON has."""
    return len(msgspec.json.encode(value))


def without_surrogates(text: str) -> str:
    """Return the text with U+FFFD for each lone surrogate; pairs become their character."""
    # UTF-16 joins the two halves of a pair.
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


StoredInteger = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""A number in an event, which may go into a column of SQLite: 64 bits."""

MAX_EXACT = 2**53
"""Up to here every reader of JSON has exact integers."""

WireInteger = Annotated[int, msgspec.Meta(ge=-MAX_EXACT, le=MAX_EXACT)]
"""A number that a client sends."""
