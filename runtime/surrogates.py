"""Halves of surrogate pairs: what JSON and file names can hold, and UTF-8 can't."""

from __future__ import annotations


def without_surrogates(text: str) -> str:
    """The text with replacement characters for halves that stand alone; pairs become characters."""
    # By way of UTF-16, where two halves that belong together become their character.
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
