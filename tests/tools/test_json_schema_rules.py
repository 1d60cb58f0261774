"""The rules of JSON Schema 2020-12 for the keywords that tools use, on both ways of validating.

Each row is a keyword's rule, a schema, values that fit and values that don't. Foreign schemas are
held to all of them. What an annotation can say is held to the same: an own tool must accept exactly
what the schema that it shows to the model accepts; where it does not, `DIFFERENCES` says so.
"""

from __future__ import annotations

import datetime
import enum
import json
import uuid
from decimal import Decimal
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import msgspec
import pytest
from msgspec import Meta

from callboard.runtime.definitions import ToolDefinition, ToolFailure, ToolResult
from callboard.tools.foreign_tool import ForeignTool
from callboard.tools.schema.foreign_validator import ForeignValidator
from callboard.tools.schema.validation import WrongArguments
from callboard.tools.tool import tool

NODE = {
    "type": "object",
    "properties": {"value": {"type": "number"}, "next": {"$ref": "#/$defs/node"}},
    "required": ["value"],
}
GRINNING = "\U0001f600"

RULES: list[tuple[str, Any, list[Any], list[Any]]] = [
    ("a number with a zero fraction is an integer", {"type": "integer"}, [1, 1.0, -3, 2**53], [1.5]),
    ("other kinds are no integers", {"type": "integer"}, [], ["1", True, None, [], {}]),
    ("integers are numbers, booleans are not", {"type": "number"}, [1, 1.5], [True, "1", None]),
    ("a string stays one when it looks like a number", {"type": "string"}, ["", "1"], [1, None]),
    ("only true and false are boolean", {"type": "boolean"}, [True, False], [0, "", "true", None]),
    ("only null is null", {"type": "null"}, [None], [0, "", False, [], {}]),
    ("an object is no array", {"type": "object"}, [{}], [[], "x", None]),
    ("an array is no object", {"type": "array"}, [[]], [{}, "x"]),
    ("a list of types is one of them", {"type": ["integer", "null"]}, [1, None], ["1", 1.5]),
    ("an empty schema takes anything", {}, [None, 0, "", [], {"a": 1}], []),
    ("true and false are schemas", {"properties": {"a": True, "b": False}}, [{"a": 1}], [{"b": 1}]),
    ("properties say nothing of others", {"properties": {"a": {"type": "integer"}}}, [{}, {"a": 1}, {"b": "x"}, 5, []], [{"a": "x"}]),
    ("a key may be named like a keyword", {"properties": {"$ref": {"type": "string"}, "type": {"type": "integer"}}}, [{"$ref": "x"}, {"type": 1}], [{"$ref": 1}, {"type": "x"}]),
    ("a key may be one of a prototype", {"properties": {"__proto__": {"type": "integer"}}, "required": ["toString"]}, [{"toString": 1}], [{}, {"toString": 1, "__proto__": "x"}]),
    ("required is about presence alone", {"required": ["a"]}, [{"a": None}, {"a": 1, "b": 2}], [{}, {"b": 1}]),
    ("required ignores what is no object", {"required": ["a"]}, [[], "a", 5, None], []),
    ("a required key needs no property", {"properties": {"b": {}}, "required": ["a b", 'a"']}, [{"a b": 1, 'a"': 2}], [{"a b": 1}]),
    ("nothing more than what is named", {"properties": {"a": {}}, "additionalProperties": False}, [{}, {"a": 1}, 5], [{"b": 1}]),
    ("what is not named has a schema", {"properties": {"a": {}}, "additionalProperties": {"type": "integer"}}, [{"a": "x", "b": 1}], [{"b": "x"}]),
    ("it sees only properties beside it", {"allOf": [{"properties": {"a": {}}}], "additionalProperties": False}, [{}], [{"a": 1}]),
    ("patterns name properties too", {"patternProperties": {"^x-": {"type": "integer"}}, "additionalProperties": False}, [{"x-a": 1}], [{"x-a": "1"}, {"y": 1}]),
    ("names of properties have a schema", {"propertyNames": {"maxLength": 2}}, [{"ab": 1}, {}], [{"abc": 1}]),
    ("so many properties", {"minProperties": 1, "maxProperties": 2}, [{"a": 1}, {"a": 1, "b": 2}, []], [{}, {"a": 1, "b": 2, "c": 3}]),
    ("one property may ask for another", {"dependentRequired": {"a": ["b"]}}, [{}, {"b": 1}, {"a": 1, "b": 2}], [{"a": 1}]),
    ("items holds for each", {"items": {"type": "integer"}}, [[], [1, 2], {"0": "x"}, "x"], [[1, "x"]]),
    ("items begins behind the prefix", {"prefixItems": [{"type": "string"}], "items": {"type": "integer"}}, [[], ["a"], ["a", 1]], [[1], ["a", "b"]]),
    ("no items behind the prefix", {"prefixItems": [{}], "items": False}, [[], [1]], [[1, 2]]),
    ("so many items", {"minItems": 1, "maxItems": 2}, [[1], [1, 2], "abc", {}], [[], [1, 2, 3]]),
    ("no two items are equal", {"uniqueItems": True}, [[1, 2], [1, True], [0, False], [{"a": 1}, {"a": 2}], ["1", 1], [[1], [True]]], [[1, 1], [1, 1.0], [{"a": 1, "b": 2}, {"b": 2, "a": 1}], [[1], [1.0]]]),
    ("some item fits", {"contains": {"const": 5}}, [[1, 5], "x"], [[], [1]]),
    ("enum is one of these", {"enum": [1, "a", None, [2], {"b": 3}]}, [1, 1.0, "a", None, [2], {"b": 3}, {"b": 3.0}], [2, "1", [], [2, 2], {"b": 4}, {}]),
    ("an enumerated 1 is not true", {"enum": [1]}, [1, 1.0], [True, "1", [1]]),
    ("an enumerated 0 is not false", {"enum": [0]}, [0, 0.0, -0.0], [False, None, ""]),
    ("an enumerated false is not 0", {"enum": [False]}, [False], [0, 0.0, None]),
    ("an enumerated [true] is not [1]", {"enum": [[True]]}, [[True]], [[1], [1.0]]),
    ("enumerated text is compared by code points", {"enum": ["a\0b", "\u00e9"]}, ["a\0b", "\u00e9"], ["ab", "e\u0301"]),
    ("const is this one", {"const": {"a": 1, "b": [None]}}, [{"b": [None], "a": 1.0}], [{"a": 1}, {"a": 1, "b": []}, {"a": 1, "b": [None], "c": 2}, 1]),
    ("a constant null", {"const": None}, [None], [0, "", False]),
    ("a constant 1 is not true", {"const": 1}, [1, 1.0], [True]),
    ("a constant {a: false} is not {a: 0}", {"const": {"a": False}}, [{"a": False}], [{"a": 0}, {"a": 0.0}]),
    ("a large constant is exact", {"const": 9007199254740993}, [9007199254740993], [9007199254740992]),
    ("any of these", {"anyOf": [{"type": "integer"}, {"minimum": 2}]}, [1, 2.5, 3, "x"], [1.5]),
    ("any of these, beside more", {"type": "string", "anyOf": [{"maxLength": 2}, {"minLength": 4}]}, ["ab", "abcd"], ["abc", 3]),
    ("exactly one of these", {"oneOf": [{"type": "integer"}, {"minimum": 2}]}, [1, 2.5, "x"], [3, 1.5]),
    ("exactly one required", {"oneOf": [{"required": ["a"]}, {"required": ["b"]}]}, [{"a": 1}, {"b": 1}], [{}, {"a": 1, "b": 1}]),
    ("all of these", {"allOf": [{"required": ["a"]}, {"properties": {"a": {"maximum": 5}}}]}, [{"a": 5}], [{}, {"a": 6}]),
    ("all of no schema", {"allOf": [True, False]}, [], [1, {}]),
    ("not this", {"not": {"type": ["integer", "boolean"]}}, ["x", 1.5, None], [1, True, 1.0]),
    ("if, then, else", {"if": {"properties": {"k": {"const": "a"}}, "required": ["k"]}, "then": {"required": ["x"]}, "else": {"required": ["y"]}}, [{"k": "a", "x": 1}, {"k": "b", "y": 1}, {"y": 1}], [{"k": "a", "y": 1}, {"k": "b", "x": 1}]),
    ("minimum is inclusive", {"minimum": 1.1}, [1.1, 2, "x", None], [1, 0.6]),
    ("maximum is inclusive", {"maximum": 300}, [300, 300.0, 299.97, "x"], [300.5, 301]),
    ("exclusive bounds are not", {"exclusiveMinimum": 0, "exclusiveMaximum": 3}, [0.1, 2.99], [0, 0.0, 3, 3.0]),
    ("bounds ignore booleans", {"minimum": 5}, [True, False], [4]),
    ("large bounds are exact", {"maximum": 18446744073709551600}, [18446744073709551600], [18446744073709551601]),
    ("a multiple of an integer", {"multipleOf": 2}, [10, 0, -4, 4.0, "x"], [7, 1.5]),
    ("a multiple of a fraction", {"multipleOf": 0.01}, [0, 4.02, 0.07, 19.99], [0.0075, 4.025]),
    ("a multiple of a tiny number", {"multipleOf": 0.0001}, [0.0075], [0.00751]),
    ("length counts code points", {"minLength": 2, "maxLength": 2}, ["ab", GRINNING * 2, "e\u0301", 5], ["a", GRINNING, "abc", GRINNING * 3]),
    ("a pattern is found anywhere", {"pattern": "a+"}, ["xxaayy", 5, None, {}], ["xyz", ""]),
    ("an anchored pattern is not", {"pattern": "^[a-z]{2}$"}, ["ab"], ["abc", "xab", "AB"]),
    ("a pattern of classes", {"pattern": r"^\d{3}-\w+\s?$"}, ["123-a_1", "123-b "], ["12-a", "123-"]),
    ("a pattern beyond ASCII", {"pattern": "^\\p{L}+$"}, ["\u00e9t\u00e9", "abc"], ["a1", ""]),
    ("formats are annotations", {"format": "date"}, ["2026-01-02", "not a date", 5], []),
    ("more formats", {"type": "string", "format": "email"}, ["a@b.c", "nobody"], [5]),
    ("contents are annotations", {"contentEncoding": "base64", "contentMediaType": "application/json"}, ["!!", "e30="], []),
    ("a default changes nothing", {"properties": {"a": {"type": "integer", "default": "x"}}}, [{}, {"a": 1}], [{"a": "x"}]),
    ("what nobody knows is an annotation", {"type": "integer", "x-unit": {"type": "string"}, "title": "T"}, [1], ["x"]),
    ("a reference to the root", {"properties": {"child": {"$ref": "#"}}, "additionalProperties": False}, [{}, {"child": {"child": {}}}], [{"x": 1}, {"child": {"x": 1}}]),
    ("a reference to a definition", {"$ref": "#/$defs/a", "$defs": {"a": {"type": "integer"}}}, [1], ["x"]),
    ("a reference to a definition of draft-07", {"$ref": "#/definitions/a", "definitions": {"a": {"type": "integer"}}}, [1], ["x"]),
    ("a reference to a reference", {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"type": "integer"}}}, [1], ["x"]),
    ("a reference to a property", {"properties": {"a": {"type": "integer"}, "b": {"$ref": "#/properties/a"}}}, [{"b": 1}], [{"b": "x"}]),
    ("a reference into a list", {"prefixItems": [{"type": "integer"}, {"$ref": "#/prefixItems/0"}]}, [[1, 2]], [[1, "x"]]),
    ("a reference has siblings", {"$ref": "#/$defs/a", "maxItems": 2, "$defs": {"a": {"type": "array"}}}, [[], [1, 2]], [[1, 2, 3], "x"]),
    ("a recursive reference", {"$ref": "#/$defs/node", "$defs": {"node": NODE}}, [{"value": 1}, {"value": 1, "next": {"value": 2, "next": {"value": 3}}}], [{}, {"value": 1, "next": {}}, {"value": 1, "next": {"value": 2, "next": {"value": "x"}}}]),
    ("a pointer's ~1 is a slash", {"$ref": "#/$defs/a~1b", "$defs": {"a/b": {"type": "integer"}}}, [1], ["x"]),
    ("a pointer's ~0 is a tilde", {"$ref": "#/$defs/a~0b", "$defs": {"a~b": {"type": "integer"}}}, [1], ["x"]),
    ("a pointer's ~01 is ~1", {"$ref": "#/$defs/a~01b", "$defs": {"a~1b": {"type": "integer"}, "a/b": False}}, [1], ["x"]),
    ("a pointer's percent is decoded", {"$ref": "#/$defs/a%25b%22", "$defs": {'a%b"': {"type": "integer"}}}, [1], ["x"]),
    ("an anchor has a name", {"$ref": "#here", "$defs": {"a": {"$anchor": "here", "type": "integer"}}}, [1], ["x"]),
    ("a constant is no reference", {"const": {"$ref": "#/nowhere"}}, [{"$ref": "#/nowhere"}], [{"$ref": "#"}, 1]),
]  # fmt: skip

