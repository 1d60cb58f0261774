"""Parts of an answer that only its provider understands, kept to be sent back.

OpenRouter and gateways like it send `reasoning_details` in pieces beside the readable reasoning:
encrypted reasoning and signatures that belong to later requests to the same provider. Servers that
search the web send `annotations`, the citations. Gemini's compatible endpoint signs calls in their
`extra_content`. Each becomes one `OpaquePart` of the answer.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ...runtime.stream import OpaquePart
from ..lenient_json import attempt

REASONING_DETAILS = "reasoning_details"
ANNOTATIONS = "annotations"
CALL_EXTRAS = "call_extras"
"""Kind of the part that holds a list of `CallExtra`."""

MAX_OPAQUE_BYTES = 1024 * 1024
"""Bytes of each kind in one answer: ten times the largest that was recorded. What goes beyond it is of
no use in part, so the whole kind is dropped."""


class CallExtra(msgspec.Struct):
    """What a server wants back with a call: the call's number in its answer, and an object."""

    call: int
    extra_content: dict[str, Any]


_decode_list = msgspec.json.Decoder(list[dict[str, Any]]).decode
_decode_object = msgspec.json.Decoder(dict[str, Any]).decode
_decode_extras = msgspec.json.Decoder(list[CallExtra]).decode
_encode = msgspec.json.Encoder().encode
_JOINED = ("text", "summary", "data")


class Extras:
    """Collects the pieces of one answer's opaque parts."""

    def __init__(self, dialect: str) -> None:
        self._dialect = dialect
        self._items: dict[str, list[dict[str, Any]]] = {}
        self._sizes: dict[str, int] = {}

    def add(self, kind: str, raw: msgspec.Raw) -> None:
        """Add the items of a JSON list; ignore anything else."""
        items = attempt(_decode_list, raw) if self._has_room(kind, raw) else None
        if items is None:
            return
        known = self._items.setdefault(kind, [])
        for item in items:
            if kind != REASONING_DETAILS or not _continues(known, item):
                known.append(item)

    def add_to_call(self, call: int, raw: msgspec.Raw) -> None:
        """Add the JSON object that came with a call; ignore anything else."""
        extra = attempt(_decode_object, raw) if self._has_room(CALL_EXTRAS, raw) else None
        if extra is not None:
            item = {"call": call, "extra_content": extra}
            self._items.setdefault(CALL_EXTRAS, []).append(item)

    def has(self, kind: str) -> bool:
        """Return whether anything of this kind came."""
        return kind in self._sizes

    def drain(self) -> list[OpaquePart]:
        """Return the parts that are complete now, each kind once."""
        parts = [
            OpaquePart(self._dialect, kind, msgspec.Raw(_encode(items)))
            for kind, items in self._items.items()
            if items
        ]
        self._items.clear()
        return parts

    def _has_room(self, kind: str, raw: msgspec.Raw) -> bool:
        size = self._sizes[kind] = self._sizes.get(kind, 0) + len(memoryview(raw))
        if size > MAX_OPAQUE_BYTES:
            self._items.pop(kind, None)
        return size <= MAX_OPAQUE_BYTES


def decode_call_extras(data: msgspec.Raw) -> list[CallExtra]:
    """Return the extras of an opaque part; none if it is malformed."""
    return attempt(_decode_extras, data) or []


def _continues(known: list[dict[str, Any]], item: dict[str, Any]) -> bool:
    """Merge a piece into the last item, if it continues that: type and place agree."""
    last = known[-1] if known else {}
    if not last or any(last.get(key) != item.get(key) for key in ("type", "index", "id")):
        return False
    for key, value in item.items():
        if key in _JOINED and isinstance(value, str) and isinstance(last.get(key), str):
            last[key] += value
        elif value is not None and value != "":
            last[key] = value
    return True
