"""Which entry of a dict has a value that msgspec refuses: its path says only `$.headers[...]`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

_ANY_ENTRY = "[...]"
_STEP = re.compile(r"\.(?P<field>[^.\[`]+)|\[(?P<index>\d+)\]|\[\.\.\.\]")
MAX_KEY_LENGTH = 100
"""Of a key that is shown: more than any that means something to its reader."""


def with_keys(message: str, tree: Any, kind: Any) -> str:
    """The message of a failed conversion, its path with the keys of dicts (`$.headers.Accept`)."""
    begin = message.rfind("`$")
    if _ANY_ENTRY not in message[max(begin, 0) :]:
        return message

    def is_refused(tried: Any) -> bool:
        try:
            msgspec.convert(tried, kind, str_keys=True)
        except msgspec.ValidationError as error:
            return str(error) == message
        return False

    path: list[str | int] = []
    for step in _STEP.finditer(message, begin):
        if step["field"] is not None:
            path.append(step["field"])
        elif step["index"] is not None:
            path.append(int(step["index"]))
        else:
            key = _refused_key(tree, path, is_refused)
            if key is None:
                return message
            path.append(key)
    shown = "".join(f"[{p}]" if isinstance(p, int) else f".{p[:MAX_KEY_LENGTH]}" for p in path)
    return f"{message[:begin]}`${shown}`"


def _refused_key(
    tree: Any, path: Sequence[str | int], is_refused: Callable[[Any], bool]
) -> str | None:
    """Halves the dict: a try takes as long as the whole conversion, and dicts may be large."""
    try:
        entries = tree
        for step in path:
            entries = entries[step]
        keys = list(entries)
    except (KeyError, IndexError, TypeError):  # a name with a dot in it
        return None
    while len(keys) > 1:
        first = keys[: len(keys) // 2]
        some = {key: entries[key] for key in first}
        keys = first if is_refused(_replaced(tree, path, some)) else keys[len(first) :]
    return str(keys[0]) if keys else None


def _replaced(tree: Any, path: Sequence[str | int], value: Any) -> Any:
    """A copy of the tree with another value at that path."""
    if not path:
        return value
    step, *rest = path
    copied = tree.copy()
    copied[step] = _replaced(tree[step], rest, value)
    return copied
