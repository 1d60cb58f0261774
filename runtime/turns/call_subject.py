"""What a call is about, read from its arguments: a command, a path, a question."""

from __future__ import annotations

import shlex
from typing import Any

import msgspec

TELLING = ("command", "code", "path", "source", "url", "query", "pattern", "task", "question")
"""The arguments that say what a call is about, the most telling first; else it is the first text."""
PROGRAMS = frozenset({"command", "code"})
"""Those that are run."""


def telling_argument(arguments: str) -> tuple[str, str]:
    """Return the name and the text of the argument that says what a call is about; both may be empty."""
    try:
        values: Any = msgspec.json.decode(arguments)
    except msgspec.DecodeError:
        return "", ""
    if not isinstance(values, dict):
        return "", ""
    texts = {key: text for key, value in values.items() if (text := _text(value))}
    return next(((key, texts[key]) for key in (*TELLING, *texts) if key in texts), ("", ""))


def _text(value: object) -> str:
    if isinstance(value, list) and all(isinstance(word, str) for word in value):
        return shlex.join(value)
    return value if isinstance(value, str) else ""
