"""A JSON Schema as Gemini takes it: its subset of OpenAPI 3.0, with types in capitals.

The same values stay allowed wherever the subset can say so, and nothing that was allowed is
forbidden, but for a list whose items no schema describes, whose items are declared as text
(RFC-004; the field is required). What the subset can't say is appended to the description, as
JSON Schema, which the model reads; the arguments are checked against the original anyway.

- References: written out, see `tool_schema`.
- `type` lists and a missing type: an `anyOf` of one schema for each type; `null` in it, in an
  `anyOf` or in an `enum` becomes `nullable`.
- `const` and `enum` of texts: `enum`. Of other values, of mixed ones, or with an empty text, which
  the service refuses: described.
- `oneOf`: `anyOf`, described as exclusive. Keywords beside either: merged into each alternative.
- `allOf`: merged; what can't be is described.
- `prefixItems`: `items` of any of them, with the positions described.
- `exclusiveMinimum` and `exclusiveMaximum` of whole numbers: `minimum`, `maximum`; else described.
- `format`: kept where the service knows it (`date-time`; `int32`, `int64`; `float`, `double`).
- Described: `pattern`, `default`, `multipleOf`, `uniqueItems`, `contains`, `patternProperties`,
  `propertyNames`, `dependentRequired`, `not`, `if`, schemas in `additionalProperties`, and all
  others that limit values.
- Dropped without a word: `additionalProperties` and `unevaluatedProperties` that are `true` or
  `false` (unknown arguments are dropped by the runtime), `$schema`, `$id`, `$anchor`, `$comment`,
  `examples`, `deprecated`, `readOnly`, `writeOnly`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from ..tool_schema import inline_references

MAX_NOTE_CHARS = 2000
"""Characters added to one description; more would not help the model."""

_SILENT = frozenset(
    {
        "$schema",
        "$id",
        "$anchor",
        "$dynamicAnchor",
        "$recursiveAnchor",
        "$vocabulary",
        "$comment",
        "examples",
        "example",
        "deprecated",
        "readOnly",
        "writeOnly",
        "nullable",
    }
)
_KEPT = {
    "STRING": ("minLength", "maxLength"),
    "NUMBER": ("minimum", "maximum"),
    "INTEGER": ("minimum", "maximum"),
    "ARRAY": ("minItems", "maxItems"),
    "OBJECT": ("minProperties", "maxProperties"),
}
_FORMATS = {
    "STRING": {"date-time"},
    "NUMBER": {"float", "double"},
    "INTEGER": {"int32", "int64"},
}
_ONLY_FOR = {
    "STRING": {
        "minLength",
        "maxLength",
        "pattern",
        "format",
        "contentEncoding",
        "contentMediaType",
    },
    "NUMBER": {
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "format",
    },
    "ARRAY": {
        "items",
        "prefixItems",
        "additionalItems",
        "unevaluatedItems",
        "minItems",
        "maxItems",
        "uniqueItems",
        "contains",
        "minContains",
        "maxContains",
    },
    "OBJECT": {
        "properties",
        "required",
        "additionalProperties",
        "unevaluatedProperties",
        "patternProperties",
        "propertyNames",
        "dependentRequired",
        "dependentSchemas",
        "dependencies",
        "minProperties",
        "maxProperties",
    },
}
_ONLY_FOR["INTEGER"] = _ONLY_FOR["NUMBER"]
_SHAPES: dict[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("enum", "required", "anyOf", "oneOf", "allOf", "prefixItems"), list),
    "properties": Mapping,
    "title": str,
    "description": str,
    "type": (str, list),
}
_OF_NULL = {"type", "enum", "title", "description", "default"}
_MAX_INTEGER = 2**63


def gemini_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema in Gemini's subset."""
    return _reduced(inline_references(schema))


