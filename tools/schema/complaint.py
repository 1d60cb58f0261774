"""What msgspec complains about, in the words of our errors: JSON's types, an enum's values, no patterns."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec

from ...runtime.text import in_json_words

MAX_GIVEN = 100
"""How much of a wrong value an error shows."""
MAX_CHOICES = 30
"""Values of an enum that an error lists; the schema beside it has all."""

_AT = re.compile(r"^(?P<problem>.*?)(?: - at `\$(?P<path>.*)`)?$", re.DOTALL)
_INSIDE = re.compile(r"^(?P<problem>.*) - in `(?P<path>[^`]+)`$", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(.+)`$")
STEP = re.compile(r"\.(?P<field>[^.\[`]+)|\[(?P<index>\d+)\]|\[\.\.\.\]")
_OF_ENUM = re.compile(
    r"^(?:invalid enum value (?P<value>.*)|expected \w+, got (?P<kind>\w+))$", re.DOTALL
)
_EXPECTED = re.compile(
    r"^Expected `str` matching regex (?P<pattern>'.*'|\".*\")(?P<rest> - at `.*)?$"
)


def explain(
    message: str, schema: Callable[[], dict[str, Any]] | None = None
) -> tuple[str, str | None]:
    """Return what msgspec found wrong, in the words of our errors, and in which field.

    `schema` returns the JSON Schema of the whole: where it has an enum, its values are listed.
    """
    found = _AT.match(message)
    problem, path = (found["problem"], found["path"] or "") if found else (message, "")
    if inside := _INSIDE.match(problem):  # of a Pydantic model
        problem, path = inside["problem"], path + inside["path"]
    missing = _MISSING.match(problem)
    if missing:
        field = f"{path}.{missing[1]}".lstrip(".")
        return f"`{field}` is required and missing", field
    field = path.lstrip(".")
    # Null is never what was expected: where it may stand, it only means "not given".
    problem = in_json_words(problem.replace(" | null`", "`"))
    problem = problem[:1].lower() + problem[1:]
    of_enum = _OF_ENUM.match(problem)
    if of_enum and schema is not None and (words := _choices_at(schema(), path)):
        given = of_enum["value"] or of_enum["kind"]
        problem = f"expected {words}, got {given[:MAX_GIVEN]}"
    return (f"`{field}`: {problem}" if field else problem), field or None


def _choices_at(root: dict[str, Any], path: str) -> str:
    """Return the values of the enum at a place in a schema, in words; empty when there is none."""
    nodes = _alternatives([root], root)
    for step in STEP.finditer(path):
        nodes = _alternatives([below for node in nodes for below in _below(node, step)], root)
    choices = [choice for node in nodes for choice in node.get("enum", ())]
    said = [msgspec.json.encode(choice).decode() for choice in choices[:MAX_CHOICES]]
    more = f" or another of {len(choices)}" if len(choices) > MAX_CHOICES else ""
    return " or ".join(said) + more


def _alternatives(todo: list[Any], root: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the schemas that may apply where one of these stands: themselves and what they refer to."""
    found: list[dict[str, Any]] = []
    while todo:
        node = todo.pop()
        if isinstance(node, dict) and node not in found:
            found.append(node)
            todo += node.get("anyOf", ())
            todo.append(root.get("$defs", {}).get(str(node.get("$ref")).rpartition("/")[2]))
    return found


def _below(node: dict[str, Any], step: re.Match[str]) -> list[Any]:
    if step["field"] is None:
        of_tuple = node.get("prefixItems", [])[int(step["index"] or 0) :][:1]
        return of_tuple or [node.get("items")]
    return [node.get("properties", {}).get(step["field"]), node.get("additionalProperties")]


_words: dict[str, str] = {}
"""What fits a pattern, in words, by the pattern as msgspec writes it."""


def in_words(pattern: str, words: str, *, max_length: int) -> msgspec.Meta:
    """Return the bounds of a text that fits a pattern.

    The words go on from "expected" and replace the regular expression in the message for the model.
    """
    _words[repr(pattern)] = words
    return msgspec.Meta(pattern=pattern, max_length=max_length)


def with_words(message: str) -> str:
    """Return msgspec's message with the words of `in_words` in place of their pattern."""
    found = _EXPECTED.match(message)
    words = _words.get(found["pattern"]) if found else None
    return f"Expected {words}{found['rest'] or ''}" if found and words else message
