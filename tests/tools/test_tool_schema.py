"""Golden schemas: what each kind of annotation is for the model, and for the function."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import json
import threading
import uuid
from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import msgspec
import pytest
from msgspec import Meta

from callboard.runtime.definitions import ErrorType, ToolFailure
from callboard.runtime.errors import ValidationError
from callboard.tools.schema.parameters import WireName
from callboard.tools.tool import tool
from support.tools.workbench import output_of


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Color(enum.StrEnum):
    RED = "red"
    GREEN = "green"


class Place(TypedDict):
    name: str
    country: NotRequired[str]


class Frozen(msgspec.Struct, frozen=True):
    x: int = 1


class Loose(msgspec.Struct):
    x: int = 1


class Circle(msgspec.Struct, tag_field="shape", tag="circle"):
    radius: float


class Square(msgspec.Struct, tag_field="shape", tag="square"):
    side: float


@dataclasses.dataclass(frozen=True)
class Pair:
    left: int
    right: list[Frozen] = dataclasses.field(default_factory=list)


class Broken(msgspec.Struct):
    lock: threading.Barrier


def schema_of(annotation: Any) -> dict[str, Any]:
    def function(value: Any) -> None: ...

    function.__annotations__["value"] = annotation
    schema: dict[str, Any] = tool(function).definition.parameters["properties"]["value"]
    return schema


UTC = datetime.UTC
INTEGER = {"type": "integer"}
STRING = {"type": "string"}


@pytest.mark.parametrize(
    ("annotation", "schema", "sent", "received"),
    [
        (Any, {}, {"a": [None]}, {"a": [None]}),
        (str, STRING, "a", "a"),
        (int, INTEGER, 1, 1),
        (float, {"type": "number"}, 1, 1.0),
        (bool, {"type": "boolean"}, True, True),
        (list, {"type": "array", "items": STRING}, ["a"], ["a"]),
        (int | str, {"anyOf": [INTEGER, STRING]}, "a", "a"),
        (int | None, {"anyOf": [INTEGER, {"type": "null"}]}, None, None),
        (None, {"type": "null"}, None, None),
        (
            Annotated[str, Meta(min_length=2, max_length=3, pattern="^a")],
            {"type": "string", "minLength": 2, "maxLength": 3, "pattern": "^a"},
            "ab",
            "ab",
        ),
        (
            Annotated[float, Meta(gt=0, lt=1, multiple_of=0.25)],
            {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1, "multipleOf": 0.25},
            0.5,
            0.5,
        ),
        (
            Annotated[list[Annotated[int, Meta(le=9)]], Meta(min_length=1, title="dropped")],
            {"type": "array", "minItems": 1, "items": {"type": "integer", "maximum": 9}},
            [9],
            [9],
        ),
        (
            Annotated[int, Meta(examples=[1], extra_json_schema={"deprecated": True})],
            {"type": "integer", "examples": [1], "deprecated": True},
            1,
            1,
        ),
        (Literal[1, 2], {"type": "integer", "enum": [1, 2]}, 2, 2),
        (Literal["a", 1], {"enum": [1, "a"]}, "a", "a"),
        (Level, {"type": "integer", "enum": [1, 2]}, 2, Level.HIGH),
        (Color, {"type": "string", "enum": ["green", "red"]}, "red", Color.RED),
        (
            Place,
            {
                "type": "object",
                "properties": {"name": STRING, "country": STRING},
                "required": ["name"],
            },
            {"name": "Oslo"},
            {"name": "Oslo"},
        ),
        (
            Pair,
            {
                "type": "object",
                "properties": {
                    "left": INTEGER,
                    "right": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "properties": {"x": {"type": "integer", "default": 1}},
                            "required": [],
                        },
                    },
                },
                "required": ["left"],
            },
            {"left": 1, "right": [{}]},
            Pair(1, [Frozen()]),
        ),
        (
            Circle | Square,
            {
                "anyOf": [
                    {
                        "type": "object",
                        "properties": {
                            "shape": {"type": "string", "enum": ["circle"]},
                            "radius": {"type": "number"},
                        },
                        "required": ["shape", "radius"],
                    },
                    {
                        "type": "object",
                        "properties": {
                            "shape": {"type": "string", "enum": ["square"]},
                            "side": {"type": "number"},
                        },
                        "required": ["shape", "side"],
                    },
                ],
                "discriminator": {
                    "propertyName": "shape",
                    "mapping": {"circle": "#/$defs/Circle", "square": "#/$defs/Square"},
                },
            },
            {"shape": "square", "side": 2},
            Square(2),
        ),
        (
            tuple[int, str],
            {
                "type": "array",
                "prefixItems": [INTEGER, STRING],
                "items": False,
                "minItems": 2,
                "maxItems": 2,
            },
            [1, "a"],
            (1, "a"),
        ),
        (tuple[int, ...], {"type": "array", "items": INTEGER}, [1, 2], (1, 2)),
        (set[int], {"type": "array", "items": INTEGER, "uniqueItems": True}, [1, 2], {1, 2}),
        (
            dict[str, list[int]],
            {"type": "object", "additionalProperties": {"type": "array", "items": INTEGER}},
            {"a": [1]},
            {"a": [1]},
        ),
        (dict[int, str], {"type": "object", "additionalProperties": STRING}, {"1": "a"}, {1: "a"}),
        (
            datetime.datetime,
            STRING,
            "2026-01-02T03:04:05Z",
            datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        ),
        (
            datetime.date,
            {"type": "string", "format": "date"},
            "2026-01-02",
            datetime.date(2026, 1, 2),
        ),
        (
            datetime.timedelta,
            {"type": "string", "format": "duration"},
            "PT5S",
            datetime.timedelta(seconds=5),
        ),
        (uuid.UUID, {"type": "string", "format": "uuid"}, str(uuid.UUID(int=5)), uuid.UUID(int=5)),
        (decimal.Decimal, {"type": "string", "format": "decimal"}, "1.10", decimal.Decimal("1.10")),
        (bytes, {"type": "string", "contentEncoding": "base64"}, "YWI=", b"ab"),
    ],
    ids=str,
)
async def test_each_kind_has_its_schema_and_value(
    annotation: Any, schema: dict[str, Any], sent: Any, received: Any
) -> None:
    def function(value: Any) -> None: ...

    function.__annotations__["value"] = annotation
    made = tool(function)
    assert made.definition.parameters["properties"]["value"] == schema
    decoded = made.decode(json.dumps({"value": sent})).value.value
    assert decoded == received
    assert type(decoded) is type(received)


def test_defaults_of_every_kind_are_in_the_schema_or_made_anew() -> None:
    @tool
    def function(
        color: Color = Color.RED,
        day: datetime.date = datetime.date(2026, 1, 2),
        frozen: Frozen = Frozen(2),  # ruff: ignore[function-call-in-default-argument]
        loose: Loose = Loose(3),  # ruff: ignore[function-call-in-default-argument]
        text: str = None,  # type: ignore[assignment]  # ruff: ignore[implicit-optional]
    ) -> None: ...

    properties = function.definition.parameters["properties"]
    assert properties["color"]["default"] == "red"
    assert properties["day"]["default"] == "2026-01-02"
    assert properties["frozen"]["default"] == {"x": 2}
    assert properties["text"] == {"type": "string"}
    first, second = function.decode('{"text": null}').value, function.decode("{}").value
    assert (first.color, first.day, first.frozen, first.text) == (
        Color.RED,
        datetime.date(2026, 1, 2),
        Frozen(2),
        None,
    )
    assert first.loose == second.loose == Loose(3)
    assert first.loose is not second.loose


# ── what can be no tool ──────────────────────────────────────────────────────────────────────────


def bad_default(a: int, limit: Annotated[int, Meta(ge=1)] = 0) -> None: ...
def wrong_default(a: int, limit: int = "5") -> None: ...  # type: ignore[assignment]
def foreign(a: int, lock: threading.Barrier) -> None: ...
def nested(a: int, item: list[Broken]) -> None: ...
def two_objects(a: int, item: Pair | Place) -> None: ...
def bounds_of_text(a: int, text: Annotated[str, Meta(ge=1)]) -> None: ...
def not_ascii(größe: int) -> None: ...
def wire(a: Annotated[int, WireName("a b")]) -> None: ...
def twice(a: int, b: Annotated[int, WireName("a")]) -> None: ...
def yields(a: int) -> Iterator[int]:
    yield a


async def yields_async(a: int) -> AsyncIterator[int]:  # noqa: ASYNC900  that is the point
    yield a


def bare(a: int, name) -> None: ...  # type: ignore[no-untyped-def]


class Service:
    def method(self, a: int) -> int:
        return a

    def __call__(self, a: int) -> int:
        return a


@pytest.mark.parametrize(
    ("function", "name", "parameter", "why"),
    [
        (bad_default, "bad_default", "limit", "expected `int` >= 1"),
        (wrong_default, "wrong_default", "limit", "got `str`"),
        (foreign, "foreign", "lock", "Barrier"),
        (nested, "nested", "item", "Barrier"),
        (two_objects, "two_objects", "item", "more than one"),
        (bounds_of_text, "bounds_of_text", "text", "numeric type"),
        (not_ascii, "not_ascii", "größe", "ASCII"),
        (wire, "wire", "a", "ASCII"),
        (bare, "bare", "name", "no annotation"),
        (Service.method, "method", "self", "bound method"),
    ],
)
def test_a_bad_signature_is_refused_with_function_and_parameter(
    function: Any, name: str, parameter: str, why: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        tool(function)
    message = str(caught.value)
    assert f"tool {name}: parameter {parameter} " in message
    assert why.lower() in message.lower()
    assert caught.value.field == parameter


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (twice, "one name on the wire"),
        (yields, "it yields"),
        (yields_async, "it yields"),
        (partial(bad_default, 1), "no annotation|can't be read|annotations"),
    ],
)
def test_other_functions_that_can_be_no_tool(function: Any, why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        tool(function)


def test_methods_and_callable_objects_are_tools() -> None:
    service = Service()
    for made in (tool(service.method), tool(name="service")(service)):
        assert made.definition.parameters["properties"] == {"a": {"type": "integer"}}


# ── what it returns ──────────────────────────────────────────────────────────────────────────────


@tool
async def pair(left: Any, right: Any = ()) -> Pair:
    """Returns what it was given."""
    return Pair(left, right)


@tool
async def place(given: dict[str, Any]) -> Place:
    """Returns what it was given."""
    return given  # type: ignore[return-value]


@tool(output=list[Frozen] | None)
async def explicit(given: Any) -> object:
    """Returns what it was given."""
    return given


def test_the_declared_output_is_in_the_definition() -> None:
    assert isinstance(pair.definition.output, dict)
    assert pair.definition.output["required"] == ["left"]
    assert place.definition.output == schema_of(Place)
    assert explicit.definition.output == schema_of(list[Frozen] | None)

    @tool
    def plain() -> int:
        return 1

    @tool
    def result() -> Any: ...

    assert plain.definition.output is result.definition.output is None


def test_null_is_in_the_schema_of_an_output() -> None:
    @dataclasses.dataclass
    class Maybe:
        note: str | None = None

    @tool(output=Maybe)
    def function() -> Any: ...

    assert isinstance(function.definition.output, dict)
    note = function.definition.output["properties"]["note"]
    assert note == {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None}


async def test_a_result_as_declared_passes() -> None:
    assert await output_of(pair, left=1, right=[]) == {"left": 1, "right": []}
    assert await output_of(place, given={"name": "Oslo", "more": 1}) == {"name": "Oslo", "more": 1}
    assert await output_of(explicit, given=None) is None
    assert await output_of(explicit, given=[{"x": 2}]) == [{"x": 2}]


@pytest.mark.parametrize(
    ("made", "arguments", "field", "why"),
    [
        (pair, {"left": "1"}, "left", "expected integer, got string"),
        (pair, {"left": 1, "right": [{"x": 1}, {"x": "2"}]}, "right[1].x", "expected integer"),
        (place, {"given": {}}, "name", "required and missing"),
        (explicit, {"given": [{"x": None}]}, "[0].x", "expected integer"),
        (explicit, {"given": 5}, None, "expected array"),
    ],
)
async def test_a_result_that_is_not_as_declared_is_an_execution_error(
    made: Any, arguments: dict[str, Any], field: str | None, why: str
) -> None:
    with pytest.raises(ToolFailure, match="not what it declares") as caught:
        await output_of(made, **arguments)
    assert caught.value.error_type is ErrorType.EXECUTION_ERROR
    assert why in str(caught.value)
    assert caught.value.details.get("field") == field


def test_a_result_without_a_schema_is_refused_at_once() -> None:
    def function() -> Broken:
        raise NotImplementedError

    function.__annotations__["return"] = Broken
    with pytest.raises(ValidationError, match="tool function: its result has a type"):
        tool(function)
