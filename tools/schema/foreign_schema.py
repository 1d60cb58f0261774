"""A JSON Schema from outside: what it may be, and how much work it makes.

Whoever wrote it is not trusted. A schema of a few hundred bytes can make any validator work for
hours: alternatives that each refer to the next pair of alternatives double with every step, and
recursive ones double with every level of the arguments. So references stay inside the schema, its
size is bounded, and the work is counted before a validator does it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import unquote

import msgspec

from ...runtime.errors import ValidationError

MAX_SCHEMA_BYTES = 256 * 1024
"""The largest tools of public servers need a tenth; the model reads all of it on every request."""
MAX_SCHEMA_DEPTH = 64
"""Ten levels are many, each takes two or three brackets; recursion stays far from its limits."""
MAX_BRANCHES = 2000
"""How many schemas may apply to one and the same value; long lists of constants need hundreds."""
MAX_CHECKS = 200_000
"""Pairs of a value and a schema that applies to it; a million of them take 50 ms."""

JsonSchema = dict[str, Any] | bool

_BY_NAME = ("properties", "patternProperties", "dependentSchemas", "dependencies")
_IN_PLACE_LISTS = ("allOf", "anyOf", "oneOf")
_IN_PLACE = ("not", "if", "then", "else")
_OF_VALUES = ("additionalProperties", "unevaluatedProperties")
_OF_ITEMS = ("items", "additionalItems", "unevaluatedItems", "contains")
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_HOLDERS = ("$defs", "definitions")
_DRAFTS = (
    "//json-schema.org/draft-06/schema",
    "//json-schema.org/draft-07/schema",
    "//json-schema.org/draft/2019-09/schema",
    "//json-schema.org/draft/2020-12/schema",
)
_ARRAY_INDEX = re.compile(r"0|[1-9][0-9]*")


class _Plan(NamedTuple):
    """The schemas in a schema, by the values to which they apply."""

    in_place: tuple[JsonSchema, ...]
    named: dict[str, JsonSchema]
    values: tuple[JsonSchema, ...]
    keys: JsonSchema | None
    prefix: tuple[JsonSchema, ...]
    items: tuple[JsonSchema, ...]


class ForeignSchema:
    """A schema that was looked through.

    Args:
        tool_name: For messages.
        root: The schema.

    Raises:
        ValidationError: It is too large, too deep, branches too much, refers to something outside
            of itself, or to itself without end.
    """

    def __init__(self, tool_name: str, root: dict[str, Any]) -> None:
        self.root = root
        self._where = f"tool {tool_name}: its schema"
        if not isinstance(root, dict):
            raise self._refused(f"is {str(root)[:200]}, and not an object of keywords")
        draft = root.get("$schema", _DRAFTS[-1])
        if not isinstance(draft, str) or not draft.removesuffix("#").endswith(_DRAFTS):
            raise self._refused(
                f"is written in {str(draft)[:200]!r}; write it in JSON Schema 2020-12, 2019-09, "
                "draft-07 or draft-06"
            )
        self._anchors: dict[str, Any] = {}
        self._branches: dict[int, int] = {}
        self._plans: dict[int, _Plan] = {}
        self._unseen: list[JsonSchema] = [root]
        self.has_references = False
        self._check_size()
        self._note_anchors(root)
        while self._unseen:
            self._count_branches(self._unseen.pop(), ())

    @property
    def size(self) -> int:
        """How many schemas it holds, with itself."""
        return len(self._branches)

    def target(self, reference: str) -> JsonSchema:
        """The schema that a reference within this one means."""
        if reference in {"#", ""}:
            return self.root
        found: Any
        if not reference.startswith("#/"):
            found = self._anchors.get(reference.removeprefix("#"))
        else:
            found = self.root
            for step in unquote(reference[2:]).split("/"):
                found = _step(found, step.replace("~1", "/").replace("~0", "~"))
        if isinstance(found, (dict, bool)):
            return found
        raise self._refused(f"refers to {reference[:200]!r}, and there is no schema")

    def count_checks(self, value: Any) -> int:
        """How often a value, or one in it, meets a schema; counts no further than `MAX_CHECKS`."""
        count = 0
        waiting: list[tuple[JsonSchema, Any]] = [(self.root, value)]
        while waiting:
            schema, instance = waiting.pop()
            if not isinstance(schema, dict) or not isinstance(instance, (dict, list)):
                count += self._branches.get(id(schema), 1)
                continue
            count += 1
            if count + len(waiting) > MAX_CHECKS:
                return MAX_CHECKS + 1
            plan = self._plan(schema)
            waiting.extend((inner, instance) for inner in plan.in_place)
            if isinstance(instance, dict):
                for key, item in instance.items():
                    if key in plan.named:
                        waiting.append((plan.named[key], item))
                waiting.extend((plan.keys, key) for key in instance if plan.keys is not None)
                waiting.extend((inner, item) for inner in plan.values for item in instance.values())
            else:
                waiting.extend(zip(plan.prefix, instance, strict=False))
                waiting.extend((inner, item) for inner in plan.items for item in instance)
        return count

    # ── looking through ──────────────────────────────────────────────────────────────────────────

    def _check_size(self) -> None:
        try:
            size = len(msgspec.json.encode(self.root))
        except (TypeError, ValueError, RecursionError) as error:
            raise self._refused(f"is not JSON ({error})") from error
        if size > MAX_SCHEMA_BYTES:
            raise self._refused(f"is {size} bytes, and {MAX_SCHEMA_BYTES} are the most")
        level: list[Any] = [self.root]
        for _ in range(MAX_SCHEMA_DEPTH):
            level = [
                inner
                for node in level
                for inner in (node.values() if isinstance(node, dict) else node)
                if isinstance(inner, (dict, list))
            ]
        if level:
            raise self._refused(f"is nested deeper than {MAX_SCHEMA_DEPTH} levels")

    def _note_anchors(self, schema: JsonSchema) -> None:
        if isinstance(schema, dict):
            for name in ("$anchor", "$dynamicAnchor"):
                if isinstance(schema.get(name), str):
                    self._anchors[schema[name]] = schema
            for inner in _children(schema):
                self._note_anchors(inner)

    def _count_branches(self, schema: JsonSchema, inside: tuple[int, ...]) -> int:
        """How many schemas apply to a value to which this one applies."""
        if not isinstance(schema, dict):
            return 1
        key = id(schema)
        known = self._branches.get(key)
        if known is not None:
            return known
        if key in inside or len(inside) > MAX_SCHEMA_DEPTH:
            raise self._refused("refers to itself without end, or through too many references")
        self._check_references(schema)
        below = (*inside, key)
        count = 1 + sum(self._count_branches(inner, below) for inner in self._in_place(schema))
        if count > MAX_BRANCHES:
            raise self._refused(f"applies more than {MAX_BRANCHES} schemas to one value")
        self._branches[key] = count
        self._unseen.extend(_children(schema))
        return count

    def _check_references(self, schema: dict[str, Any]) -> None:
        """Refuses what leads out of the schema, or changes what references mean."""
        if schema is not self.root and isinstance(schema.get("$id"), str):
            raise self._refused(
                f"has an $id below its root ({schema['$id'][:200]!r}), which changes what "
                "references mean; leave it out"
            )
        for name in _REFERENCES:
            reference = schema.get(name)
            if isinstance(reference, str):
                self.has_references = True
                if not reference.startswith("#"):
                    raise self._refused(
                        f"refers to {reference[:200]!r}; nothing is fetched, and only references "
                        "within the schema (#/…) are followed. Put what is meant under $defs"
                    )

    def _plan(self, schema: dict[str, Any]) -> _Plan:
        plan = self._plans.get(id(schema))
        if plan is None:
            named, patterns = schema.get("properties"), schema.get("patternProperties")
            every = [*patterns.values()] if isinstance(patterns, dict) else []
            plan = self._plans[id(schema)] = _Plan(
                in_place=tuple(self._in_place(schema)),
                named=named if isinstance(named, dict) else {},
                values=_schemas([*every, *(schema.get(name) for name in _OF_VALUES)]),
                keys=schema.get("propertyNames"),
                prefix=_schemas(schema.get("prefixItems")) or _schemas(schema.get("items")),
                items=_schemas([schema.get(name) for name in _OF_ITEMS]),
            )
        return plan

    def _in_place(self, schema: dict[str, Any]) -> Iterator[JsonSchema]:
        """The schemas that apply to the same value."""
        for name in _IN_PLACE_LISTS:
            yield from _schemas(schema.get(name))
        yield from _schemas([schema.get(name) for name in _IN_PLACE])
        for name in ("dependentSchemas", "dependencies"):
            inner = schema.get(name)
            if isinstance(inner, dict):
                yield from _schemas([*inner.values()])
        for name in _REFERENCES:
            if isinstance(schema.get(name), str):
                yield self.target(schema[name])

    def _refused(self, why: str) -> ValidationError:
        return ValidationError(f"{self._where} {why}.")


def _children(schema: dict[str, Any]) -> Iterator[JsonSchema]:
    """The schemas that stand in a schema."""
    for name in (*_BY_NAME, *_HOLDERS):
        inner = schema.get(name)
        if isinstance(inner, dict):
            yield from _schemas([*inner.values()])
    for name in (*_IN_PLACE_LISTS, "prefixItems", "items"):
        yield from _schemas(schema.get(name))
    for name in (*_IN_PLACE, *_OF_VALUES, *_OF_ITEMS, "propertyNames"):
        yield from _schemas([schema.get(name)])


def _schemas(values: Any) -> tuple[JsonSchema, ...]:
    if not isinstance(values, list):
        return ()
    return tuple(value for value in values if isinstance(value, (dict, bool)))


def _step(node: Any, key: str) -> Any:
    if isinstance(node, dict):
        return node.get(key)
    if isinstance(node, list) and _ARRAY_INDEX.fullmatch(key) and int(key) < len(node):
        return node[int(key)]
    return None
