"""A JSON Schema from outside: what it may hold, how much work it makes, and what it drops.

Its author is not trusted. A schema of a few hundred bytes can keep any validator busy for hours:
alternatives that each refer to the next pair of alternatives double with every step, and recursive
ones double with every level of the arguments. So references stay inside the schema, its size is
bounded, and the work is counted before a validator does it.

As for our own tools, unknown keys and nulls that only mean "not given" are dropped from arguments
(`foreign_shape`), but only where the schema says which keys there are: not where it allows other
keys, or describes an object in several parts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import unquote

import msgspec

from ...runtime.errors import ValidationError
from .validation import ArrayShape, MapShape, ObjectShape, Shape

MAX_SCHEMA_BYTES = 256 * 1024
"""The largest tools of public servers need a tenth; the model reads all of it in every request."""
MAX_SCHEMA_DEPTH = 64
"""Ten levels are many, each takes two or three brackets; recursion stays far from its limits."""
MAX_BRANCHES = 2000
"""Schemas that may apply to one and the same value; long lists of constants need hundreds."""
MAX_CHECKS = 200_000
"""Pairs of a value and a schema that applies to it; a million pairs take 50 ms."""

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
    """The schemas inside a schema, by the values to which they apply."""

    in_place: tuple[JsonSchema, ...]
    named: dict[str, JsonSchema]
    values: tuple[JsonSchema, ...]
    keys: JsonSchema | None
    prefix: tuple[JsonSchema, ...]
    items: tuple[JsonSchema, ...]


class ForeignSchema:
    """A schema whose size, depth, references and branches are within bounds.

    Raises `ValidationError` when it is too large, too deep, branches too much, refers to something outside of
    itself, or to itself without end; `where` says whose it is.
    """

    def __init__(self, where: str, root: JsonSchema) -> None:
        self.root = root
        self._where = f"{where}: its schema"
        if not isinstance(root, (dict, bool)):
            raise self._refused(
                f"is {str(root)[:200]}, and neither an object of keywords nor true or false"
            )
        keywords = root if isinstance(root, dict) else {}
        own_id = keywords.get("$id")
        self._own_id = own_id.partition("#")[0] if isinstance(own_id, str) else ""
        draft = keywords.get("$schema", _DRAFTS[-1])
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
        """The number of schemas in it, itself included."""
        return len(self._branches)

    def target(self, reference: str) -> JsonSchema:
        """Return the schema that a reference means; raise `ValidationError` when there is none."""
        reference = self._local(reference)
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
        raise self._refused(f"refers to {reference[:200]!r}, where there is no schema")

    def count_checks(self, value: Any) -> int:
        """Return how many checks a value and all in it need; stop counting past `MAX_CHECKS`."""
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

    # ── checks ───────────────────────────────────────────────────────────────────────────────────

    def _check_size(self) -> None:
        try:
            size = len(msgspec.json.encode(self.root))
        except (TypeError, ValueError, RecursionError) as error:
            raise self._refused(f"is not JSON ({error})") from error
        if size > MAX_SCHEMA_BYTES:
            raise self._refused(f"is {size} bytes, and {MAX_SCHEMA_BYTES} are the most")
        level: list[Any] = [self.root] if isinstance(self.root, dict) else []
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
        """Return how many schemas apply to a value to which this one applies."""
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

    def _local(self, reference: str) -> str:
        """Return a reference without the schema's own name, where that is a URN.

        A URL is another matter: what a validator finds behind one may be a document that it knows.
        """
        place, hash_sign, fragment = reference.partition("#")
        is_own = place == self._own_id and place.startswith("urn:")
        return hash_sign + fragment if is_own else reference

    def _check_references(self, schema: dict[str, Any]) -> None:
        """Refuse what leads out of the schema, or changes what references mean."""
        if schema is not self.root and isinstance(schema.get("$id"), str):
            raise self._refused(
                f"has an $id below its root ({schema['$id'][:200]!r}), which changes what "
                "references mean; leave it out"
            )
        for name in _REFERENCES:
            reference = schema.get(name)
            if isinstance(reference, str):
                self.has_references = True
                if self._local(reference)[:1] not in {"", "#"} or not reference:
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
        """Yield the schemas that apply to the same value."""
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


# ── the shape ────────────────────────────────────────────────────────────────────────────────────

_OTHER_KEYS = (
    *("patternProperties", "unevaluatedProperties", "not", "if"),
    *("dependentSchemas", "dependentRequired", "dependencies"),
    *_IN_PLACE_LISTS,
    *_REFERENCES,
)
"""Keywords that may describe keys which `properties` does not list."""


def foreign_shape(schema: ForeignSchema) -> Shape | None:
    """Return the shape of what fits the schema, or `None` when nothing is to be dropped."""
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
        """Return whether null certainly does not fit; then it can only mean "not given"."""
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
