"""Escapes foreign text: nothing that a model, a tool or a file says can move the cursor.

A terminal obeys some characters instead of showing them: escape sequences repaint what was
printed, a carriage return overwrites a line, bidirectional marks reorder it. They are shown as
backslash escapes.
"""

from __future__ import annotations

import re
from pathlib import Path

_BIDI = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_INVISIBLE = (
    "\u00ad\u180e\u200b\u2028\u2029\u2060-\u2064\u206a-\u206f\u3164\ufe00-\ufe0d\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e0fff"
)
_SURROGATES = "\ud800-\udfff"

_IN_TEXT = re.compile(f"[\0-\x08\x0b-\x1f\x7f-\x9f{_BIDI}{_INVISIBLE}{_SURROGATES}]")
_LINE_ENDS = re.compile(r"\r\n?")

MAX_PATH_CHARS = 40
"""Folders in lists keep so much of their end."""


def safe_text(text: str) -> str:
    """Escape text of several lines: line breaks and tabs stay, whatever a terminal would obey is shown.

    Joiners stay too: scripts and emoji need them, and they move nothing.
    """
    return _IN_TEXT.sub(_escape, _LINE_ENDS.sub("\n", text))


def safe_line(text: str) -> str:
    """Escape text and put it on one line: every run of white space is one space."""
    return _IN_TEXT.sub(_escape, " ".join(text.split()))


def exact(text: str) -> str:
    """Escape text that a person decides about: everything but visible characters and spaces is an escape.

    Meant for JSON, where a backslash of the text itself is doubled; line breaks are escaped too.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _in_json(char) for char in text)


def safe_json(text: str) -> str:
    """Escape JSON as JSON does it: whoever reads it reads the same, and a terminal obeys nothing of it."""
    if text.isascii() and text.isprintable():
        return text
    return _IN_TEXT.sub(lambda match: _in_json(match[0]), _LINE_ENDS.sub("\n", text))


def shortened(text: str, width: int) -> str:
    """Return the text, or its beginning with an ellipsis where it is longer than `width` characters."""
    return text if len(text) <= width else text[: max(width - 1, 0)] + "…"


def short_path(path: str, width: int = MAX_PATH_CHARS) -> str:
    """Return a path for a line: the home folder is `~`, and a long path keeps its end."""
    home = str(Path.home())
    if path == home or path.startswith(f"{home}/"):
        path = f"~{path[len(home) :]}"
    line = safe_line(path)
    return line if len(line) <= width else "…" + line[len(line) - width + 1 :]


def _in_json(char: str) -> str:
    number = ord(char)
    if number < 0x10000:
        return f"\\u{number:04x}"
    above = number - 0x10000  # two halves, as UTF-16 has them
    return f"\\u{0xD800 + (above >> 10):04x}\\u{0xDC00 + (above & 0x3FF):04x}"


def _escape(match: re.Match[str]) -> str:
    number = ord(match[0])
    if number < 0x100:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