CASES = [
    pytest.param(schema, value, fits, id=f"{rule}: {json.dumps(value)} {'fits' if fits else 'not'}")
    for rule, schema, fitting, others in RULES
    for fits, values in ((True, fitting), (False, others))
    for value in values
]


def fits_foreign(schema: dict[str, Any], value: Any) -> bool:
    try:
        ForeignValidator("rules", schema).check(value)
    except WrongArguments:
        return False
    return True


async def nothing(arguments: dict[str, Any], context: object) -> ToolResult:
    return ToolResult()


@pytest.mark.parametrize(("schema", "value", "fits"), CASES)
def test_a_foreign_schema_keeps_the_rule(schema: dict[str, Any], value: Any, fits: bool) -> None:
    assert fits_foreign(schema, value) is fits


def is_movable(schema: Any) -> bool:
    """Whether it means the same one level down; a tool drops unknown keys instead of refusing."""
    refers = "$ref" in json.dumps(schema)
    return schema.get("additionalProperties") is not False and (
        not refers or {"$ref", "$defs"} <= schema.keys()
    )


@pytest.mark.parametrize(
    ("schema", "value", "fits"), [case for case in CASES if is_movable(case.values[0])]
)
def test_a_foreign_tool_keeps_the_rule_for_its_arguments(
    schema: dict[str, Any], value: Any, fits: bool
) -> None:
    inner = {name: item for name, item in schema.items() if name != "$defs"}
    parameters = {
        "type": "object",
        "properties": {"value": inner},
        "required": ["value"],
        "$defs": schema.get("$defs", {}),
    }
    definition = ToolDefinition(name="rules", description="", parameters=parameters)
    made = ForeignTool(definition, nothing)
    text = json.dumps({"value": value, "unknown": 1})
    if not fits:
        with pytest.raises(ToolFailure, match="value"):
            made.decode(text)
        return
    decoded = made.decode(text).value
    assert decoded == {"value": value} or "properties" in schema


