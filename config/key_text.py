"""What may be a provider's key: one line of plain characters that fits into a header."""

from __future__ import annotations

MAX_KEY_LENGTH = 8192
"""Longer than any key; a header of this size still passes every server."""


def is_key(text: str) -> bool:
    """Whether the text can travel in a header as it is."""
    return 0 < len(text) <= MAX_KEY_LENGTH and text.isascii() and text.isprintable()
