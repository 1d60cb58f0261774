"""OpenAI's strict schemas: what can be said in them, how, and what can't."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.providers.openai import strict_schema as openai_strict_schema
from callboard.providers.openai.strict_schema import MAX_OBJECTS, strict_schema

TEXT = {"type": "string"}


def an_object(properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, **more}


def closed(properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    required = {"required": list(properties), "additionalProperties": False}
    return {**an_object(properties), **required, **more}


SAID: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "strict already": (closed({"a": TEXT, "b": closed({})}), closed({"a": TEXT, "b": closed({})})),
    "open with properties": (an_object({"a": TEXT}, required=["a"]), closed({"a": TEXT})),
    "notes": (
        an_object(
            {"a": {**TEXT, "title": "A", "examples": ["x"], "description": "what"}},
            required=["a"],
            **{"$schema": "s", "$id": "i", "title": "T"},
        ),
        closed({"a": {**TEXT, "description": "what"}}),
    ),
    "optional and null": (
        an_object({"a": {"type": ["string", "null"]}}),
        closed({"a": {"type": ["string", "null"]}}),
    ),
    "optional and null in a choice": (
        an_object({"a": {"anyOf": [TEXT, {"type": "null"}], "default": None}}),
        closed({"a": {"anyOf": [TEXT, {"type": "null"}]}}),
    ),
    "optional with a default": (
        an_object({"a": {"type": "integer", "default": 3, "description": "How many."}}),
        closed({"a": {"type": "integer", "description": "How many. Default: 3."}}),
    ),
    "a reference with a default": (
        an_object({"a": {"$ref": "#/$defs/A", "default": "x"}}, **{"$defs": {"A": TEXT}}),
        closed(
            {"a": {"anyOf": [{"$ref": "#/$defs/A"}], "description": 'Default: "x".'}},
            **{"$defs": {"A": TEXT}},
        ),
    ),
    "a reference that is described": (
        an_object(
            {"a": {"$ref": "#/definitions/A", "description": "what"}},
            required=["a"],
            definitions={"A": TEXT},
        ),
        closed(
            {"a": {"anyOf": [{"$ref": "#/$defs/A"}], "description": "what"}},
            **{"$defs": {"A": TEXT}},
        ),
    ),
    "a root that is a reference to itself in it": (
        {
            "$ref": "#/$defs/Tree",
            "$defs": {
                "Tree": an_object({"next": {"anyOf": [{"$ref": "#/$defs/Tree"}, {"type": "null"}]}})
            },
        },
        closed(
            {"next": {"anyOf": [{"$ref": "#/$defs/Tree"}, {"type": "null"}]}},
            **{
                "$defs": {
                    "Tree": closed(
                        {"next": {"anyOf": [{"$ref": "#/$defs/Tree"}, {"type": "null"}]}}
                    )
                }
            },
        ),
    ),
    "values without a type": (
        an_object({"a": {"enum": ["x", 1, None]}, "b": {"const": True}}, required=["a", "b"]),
        closed(
            {
                "a": {"type": ["string", "integer", "null"], "enum": ["x", 1, None]},
                "b": {"type": "boolean", "const": True},
            }
        ),
    ),
    "a tagged union": (
        an_object(
            {"a": {"oneOf": [closed({"k": {"const": "x"}})], "discriminator": {}}}, required=["a"]
        ),
        closed({"a": {"anyOf": [closed({"k": {"type": "string", "const": "x"}})]}}),
    ),
    "bounds": (
        closed({"a": {"type": "array", "items": {"type": "number", "minimum": 0}, "maxItems": 3}}),
        closed({"a": {"type": "array", "items": {"type": "number", "minimum": 0}, "maxItems": 3}}),
    ),
    "patterns and formats": (
        closed({"a": {**TEXT, "pattern": "^(?:a|b)$"}, "b": {**TEXT, "format": "date"}}),
        closed({"a": {**TEXT, "pattern": "^(?:a|b)$"}, "b": {**TEXT, "format": "date"}}),
    ),
}


@pytest.mark.parametrize("shape", SAID)
def test_what_can_be_said_is_said(shape: str) -> None:
    schema, strict = SAID[shape]
    before = json.dumps(schema)
    assert strict_schema(schema) == strict
    assert strict_schema(strict) == strict
    assert json.dumps(schema) == before


NOT_SAID: dict[str, Any] = {
    "no object": {"type": "array", "items": TEXT},
    "an object or nothing": {"type": ["object", "null"], "properties": {"a": TEXT}},
    "a choice at the root": {"anyOf": [closed({})]},
    "a free object": {"type": "object"},
    "an open object": an_object({"a": TEXT}, required=["a"], additionalProperties=True),
    "an object of texts": closed({"a": {"type": "object", "additionalProperties": TEXT}}),
    "an optional property": an_object({"a": TEXT}),
    "null that is not the default": an_object({"a": {"type": ["string", "null"], "default": "x"},
                                               "b": TEXT}),
    "required and unknown": an_object({}, required=["a"], additionalProperties=False),
    "anything": closed({"a": {}}),
    "anything in a list": closed({"a": {"type": "array"}}),
    "true": closed({"a": True}),
    "allOf": closed({"a": {"allOf": [TEXT]}}),
    "not": closed({"a": {**TEXT, "not": {"const": "x"}}}),
    "oneOf": closed({"a": {"oneOf": [TEXT, {"type": "null"}]}}),
    "a choice with a rule": closed({"a": {"anyOf": [TEXT], "pattern": "x"}}),
    "an empty choice": closed({"a": {"anyOf": []}}),
    "minLength": closed({"a": {**TEXT, "minLength": 1}}),
    "a format that is not known": closed({"a": {**TEXT, "format": "uri"}}),
    "a pattern that looks around": closed({"a": {**TEXT, "pattern": "(?=x)"}}),
    "a tuple": closed({"a": {"type": "array", "prefixItems": [TEXT]}}),
    "a reference out of it": closed({"a": {"$ref": "https://example.com/a"}}),
    "a reference to nowhere": closed({"a": {"$ref": "#/$defs/A"}}),
    "a root that is itself": {"$ref": "#"},
    "a reference with a rule": closed({"a": {"$ref": "#/$defs/A", "maxItems": 1}},
                                      **{"$defs": {"A": {"type": "array", "items": TEXT}}}),
    "two definitions of a name": closed({}, definitions={"A": TEXT},
                                        **{"$defs": {"A": {"type": "null"}}}),
    "an object as a value": closed({"a": {"const": {}}}),
    "nonsense": {"type": {}, "properties": 3},
    "more nonsense": closed({"a": {"type": ["string", []], "format": [], "enum": 3}}),
    "required nonsense": {"type": "object", "properties": {}, "required": [[]],
                          "additionalProperties": False},
}  # fmt: skip


@pytest.mark.parametrize("shape", NOT_SAID)
def test_what_cannot_be_said_has_no_strict_form(shape: str) -> None:
    assert strict_schema(NOT_SAID[shape]) is None


def nested(levels: int) -> dict[str, Any]:
    schema = closed({})
    for _ in range(levels - 1):
        schema = closed({"a": schema})
    return schema


def test_the_provider_s_limits_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    assert strict_schema(nested(MAX_OBJECTS)) is not None
    assert strict_schema(nested(MAX_OBJECTS + 1)) is None
    for name, count in (("MAX_PROPERTIES", 3), ("MAX_VALUES", 4), ("MAX_CHARS", 11)):
        monkeypatch.setattr(openai_strict_schema, name, count)
        schema = closed({"aaa": TEXT, "bb": TEXT, "c": {**TEXT, "enum": ["d", "eee", "f", ""]}})
        assert strict_schema(schema) is not None
        monkeypatch.setattr(openai_strict_schema, name, count - 1)
        assert strict_schema(schema) is None
        monkeypatch.undo()


values = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "bc"])
schemas = st.recursive(
    st.sampled_from(
        [
            TEXT,
            {"type": "integer", "minimum": 0},
            {"type": ["string", "null"]},
            {"enum": ["a", 1]},
            {"const": None},
            {"type": "boolean", "default": True},
            {"$ref": "#/$defs/A"},
        ]
    ),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=2).map(lambda given: {"anyOf": given}),
        inner.map(lambda given: {"type": "array", "items": given}),
        st.builds(
            lambda properties, keep: an_object(properties, required=sorted(properties)[keep:]),
            st.dictionaries(st.sampled_from("abc"), inner, max_size=2),
            st.integers(0, 2),
        ),
    ),
    max_leaves=5,
)
documents = st.recursive(
    values,
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from("abc"), schemas, min_size=1, max_size=3), documents)
def test_what_a_strict_schema_allows_the_original_allows(
    properties: dict[str, Any], document: Any
) -> None:
    definitions = {"$defs": {"A": {"type": ["integer", "null"]}}}
    schema = an_object(properties, required=sorted(properties)[1:], **definitions)
    strict = strict_schema(schema)
    if strict is not None and jsonschema_rs.is_valid(strict, document):
        assert jsonschema_rs.is_valid(schema, document)


@given(st.recursive(values, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
    st.sampled_from(["type", "properties", "$ref", "anyOf", "enum", "items", "required", "$defs"]),
    inner, max_size=4), max_leaves=15))  # fmt: skip
def test_any_json_has_a_strict_form_or_none(value: Any) -> None:
    if isinstance(value, dict):
        strict_schema(value)