# ── own tools ────────────────────────────────────────────────────────────────────────────────────


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Color(enum.StrEnum):
    RED = "red"
    GREEN = "green"


class Item(msgspec.Struct):
    name: str
    count: Annotated[int, Meta(ge=1)] = 1


class Named(TypedDict):
    name: str
    country: NotRequired[str]


class Tree(msgspec.Struct):
    value: int
    children: list[Tree] = []


class Circle(msgspec.Struct, tag_field="shape", tag="circle"):
    radius: float


class Square(msgspec.Struct, tag_field="shape", tag="square"):
    side: float


VALUES: list[Any] = [
    None, True, False, 0, 1, 1.0, 2, 2.0, -1, 1.5, 0.25, 3, 100, 1e10, 2**53, 2**63, 2**64,
    "", "a", "ab", "abc", "b", "red", "1", "true", "null", GRINNING, GRINNING * 2, "e\u0301",
    [], [1], [1, 2], [1, 2, 3], [1.0], [1.5], ["a"], ["a", 1], [1, "a"], [None], [[1]], [True],
    {}, {"a": 1}, {"a": "x"}, {"name": "n"}, {"name": 1}, {"name": "n", "count": 1},
    {"name": "n", "count": 1.0}, {"name": "n", "count": 0}, {"name": "n", "country": "c"},
    {"name": "n", "country": 1}, {"value": 1}, {"value": 1, "children": [{"value": 2}]},
    {"value": 1, "children": [{"value": "x"}]}, {"value": 1, "children": [{}]},
    {"shape": "circle", "radius": 1}, {"shape": "square", "radius": 1}, {"shape": "x"}, {"radius": 1},
    {"shape": "circle", "radius": "1"},
]  # fmt: skip

