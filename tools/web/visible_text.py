"""Text of strangers without what nobody sees: control, direction and invisible characters."""

from __future__ import annotations

import re

_UNSEEN = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"  # control characters but tab and line ends
    r"\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    r"\U000e0000-\U000e0fff]"  # tags and more variation selectors: letters that no font shows
)
"""Zero-width joiners stay: Indic and Persian words, and emoji, are written with them."""
_HALVES = re.compile(r"[\ud800-\udfff]")
_SPACES = re.compile(r"\s+")


def visible(text: str) -> str:
    """The text as people would see it: each line end is one line feed."""
    whole = _HALVES.sub("\N{REPLACEMENT CHARACTER}", text)
    return _UNSEEN.sub("", whole.replace("\r\n", "\n").replace("\r", "\n"))


def one_line(text: str, most: int) -> str:
    """The text in one line of at most so many characters."""
    line = _SPACES.sub(" ", visible(text)).strip()
    return line if len(line) <= most else line[: most - 1].rstrip() + "…"


def beginning(text: str, most: int) -> str:
    """At most so many characters, up to the end of a line or a word where one is near."""
    if len(text) <= most:
        return text
    kept = text[:most]
    for mark in ("\n", " "):
        end = kept.rfind(mark)
        if end >= most - most // 10:
            return kept[:end].rstrip()
    return kept
