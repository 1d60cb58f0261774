"""From the model's text to arguments: each mistake has one clear answer."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.runtime.definitions import ErrorType, ToolFailure
from callboard.runtime.stream import MAX_ARGUMENT_BYTES
from callboard.tools.schema.validation import MAX_DEPTH, Validator


class Item(msgspec.Struct):
    name: str
    count: Annotated[int, msgspec.Meta(ge=1)] = 1
    note: str | None = None


class Circle(msgspec.Struct, tag_field="shape", tag="circle"):
    radius: float


class Square(msgspec.Struct, tag_field="shape", tag="square"):
    side: float
    label: str = ""


class Node(msgspec.Struct):
    value: int
    next: Node | None = None


class Everything(msgspec.Struct, kw_only=True):
    path: str
    maybe: int | None = None
    level: int = 3
    items: list[Item] = []
    by_name: dict[str, Item] = {}
    drawing: Circle | Square | None = None
    node: Node | None = None
    free: dict[str, Any] = {}
    must: int | None
    wire: str = msgspec.field(name="from", default="")


SCHEMA: dict[str, Any] = {"type": "object"}
VALIDATOR = Validator("tool", Everything, SCHEMA)


def decode(**arguments: Any) -> tuple[Any, dict[str, Any]]:
    value, canonical, _ = VALIDATOR.decode(json.dumps({"path": "p", "must": 1, **arguments}))
    return value, json.loads(canonical)


def refusal(text: str) -> ToolFailure:
    with pytest.raises(ToolFailure) as caught:
        VALIDATOR.decode(text)
    assert caught.value.error_type == ErrorType.VALIDATION_ERROR
    assert caught.value.details["schema"] is SCHEMA
    return caught.value


@pytest.mark.parametrize(
    ("arguments", "field", "expected"),
    [
        ('{"must": 1}', "path", "required and missing"),
        ('{"must": 1, "path": null}', "path", "required and missing"),
        ('{"path": "p"}', "must", "required and missing"),
        ('{"path": 1, "must": 1}', "path", "expected string, got integer"),
        ('{"path": "p", "must": 1.5}', "must", "expected integer, got number"),
        ('{"path": "p", "must": "1"}', "must", "expected integer, got string"),
        ('{"path": "p", "must": true}', "must", "expected integer, got boolean"),
        ('{"path": "p", "must": 1, "items": {}}', "items", "expected array"),
        ('{"path": "p", "must": 1, "items": [{}]}', "items[0].name", "required and missing"),
        ('{"path": "p", "must": 1, "items": [null]}', "items[0]", "expected object, got null"),
        (
            '{"path": "p", "must": 1, "items": [{"name": "a", "count": 0}]}',
            "items[0].count",
            "expected integer >= 1",
        ),
        ('{"path": "p", "must": 1, "drawing": {"shape": "x"}}', "drawing.shape", "invalid value"),
        ('{"path": "p", "must": 1, "from": 5}', "from", "expected string, got integer"),
    ],
)
def test_a_wrong_argument_is_named_with_what_was_expected(
    arguments: str, field: str, expected: str
) -> None:
    failure = refusal(arguments)
    assert failure.details["field"] == field
    assert f"`{field}`" in str(failure)
    assert expected in str(failure)
    assert str(failure).startswith("tool: ")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{", "not JSON"),
        ('{"path": "p", "must": 1', "not JSON"),
        ('{"path": "p", "must": NaN}', "not JSON"),
        ('{"path": "p", "must": Infinity}', "not JSON"),
        ("{'path': 'p'}", "not JSON"),
        ('{"path": "p", "must": 1} {}', "not JSON"),
        ('{"path": "\\ud800", "must": 1}', "not JSON"),
        ('{"path": "p", "must": ' + "9" * 5_000 + "}", "not JSON"),
        ('{"path": "\ud800", "must": 1}', "surrogate"),
        ("[]", "must be a JSON object"),
        ('"text"', "must be a JSON object"),
        ("null", "must be a JSON object"),
        ('{"path": "' + "x" * MAX_ARGUMENT_BYTES + '"}', "larger than 1048576 bytes"),
        ('{"path": "' + "é" * (MAX_ARGUMENT_BYTES // 2) + '"}', "larger than 1048576 bytes"),
        ('{"free": ' + '{"a":' * MAX_DEPTH + "1" + "}" * MAX_DEPTH + "}", "nested deeper"),
        ("[" * 100_000, "nested deeper"),
        ('{"a":' * 100_000, "nested deeper"),
    ],
)
def test_what_is_no_object_of_json_is_refused(text: str, expected: str) -> None:
    assert expected in str(refusal(text))


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ('{"path": "a", "must": 1, "path": "b"}', "path"),
        ('{"path": "a", "must": 1, "pa\\u0074h": "b"}', "path"),
        ('{"path": "a", "must": 1, "zzz": 1, "zzz": 1}', "zzz"),
        ('{"path": "a", "must": 1, "items": [{"name": "x", "name": "y"}]}', "name"),
        ('{"path": "a:b", "must": 1, "path": "b"}', "path"),
        ('{"path": "a", "must": 1, "path": "\\u003a"}', "path"),
        ('{"path": "a", "must": 1, "path": "\\u003A"}', "path"),
        ('{"a\\u003a": 1, "path": "a", "must": 1, "must": 2}', "must"),
        ('{"path":\n"a", "must" : 1, "must"\t:2}', "must"),
    ],
)
def test_a_key_that_is_given_twice_is_refused(text: str, key: str) -> None:
    failure = refusal(text)
    assert failure.details["field"] == key
    assert f"`{key}` is given twice" in str(failure)


@pytest.mark.parametrize(
    "path", ["a:b", "::", "{[", '"', "\\", '": "', "\\u003a", ":", "{" * 200, "é", "\0", "\n"]
)
def test_what_stands_in_a_string_is_no_syntax(path: str) -> None:
    value, canonical = decode(path=path, free={"k:": {"x": path}})
    assert value.path == canonical["path"] == path
    assert canonical["free"] == {"k:": {"x": path}}


@pytest.mark.parametrize("text", ["", " ", "\n"])
def test_empty_text_is_an_empty_object(text: str) -> None:
    class Nothing(msgspec.Struct):
        maybe: int = 0

    assert Validator("tool", Nothing, {}).decode(text) == (Nothing(), "{}", "")


def test_unknown_keys_and_nulls_that_mean_nothing_are_dropped_on_every_level() -> None:
    value, canonical = decode(
        approved=True,
        maybe=None,
        level=None,
        items=[{"name": "a", "count": None, "note": None, "tier": "x"}, {"name": "b", "count": 2}],
        by_name={"k": {"name": "c", "zzz": 1, "note": None}},
        drawing={"shape": "square", "side": 1, "radius": 5, "label": None},
        node={"value": 1, "next": {"value": 2, "next": None, "zzz": 1}},
        free={"keep": None, "any": {"thing": None}},
    )
    assert value.level == 3
    assert canonical == {
        "path": "p",
        "must": 1,
        "items": [{"name": "a"}, {"name": "b", "count": 2}],
        "by_name": {"k": {"name": "c"}},
        "drawing": {"shape": "square", "side": 1},
        "node": {"value": 1, "next": {"value": 2}},
        "free": {"keep": None, "any": {"thing": None}},
    }


class Choices(msgspec.Struct, kw_only=True):
    create_dirs: bool = False
    mode: Literal["a", "b"] = "a"
    level: Literal[1, 2, "top"] = 1
    steps: list[Step] = []
    by_name: dict[str, Step] = {}
    pair: tuple[int, Literal["x"]] | None = None
    many: Literal[tuple(f"v{number}" for number in range(40))] = "v0"  # type: ignore[valid-type]
    two_ways: int = 0
    twoways: int = 0


class Step(msgspec.Struct):
    is_done: bool = False
    state: Literal["open", "closed"] = "open"
    below: list[Step] = []


def choose(**arguments: Any) -> tuple[dict[str, Any], str]:
    schema = msgspec.json.schema(Choices)
    _, canonical, note = Validator("tool", Choices, schema).decode(json.dumps(arguments))
    return json.loads(canonical), note


@pytest.mark.parametrize(
    ("arguments", "field", "expected"),
    [
        ({"mode": "c"}, "mode", """expected "a" or "b", got 'c'"""),
        ({"mode": "c" * 500}, "mode", """expected "a" or "b", got 'cccc"""),
        ({"mode": 1}, "mode", 'expected "a" or "b", got integer'),
        ({"level": 3}, "level", 'expected 1 or 2 or "top", got 3'),
        ({"steps": [{}, {"state": "x"}]}, "steps[1].state", 'expected "closed" or "open", got'),
        ({"steps": [{"below": [{"state": 1}]}]}, "steps[0].below[0].state", '"closed" or "open"'),
        ({"by_name": {"k": {"state": "x"}}}, "by_name.k.state", '"closed" or "open"'),
        ({"pair": [1, "y"]}, "pair[1]", """expected "x", got 'y'"""),
        ({"many": "w"}, "many", " or another of 40, got"),
        ({"create_dirs": "yes"}, "create_dirs", "expected boolean, got string"),
    ],
)
def test_an_error_about_a_choice_lists_what_it_may_be(
    arguments: dict[str, Any], field: str, expected: str
) -> None:
    with pytest.raises(ToolFailure) as refused:
        choose(**arguments)
    assert refused.value.details["field"] == field
    assert expected in str(refused.value)
    assert len(str(refused.value)) < 600


