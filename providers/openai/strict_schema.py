"""JSON Schemas in OpenAI's strict form, if they can be written so without another meaning.

In strict mode the provider makes the model write nothing else than what the schema allows, and
accepts only a part of JSON Schema: the root is an object, every object is closed and requires all
its properties, and only the keywords below are known. (OpenAI, "Structured outputs", "Supported
schemas".)

The rules:
- An object that names its properties and says nothing about others is closed: what is then written
  is valid by the original too. One that allows others, or names none, has no strict form.
- An optional property becomes required when its absence can be expressed: it may be null, or it has a
  default, which then stands in its description. Any other optional property has no strict form.
- `title`, `default`, `examples`, `$schema`, `$id`, `$comment`, `deprecated`, `readOnly`,
  `writeOnly` and `discriminator` are dropped: they forbid nothing.
- `definitions` become `$defs`; a reference keeps its place, and a description beside it goes around
  it. A root that is a reference becomes what it points at.
- `oneOf` beside a `discriminator` becomes `anyOf`: the tag that each has to its own says the rest.
- Values get the type that they have where none is given.

Anything else (`allOf`, `not`, `minLength`, unknown formats, schemas that allow anything, references
out of the schema, more than the provider's limits) has no strict form, and the
schema goes out as it is, as a rule that the model is only asked to follow.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

MAX_PROPERTIES = 5000
"""OpenAI: "A schema may have up to 5000 object properties total"."""

MAX_OBJECTS = 10
"""OpenAI: "with up to 10 levels of nesting"."""

MAX_DEPTH = 30
"""Depth of nested schemas; no provider accepts more."""

MAX_VALUES = 1000
"""OpenAI: "up to 1000 enum values across all enum properties"."""

MAX_CHARS = 15_000
"""Characters of all names and values: OpenAI allows 120,000, but 15,000 in one `enum`."""

_DROPPED = frozenset(
    [
        "title",
        "default",
        "examples",
        "$schema",
        "$id",
        "$comment",
        "deprecated",
        "readOnly",
        "writeOnly",
        "discriminator",
        "$defs",
        "definitions",
    ]
)
_KEPT = frozenset(
    [
        "multipleOf",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "minItems",
        "maxItems",
    ]
)
_FORMATS = frozenset(
    ["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"]
)
_TYPES = frozenset(["string", "number", "integer", "boolean", "object", "array", "null"])
_encode = msgspec.json.Encoder().encode


def strict_schema(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the schema in strict form, `None` if it has none."""
    try:
        return _Reduction(schema).root()
    except _CannotBeSaidError:
        return None


class _CannotBeSaidError(Exception):
    """The schema has no strict form."""


