"""Two JSON Schemas that both hold, as one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

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
    """The names of the types that a schema allows, told by its other keywords where it is silent.

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
