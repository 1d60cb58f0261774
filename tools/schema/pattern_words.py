"""Says in words what a text argument must look like, where its type is a regular expression.

A type says it beside the pattern: `msgspec.Meta(pattern=…, extra=in_words("a name: …"))`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from msgspec import inspect

_KEY = "in words"
_EXPECTED = re.compile(
    r"^Expected `str` matching regex (?P<pattern>'.*'|\".*\")(?P<rest> - at `.*)?$"
)


def in_words(text: str) -> dict[str, str]:
    """What `extra` of a type holds; the text goes on from "expected"."""
    return {_KEY: text}


def with_words(message: str, kind: Any) -> str:
    """The message of a failed conversion, with words for the pattern where its type has some."""
    found = _EXPECTED.match(message)
    if found is None:
        return message
    said = {repr(pattern): words for pattern, words in _patterns(inspect.type_info(kind))}
    words = said.get(found["pattern"])
    return message if words is None else f"Expected {words}{found['rest'] or ''}"


def _patterns(kind: inspect.Type) -> Iterator[tuple[str, str]]:
    waiting: list[inspect.Type] = [kind]
    seen: set[int] = set()
    while waiting:
        each = waiting.pop()
        if id(each) in seen:  # a type that holds itself
            continue
        seen.add(id(each))
        match each:
            case inspect.Metadata(type=inspect.StrType(pattern=str(pattern)), extra=dict(extra)):
                if _KEY in extra:
                    yield pattern, extra[_KEY]
            case inspect.Metadata(type=inner) | inspect.ListType(item_type=inner):
                waiting.append(inner)
            case inspect.DictType(value_type=inner):
                waiting.append(inner)
            case inspect.StructType(fields=fields):
                waiting += [field.type for field in fields]
            case inspect.UnionType(types=kinds):
                waiting += kinds
