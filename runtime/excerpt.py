"""The first words of a text, for a line of a list."""

from __future__ import annotations

import re

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
