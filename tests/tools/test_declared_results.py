"""Every built-in tool declares its result; tests/conftest.py checks each that a test makes."""

from __future__ import annotations

import re
from typing import Any, TypedDict

import jsonschema_rs
import pytest

from callboard.runtime.definitions import ToolFailure
from callboard.tools.builtin import builtin_tools
from callboard.tools.tool import FunctionTool, tool
from support.tools.declared_results import DeclaredResults, closed
from support.tools.workbench import output_of

TOOLS = {each.name: each.definition for each in builtin_tools()}


@pytest.mark.parametrize("name", TOOLS)
def test_each_declares_a_schema_that_names_every_field(name: str) -> None:
    declared = TOOLS[name].output
    assert isinstance(declared, dict)
    jsonschema_rs.meta.validate(declared)
    kinds = declared.get("anyOf", [declared])
    assert all(kind["type"] in {"object", "string"} for kind in kinds)
    validator = jsonschema_rs.validator_for(closed(declared))
    assert not validator.is_valid({"a field that nobody declared": 1})


def test_our_own_names_are_snake_case() -> None:
    assert all(re.fullmatch(r"[a-z][a-z0-9_]*", name) for name in TOOLS)


@pytest.mark.parametrize(
    ("output", "is_declared"),
    [
        ({"path": "a", "size": 1, "bytes_written": 1}, True),
        ({"path": "a", "size": 1, "bytes_written": 1, "warnings": ["b"]}, True),
        ({"path": "a", "size": 1}, False),
        ({"path": "a", "size": "1", "bytes_written": 1}, False),
        ({"path": "a", "size": 1, "bytes_written": 1, "mood": "good"}, False),
    ],
)
def test_a_result_that_is_not_as_declared_is_found(output: Any, is_declared: bool) -> None:
    [found] = [each.load() for each in builtin_tools() if each.name == "write_file"]
    results = DeclaredResults()
    assert isinstance(found, FunctionTool)
    results.check(found, output)
    assert bool(results.take()) is not is_declared
    assert results.take() == []


class Begun(TypedDict):
    id: str


class Done(TypedDict):
    code: int


@tool(output=(Begun, Done))
async def start(given: dict[str, Any]) -> dict[str, Any]:
    """Starts."""
    return given


async def test_of_several_types_one_has_to_fit() -> None:
    assert isinstance(start.definition.output, dict)
    assert [kind["required"] for kind in start.definition.output["anyOf"]] == [["id"], ["code"]]
    for given in ({"id": "a"}, {"code": 1}):
        assert await output_of(start, given=given) == given
    with pytest.raises(ToolFailure, match="its result is not what it declares"):
        await output_of(start, given={"code": "x"})
