"""Parts of an answer that are kept for their provider and not understood here.

OpenRouter and gateways like it send `reasoning_details` in pieces beside the readable reasoning:
encrypted reasoning and signatures that belong to later requests to the same provider. Servers that
search the web send `annotations`, the citations. Each becomes one `OpaquePart` of the answer.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ..runtime.stream import OpaquePart

MAX_OPAQUE_BYTES = 1024 * 1024
"""Of each kind in one answer; ten times the largest that was recorded. What goes beyond it is of
no use in part, so the whole kind is dropped."""

_decode_list = msgspec.json.Decoder(list[dict[str, Any]]).decode
_encode = msgspec.json.Encoder().encode
_JOINED = ("text", "summary", "data")


class Extras:
    """Collects the pieces of one answer's opaque parts."""

    def __init__(self, dialect: str) -> None:
        self._dialect = dialect
        self._items: dict[str, list[dict[str, Any]]] = {}
        self._sizes: dict[str, int] = {}

    def add(self, kind: str, raw: msgspec.Raw) -> None:
        """Adds the items of a JSON list; anything else is ignored."""
        size = self._sizes[kind] = self._sizes.get(kind, 0) + len(memoryview(raw))
        if size > MAX_OPAQUE_BYTES:
            self._items.pop(kind, None)
            return
        try:
            items = _decode_list(raw)
        except (msgspec.DecodeError, RecursionError):
            return
        known = self._items.setdefault(kind, [])
        for item in items:
            if kind != "reasoning_details" or not _continues(known, item):
                known.append(item)

    def drain(self) -> list[OpaquePart]:
        """The parts that are complete now, each kind once."""
        parts = [
            OpaquePart(self._dialect, kind, msgspec.Raw(_encode(items)))
            for kind, items in self._items.items()
            if items
        ]
        self._items.clear()
        return parts


def _continues(known: list[dict[str, Any]], item: dict[str, Any]) -> bool:
    """Merges a piece into the item that it goes on with: the last one, when type and place agree."""
    last = known[-1] if known else {}
    if not last or any(last.get(key) != item.get(key) for key in ("type", "index", "id")):
        return False
    for key, value in item.items():
        if key in _JOINED and isinstance(value, str) and isinstance(last.get(key), str):
            last[key] += value
        elif value is not None and value != "":
            last[key] = value
    return True
