"""JSON Schemas without references, for wire formats that can't follow them.

The rules:

- A local `$ref` (also `$dynamicRef`, `$recursiveRef`) is replaced by what it points at; keywords
  beside it hold too. Titles, descriptions and other notes beside it win; where constraints meet,
  both are kept under `allOf`.
- `$defs` and `definitions` go, and with them `discriminator`, a hint whose mapping names them.
- A reference that leads into itself, that points outside the schema or nowhere, or that comes when
  the schema has grown by `MAX_INLINED_BYTES`, becomes an open schema of the same type, whose
  description says so. So does what is nested deeper than `MAX_DEPTH`. Such a schema accepts more
  than the original, never less; the arguments are checked against the original anyway.
- Values (`enum`, `const`, `default`, `examples`) are left as they are, whatever they look like.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

import msgspec

MAX_INLINED_BYTES = 256 * 1024
"""Bytes that references may add to a schema: more than a provider takes as a whole tool list, and a stop
for definitions that double at every step."""

MAX_DEPTH = 64
"""Depth of nested schemas; providers refuse far less (OpenAI: 10 levels)."""

MAX_KEPT_DESCRIPTION_CHARS = 200
"""Characters of a description that is copied for each reference."""

_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_GONE = frozenset({*_REFERENCES, "$defs", "definitions", "discriminator"})
_SCHEMA_MAPS = frozenset({"properties", "patternProperties", "dependentSchemas", "dependencies"})
_SCHEMA_LISTS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_SCHEMAS = frozenset(
    {
        "items",
        "additionalItems",
        "additionalProperties",
        "unevaluatedItems",
        "unevaluatedProperties",
        "contains",
        "contentSchema",
        "propertyNames",
        "not",
        "if",
        "then",
        "else",
    }
)
_NOTES = frozenset(
    {
        "title",
        "description",
        "default",
        "examples",
        "deprecated",
        "readOnly",
        "writeOnly",
        "$comment",
    }
)
_ENTANGLED = frozenset(
    {
        "items",
        "prefixItems",
        "additionalItems",
        "additionalProperties",
        "unevaluatedItems",
        "unevaluatedProperties",
        "contains",
        "minContains",
        "maxContains",
        "if",
        "then",
        "else",
    }
)
"""Keywords whose meaning depends on their neighbours: they are not moved to others."""


def inline_references(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema without references; the argument is not changed.

    Args:
        schema: A JSON Schema as decoded JSON, whole: its references start at its root.
    """
    inlined = _Inliner(schema).schema(schema, 0)
    if isinstance(inlined, dict):
        return inlined
    return {} if inlined else {"not": {}}


class _Inliner:
    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._left_bytes = MAX_INLINED_BYTES
        # Targets that are being written out, by identity; meeting one again is a loop.
        self._open: set[int] = {id(root)}

    def schema(self, value: Any, depth: int) -> Any:
        """Return a schema without references; anything else is returned as it is."""
        if not isinstance(value, Mapping):
            return value
        if depth > MAX_DEPTH:
            return _opened(value, "nested too deeply to be shown")
        beside = {
            key: self._keyword(key, item, depth + 1)
            for key, item in value.items()
            if key not in _GONE
        }
        for key in _REFERENCES:
            reference = value.get(key)
            if isinstance(reference, str):
                beside = _joined(self._target(reference, depth + 1), beside)
        return beside

    def _keyword(self, key: str, value: Any, depth: int) -> Any:
        if key in _SCHEMA_MAPS and isinstance(value, Mapping):
            return {name: self.schema(item, depth) for name, item in value.items()}
        if (key in _SCHEMA_LISTS or key == "items") and isinstance(value, list | tuple):
            return [self.schema(item, depth) for item in value]
        return self.schema(value, depth) if key in _SCHEMAS else value

    def _target(self, reference: str, depth: int) -> Any:
        name = reference.rpartition("/")[2] or "#"
        found, target = _look_up(self._root, reference)
        if not found:
            return _opened({}, f"described elsewhere, as {name}")
        if not isinstance(target, Mapping):
            return target
        if id(target) in self._open:
            return _opened(target, f"again a {name}" if name != "#" else "again the whole of this")
        try:
            self._left_bytes -= len(msgspec.json.encode(target))
        except RecursionError:
            self._left_bytes = 0
        if self._left_bytes <= 0:
            return _opened(target, f"a {name}, left out because the schema is too long")
        self._open.add(id(target))
        inlined = self.schema(target, depth)
        self._open.discard(id(target))
        return inlined


def _look_up(root: Mapping[str, Any], reference: str) -> tuple[bool, Any]:
    """Follow a JSON Pointer in a URI fragment (RFC 6901, section 6)."""
    if not reference.startswith("#") or (len(reference) > 1 and reference[1] != "/"):
        return False, None
    value: Any = root
    for token in unquote(reference).split("/")[1:]:
        key = token.replace("~1", "/").replace("~0", "~")
        if isinstance(value, Mapping) and key in value:
            value = value[key]
        elif isinstance(value, list) and key.isdecimal() and int(key[:9]) < len(value):
            value = value[int(key[:9])]
        else:
            return False, None
    return isinstance(value, Mapping | bool), value


def _opened(schema: Mapping[str, Any], why: str) -> dict[str, Any]:
    """Return the stand-in for a schema that is not written out: any value of its type."""
    opened: dict[str, Any] = {"type": schema["type"]} if "type" in schema else {}
    said = schema.get("description")
    if isinstance(said, str) and said:
        why = f"{said[:MAX_KEPT_DESCRIPTION_CHARS]} ({why})"
    opened["description"] = why
    return opened


def _joined(target: Any, beside: dict[str, Any]) -> Any:
    """Return what a reference points at, joined with the keywords beside it."""
    if not beside or target is False:
        return target
    if not isinstance(target, Mapping):
        return beside
    shared = {key for key in target.keys() & beside.keys() if target[key] != beside[key]} - _NOTES
    entangled = (target.keys() | beside.keys()) & _ENTANGLED
    constraints = {key: value for key, value in beside.items() if key not in _NOTES}
    if not constraints or not (shared or entangled):
        return {**target, **beside}
    notes = {key: value for key, value in beside.items() if key in _NOTES}
    others = constraints.pop("allOf") if isinstance(constraints.get("allOf"), list) else []
    return {**notes, "allOf": [target, *([constraints] if constraints else []), *others]}