ANNOTATIONS: list[Any] = [
    str, int, float, bool, None, Any, list, list[int], list[float], list[str], list[Any],
    dict[str, int], dict[str, Any], int | None, int | str, str | list[str] | None,
    float | str, bool | None, list[int] | None, Literal["a", "b"], Literal[1, 2], Literal[1, "a"],
    Literal["a", None], Level, Color, Item, list[Item], Named, Tree, Circle | Square, tuple[int, str],  # ruff: ignore[redundant-none-literal]
    tuple[int, ...],
    Annotated[int, Meta(ge=1)], Annotated[int, Meta(le=1)], Annotated[int, Meta(gt=1, lt=3)],
    Annotated[float, Meta(ge=1.5)], Annotated[float, Meta(lt=1.5)], Annotated[int, Meta(multiple_of=2)],
    Annotated[float, Meta(multiple_of=0.25)], Annotated[str, Meta(min_length=2)],
    Annotated[str, Meta(max_length=1)], Annotated[str, Meta(pattern="b")],
    Annotated[str, Meta(pattern="^ab?$")], Annotated[list[int], Meta(min_length=1, max_length=2)],
    Annotated[dict[str, Any], Meta(min_length=1)],
]  # fmt: skip


def own_and_shown(annotation: Any) -> tuple[Any, ForeignValidator]:
    def function(value: Any) -> None: ...

    function.__annotations__["value"] = annotation
    made = tool(function)
    return made, ForeignValidator("shown", made.definition.parameters)


