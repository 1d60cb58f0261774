"""Output for programs: one JSON object a line, as docs/protocol.md describes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ...runtime.events import Stored
from ...runtime.text import without_surrogates
from .escaping import safe_json


class EventLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line; `seq` and `at_ms` stand with durable events only."""

    session_id: str
    seq: int | None = None
    at_ms: int | None = None
    event: Any


def stored_line(stored: Stored) -> str:
    """Return the line of an event on record."""
    return json_line(
        EventLine(
            session_id=stored.session_id, seq=stored.seq, at_ms=stored.at_ms, event=stored.event
        )
    )


def json_line(value: msgspec.Struct | Mapping[str, Any]) -> str:
    """Return a struct or a mapping as a line of JSON; what UTF-8 can't hold becomes U+FFFD.

    It may end at a terminal, or at a program that takes U+2028 for the end of a line: such characters are escapes.
    """
    try:
        text = msgspec.json.encode(value).decode()
    except UnicodeEncodeError:
        # A provider may cut a character in two. As builtins, every text can be mended.
        text = msgspec.json.encode(_mended(msgspec.to_builtins(value))).decode()
    return safe_json(text) + "\n"


def _mended(value: Any) -> Any:
    match value:
        case str():
            return without_surrogates(value)
        case dict():
            return {_mended(key): _mended(item) for key, item in value.items()}
        case list() | tuple():
            return [_mended(item) for item in value]
        case _:
            return value
