"""A definition that no model could be told of is refused when it is made, with its place."""

from __future__ import annotations

import enum
import math
from typing import Any, Literal

import msgspec
import pytest

from callboard.runtime.definitions import Tier, ToolDefinition
from callboard.runtime.errors import ValidationError
from callboard.tools.foreign_tool import ForeignTool
from callboard.tools.tool import FunctionTool, tool

HALF = "\ud800"


class Grade(enum.Enum):
    TOP = f"top{HALF}"


class Spot(msgspec.Struct, frozen=True):
    x: float = 0.0


def own(annotation: Any, default: Any = ..., description: str = "Does it.") -> FunctionTool:
    def act(value=default) -> None: ...  # type: ignore[no-untyped-def]

    if default is ...:
        act.__defaults__ = None
    act.__annotations__ = {"value": annotation}
    act.__doc__ = description
    return tool(act)


@pytest.mark.parametrize(
    ("annotation", "default", "description", "place"),
    [
        (str, HALF, "Does it.", r"parameters\.properties\.value\.default"),
        (float, math.nan, "Does it.", r"parameters\.properties\.value\.default holds nan"),
        (float, -math.inf, "Does it.", r"parameters\.properties\.value\.default holds -inf"),
        (Spot, Spot(math.inf), "Does it.", r"value\.default\.x holds inf"),
        (Literal["a", "\ud800"], ..., "Does it.", "parameter value .*surrogates not allowed"),
        (Grade, ..., "Does it.", "parameter value .*surrogates not allowed"),
        (str, ..., f"Does {HALF}.", r"description holds '\\ud800', half of a character"),
        (str, ..., f"Does.\n\nArgs:\n    value: A {HALF}.", r"value\.description holds"),
    ],
)
def test_an_own_tool(annotation: Any, default: Any, description: str, place: str) -> None:
    with pytest.raises(ValidationError, match=f"tool act: .*{place}") as refused:
        own(annotation, default, description)
    str(refused.value).encode()


def test_an_own_tool_that_can_be_told() -> None:
    assert own(str, "\U0001f600", "Does \u00e9.").definition.description == "Does \u00e9."
    assert own(float, 1e308).definition.parameters["properties"]["value"]["default"] == 1e308


async def execute(arguments: Any, context: Any) -> None: ...


def foreign(**fields: Any) -> ForeignTool:
    given: dict[str, Any] = {"name": "far", "description": "", "parameters": {"type": "object"}}
    return ForeignTool(ToolDefinition(**{**given, **fields}), execute)


def of(value: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"x": value}}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"description": f"a{HALF}"}, r"tool far: its description holds '\\ud800'"),
        ({"output": {"description": HALF}}, "tool far: its schema is not JSON"),
        ({"parameters": of({"description": HALF})}, "tool far: its schema is not JSON"),
        ({"parameters": of({"default": math.nan})}, r"parameters\.properties\.x\.default holds nan"),
        ({"output": of({"x-hint": [math.inf]})}, r"its output\.properties\.x\.x-hint\[0\] holds inf"),
        ({"parameters": True}, "its definition is wrong: `parameters`: expected object, got boolean"),
        ({"parameters": []}, "`parameters`: expected object, got array"),
        ({"parameters": None}, "`parameters`: expected object, got null"),
        ({"output": 5}, "`output`: expected boolean or object, got integer"),
        ({"description": 5}, "`description`: expected string, got integer"),
        ({"tier": "root"}, "`tier`: invalid enum value 'root'"),
        ({"name": 5}, "5 can't be a tool's name"),
    ],
)  # fmt: skip
def test_a_foreign_tool(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        foreign(**fields)


def test_a_foreign_tool_that_can_be_told() -> None:
    made = foreign(description="\u00e9", tier="read_only", parameters=of({"default": 1e308}))
    assert made.definition.tier is Tier.READ_ONLY
    assert made.definition.parameters == of({"default": 1e308})
