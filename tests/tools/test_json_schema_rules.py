"""An own tool accepts exactly what the schema that it shows to the model accepts.

Where it does not, `DIFFERENCES` says so. `test_json_schema_suite.py` holds foreign schemas to the
official rules.
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

from callboard.runtime.definitions import ToolFailure
from callboard.tools.schema.foreign_validator import ForeignValidator
from callboard.tools.schema.validation import WrongArguments
from callboard.tools.tool import tool

GRINNING = "\U0001f600"


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
