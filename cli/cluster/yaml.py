"""Writes YAML, of which Kubernetes' manifests need little: mappings, lists, and values that JSON has.

What might be read as anything but a text stands in quotes. A text of several lines is written as it is, behind `|`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9._/-]*")
_ESCAPED = re.compile(r"[\x7f-\x9f\u2028\u2029\ufeff]")
_WORDS = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})
"""Words that some readers take for something else than a text."""
_UNPRINTED = r"\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff"
_BLOCK = re.compile(rf"(?![ \n])[^{_UNPRINTED}]*[^\n{_UNPRINTED}]\n")
"""A text that `|` holds as it is: it begins with no space, and ends with one line end."""


def yaml_text(documents: Sequence[Mapping[str, Any]]) -> str:
    """Return the text of some documents."""
    return "".join("---\n" + "\n".join(_lines(each, 0)) + "\n" for each in documents)


def _lines(value: Mapping[str, Any] | Sequence[Any], depth: int) -> Iterator[str]:
    space = "  " * depth
    if isinstance(value, Mapping):
        for key, its in value.items():
            yield from _entry(f"{space}{_scalar(key)}:", its, depth)
        return
    for its in value:
        if isinstance(its, Mapping | list | tuple) and its:
            first, *rest = _lines(its, depth + 1)
            yield f"{space}- {first.lstrip()}"
            yield from rest
        else:
            yield f"{space}- {_scalar(its)}"


def _entry(head: str, value: Any, depth: int) -> Iterator[str]:
    if isinstance(value, Mapping | list | tuple) and value:
        yield head
        yield from _lines(value, depth + 1)
    elif isinstance(value, str) and _BLOCK.fullmatch(value):
        yield f"{head} |"
        for line in value[:-1].split("\n"):
            yield f"{'  ' * (depth + 1)}{line}" if line else ""
    else:
        yield f"{head} {_scalar(value)}"


def _scalar(value: Any) -> str:
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
        return value
    if isinstance(value, Mapping | list | tuple):
        return "{}" if isinstance(value, Mapping) else "[]"
    # JSON's escapes are YAML's, but for characters beyond 16 bits; and of those that JSON leaves, some end a line there.
    text = json.dumps(value, ensure_ascii=False)
    return _ESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
