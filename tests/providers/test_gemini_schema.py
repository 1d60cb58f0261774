"""Schemas in Gemini's subset: what is said otherwise, and what is written into descriptions."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.providers.gemini.schema import gemini_parameters, gemini_schema

ALSO = "Also, as JSON Schema: "
ANY = {
    "anyOf": [
        {"type": "STRING"},
        {"type": "NUMBER"},
        {"type": "BOOLEAN"},
        {"type": "OBJECT"},
        {"type": "ARRAY", "items": {"type": "STRING"}},
    ],
    "nullable": True,
}


@pytest.mark.parametrize(
    ("schema", "sent"),
    [
        ({"type": "string"}, {"type": "STRING"}),
        ({"type": ["string", "null"]}, {"type": "STRING", "nullable": True}),
        ({"type": "null"}, {"type": "NULL"}),
        ({"type": "integer", "nullable": True}, {"type": "INTEGER", "nullable": True}),
        (
            {"anyOf": [{"type": "string"}, {"type": "null"}], "description": "D.", "default": None},
            {"type": "STRING", "nullable": True, "description": "D.\nDefault: null"},
        ),
        (
            {"anyOf": [{"type": "string", "description": "E."}], "description": "D."},
            {"type": "STRING", "description": "D.\nE."},
        ),
        (
            {"type": "object", "anyOf": [{"type": "null"}], "default": 1},
            {
                "type": "OBJECT",
                "description": ALSO + '{"anyOf":[{"type":"null"}]}\nDefault: 1',
            },
        ),
        (
            {"type": ["string", "integer"], "minLength": 1, "minimum": 2, "description": "D."},
            {
                "description": "D.",
                "anyOf": [{"type": "STRING", "minLength": 1}, {"type": "INTEGER", "minimum": 2}],
            },
        ),
        ({"type": ["integer", "number"]}, {"type": "NUMBER"}),
        ({"const": "a"}, {"type": "STRING", "enum": ["a"], "format": "enum"}),
        (
            {"enum": ["a", "b", None]},
            {"type": "STRING", "enum": ["a", "b"], "format": "enum", "nullable": True},
        ),
        ({"enum": [1, 2]}, {"type": "INTEGER", "description": ALSO + '{"enum":[1,2]}'}),
        ({"const": True}, {"type": "BOOLEAN", "description": ALSO + '{"enum":[true]}'}),
        ({"enum": ["", "a"]}, {"type": "STRING", "description": ALSO + '{"enum":["","a"]}'}),
        (
            {"enum": ["a", 1]},
            {
                "anyOf": [
                    {"type": "STRING", "enum": ["a"], "format": "enum"},
                    {"type": "INTEGER", "description": ALSO + '{"enum":[1]}'},
                ]
            },
        ),
        (
            {"oneOf": [{"type": "string"}, {"type": "integer"}]},
            {
                "anyOf": [{"type": "STRING"}, {"type": "INTEGER"}],
                "description": "Exactly one of the alternatives.",
            },
        ),
        (
            {"allOf": [{"type": "integer", "minimum": 1}, {"minimum": 3, "maximum": 9}]},
            {"type": "INTEGER", "minimum": 3, "maximum": 9},
        ),
        (
            {"type": "string", "allOf": [{"type": "integer"}]},
            {"type": "STRING", "description": ALSO + '{"allOf":[{"type":"integer"}]}'},
        ),
        (
            {"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 10},
            {"type": "INTEGER", "minimum": 1, "maximum": 9},
        ),
        (
            {"type": "number", "exclusiveMinimum": 0, "multipleOf": 0.5},
            {"type": "NUMBER", "description": ALSO + '{"exclusiveMinimum":0,"multipleOf":0.5}'},
        ),
        ({"type": "string", "format": "date-time"}, {"type": "STRING", "format": "date-time"}),
        (
            {"type": "string", "format": "uri", "pattern": "^h", "description": "D."},
            {"type": "STRING", "description": "D.\n" + ALSO + '{"format":"uri","pattern":"^h"}'},
        ),
        ({"type": "integer", "default": 5}, {"type": "INTEGER", "description": "Default: 5"}),
        ({"type": "array"}, {"type": "ARRAY", "items": {"type": "STRING"}}),
        ({"type": "array", "items": {}}, {"type": "ARRAY", "items": ANY}),
        (
            {"type": "array", "items": {"type": "number"}, "uniqueItems": True, "minItems": 1},
            {
                "type": "ARRAY",
                "items": {"type": "NUMBER"},
                "minItems": 1,
                "description": ALSO + '{"uniqueItems":true}',
            },
        ),
        (
            {"prefixItems": [{"type": "string"}, {"type": "number"}], "items": False},
            {
                "type": "ARRAY",
                "maxItems": 2,
                "items": {"anyOf": [{"type": "STRING"}, {"type": "NUMBER"}]},
                "description": ALSO + '{"prefixItems":[{"type":"string"},{"type":"number"}]}',
            },
        ),
        (
            {"type": "object", "additionalProperties": {"type": "integer"}},
            {"type": "OBJECT", "description": ALSO + '{"additionalProperties":{"type":"integer"}}'},
        ),
        (
            {
                "type": "object",
                "properties": {"a": {"type": "string"}},
                "required": ["a", "b"],
                "additionalProperties": False,
            },
            {
                "type": "OBJECT",
                "properties": {"a": {"type": "STRING"}},
                "required": ["a"],
                "description": ALSO + '{"required":["b"]}',
            },
        ),
        (
            {
                "type": "object",
                "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
                "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
            },
            {
                "anyOf": [
                    {
                        "type": "OBJECT",
                        "properties": {"a": {"type": "STRING"}, "b": {"type": "STRING"}},
                        "required": [name],
                    }
                    for name in "ab"
                ]
            },
        ),
        (
            {"type": "string", "$schema": "s", "title": "T", "examples": ["x"]},
            {"type": "STRING", "title": "T"},
        ),
        ({}, ANY),
        (
            {"type": "string", "not": {"const": "a"}},
            {"type": "STRING", "description": ALSO + '{"not":{"const":"a"}}'},
        ),
        (
            {"type": "string", "maxLength": 2**70},
            {"type": "STRING", "description": ALSO + f'{{"maxLength":{2**70}}}'},
        ),
    ],
    ids=str,
)
def test_what_a_schema_becomes(schema: dict[str, Any], sent: dict[str, Any]) -> None:
    before = json.dumps(schema)
    assert gemini_schema(schema) == sent
    assert json.dumps(schema) == before
    check(gemini_schema(schema))


def test_references_are_written_out() -> None:
    schema = {
        "type": "object",
        "properties": {"p": {"$ref": "#/$defs/p"}},
        "$defs": {"p": {"type": "object", "properties": {"again": {"$ref": "#/$defs/p"}}}},
    }
    again = {"type": "OBJECT", "description": "again a p"}
    inner = {"type": "OBJECT", "properties": {"again": again}}
    assert gemini_schema(schema) == {"type": "OBJECT", "properties": {"p": inner}}


def test_parameters_are_an_object() -> None:
    assert gemini_parameters({"type": "object", "properties": {}}) is None
    assert gemini_parameters({}) is None
    string = {"type": "string"}
    sent = {"type": "OBJECT", "properties": {"a": {"type": "STRING"}}}
    assert gemini_parameters({"properties": {"a": string}}) == sent
    choice = {"properties": {"a": string}, "anyOf": [{"required": ["a"]}]}
    said = ALSO + '{"anyOf":[{"required":["a"]}]}'
    assert gemini_parameters(choice) == {**sent, "description": said}
    assert gemini_parameters({"allOf": [{"properties": {"a": string}}]}) == sent


KNOWN = {
    "type", "format", "title", "description", "nullable", "enum", "maxItems", "minItems",
    "properties", "required", "minProperties", "maxProperties", "minLength", "maxLength", "items",
    "anyOf", "minimum", "maximum",
}  # fmt: skip


def check(sent: dict[str, Any]) -> None:
    """What the service demands of a schema."""
    assert sent.keys() <= KNOWN
    assert ("type" in sent) != ("anyOf" in sent)
    assert ("items" in sent) == (sent.get("type") == "ARRAY")
    assert "enum" not in sent or (sent["type"] == "STRING" and all(sent["enum"]))
    assert set(sent.get("required", [])) <= sent.get("properties", {}).keys()
    for inner in (*sent.get("anyOf", []), *sent.get("properties", {}).values()):
        check(inner)
    if "items" in sent:
        check(sent["items"])


def allows(sent: dict[str, Any], value: Any) -> bool:
    """Whether a sent schema allows a value."""
    return jsonschema_rs.is_valid(_plain(sent), value)


def _plain(sent: dict[str, Any]) -> dict[str, Any]:
    plain = {key: value for key, value in sent.items() if key not in {"nullable", "type", "format"}}
    if "type" in sent:
        plain["type"] = sent["type"].lower()
    for key in ("anyOf",):
        if key in sent:
            plain[key] = [_plain(item) for item in sent[key]]
    if "items" in sent:
        plain["items"] = _plain(sent["items"])
    if "properties" in sent:
        plain["properties"] = {name: _plain(item) for name, item in sent["properties"].items()}
    return {"anyOf": [plain, {"type": "null"}]} if sent.get("nullable") else plain


NAMES = st.sampled_from("ab")
LEAVES = st.sampled_from(
    [
        {"type": "string", "minLength": 2},
        {"type": "string", "pattern": "^a"},
        {"type": ["integer", "null"], "minimum": 0},
        {"type": "integer", "exclusiveMaximum": 3},
        {"type": "number", "maximum": 1.5},
        {"type": "boolean"},
        {"type": "null"},
        {"enum": ["a", "ab", None]},
        {"enum": [1, "a"]},
        {"const": 2},
        {"const": ""},
        {"type": "object", "additionalProperties": {"type": "integer"}},
    ]
)


def _grown(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    some = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        st.builds(
            lambda properties, required: {
                "type": "object",
                "properties": properties,
                "required": required,
            },
            st.dictionaries(NAMES, inner, max_size=2),
            st.lists(NAMES, max_size=2, unique=True),
        ),
        st.builds(lambda a: {"type": "array", "items": a}, inner),
        st.builds(lambda a, b: {"type": "array", "prefixItems": a, "items": b}, some, inner),
        st.builds(lambda a: {"anyOf": a}, some),
        st.builds(lambda a: {"oneOf": a}, some),
        st.builds(lambda a: {"allOf": a}, some),
        st.builds(lambda a, b: {**a, "anyOf": b}, inner, some),
        st.builds(lambda a, b: {**a, "allOf": b, "default": 1}, inner, some),
    )


SCHEMAS = st.recursive(LEAVES, _grown, max_leaves=6)
VALUES = st.recursive(
    st.sampled_from([None, True, 0, 1, 2, 1.5, "", "a", "ab", "zz"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=2),
    max_leaves=6,
)


@given(SCHEMAS, VALUES)
def test_what_was_allowed_stays_allowed(schema: dict[str, Any], value: Any) -> None:
    sent = gemini_schema(schema)
    check(sent)
    if jsonschema_rs.is_valid(schema, value):
        assert allows(sent, value)


@given(SCHEMAS, VALUES)
def test_what_was_forbidden_stays_forbidden_or_is_described(
    schema: dict[str, Any], value: Any
) -> None:
    sent = gemini_schema(schema)
    if allows(sent, value) and not jsonschema_rs.is_valid(schema, value):
        assert "Also, as" in json.dumps(sent) or "Exactly one" in json.dumps(sent)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(["string", "x", "", "null"]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            ["type", "enum", "const", "properties", "items", "anyOf", "oneOf", "allOf", "required",
             "minimum", "prefixItems", "description", "nullable", "$ref", "format", "default"]
        ),
        inner,
        max_size=4,
    ),
    max_leaves=15,
)  # fmt: skip


@given(JSON.filter(lambda value: isinstance(value, dict)))
def test_any_object_is_a_schema_that_can_be_sent(schema: Any) -> None:
    check(gemini_schema(schema))
    parameters = gemini_parameters(schema)
    if parameters is not None:
        check(parameters)
        assert parameters["type"] == "OBJECT"
