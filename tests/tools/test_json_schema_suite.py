"""The official tests of JSON Schema 2020-12 for the keywords that tools use: foreign schemas pass.

What callboard refuses on purpose is listed, each with its reason; everything else must be taken, and
each value judged as the suite does, also one level down, as an argument of a foreign tool.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

from callboard.providers.anthropic.schema import tool_schema
from callboard.providers.gemini.schema import gemini_parameters
from callboard.providers.openai.strict_schema import strict_schema
from callboard.runtime.definitions import ToolDefinition, ToolFailure, ToolResult
from callboard.runtime.errors import ValidationError
from callboard.tools.foreign_tool import ForeignTool
from callboard.tools.schema.foreign_validator import ForeignValidator
from callboard.tools.schema.validation import WrongArguments
from support.tools.workbench import result_of

SUITE = Path(__file__).parent / "json_schema_suite"

OTHER_DOCUMENT = r"nothing is fetched, and only references within the schema"
OWN_BASE = r"has an \$id below its root"

REFUSED = {
    ("anchor", "Location-independent identifier with absolute URI"): OTHER_DOCUMENT,
    ("anchor", "Location-independent identifier with base URI change in subschema"): OTHER_DOCUMENT,
    ("anchor", "same $anchor with different base uri"): OTHER_DOCUMENT,
    ("defs", "validate definition against metaschema"): OTHER_DOCUMENT,
    ("ref", "remote ref, containing refs itself"): OTHER_DOCUMENT,
    ("ref", "Recursive references between schemas"): OWN_BASE,
    ("ref", "refs with relative uris and defs"): OTHER_DOCUMENT,
    ("ref", "relative refs with absolute uris and defs"): OTHER_DOCUMENT,
    ("ref", "$id must be resolved against nearest parent, not just immediate parent"): OTHER_DOCUMENT,
    ("ref", "order of evaluation: $id and $ref"): OTHER_DOCUMENT,
    ("ref", "order of evaluation: $id and $anchor and $ref"): OWN_BASE,
    ("ref", "URN ref with nested pointer ref"): OTHER_DOCUMENT,
    ("ref", "ref to if"): OTHER_DOCUMENT,
    ("ref", "ref to then"): OTHER_DOCUMENT,
    ("ref", "ref to else"): OTHER_DOCUMENT,
    ("ref", "ref with absolute-path-reference"): OTHER_DOCUMENT,
}  # fmt: skip
"""By keyword and case: what docs/tools.md says is refused, and in which words."""

CASES: list[tuple[str, dict[str, Any]]] = [
    (file.stem, case)
    for file in sorted(SUITE.glob("*.json"))
    for case in json.loads(file.read_text(encoding="utf-8"))
]
NAMES = [f"{keyword}: {case['description']}" for keyword, case in CASES]


def fits(validator: ForeignValidator, value: Any) -> bool:
    try:
        validator.check(value)
    except WrongArguments:
        return False
    return True


@pytest.mark.parametrize(("keyword", "case"), CASES, ids=NAMES)
def test_the_suite(keyword: str, case: dict[str, Any]) -> None:
    reason = REFUSED.get((keyword, case["description"]))
    if reason is not None:
        with pytest.raises(ValidationError, match=reason):
            ForeignValidator("tool", case["schema"])
        return
    validator = ForeignValidator("tool", case["schema"])
    judged = {test["description"]: fits(validator, test["data"]) for test in case["tests"]}
    assert judged == {test["description"]: test["valid"] for test in case["tests"]}


def is_movable(schema: Any) -> bool:
    """Whether it means the same one level down; a tool drops unknown keys instead of refusing."""
    text = json.dumps(schema)
    return "additionalProperties" not in text and "$ref" not in text and "unevaluated" not in text


async def nothing(arguments: dict[str, Any], context: object) -> ToolResult:
    return ToolResult()


@pytest.mark.parametrize(
    ("keyword", "case"), [case for case in CASES if is_movable(case[1]["schema"])]
)
def test_the_suite_one_level_down(keyword: str, case: dict[str, Any]) -> None:
    properties = {"value": case["schema"]}
    parameters = {"type": "object", "properties": properties, "required": ["value"]}
    tool = ForeignTool(ToolDefinition(name="t", description="", parameters=parameters), nothing)
    for test in case["tests"]:
        text = json.dumps({"value": test["data"], "unknown": 1})
        if test["valid"]:
            decoded = tool.decode(text).value
            assert decoded == {"value": test["data"]} or "properties" in str(case["schema"])
        else:
            with pytest.raises(ToolFailure, match="value"):
                tool.decode(text)


def booleans_inside(schema: Any) -> Iterator[Any]:
    """The schema again and again, each time with true or false for one of the schemas in it."""
    if not isinstance(schema, dict):
        return
    for name, value in schema.items():
        if name in NAMED and isinstance(value, dict):
            for key, inner in value.items():
                for other in (True, False, *booleans_inside(inner)):
                    yield {**schema, name: {**value, key: other}}
        elif name in LISTS and isinstance(value, list):
            for place, inner in enumerate(value):
                for other in (True, False, *booleans_inside(inner)):
                    yield {**schema, name: [*value[:place], other, *value[place + 1 :]]}
        elif name in SINGLE and isinstance(value, (dict, bool)):
            for other in (True, False, *booleans_inside(value)):
                yield {**schema, name: other}


NAMED = ("properties", "patternProperties", "dependentSchemas", "$defs", "definitions")
LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
SINGLE = (
    "items", "additionalProperties", "unevaluatedProperties", "unevaluatedItems", "contains",
    "propertyNames", "not", "if", "then", "else",
)  # fmt: skip


def test_true_and_false_stand_wherever_a_schema_may_also_for_every_provider() -> None:
    tried = 0
    for keyword, case in CASES:
        if (keyword, case["description"]) in REFUSED or '"$ref"' in json.dumps(case["schema"]):
            continue
        for schema in (True, False, *booleans_inside(case["schema"])):
            parameters = {"type": "object", "properties": {"value": schema}}
            definition = ToolDefinition(name="t", description="", parameters=parameters)
            ForeignTool(definition, nothing)
            gemini_parameters(parameters)
            strict_schema(parameters)
            tool_schema(parameters)
            tried += 1
    assert tried > 800


@pytest.mark.parametrize("output", [True, False])
async def test_a_result_may_be_declared_as_anything_or_as_nothing(output: bool) -> None:
    parameters = {"type": "object"}
    definition = ToolDefinition(name="t", description="", parameters=parameters, output=output)

    async def work(arguments: dict[str, Any], context: object) -> dict[str, Any]:
        await trio.lowlevel.checkpoint()
        return {"x": 1}

    tool = ForeignTool(definition, work)
    if output:
        assert (await result_of(tool)).output == {"x": 1}
    else:
        with pytest.raises(ToolFailure, match="False schema"):
            await result_of(tool)


@pytest.mark.parametrize("parameters", [True, False, None, [], "object", {"type": "array"}])
def test_parameters_are_a_schema_of_an_object(parameters: Any) -> None:
    definition = ToolDefinition(name="t", description="", parameters=parameters)
    with pytest.raises(ValidationError, match=r"tool t: .*(object|parameters)"):
        ForeignTool(definition, nothing)


def test_the_suite_is_all_there() -> None:
    """So that no file, and no refusal that is not needed any more, is lost unseen."""
    assert {
        "type", "properties", "required", "items", "enum", "const", "anyOf", "oneOf", "allOf",
        "ref", "pattern", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems",
        "format",
    } <= {file.stem for file in SUITE.glob("*.json")}  # fmt: skip
    total = sum(len(case["tests"]) for _, case in CASES)
    assert total > 886  # those that the share is taken of
    refused = [len(c["tests"]) for keyword, c in CASES if (keyword, c["description"]) in REFUSED]
    assert sum(refused) < 0.04 * 886
    assert REFUSED.keys() <= {(keyword, case["description"]) for keyword, case in CASES}