class _Reduction:
    """The reduction of one schema, with the counts that the provider limits."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._schema = schema
        old, new = _object(schema, "definitions"), _object(schema, "$defs")
        _check(all(old[name] == new[name] for name in old.keys() & new.keys()))
        self._definitions = {**old, **new}
        self._properties = 0
        self._values = 0
        self._chars = sum(map(len, self._definitions))

    def root(self) -> dict[str, Any]:
        root: Mapping[str, Any] = self._schema
        if "$ref" in root:
            _check(set(root) <= _DROPPED | {"$ref", "description"})
            root = {**self._target(root["$ref"]), **_some(root, "description")}
        reduced = self._reduce(root, 1, 0)
        _check(reduced.get("type") == "object")
        if self._definitions:
            reduced["$defs"] = {
                name: self._reduce(definition, 1, 0)
                for name, definition in self._definitions.items()
            }
        return reduced

    def _reduce(self, schema: Any, depth: int, objects: int) -> dict[str, Any]:
        _check(isinstance(schema, Mapping) and depth <= MAX_DEPTH)
        if "$ref" in schema:
            return self._reference(schema)
        if "anyOf" in schema or "oneOf" in schema:
            return self._choice(schema, depth, objects)
        types = _types(schema)
        reduced: dict[str, Any] = {"type": types[0] if len(types) == 1 else types}
        for key, value in schema.items():
            if key in _KEPT or key == "description":
                reduced[key] = value
            elif key in {"enum", "const"}:
                self._count_values(value if key == "enum" else [value])
                reduced[key] = value
            elif key in {"pattern", "format"}:
                _check(isinstance(value, str))
                _check(value in _FORMATS if key == "format" else _is_known_pattern(value))
                reduced[key] = value
            else:
                known = {"type", "properties", "required", "additionalProperties", "items"}
                _check(key in _DROPPED or key in known)
        if "object" in types:
            _check(objects < MAX_OBJECTS)
            reduced |= self._object(schema, depth, objects + 1)
        if "array" in types:
            reduced["items"] = self._reduce(schema.get("items"), depth + 1, objects)
        return reduced

    def _object(self, schema: Mapping[str, Any], depth: int, objects: int) -> dict[str, Any]:
        properties = _object(schema, "properties")
        _check(schema.get("additionalProperties", not properties) is False)
        required = schema.get("required", [])
        _check(isinstance(required, list) and all(isinstance(name, str) for name in required))
        _check(set(required) <= properties.keys())
        self._properties += len(properties)
        _check(self._properties <= MAX_PROPERTIES)
        self._count_chars(properties)
        return {
            "properties": {
                name: self._property(value, depth, objects, is_required=name in required)
                for name, value in properties.items()
            },
            "required": required if len(required) == len(properties) else list(properties),
            "additionalProperties": False,
        }

    def _property(
        self, schema: Any, depth: int, objects: int, *, is_required: bool
    ) -> dict[str, Any]:
        reduced = self._reduce(schema, depth + 1, objects)
        if is_required or (self._may_be_null(schema, 0) and schema.get("default") is None):
            return reduced
        _check("default" in schema)
        default = f"Default: {_encode(schema['default']).decode()}."
        described = reduced.get("description")
        text = f"{described} {default}" if described else default
        if "$ref" in reduced:
            return {"anyOf": [reduced], "description": text}
        return {**reduced, "description": text}

    def _reference(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        # "$ref cannot have keywords": what describes it goes around it.
        _check(set(schema) <= _DROPPED | {"$ref", "description"})
        reference = schema["$ref"]
        self._target(reference)
        if reference != "#":
            reference = f"#/$defs/{reference.rpartition('/')[2]}"
        if "description" in schema:
            return {"anyOf": [{"$ref": reference}], "description": schema["description"]}
        return {"$ref": reference}

    def _target(self, reference: Any) -> Mapping[str, Any]:
        _check(isinstance(reference, str))
        if reference == "#":
            return self._schema
        start, _, name = reference.rpartition("/")
        _check(start in {"#/$defs", "#/definitions"} and name in self._definitions)
        target = self._definitions[name]
        _check(isinstance(target, Mapping))
        return target  # type: ignore[no-any-return]

    def _choice(self, schema: Mapping[str, Any], depth: int, objects: int) -> dict[str, Any]:
        key = "anyOf" if "anyOf" in schema else "oneOf"
        _check(set(schema) <= _DROPPED | {key, "description"})
        _check(key == "anyOf" or "discriminator" in schema)
        choices = schema[key]
        _check(isinstance(choices, list) and bool(choices))
        reduced = [self._reduce(choice, depth + 1, objects) for choice in choices]
        return {"anyOf": reduced, **_some(schema, "description")}

    def _may_be_null(self, schema: Mapping[str, Any], depth: int) -> bool:
        _check(depth <= MAX_DEPTH)
        if "$ref" in schema:
            return self._may_be_null(self._target(schema["$ref"]), depth + 1)
        choices = schema.get("anyOf", schema.get("oneOf"))
        if choices is not None:
            return any(self._may_be_null(choice, depth + 1) for choice in choices)
        values = schema.get("enum", [schema["const"]] if "const" in schema else [None])
        return "null" in _types(schema) and None in values

    def _count_values(self, values: Any) -> None:
        _check(isinstance(values, list) and bool(values))
        self._values += len(values)
        _check(self._values <= MAX_VALUES)
        self._count_chars(value for value in values if isinstance(value, str))

    def _count_chars(self, texts: Iterator[str] | Mapping[str, Any]) -> None:
        self._chars += sum(map(len, texts))
        _check(self._chars <= MAX_CHARS)


def _types(schema: Mapping[str, Any]) -> list[str]:
    said = schema.get("type")
    if said is None:
        values = schema.get("enum", [schema["const"]] if "const" in schema else [])
        _check(isinstance(values, list))
        said = list(dict.fromkeys(_TYPE_OF.get(type(value), "") for value in values))
    types = [said] if isinstance(said, str) else said
    _check(isinstance(types, list) and bool(types))
    _check(all(isinstance(each, str) and each in _TYPES for each in types))
    return list(types)


_TYPE_OF = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}


def _is_known_pattern(pattern: str) -> bool:
    """Return whether a pattern has no lookaround group, which the provider does not know."""
    return "(?" not in pattern.replace("(?:", "")


def _object(schema: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = schema.get(key, {})
    _check(isinstance(value, Mapping))
    return value  # type: ignore[no-any-return]


def _some(schema: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    return {key: schema[key] for key in keys if key in schema}


def _check(holds: bool) -> None:
    if not holds:
        raise _CannotBeSaidError