@pytest.mark.parametrize(
    ("arguments", "kept", "noted"),
    [
        ({"createDirs": True}, {"create_dirs": True}, "createDirs was taken as create_dirs"),
        ({"CREATE_DIRS": True}, {"create_dirs": True}, "CREATE_DIRS was taken as create_dirs"),
        ({"steps": [{"isDone": True}]}, {"steps": [{"is_done": True}]}, "isDone was taken as"),
        ({"createDirs": None}, {}, "createDirs"),
        ({"create_dirs": True}, {"create_dirs": True}, ""),
        ({"twoWays": 1}, {}, ""),
        ({"make_dirs": True, "x" * 9999: 1}, {}, ""),
    ],
)
def test_a_key_in_another_spelling_is_taken_as_the_one_that_it_means(
    arguments: dict[str, Any], kept: dict[str, Any], noted: str
) -> None:
    found, note = choose(**arguments)
    assert found == kept
    assert (noted in note) if noted else not note


@pytest.mark.parametrize(
    "arguments",
    [{"createDirs": True, "create_dirs": False}, {"createDirs": True, "CreateDirs": True}],
)
def test_of_two_spellings_of_one_key_nobody_guesses(arguments: dict[str, Any]) -> None:
    with pytest.raises(ToolFailure, match="means `create_dirs`, which is given too") as refused:
        choose(**arguments)
    assert refused.value.details["field"] == "create_dirs"


