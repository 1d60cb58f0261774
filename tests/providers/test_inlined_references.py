"""References are written out, and nothing else about a schema changes."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import msgspec
from hypothesis import given
from hypothesis import strategies as st

from callboard.providers.tool_schema import MAX_DEPTH, MAX_INLINED_BYTES, inline_references

POINT = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}


def test_a_reference_becomes_what_it_points_at() -> None:
    schema = {
        "type": "object",
        "properties": {
            "a": {"$ref": "#/$defs/point"},
            "b": {"type": "array", "items": {"$ref": "#/definitions/old"}},
            "c": {"$ref": "#/properties/b"},
            "d": {"anyOf": [{"$ref": "#/$defs/odd~1na~0me%25"}, {"type": "null"}]},
        },
        "$defs": {"point": POINT, "odd/na~me%": {"type": "string"}},
        "definitions": {"old": {"type": "number"}},
    }
    before = json.dumps(schema)
    numbers = {"type": "array", "items": {"type": "number"}}
    assert inline_references(schema) == {
        "type": "object",
        "properties": {
            "a": POINT,
            "b": numbers,
            "c": numbers,
            "d": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        },
    }
    assert json.dumps(schema) == before


def test_a_reference_at_the_root_and_one_through_another() -> None:
    schema = {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": POINT}}
    assert inline_references(schema) == POINT
    assert inline_references({"$ref": "#/$defs/t", "$defs": {"t": True}}) == {}
    assert inline_references({"$ref": "#/$defs/f", "$defs": {"f": False}}) == {"not": {}}


def test_what_stands_beside_a_reference_holds_too() -> None:
    name = {"type": "string", "description": "A name.", "minLength": 1}

    def joined(**beside: Any) -> Any:
        schema = {"$ref": "#/$defs/name", "$defs": {"name": name}, **beside}
        return inline_references(schema)

    assert joined(description="Yours.") == {**name, "description": "Yours."}
    assert joined(maxLength=5) == {**name, "maxLength": 5}
    assert joined(type="string", maxLength=5) == {**name, "maxLength": 5}
    assert joined(minLength=3, title="N") == {"title": "N", "allOf": [name, {"minLength": 3}]}
    assert joined(allOf=[{"pattern": "a"}]) == {**name, "allOf": [{"pattern": "a"}]}


def test_keywords_that_depend_on_their_neighbours_stay_with_them() -> None:
    closed = {**POINT, "additionalProperties": False}
    schema = {"$ref": "#/$defs/p", "properties": {"y": {}}, "$defs": {"p": closed}}
    assert inline_references(schema) == {"allOf": [closed, {"properties": {"y": {}}}]}


def test_a_loop_is_cut_to_an_open_schema_of_its_type() -> None:
    node = {
        "type": "object",
        "description": "A node.",
        "properties": {"next": {"$ref": "#/$defs/node"}, "top": {"$ref": "#"}},
    }
    schema = {
        "type": "object",
        "properties": {"n": {"$ref": "#/$defs/node"}},
        "$defs": {"node": node},
    }
    inlined = inline_references(schema)["properties"]["n"]["properties"]
    assert inlined["next"] == {"type": "object", "description": "A node. (again a node)"}
    assert inlined["top"] == {"type": "object", "description": "again the whole of this"}


def test_a_reference_that_leads_nowhere_is_an_open_schema_that_says_so() -> None:
    for reference in ("https://example.com/s/point", "#/$defs/point", "#point", "other#/point"):
        inlined = inline_references({"properties": {"a": {"$ref": reference, "minimum": 1}}})
        [said] = [inlined["properties"]["a"].pop("description")]
        assert inlined == {"properties": {"a": {"minimum": 1}}}
        assert said.startswith("described elsewhere, as ")
        assert said.endswith("point")


def test_names_and_values_that_look_like_references_are_left_alone() -> None:
    schema = {
        "type": "object",
        "properties": {
            "$ref": {"type": "string"},
            "$defs": {"const": {"$ref": "#/$defs/x"}},
            "definitions": {"enum": [{"$ref": "#"}], "default": {"$defs": 1}},
        },
    }
    assert inline_references(schema) == schema


def test_a_discriminator_goes_with_its_definitions() -> None:
    schema = {
        "anyOf": [{"$ref": "#/$defs/a"}],
        "discriminator": {"propertyName": "type", "mapping": {"a": "#/$defs/a"}},
        "$defs": {"a": POINT},
    }
    assert inline_references(schema) == {"anyOf": [POINT]}


def test_definitions_that_double_at_every_step_are_bounded() -> None:
    definitions: dict[str, Any] = {"d0": {"type": "string", "description": "x" * 100}}
    for step in range(1, 40):
        pair = {"$ref": f"#/$defs/d{step - 1}"}
        definitions[f"d{step}"] = {"type": "object", "properties": {"a": pair, "b": pair}}
    inlined = inline_references({"$ref": "#/$defs/d39", "$defs": definitions})
    text = msgspec.json.encode(inlined)
    assert MAX_INLINED_BYTES / 10 < len(text) < 4 * MAX_INLINED_BYTES
    assert b"left out because the schema is too long" in text


def test_a_schema_that_is_too_deep_is_cut() -> None:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(5 * MAX_DEPTH):
        schema = {"type": "array", "items": schema}
    text = json.dumps(inline_references(schema))
    assert MAX_DEPTH <= text.count("items") <= MAX_DEPTH + 1
    assert "nested too deeply" in text


LEAVES: list[dict[str, Any]] = [
    {"type": "integer", "minimum": 2},
    {"type": "string", "maxLength": 2},
    {"enum": [1, "a", None]},
    {"const": {"$ref": "#/$defs/a"}},
    {"type": "object", "additionalProperties": False, "properties": {"a": {"type": "integer"}}},
]
REFERENCES = st.sampled_from([{"$ref": f"#/$defs/{name}"} for name in "abc"])


def _grown(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.builds(lambda a, b: {"type": "object", "properties": {"a": a, "b": b}}, inner, inner),
        st.builds(lambda a: {"type": "array", "items": a}, inner),
        st.builds(lambda a, b: {"anyOf": [a, b]}, inner, inner),
        st.builds(lambda a, b: {**a, **b}, REFERENCES, inner),
        st.builds(lambda a: {"not": a}, inner),
    )


LEAF = st.sampled_from(LEAVES)
FLAT = st.recursive(LEAF, lambda inner: st.builds(lambda a: {"items": a}, inner), max_leaves=3)
SCHEMAS = st.recursive(st.one_of(LEAF, REFERENCES), _grown, max_leaves=8)
VALUES = st.recursive(
    st.sampled_from([None, 1, 5, "a", "abcd", {"$ref": "#/$defs/a"}]),
    lambda inner: st.one_of(
        st.lists(inner, max_size=2), st.dictionaries(st.sampled_from("ab"), inner, max_size=2)
    ),
    max_leaves=6,
)


@given(SCHEMAS, st.tuples(FLAT, FLAT, FLAT), VALUES)
def test_the_meaning_stays(schema: dict[str, Any], targets: tuple[Any, ...], value: Any) -> None:
    full = {**schema, "$defs": dict(zip("abc", targets, strict=True))}
    inlined = inline_references(full)
    if '"$ref"' in json.dumps(full):
        assert jsonschema_rs.is_valid(full, value) == jsonschema_rs.is_valid(inlined, value)
    else:
        assert {**inlined, "$defs": full["$defs"]} == full


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(["#", "#/$defs/a", "x"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["$ref", "$defs", "a", "properties", "items", "anyOf", "allOf", "type"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(st.dictionaries(st.sampled_from(["$ref", "$defs", "properties", "items", "not"]), JSON))
def test_any_object_becomes_one_without_references(schema: dict[str, Any]) -> None:
    inlined = inline_references(schema)
    assert "$defs" not in inlined
    assert not isinstance(inlined.get("$ref"), str)
    msgspec.json.encode(inlined)
