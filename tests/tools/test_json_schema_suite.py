"""The official tests of JSON Schema 2020-12 for the keywords that tools use: foreign schemas pass.

What callboard refuses on purpose is listed, each with its reason; everything else must be taken, and
each value judged as the suite does, also one level down, as an argument of a foreign tool.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from callboard.runtime.definitions import ToolDefinition, ToolFailure, ToolResult
from callboard.runtime.errors import ValidationError
from callboard.tools.foreign_tool import ForeignTool
from callboard.tools.schema.foreign_validator import ForeignValidator
from callboard.tools.schema.validation import WrongArguments

SUITE = Path(__file__).parent / "json_schema_suite"

OTHER_DOCUMENT = r"nothing is fetched, and only references within the schema"
OWN_BASE = r"has an \$id below its root"
NO_OBJECT = r"and not an object of keywords"

REFUSED = {
    ("anchor", "Location-independent identifier with absolute URI"): OTHER_DOCUMENT,
    ("anchor", "Location-independent identifier with base URI change in subschema"): OTHER_DOCUMENT,
    ("anchor", "same $anchor with different base uri"): OTHER_DOCUMENT,
    ("boolean_schema", "boolean schema 'true'"): NO_OBJECT,
    ("boolean_schema", "boolean schema 'false'"): NO_OBJECT,
    ("defs", "validate definition against metaschema"): OTHER_DOCUMENT,
    ("ref", "remote ref, containing refs itself"): OTHER_DOCUMENT,
    ("ref", "Recursive references between schemas"): OWN_BASE,
    ("ref", "refs with relative uris and defs"): OTHER_DOCUMENT,
    ("ref", "relative refs with absolute uris and defs"): OTHER_DOCUMENT,
    ("ref", "$id must be resolved against nearest parent, not just immediate parent"): OTHER_DOCUMENT,
    ("ref", "order of evaluation: $id and $ref"): OTHER_DOCUMENT,
    ("ref", "order of evaluation: $id and $anchor and $ref"): OWN_BASE,
    ("ref", "simple URN base URI with $ref via the URN"): OTHER_DOCUMENT,
    ("ref", "URN base URI with URN and JSON pointer ref"): OTHER_DOCUMENT,
    ("ref", "URN base URI with URN and anchor ref"): OTHER_DOCUMENT,
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


def test_the_suite_is_all_there() -> None:
    """So that no file, and no refusal that is not needed any more, is lost unseen."""
    assert {
        "type", "properties", "required", "items", "enum", "const", "anyOf", "oneOf", "allOf",
        "ref", "pattern", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems",
        "format",
    } <= {file.stem for file in SUITE.glob("*.json")}  # fmt: skip
    assert sum(len(case["tests"]) for _, case in CASES) > 800
    assert REFUSED.keys() <= {(keyword, case["description"]) for keyword, case in CASES}
