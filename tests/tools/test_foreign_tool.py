"""Tools with a JSON Schema of somebody else: what is dropped, refused, and bounded."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from callboard.runtime.definitions import ErrorType, ToolDefinition, ToolFailure, ToolResult
from callboard.runtime.errors import ValidationError
from callboard.tools.foreign_tool import ForeignTool
from callboard.tools.schema import foreign_schema, foreign_validator
from callboard.tools.schema.foreign_schema import (
    MAX_BRANCHES,
    MAX_CHECKS,
    MAX_SCHEMA_BYTES,
    MAX_SCHEMA_DEPTH,
)
from callboard.tools.tool import ToolContext
from support.tools.workbench import context_of

ITEM = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "note": {"type": "string"}},
    "required": ["name"],
}
ISSUE = {
    "title": {"type": "string", "minLength": 1},
    "count": {"type": "integer", "minimum": 1},
    "state": {"enum": ["open", "closed"]},
    "assignee": {"type": ["string", "null"]},
    "items": {"type": "array", "items": {"$ref": "#/$defs/item"}},
    "by_name": {"type": "object", "additionalProperties": {"$ref": "#/$defs/item"}},
    "maybe": {"anyOf": [{"$ref": "#/$defs/item"}, {"type": "null"}]},
    "either": {"anyOf": [{"type": "integer"}, {"$ref": "#/$defs/item"}]},
    "free": {"type": "object"},
    "any": {},
    "closed": {"type": "object", "properties": {"a": {}}, "additionalProperties": False},
    "open": {"type": "object", "properties": {"a": {}}, "additionalProperties": True},
    "parts": {"allOf": [{"properties": {"b": {}}}], "properties": {"a": {}}},
}


async def echo(arguments: dict[str, Any], context: ToolContext) -> Any:
    await trio.lowlevel.checkpoint()
    return arguments


def make(properties: dict[str, Any], **more: Any) -> ForeignTool:
    parameters = {"type": "object", "properties": properties, **more}
    return ForeignTool(ToolDefinition(name="foreign", description="", parameters=parameters), echo)


@pytest.fixture(scope="module")
def issue() -> ForeignTool:
    return make(ISSUE, required=["title"], **{"$defs": {"item": ITEM}})


def decode(made: ForeignTool, **arguments: Any) -> Any:
    decoded = made.decode(json.dumps(arguments))
    assert json.loads(decoded.canonical) == decoded.value
    return decoded.value


def refusal(made: ForeignTool, text: str) -> ToolFailure:
    with pytest.raises(ToolFailure) as caught:
        made.decode(text)
    assert caught.value.error_type is ErrorType.VALIDATION_ERROR
    assert caught.value.details["schema"] is made.definition.parameters
    assert str(caught.value).startswith("foreign: ")
    return caught.value


# ── before the schema ────────────────────────────────────────────────────────────────────────────


def test_unknown_keys_and_nulls_that_mean_nothing_are_dropped(issue: ForeignTool) -> None:
    item = {"name": "n", "note": None, "approved": True}
    kept = {"name": "n"}
    decoded = decode(
        issue,
        title="t",
        approved=True,
        count=None,
        state=None,
        items=[item],
        by_name={"k": item},
        maybe=item,
        closed={"a": 1, "b": 2},
    )
    assert decoded == {
        "title": "t",
        "items": [kept],
        "by_name": {"k": kept},
        "maybe": kept,
        "closed": {"a": 1},
    }


def test_what_the_schema_allows_is_kept(issue: ForeignTool) -> None:
    given = {
        "title": "t",
        "assignee": None,
        "maybe": None,
        "any": None,
        "either": {"name": "n", "more": 1},
        "free": {"a": None},
        "open": {"a": None, "b": 1},
        "parts": {"a": 1, "b": 2, "c": 3},
    }
    assert decode(issue, **given) == given


@pytest.mark.parametrize(
    ("text", "field", "message"),
    [
        ("{", None, "not JSON"),
        ("[]", None, "must be a JSON object"),
        ('{"title": "a", "title": "b"}', "title", "given twice"),
        ("{}", "title", "`title` is required and missing"),
        ('{"title": null}', "title", "`title` is required and missing"),
        ('{"title": 5}', "title", "`title`: expected string, got integer"),
        ('{"title": ""}', "title", "`title`: it is shorter than 1 character"),
        ('{"title": "t", "count": 0}', "count", "less than the minimum of 1"),
        ('{"title": "t", "count": 1.5}', "count", "expected integer, got number"),
        ('{"title": "t", "state": "new"}', "state", '"open" or "closed"'),
        ('{"title": "t", "assignee": 5}', "assignee", "expected null or string, got integer"),
        ('{"title": "t", "items": [{"name": "n"}, {}]}', "items[1].name", "required and missing"),
        ('{"title": "t", "by_name": {"k": {"name": 1}}}', "by_name.k.name", "expected string"),
        ('{"title": "t", "maybe": {"name": 1}}', "maybe.name", "expected string, got integer"),
        ('{"title": "t", "maybe": 5}', "maybe", "expected object or null"),
        ('{"title": "t", "either": "x"}', "either", "expected integer or object"),
        ('{"title": "t", "count": true}', "count", "expected integer, got boolean"),
    ],
)
def test_a_wrong_argument_is_named_with_what_was_expected(
    issue: ForeignTool, text: str, field: str | None, message: str
) -> None:
    failure = refusal(issue, text)
    assert failure.details.get("field") == field
    assert message in str(failure)


def test_a_message_does_not_repeat_what_was_sent() -> None:
    made = make(
        {
            "a": {"type": "string", "maxLength": 3},
            "b": {"oneOf": [{"minLength": 3}, {"maxLength": 9}]},
        }
    )
    assert "canary" not in str(refusal(made, '{"a": "a canary in a cage"}'))
    assert "fits several" in str(refusal(made, '{"b": "canary"}'))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["name", "note", "a", "b"]), inner, max_size=3)
    ),
    max_leaves=12,
)


MADE = make(ISSUE, **{"$defs": {"item": ITEM}})


@given(st.dictionaries(st.sampled_from([*ISSUE]) | st.text(max_size=3), json_values, max_size=8))
def test_any_json_is_decoded_or_refused_and_the_canonical_form_is_stable(
    arguments: dict[str, Any],
) -> None:
    try:
        decoded = MADE.decode(json.dumps(arguments))
    except ToolFailure:
        return
    assert MADE.decode(decoded.canonical) == decoded


# ── which schemas ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"a": {"$ref": "http://127.0.0.1:9/x.json"}}, "nothing is fetched"),
        ({"a": {"$ref": "file:///etc/passwd"}}, "nothing is fetched"),
        ({"a": {"$ref": "other.json#/x"}}, "nothing is fetched"),
        ({"a": {"items": {"anyOf": [{"$dynamicRef": "http://127.0.0.1:9/x"}]}}}, "nothing is fetched"),
        ({"a": {"$ref": "#/nowhere"}}, "there is no schema"),
        ({"a": {"$ref": "#nowhere"}}, "there is no schema"),
        ({"a": {"$ref": "#/properties/a"}}, "refers to itself without end"),
        ({"a": {"anyOf": [{"$ref": "#/properties/b"}]}, "b": {"allOf": [{"$ref": "#/properties/a"}]}}, "without end"),
        ({"a": {"$id": "http://example.com/other", "type": "string"}}, "an \\$id below its root"),
        ({"a": {"type": "text"}}, "not valid at properties.a.type"),
        ({"a": {"minLength": "x"}}, "not valid at properties.a.minLength"),
        ({"a": {"pattern": "("}}, "not valid at properties.a.pattern"),
        ({"a": {"pattern": "^(?!a)"}}, "without lookaround"),
        ({"a": {"pattern": "(a)\\1"}}, "without lookaround"),
        ({"a": {"pattern": "((a{1000}){1000}){1000}"}}, "not valid at properties.a.pattern"),
    ],
)  # fmt: skip
def test_a_schema_that_leads_astray_is_refused(properties: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message) as caught:
        make(properties)
    assert str(caught.value).startswith("tool foreign: ")


def test_a_reference_to_itself_by_its_own_id_is_refused() -> None:
    own = {"$id": "http://example.com/own"}
    word = {"type": "string"}
    made = make({"a": {"$ref": "#/properties/b"}, "b": word}, **own)
    assert decode(made, a="x") == {"a": "x"}
    refusal(made, '{"a": 1}')
    for reference in ("http://example.com/own#/properties/b", "own#/properties/b"):
        with pytest.raises(ValidationError, match="only references within the schema"):
            make({"a": {"$ref": reference}, "b": word}, **own)


@pytest.mark.parametrize(
    ("draft", "taken"),
    [
        ("https://json-schema.org/draft/2020-12/schema", True),
        ("http://json-schema.org/draft-07/schema#", True),
        ("http://json-schema.org/draft-06/schema#", True),
        ("https://json-schema.org/draft/2019-09/schema", True),
        ("http://json-schema.org/draft-04/schema#", False),
        ("http://127.0.0.1:9/meta", False),
        (5, False),
    ],
)
def test_a_schema_says_in_which_draft_it_is_written(draft: Any, taken: bool) -> None:
    more = {"$schema": draft}
    if not taken:
        with pytest.raises(ValidationError, match="write it in JSON Schema 2020-12"):
            make({"a": {"type": "integer"}}, **more)
        return
    made = make({"a": {"type": "integer"}}, **more)
    assert decode(made, a=1) == {"a": 1}
    refusal(made, '{"a": "x"}')


def test_the_drafts_differ() -> None:
    pair = {"a": {"items": [{"type": "integer"}]}}
    with pytest.raises(ValidationError, match=r"not valid at properties\.a\.items"):
        make(pair)
    made = make(pair, **{"$schema": "http://json-schema.org/draft-07/schema#"})
    assert decode(made, a=[1, "x"]) == {"a": [1, "x"]}
    assert refusal(made, '{"a": ["x"]}').details["field"] == "a[0]"


@pytest.mark.parametrize("kind", [None, "string", ["object"]])
def test_parameters_are_an_object(kind: Any) -> None:
    definition = ToolDefinition(name="foreign", description="", parameters={"type": kind})
    with pytest.raises(ValidationError, match="of type object"):
        ForeignTool(definition, echo)


def test_without_the_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jsonschema_rs", None)
    with pytest.raises(ValidationError, match=r'tool foreign .*pip install "callboard\[schemas\]"'):
        make({})


# ── bounds ───────────────────────────────────────────────────────────────────────────────────────


def test_the_size_of_a_schema_is_bounded() -> None:
    spare = len(
        json.dumps(make({"a": {"description": ""}}).definition.parameters, separators=(",", ":"))
    )
    make({"a": {"description": "x" * (MAX_SCHEMA_BYTES - spare)}})
    with pytest.raises(ValidationError, match="262145 bytes"):
        make({"a": {"description": "x" * (MAX_SCHEMA_BYTES - spare + 1)}})


def nest(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(levels):
        schema = {"items": schema}
    return {"a": schema}


def test_the_depth_of_a_schema_is_bounded() -> None:
    make(nest(MAX_SCHEMA_DEPTH - 3))
    for levels in (MAX_SCHEMA_DEPTH - 2, 5000):
        with pytest.raises(ValidationError, match=r"nested deeper than 64 levels|is not JSON"):
            make(nest(levels))


def doubling(steps: int) -> dict[str, Any]:
    """Each definition is two times the next."""
    definitions: dict[str, Any] = {f"d{steps}": {"type": "integer"}}
    for step in range(steps):
        next_one = {"$ref": f"#/$defs/d{step + 1}"}
        definitions[f"d{step}"] = {"anyOf": [next_one, next_one]}
    return definitions


def test_alternatives_of_alternatives_are_bounded() -> None:
    made = make({"a": {"$ref": "#/$defs/d0"}}, **{"$defs": doubling(8)})
    assert decode(made, a=1) == {"a": 1}
    assert refusal(made, '{"a": "x"}').details["field"] == "a"
    with pytest.raises(ValidationError, match=f"more than {MAX_BRANCHES} schemas to one value"):
        make({"a": {"$ref": "#/$defs/d0"}}, **{"$defs": doubling(30)})


def test_a_long_chain_of_references_is_followed_through_values_only() -> None:
    steps = 3000
    chain: dict[str, Any] = {
        f"d{step}": {"properties": {"next": {"$ref": f"#/$defs/d{step + 1}"}}}
        for step in range(steps)
    }
    chain[f"d{steps}"] = {"type": "integer"}
    made = make({"a": {"$ref": "#/$defs/d0"}}, **{"$defs": chain})
    assert decode(made, a={"next": {"next": {}}}) == {"a": {"next": {"next": {}}}}
    straight = {f"d{step}": {"$ref": f"#/$defs/d{step + 1}"} for step in range(steps)}
    with pytest.raises(ValidationError, match=r"too many references|applies more than"):
        make({"a": {"$ref": "#/$defs/d0"}}, **{"$defs": {**straight, f"d{steps}": {}}})


BRANCHING = {
    "node": {
        "type": "object",
        "properties": {
            "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"$ref": "#/$defs/node", "required": ["z"]}]},
            "value": {"type": "integer"},
        },
    }
}  # fmt: skip


def nested(levels: int, value: Any) -> dict[str, Any]:
    given: dict[str, Any] = {"value": value}
    for _ in range(levels):
        given = {"next": given}
    return given


def test_recursive_alternatives_are_counted_before_they_are_checked() -> None:
    made = make({"a": {"$ref": "#/$defs/node"}, "b": {"type": "string"}}, **{"$defs": BRANCHING})
    assert decode(made, a=nested(5, 1)) == {"a": nested(5, 1)}
    near = refusal(made, json.dumps({"a": nested(5, "x")}))
    assert near.details["field"] == "a.next.next.next.next.next.value"
    # Too many to explain, few enough to check.
    far = refusal(made, json.dumps({"a": nested(12, "x"), "b": "y"}))
    assert far.details["field"] == "a"
    # It would double with every level.
    assert "send less at once" in str(refusal(made, json.dumps({"a": nested(60, 1)})))


def test_many_values_are_checked_and_too_many_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenth of what may be checked, or all of it with `CALLBOARD_SOAK=1`."""
    most = MAX_CHECKS if os.environ.get("CALLBOARD_SOAK") else MAX_CHECKS // 10
    for module in (foreign_schema, foreign_validator):
        monkeypatch.setattr(module, "MAX_CHECKS", most)
    made = make({"a": {"type": "array", "items": {"type": "integer"}}})
    many = [1] * (most - 10)
    assert len(decode(made, a=many)["a"]) == len(many)
    assert refusal(made, json.dumps({"a": [*many, "x"]})).details["field"] == "a"
    assert "send less at once" in str(refusal(made, json.dumps({"a": [1] * (most + 10)})))


