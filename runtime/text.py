"""The first words of a text, for a line of a list."""

from __future__ import annotations

import re
from typing import Annotated

import msgspec

_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
"""What moves a cursor, ends a line or turns the direction of a line in a list."""


def excerpt(text: str, limit: int) -> str:
    """The first words of a text on one line of at most `limit` characters, `…` where it is cut."""
    # A text of megabytes is not split to the end for its first line.
    start = text[: limit * 8]
    line = " ".join(_CONTROLS.sub(" ", start).split())
    if len(line) <= limit:
        return line
    cut = line[: limit - 1]
    space = cut.rfind(" ")
    # In the middle of a word when there is hardly a space: one long word, or Chinese.
    return (cut[:space] if space > limit // 2 else cut).rstrip() + "…"


def without_surrogates(text: str) -> str:
    """The text with replacement characters for halves that stand alone; pairs become characters."""
    # By way of UTF-16, where two halves that belong together become their character.
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


StoredInteger = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""A number of an event, which may get a column: what one of SQLite takes."""

MAX_EXACT = 2**53
"""Up to which every reader of JSON has whole numbers exactly."""

WireInteger = Annotated[int, msgspec.Meta(ge=-MAX_EXACT, le=MAX_EXACT)]
"""A number that a client sends."""
