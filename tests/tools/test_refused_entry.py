"""Whose value is wrong is said by name, also where a dict has any keys."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from callboard.runtime.definitions import ToolFailure
from callboard.runtime.errors import ValidationError
from callboard.tools.schema.validation import MAX_KEY_LENGTH, with_keys
from callboard.tools.tool import tool
from callboard.tools.web.http_request import http_request


class Letter(msgspec.Struct):
    headers: dict[str, str] = {}
    pages: list[dict[str, dict[str, int]]] = []


def said(tree: Any, kind: Any = Letter) -> str:
    """What is wrong with it."""
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.convert(tree, kind, str_keys=True)
    return with_keys(str(caught.value), tree, kind)


MANY = {f"k{number}": "x" for number in range(1000)}


@pytest.mark.parametrize(
    ("tree", "place"),
    [
        ({"headers": {"A": "x", "X-B": 1}}, "$.headers.X-B"),
        ({"headers": {"A": 1}}, "$.headers.A"),
        ({"headers": {**MANY, "k500": 1}}, "$.headers.k500"),
        ({"headers": {"A": "x", "B": 1, "C": 2}, "pages": 5}, "$.headers.B"),
        ({"pages": [{}, {"p": {}, "q": {"y": 1, "z": "1"}}]}, "$.pages[1].q.z"),
        ({"headers": {"x" * 1000: 1}}, "$.headers." + "x" * MAX_KEY_LENGTH),
        ({"pages": [{}, 5]}, "$.pages[1]"),
        ({"headers": 5}, "$.headers"),
    ],
)
def test_the_entry_is_named(tree: Any, place: str) -> None:
    assert said(tree).endswith(f" - at `{place}`")


def test_the_tree_itself_may_be_the_dict() -> None:
    assert said({"a": 1, "b": "x"}, dict[str, int]).endswith(" - at `$.b`")


def test_where_the_path_can_not_be_followed_it_stays() -> None:
    kind = msgspec.defstruct("Dotted", [("a", dict[str, int], msgspec.field(name="x.y"))])
    assert said({"x.y": {"k": "1"}}, kind).endswith(" - at `$.x.y[...]`")


def test_the_model_is_told_which_header_is_wrong() -> None:
    arguments = {"url": "https://a.example", "headers": {"Accept": "*/*", "X-Count": 3}}
    with pytest.raises(
        ToolFailure, match=r"`headers\.X-Count`: expected string, got integer"
    ) as caught:
        http_request.decode(json.dumps(arguments))
    assert caught.value.details["field"] == "headers.X-Count"


async def test_the_programmer_is_told_which_entry_of_a_result_is_wrong() -> None:
    @tool(output=dict[str, int])
    async def count() -> Any:
        """Counts."""
        return {"a": 1, "b": "two"}

    context: Any = None
    with pytest.raises(ToolFailure, match="`b`: expected integer, got string"):
        await count.execute(count.decode("{}"), context)


class Reticent:
    """Can be called, but does not say with what."""

    __signature__ = "none"

    def __call__(self) -> None:
        """Does nothing."""


@pytest.mark.parametrize(
    ("odd", "said"),
    [
        (5, "5 is not a function: a tool is made of a `def`"),
        (int, "<class 'int'> is not a function: a tool is made of a `def`"),
        ([], r"\[\] is not a function: a tool is made of a `def`"),
        (Reticent(), "Reticent .* does not tell its parameters .* Write a function around it"),
    ],
    ids=["number", "class", "list", "object"],
)
def test_what_is_no_function_is_no_tool(odd: Any, said: str) -> None:
    for make in (tool, tool()):
        with pytest.raises(ValidationError, match=said):
            make(odd)