def test_a_pattern_takes_linear_time() -> None:
    made = make({"a": {"type": "string", "pattern": "^(a+)+$"}})
    text = "a" * 100_000
    assert decode(made, a=text) == {"a": text}
    assert "`a`: it does not match" in str(refusal(made, json.dumps({"a": text + "!"})))


# ── running it ───────────────────────────────────────────────────────────────────────────────────


def with_output(output: dict[str, Any], returned: Any) -> ForeignTool:
    async def answer(arguments: dict[str, Any], context: ToolContext) -> Any:
        await trio.lowlevel.checkpoint()
        return returned

    definition = ToolDefinition(
        name="foreign", description="", parameters={"type": "object"}, output=output
    )
    return ForeignTool(definition, answer)


async def test_a_call_gets_the_arguments_and_gives_a_result(issue: ForeignTool) -> None:
    result = await issue.execute(issue.decode('{"title": "t", "x": 1}'), context_of())
    assert result.output == {"title": "t"}


async def test_a_result_is_held_to_its_schema() -> None:
    fits = with_output(ITEM, ToolResult(output={"name": "n", "more": 1}, display="shown"))
    result = await fits.execute(fits.decode("{}"), context_of())
    assert (result.output, result.display) == ({"name": "n", "more": 1}, "shown")
    for returned, field in (({"name": 5}, "name"), ({1: 2}, "name"), ([], None)):
        made = with_output(ITEM, returned)
        with pytest.raises(ToolFailure, match="not what it declares") as caught:
            await made.execute(made.decode("{}"), context_of())
        assert caught.value.error_type is ErrorType.EXECUTION_ERROR
        assert caught.value.details.get("field") == field
