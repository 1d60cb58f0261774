"""The shape of a foreign schema: what to drop of arguments before they are validated.

As with own tools, unknown keys and nulls that only mean "not given" are dropped, as far as the
schema says what is known: not where it allows other keys, or describes an object in several parts.
"""

from __future__ import annotations

from typing import Any

from .foreign_schema import MAX_SCHEMA_DEPTH, ForeignSchema, JsonSchema
from .shape import ArrayShape, MapShape, ObjectShape, Shape

_OTHER_KEYS = (
    "patternProperties",
    "unevaluatedProperties",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "dependentSchemas",
    "dependentRequired",
    "dependencies",
    "$ref",
    "$dynamicRef",
    "$recursiveRef",
)
"""Keywords that may say something of keys which `properties` does not list."""


def foreign_shape(schema: ForeignSchema) -> Shape | None:
    """The shape of what fits the schema, or `None` when nothing is to be dropped."""
    return _Shapes(schema).of(schema.root, 0)


class _Shapes:
    def __init__(self, schema: ForeignSchema) -> None:
        self._schema = schema
        self._objects: dict[int, ObjectShape] = {}

    def of(self, schema: JsonSchema | None, depth: int) -> Shape | None:
        if not isinstance(schema, dict) or depth > MAX_SCHEMA_DEPTH:
            return None
        if isinstance(schema.get("properties"), dict):
            return self._object(schema, depth)
        if isinstance(schema.get("$ref"), str):
            return self.of(self._schema.target(schema["$ref"]), depth + 1)
        for name in ("anyOf", "oneOf"):
            choices = [choice for choice in schema.get(name) or () if choice != {"type": "null"}]
            if len(choices) == 1:
                return self.of(choices[0], depth + 1)
        if isinstance(schema.get("items"), dict):
            items = self.of(schema["items"], depth + 1)
            return None if items is None else ArrayShape(items)
        values = self.of(schema.get("additionalProperties"), depth + 1)
        return None if values is None else MapShape(values)

    def _object(self, schema: dict[str, Any], depth: int) -> ObjectShape:
        made = self._objects.get(id(schema))
        if made is not None:
            return made
        keys: dict[str, tuple[bool, Any]] = {}
        is_open = schema.get("additionalProperties", False) is not False
        is_open = is_open or any(name in schema for name in _OTHER_KEYS)
        made = self._objects[id(schema)] = ObjectShape(keys, is_open=is_open)
        keys.update((name, (True, None)) for name in schema.get("required", ()))
        for name, inner in schema["properties"].items():
            keys[name] = (not self._forbids_null(inner), self.of(inner, depth + 1))
        return made

    def _forbids_null(self, schema: JsonSchema) -> bool:
        """Whether null does not fit for sure; then it can only mean "not given"."""
        if not isinstance(schema, dict):
            return False
        kinds = schema.get("type", "null")
        if kinds != "null" and "null" not in kinds:
            return True
        if None not in schema.get("enum", (None,)) or schema.get("const") is not None:
            return True
        if isinstance(schema.get("$ref"), str):
            return self._forbids_null(self._schema.target(schema["$ref"]))
        return any(
            bool(schema.get(name)) and all(self._forbids_null(choice) for choice in schema[name])
            for name in ("anyOf", "oneOf")
        )
