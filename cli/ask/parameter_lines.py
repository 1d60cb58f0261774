"""What a tool takes, as lines for a person who changes the arguments of its call; the schema may be a stranger's."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from ...runtime.text import excerpt
from ..terminal.escaping import safe_line

MAX_LINES = 40
"""Arguments that are told of: the file that is edited stays on a few screens."""
MAX_LINE_CHARS = 240
MAX_NAME_CHARS = 100
MAX_VALUE_CHARS = 40
MAX_OPTIONS = 12
MAX_STEPS = 50
"""Schemas that are looked at for one argument: references may lead in a circle."""

_WORDS = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "true or false",
    "array": "list",
    "object": "object",
}


def parameter_lines(parameters: Mapping[str, Any] | None, but: Collection[str] = ()) -> list[str]:
    """Return a line for each argument but some: its name, what it may be, and what it is for."""
    named = {name: its for name, its in properties_of(parameters).items() if name not in but}
    lines = [_line(name, named[name], parameters or {}) for name in list(named)[:MAX_LINES]]
    if len(named) > MAX_LINES:
        lines.append(f"and {len(named) - MAX_LINES} more")
    return lines


def properties_of(parameters: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the schema of each argument, by its name; a name that is none is left out."""
    named = (parameters or {}).get("properties")
    if not isinstance(named, dict):
        return {}
    return {
        name: named[name]
        for name in named
        if 0 < len(name) <= MAX_NAME_CHARS and safe_line(name) == name
    }


def required_of(parameters: Mapping[str, Any] | None) -> frozenset[str]:
    """Return the names of the arguments that a call can't be without."""
    named = (parameters or {}).get("required")
    return (
        frozenset(each for each in named if isinstance(each, str))
        if isinstance(named, list)
        else frozenset()
    )


def is_text(schema: Any, root: Mapping[str, Any]) -> bool:
    """Return whether every value is a text, which is typed as it is."""
    kinds = _kinds(schema, root)
    return bool(kinds) and all(kind == _WORDS["string"] or kind.startswith('"') for kind in kinds)


def _kinds(schema: Any, root: Mapping[str, Any]) -> list[str]:
    """Return what a value may be, in words; empty when the schema does not say, or says too much."""
    kinds: list[str] = []
    todo = [schema]
    for _ in range(MAX_STEPS):
        if not todo:
            return list(dict.fromkeys(kinds))
        node = todo.pop(0)
        if not isinstance(node, dict):
            continue
        inner = list(_inner(node, root))
        todo += inner[:MAX_STEPS]
        if not inner:
            kinds += _said(node)
    return []


def _inner(node: dict[str, Any], root: Mapping[str, Any]) -> Iterator[Any]:
    reference = node.get("$ref")
    if isinstance(reference, str):
        where, _, name = reference.rpartition("/")
        held = root.get(where.removeprefix("#/"))
        yield held.get(name) if isinstance(held, dict) else None
    for keyword in ("anyOf", "oneOf", "allOf"):
        listed = node.get(keyword)
        yield from listed if isinstance(listed, list) else ()


def _said(node: dict[str, Any]) -> Iterator[str]:
    options = node.get("enum")
    if isinstance(options, list) and len(options) <= MAX_OPTIONS:
        yield from (_value(each) for each in options)
        return
    types = node.get("type")
    for each in types if isinstance(types, list) else [types]:
        if isinstance(each, str) and each in _WORDS:
            yield _WORDS[each]


def _line(name: str, schema: Any, root: Mapping[str, Any]) -> str:
    its = schema if isinstance(schema, dict) else {}
    required = root.get("required")
    facts = [" or ".join(_kinds(schema, root))]
    if isinstance(required, list) and name in required:
        facts.append("required")
    if its.get("default") is not None:
        facts.append(f"default {_value(its['default'])}")
    said = ", ".join(each for each in facts if each)
    line = f"{name} ({said})" if said else name
    description = its.get("description")
    if isinstance(description, str) and description.strip():
        line += f": {description}"
    return safe_line(excerpt(line, MAX_LINE_CHARS))


def _value(value: Any) -> str:
    return excerpt(json.dumps(value, ensure_ascii=False), MAX_VALUE_CHARS)
