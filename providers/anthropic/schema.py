"""JSON Schemas as the Messages format takes them.

Tools: any schema, `$ref` and `$defs` included, but its root must be an object without composition.
So a reference at the root is replaced by what it points at, and `anyOf`, `oneOf`, `allOf`, `not`
and `if` there become words of the description: the model reads them, and the arguments are checked
against the original anyway. The names of the arguments are at most 64 letters and digits of ASCII,
`_`, `.` and `-`; one other name fails the whole request. Then the schema is an open object, and the
original stands in its description, where the model reads the names. Nothing else is changed.

Answers: the API compiles the schema to a grammar, and refuses what it can't compile. Kept are
`type`, `enum`, `const`, `anyOf`, `properties`, `required`, `items`, the common `format`s, `minItems`
of 0 and 1, and `description`. References are inlined, `oneOf` becomes `anyOf`, a list of types an
`anyOf` of them. Constraints on numbers, lengths, patterns and counts, `default` and `examples` are
dropped, and written in the description, where the model reads them. `title`, `$schema`, `$id`,
`$comment`, `deprecated`, `readOnly` and `writeOnly` are dropped. An object that says nothing of
other properties gets none: its answers still match the original. What would lose its meaning
(objects with free keys, arrays of anything, recursion, `allOf`, `not`, `if`, and whatever is not
named here) can't be sent in this way, and `answer_format` says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

MAX_NODES = 1000
"""Schemas within the schema of an answer, references inlined: more than the API compiles, and a
stop for definitions that double at every step."""

_ARGUMENT_NAME = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
"""Anthropic: "Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'". Those within an argument
are not looked at."""

_COMPOSED = ("anyOf", "oneOf", "allOf", "not", "if", "then", "else")
_DEFINITIONS = ("$defs", "definitions")
_TYPES = frozenset({"string", "number", "integer", "boolean", "null"})
_FORMATS = frozenset(
    {
        "date-time",
        "time",
        "date",
        "duration",
        "email",
        "hostname",
        "uri",
        "ipv4",
        "ipv6",
        "uuid",
    }
)
_SAID = frozenset(
    {
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "minLength",
        "maxLength",
        "pattern",
        "format",
        "minItems",
        "maxItems",
        "uniqueItems",
        "default",
        "examples",
    }
)
_DROPPED = frozenset(
    {
        *_DEFINITIONS,
        "title",
        "$schema",
        "$id",
        "$comment",
        "deprecated",
        "readOnly",
        "writeOnly",
    }
)


class _InexpressibleError(Exception):
    """The schema says something that the grammar can't. Never leaves this module."""


def tool_schema(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a tool's arguments."""
    schema = dict(parameters)
    reference = schema.pop("$ref", None)
    if isinstance(reference, str):
        target = _target(parameters, reference)
        schema = {**target, **schema} if target is not None else schema
        schema.pop("$ref", None)
    composed = {key: schema.pop(key) for key in _COMPOSED if key in schema}
    if composed:
        rule = f"The arguments must also match this schema: {_as_text(composed)}"
        schema["description"] = _described(schema.get("description"), rule)
    properties = schema.get("properties")
    if isinstance(properties, Mapping) and not all(map(_ARGUMENT_NAME.fullmatch, properties)):
        rule = f"The arguments are an object that matches this schema: {_as_text(parameters)}"
        return {"type": "object", "description": rule}
    return {**schema, "type": "object"}


def answer_format(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the schema of an answer, `None` if it can't be written without another meaning."""
    try:
        return _Reduction(schema).reduced(schema, ())
    except (_InexpressibleError, RecursionError):
        return None


class _Reduction:
    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._nodes = 0

    def reduced(self, schema: Any, path: tuple[str, ...]) -> dict[str, Any]:
        """Return the schema as the grammar takes it; `path` are the references that led here."""
        self._nodes += 1
        if not isinstance(schema, Mapping) or self._nodes > MAX_NODES:
            raise _InexpressibleError
        if "$ref" in schema:
            return self._resolved(schema, path)
        kinds = schema.get("type")
        if isinstance(kinds, list | tuple):
            variants = [{**schema, "type": kind} for kind in kinds]
            return {"anyOf": [self.reduced(variant, path) for variant in variants]}
        kept = dict(self._kept(schema, path))
        said = {key: schema[key] for key in schema if key in _SAID and key not in kept}
        description = schema.get("description")
        if said:
            description = _described(description, f"It must match {_as_text(said)}.")
        if description:
            kept["description"] = description
        return kept

    def _resolved(self, schema: Mapping[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
        reference = schema["$ref"]
        beside = {key: value for key, value in schema.items() if key not in {"$ref", *_DROPPED}}
        target = _target(self._root, reference) if isinstance(reference, str) else None
        if target is None or reference in path or beside.keys() - {"description", "default"}:
            raise _InexpressibleError
        return self.reduced({**target, **beside}, (*path, reference))

    def _kept(self, schema: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
        kind = schema.get("type")
        known = {"type", "description", *_SAID, *_DROPPED}
        if kind == "object":
            known |= {"properties", "required", "additionalProperties"}
            yield from self._object(schema, path)
        elif kind == "array":
            known |= {"items"}
            yield from [("type", kind), ("items", self.reduced(schema.get("items"), path))]
            if schema.get("minItems") in {0, 1}:
                yield "minItems", schema["minItems"]
        elif kind in _TYPES:
            known |= {"enum", "const"}
            yield from ((key, schema[key]) for key in ("type", "enum", "const") if key in schema)
            if kind == "string" and schema.get("format") in _FORMATS:
                yield "format", schema["format"]
        else:
            choice = next((key for key in ("anyOf", "oneOf", "enum", "const") if key in schema), "")
            known |= {choice}
            yield self._choice(choice, schema.get(choice), path)
        if schema.keys() - known:
            raise _InexpressibleError

    def _object(
        self, schema: Mapping[str, Any], path: tuple[str, ...]
    ) -> Iterator[tuple[str, Any]]:
        properties = schema.get("properties")
        required = list(schema.get("required", ()))
        others = schema.get("additionalProperties", False)
        if not isinstance(properties, Mapping) or not properties or others is not False:
            raise _InexpressibleError
        if set(required) - properties.keys():
            raise _InexpressibleError
        yield "type", "object"
        yield "properties", {key: self.reduced(each, path) for key, each in properties.items()}
        yield "required", required
        yield "additionalProperties", False

    def _choice(self, key: str, value: Any, path: tuple[str, ...]) -> tuple[str, Any]:
        if key in {"anyOf", "oneOf"} and isinstance(value, list | tuple):
            return "anyOf", [self.reduced(each, path) for each in value]
        values = value if key == "enum" else [value]
        if not key or not isinstance(values, list | tuple):
            raise _InexpressibleError
        if any(isinstance(each, list | Mapping) for each in values):
            raise _InexpressibleError
        return key, value


def _target(root: Mapping[str, Any], reference: str) -> Mapping[str, Any] | None:
    """Return the schema that a reference points at."""
    for place in _DEFINITIONS:
        name = reference.removeprefix(f"#/{place}/")
        definitions = root.get(place)
        if name != reference and isinstance(definitions, Mapping):
            target = definitions.get(name.replace("~1", "/").replace("~0", "~"))
            return target if isinstance(target, Mapping) else None
    return None


def _described(description: Any, more: str) -> str:
    return f"{description} {more}" if isinstance(description, str) and description else more


def _as_text(value: Any) -> str:
    return msgspec.json.encode(value).decode()