def test_null_is_kept_where_it_is_the_value() -> None:
    value, canonical = decode(must=None)
    assert value.must is None
    assert canonical == {"path": "p", "must": None}


def test_the_canonical_form_has_sorted_keys_and_no_spaces() -> None:
    first = VALIDATOR.decode('{"path": "p", "must": 1, "free": {"b": 1, "a": 2}, "x": 0}')[1]
    second = VALIDATOR.decode('{ "free":{"a":2,"b":1},"must":1,"path":"p","maybe":null}')[1]
    assert first == second == '{"free":{"a":2,"b":1},"must":1,"path":"p"}'


def test_the_deepest_and_largest_arguments_are_taken() -> None:
    deep: Any = 1
    for _ in range(MAX_DEPTH - 2):
        deep = {"a": deep}
    decode(free={"a": deep})
    text = '{"must":1,"path":"%s"}'
    VALIDATOR.decode(text % ("x" * (MAX_ARGUMENT_BYTES - len(text) + 2)))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-100, 100) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=12,
)
keys = st.sampled_from(["path", "must", "items", "by_name", "free", "level", "node", "drawing"])


@given(st.dictionaries(keys | st.text(max_size=3), json_values, max_size=8), st.booleans())
def test_any_json_is_decoded_or_refused_and_the_canonical_form_is_stable(
    arguments: dict[str, Any], ascii_only: bool
) -> None:
    text = json.dumps({"path": "p", "must": 1, **arguments}, ensure_ascii=ascii_only)
    try:
        value, canonical, _ = VALIDATOR.decode(text)
    except ToolFailure:
        return
    assert VALIDATOR.decode(canonical) == (value, canonical, "")


@given(st.text(max_size=60))
def test_any_text_is_decoded_or_refused(text: str) -> None:
    with pytest.raises(ToolFailure):
        VALIDATOR.decode(text)