def fits_own(made: Any, value: Any) -> bool:
    try:
        made.decode(json.dumps({"value": value}))
    except ToolFailure:
        return False
    return True


def fits_shown(shown: ForeignValidator, value: Any) -> bool:
    try:
        shown.check({"value": value})
    except WrongArguments:
        return False
    return True


@pytest.mark.parametrize("annotation", ANNOTATIONS, ids=str)
def test_an_own_tool_takes_what_the_schema_that_it_shows_takes(annotation: Any) -> None:
    made, shown = own_and_shown(annotation)
    outcomes = [(value, fits_own(made, value), fits_shown(shown, value)) for value in VALUES]
    assert [row for row in outcomes if row[1] is not row[2]] == []
    assert {own for _, own, _ in outcomes} == ({True} if annotation is Any else {True, False})


class Optional(msgspec.Struct):
    note: str = ""


DIFFERENCES: list[tuple[str, Any, Any, bool, bool]] = [
    ("a format is checked", datetime.date, "someday", False, True),
    ("a date and time is checked", datetime.datetime, "someday", False, True),
    ("a UUID is checked", uuid.UUID, "x", False, True),
    ("base64 is checked", bytes, "!", False, True),
    ("a decimal may be a number", Decimal, 1.5, True, False),
    ("a set takes an element twice", set[int], [1, 1], True, False),
    ("null for an optional key is absent", Optional, {"note": None}, True, False),
    ("floats are multiples exactly", Annotated[float, Meta(multiple_of=0.1)], 0.3, False, True),
    ("keys of a dict have their type", dict[int, str], {"x": "a"}, False, True),
]


@pytest.mark.parametrize(("rule", "annotation", "value", "own", "by_schema"), DIFFERENCES)
def test_the_known_differences_are_these(
    rule: str, annotation: Any, value: Any, own: bool, by_schema: bool
) -> None:
    made, shown = own_and_shown(annotation)
    assert (fits_own(made, value), fits_shown(shown, value)) == (own, by_schema)