def gemini_parameters(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the parameters of a tool, which are an object, `None` if it has none.

    An object without a property is refused, and alternatives in place of the object too: those
    are described.
    """
    inlined = inline_references(schema)
    whole = _flat(inlined)
    choice: dict[str, Any] = {key: whole.pop(key) for key in ("anyOf", "oneOf") if key in whole}
    reduced = _of_type("object", {**whole, "type": "object"})
    reduced.pop("nullable", None)
    if choice:
        _describe(reduced, choice)
    return reduced if reduced.get("properties") or "description" in reduced else None


def _reduced(schema: Any) -> dict[str, Any]:
    if not isinstance(schema, Mapping):
        schema = {} if schema is not False else {"not": {}}
    flat = _flat(schema)
    for key in ("anyOf", "oneOf"):
        if key in flat:
            return _alternatives(flat, key)
    types = types_of(flat)
    is_nullable = "null" in types and len(types) > 1
    # A whole number is a number: one alternative says both.
    names = [
        name for name in types if name != "null" and not (name == "integer" and "number" in types)
    ]
    if not names:
        reduced = _of_type("null", flat)
    elif len(names) == 1:
        reduced = _of_type(names[0], flat)
    else:
        around = ("title", "description", "default")
        inner = {key: value for key, value in flat.items() if key not in around}
        reduced = {key: flat[key] for key in ("title", "description") if key in flat}
        reduced["anyOf"] = [_of_type(name, _for_type(name, inner)) for name in names]
        if "default" in flat:
            _describe(reduced, {"default": flat["default"]})
    if is_nullable:
        reduced["nullable"] = True
    return reduced


def _flat(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema with `allOf` merged and `const` as `enum`, without empty keywords."""
    flat: dict[str, Any] = {
        key: value
        for key, value in schema.items()
        if key not in _SILENT and isinstance(value, _SHAPES.get(key, object)) and value != []
    }
    if schema.get("nullable") is True:
        types = types_of(flat)
        flat["type"] = types if "null" in types else [*types, "null"]
    if "const" in flat:
        value = flat.pop("const")
        if value not in flat.get("enum", [value]):
            flat["not"] = {}
        flat["enum"] = [value]
    left: list[Any] = []
    for part in flat.pop("allOf", None) or []:
        inner = _flat(part) if isinstance(part, Mapping) else {} if part is not False else None
        both = merged(flat, inner) if inner is not None else None
        if both is None:
            left.append(part)
        else:
            flat = both
    if left:
        flat["allOf"] = left
    return flat


def _alternatives(flat: dict[str, Any], key: str) -> dict[str, Any]:
    notes: dict[str, Any] = {name: flat[name] for name in ("title", "description") if name in flat}
    default = {"default": flat["default"]} if "default" in flat else {}
    base = {
        name: value
        for name, value in flat.items()
        if name not in {key, "title", "description", "default"}
    }
    choices = [item for item in flat[key] if item is not False]
    inner = [_flat(item) if isinstance(item, Mapping) else {} for item in choices]
    kept = [merged(base, item) for item in inner if not _is_null(item)]
    is_nullable = len(kept) < len(inner) and "null" in types_of(base)
    if not kept and is_nullable:
        return _reduced({**notes, **default, **base, "type": "null"})
    if not kept or None in kept or "allOf" in base:
        # Written once, beside the base, and not in each alternative.
        reduced = _reduced({**notes, **base})
        _describe(reduced, {**default, key: choices})
        return reduced
    if len(kept) == 1:
        reduced = _reduced(merged({**notes, **default}, kept[0] or {}))
    else:
        reduced = {**notes, "anyOf": [_reduced(item) for item in kept]}
        if key == "oneOf":
            _say(reduced, "Exactly one of the alternatives.")
        if default:
            _describe(reduced, default)
    if is_nullable:
        reduced["nullable"] = True
    return reduced


def _is_null(item: Any) -> bool:
    """Return whether a schema allows null and nothing else."""
    flat = _flat(item) if isinstance(item, Mapping) else {}
    is_null = types_of(flat) == ["null"] and None in flat.get("enum", [None])
    return is_null and flat.keys() <= _OF_NULL


def _for_type(name: str, flat: dict[str, Any]) -> dict[str, Any]:
    """Return what of a schema for several types concerns one of them."""
    others = set().union(*_ONLY_FOR.values()) - _ONLY_FOR.get(name.upper(), set())
    return {key: value for key, value in flat.items() if key not in others}


def _of_type(name: str, flat: dict[str, Any]) -> dict[str, Any]:
    kind = name.upper()
    reduced: dict[str, Any] = {"type": kind}
    left = {
        key: value
        for key, value in flat.items()
        if key not in {"type", "title", "description"}
        and not (
            key in {"additionalProperties", "unevaluatedProperties"} and isinstance(value, bool)
        )
    }
    for key in ("title", "description"):
        if flat.get(key):
            reduced[key] = flat[key]
    _keep_limits(kind, left, reduced)
    if "enum" in left:
        _keep_values(kind, left, reduced)
    if kind == "OBJECT":
        _keep_properties(left, reduced)
    elif kind == "ARRAY":
        _keep_items(left, reduced)
    for key, value in list(left.items()):
        if key in ("items", "properties", "required") and not value:
            del left[key]
    if left:
        _describe(reduced, left)
    return reduced


def _keep_limits(kind: str, left: dict[str, Any], reduced: dict[str, Any]) -> None:
    if kind == "INTEGER":
        for name, target, step in (
            ("exclusiveMinimum", "minimum", 1),
            ("exclusiveMaximum", "maximum", -1),
        ):
            value = left.get(name)
            if type(value) is int and target not in left:
                left[target] = left.pop(name) + step
    for key in _KEPT.get(kind, ()):
        value = left.get(key)
        is_whole = type(value) is int and abs(value) < _MAX_INTEGER
        if is_whole or (type(value) is float and key in {"minimum", "maximum"}):
            reduced[key] = left.pop(key)
    form = left.get("format")
    if isinstance(form, str) and form in _FORMATS.get(kind, ()):
        reduced["format"] = left.pop("format")


def _keep_values(kind: str, left: dict[str, Any], reduced: dict[str, Any]) -> None:
    values = [value for value in left["enum"] if value is not None]
    texts = [value for value in values if isinstance(value, str)]
    if kind == "STRING":
        if texts and all(texts):
            reduced["enum"] = texts
            reduced["format"] = "enum"
            del left["enum"]
            return
        values = texts
    left["enum"] = [value for value in values if kind == "STRING" or not isinstance(value, str)]


def _keep_properties(left: dict[str, Any], reduced: dict[str, Any]) -> None:
    properties = left.pop("properties", None)
    shown = {name: _reduced(item) for name, item in (properties or {}).items() if item is not False}
    if shown:
        reduced["properties"] = shown
    required = left.pop("required", None)
    names = [name for name in required if isinstance(name, str)] if required else []
    if kept := [name for name in names if name in shown]:
        reduced["required"] = kept
    if unknown := [name for name in names if name not in shown]:
        left["required"] = unknown


def _keep_items(left: dict[str, Any], reduced: dict[str, Any]) -> None:
    if isinstance(left.get("items"), list):
        # Before draft 2020-12 the positions were in `items`, the rest in `additionalItems`.
        left["prefixItems"] = left.pop("items")
        if "additionalItems" in left:
            left["items"] = left.pop("additionalItems")
    left.pop("additionalItems", None)
    positions = left.get("prefixItems")
    items = left.pop("items", None)
    if isinstance(positions, list) and positions:
        if items is False:
            reduced.setdefault("maxItems", len(positions))
        choices = [*positions, *([] if items is False else [{} if items is None else items])]
        shown: list[dict[str, Any]] = []
        for choice in choices:
            if (item := _reduced(choice)) not in shown:
                shown.append(item)
        reduced["items"] = shown[0] if len(shown) == 1 else {"anyOf": shown}
    elif items is None:
        reduced["items"] = {"type": "STRING"}
    elif items is False:
        reduced.update(items={"type": "STRING"}, maxItems=0)
    else:
        reduced["items"] = _reduced(items)


def _describe(reduced: dict[str, Any], left: dict[str, Any]) -> None:
    default = left.pop("default", None) if "default" in left else msgspec.UNSET
    if left:
        _say(reduced, f"Also, as JSON Schema: {_json(left)}")
    if default is not msgspec.UNSET:
        _say(reduced, f"Default: {_json(default)}")


def _say(reduced: dict[str, Any], note: str) -> None:
    said = reduced.get("description")
    reduced["description"] = f"{said}\n{note}" if said else note


def _json(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= MAX_NOTE_CHARS else text[: MAX_NOTE_CHARS - 1] + "…"


# Two schemas that both hold, as one

ALL_TYPES = ("string", "number", "boolean", "object", "array", "null")

_LARGER = frozenset({"minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"})
_SMALLER = frozenset({"maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"})
_NAME_OF: dict[type, str] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    dict: "object",
    list: "array",
    type(None): "null",
}
_OBJECT_WORDS = ("properties", "required", "additionalProperties", "patternProperties")
_LIST_WORDS = ("items", "prefixItems", "minItems", "maxItems")


def types_of(schema: Mapping[str, Any]) -> list[str]:
    """Return the types that a schema allows, inferred from other keywords if it has no `type`.

    A schema for objects that does not say `type` strictly allows anything else too; nobody means
    that, and providers want one type.
    """
    said = schema.get("type")
    if isinstance(said, str):
        return [said] if said in _NAME_OF.values() else list(ALL_TYPES)
    if isinstance(said, list):
        names = [name for name in said if isinstance(name, str) and name in _NAME_OF.values()]
        return list(dict.fromkeys(names)) or list(ALL_TYPES)
    values = schema.get("enum")
    if isinstance(values, list) and values:
        return list(dict.fromkeys(_NAME_OF.get(type(value), "string") for value in values))
    if any(word in schema for word in _OBJECT_WORDS):
        return ["object"]
    if any(word in schema for word in _LIST_WORDS):
        return ["array"]
    return list(ALL_TYPES)


def merged(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a schema for what both allow, `None` if it can't be written as one."""
    both = dict(first)
    for key, value in second.items():
        if key not in both or both[key] == value:
            both[key] = value
        elif key == "description":
            both[key] = f"{both[key]}\n{value}"
        elif key in {"title", "default"}:
            continue
        elif key in _RULES:
            joined = _RULES[key](both[key], value)
            if joined is None:
                return None
            both[key] = joined
        else:
            return None
    return both


def _types(first: Any, second: Any) -> list[str] | None:
    one, other = types_of({"type": first}), types_of({"type": second})
    shared = [name for name in one if name in other or (name == "integer" and "number" in other)]
    if "number" in one and "integer" in other:
        shared.append("integer")
    return shared or None


def _values(first: Any, second: Any) -> list[Any] | None:
    return [value for value in first if value in second] or None


def _names(first: Any, second: Any) -> list[Any] | None:
    return list(dict.fromkeys([*first, *second]))


def _properties(first: Any, second: Any) -> dict[str, Any] | None:
    both = dict(first)
    for name, schema in second.items():
        if name not in both:
            both[name] = schema
            continue
        joined = _schema(both[name], schema)
        if joined is None:
            return None
        both[name] = joined
    return both


def _schema(first: Any, second: Any) -> Any:
    if first == second:
        return first
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        return merged(first, second)
    if first is True:
        return second
    return first if second is True else None


def _larger(first: Any, second: Any) -> Any:
    return max(first, second) if _are_numbers(first, second) else None


def _smaller(first: Any, second: Any) -> Any:
    return min(first, second) if _are_numbers(first, second) else None


def _are_numbers(*values: Any) -> bool:
    return all(isinstance(value, int | float) for value in values)


_RULES: dict[str, Callable[[Any, Any], Any]] = {
    "type": _types,
    "enum": _values,
    "required": _names,
    "properties": _properties,
    "items": _schema,
    **dict.fromkeys(_LARGER, _larger),
    **dict.fromkeys(_SMALLER, _smaller),
}
