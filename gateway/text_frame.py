"""A websocket's text frame as a server sends it: it has no mask, so one does for all clients."""

from __future__ import annotations

_WHOLE_TEXT = 0x81
"""A message of text in one frame (RFC 6455, 5.2)."""


def text_frame(text: bytes) -> bytes:
    """The frame of a text in UTF-8."""
    size = len(text)
    if size < 126:
        return bytes((_WHOLE_TEXT, size)) + text
    if size < 1 << 16:
        return bytes((_WHOLE_TEXT, 126)) + size.to_bytes(2) + text
    return bytes((_WHOLE_TEXT, 127)) + size.to_bytes(8) + text
