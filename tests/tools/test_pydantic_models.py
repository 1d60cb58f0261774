"""A Pydantic model is a type of a parameter and of a result, as the program's own code knows it."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import date
from typing import Annotated, Any, Literal
from uuid import UUID

import pydantic
import pytest

import callboard
from callboard import reply
from callboard.tools.tool import FunctionTool


class Line(pydantic.BaseModel):
    """A line of an order."""

    article: str = pydantic.Field(alias="name")
    count: Annotated[int, pydantic.Field(ge=1, description="How many")] = 1


class ByPost(pydantic.BaseModel):
    """A parcel."""

    way: Literal["post"]
    street: str


class Fetched(pydantic.BaseModel):
    """Somebody comes."""

    way: Literal["fetched"]


class Order(pydantic.BaseModel):
    """An order."""

    lines: list[Line]
    note: str | None = None
    sent: ByPost | Fetched = pydantic.Field(
        default=Fetched(way="fetched"), discriminator="way", validate_default=False
    )
    gift_for: Order | None = None

    @pydantic.field_validator("note")
    @classmethod
    def is_polite(cls, note: str | None) -> str | None:
        if note == "Now!":
            raise ValueError("say please")
        return note


class Bill(pydantic.BaseModel):
    """What it costs."""

    cents: int
    lines: list[Line] = []


@callboard.tool(tier="read_only", effect="read")
def price(order: Order, rebate: Line | None = None) -> Bill:
    """Says what an order costs.

    Args:
        order: What is wanted.
        rebate: What is free.
    """
    assert isinstance(order, Order)
    return Bill(cents=100 * sum(line.count for line in order.lines), lines=order.lines)


async def outcomes(tool: FunctionTool, *calls: dict[str, Any]) -> list[dict[str, Any]]:
    """The results of these calls, in their order, and the canonical arguments of each."""
    model = callboard.ScriptedModel(
        [reply(calls=[(tool.name, arguments) for arguments in calls]), reply("Done.")]
    )
    async with callboard.open_runtime(model=model, tools=[tool], environ={}) as runtime:
        session = await runtime.create_session()
        await session.run("Go.")
        rows = await runtime.store.calls()
    return [json.loads(row.result or "{}") | {"arguments": row.arguments} for row in rows[::-1]]


async def test_the_function_gets_a_model_and_may_return_one() -> None:
    lines = [{"name": "pear", "count": 2, "colour": "green"}]
    [done] = await outcomes(price, {"order": {"lines": lines, "note": None, "approved": True}})
    assert done["result"] == {"cents": 200, "lines": [{"name": "pear", "count": 2}]}
    # What means nothing is dropped before a policy or a person sees it.
    assert json.loads(done["arguments"]) == {"order": {"lines": [{"name": "pear", "count": 2}]}}


async def test_what_does_not_fit_names_its_place() -> None:
    told = await outcomes(
        price,
        {"order": {"lines": [{"name": "pear", "count": 0}]}},
        {"order": {"lines": [{"count": 1}]}},
        {"order": {"lines": [], "note": "Now!"}},
        {"order": {"lines": [], "sent": {"way": "post"}}},
        {"order": 7},
        {},
    )
    assert [each["error_type"] for each in told] == ["validation_error"] * 6
    fields = [each["field"] for each in told]
    assert fields[:3] == ["order.lines[0].count", "order.lines[0].name", "order.note"]
    assert fields[3].startswith("order.sent")
    assert fields[4:] == ["order", "order"]
    assert "greater than or equal to 1" in told[0]["message"]
    assert "say please" in told[2]["message"]


def test_the_model_is_told_the_models_own_schema() -> None:
    parameters = price.definition.parameters
    assert parameters["required"] == ["order"]
    order = parameters["properties"]["order"]
    assert order["description"] == "What is wanted."
    [line] = [order["properties"]["lines"]["items"]]
    assert line["properties"]["count"]["description"] == "How many"
    assert line["required"] == ["name"]
    assert order["properties"]["note"]["type"] == "string"
    assert len(order["properties"]["sent"]["anyOf"]) == 2
    text = json.dumps(parameters)
    for reference in [part.split('"')[0] for part in text.split("#/$defs/")[1:]]:
        assert reference in parameters["$defs"]
    assert isinstance(price.definition.output, dict)
    assert price.definition.output["properties"]["cents"]["type"] == "integer"


def test_a_default_is_a_model_too_and_each_call_has_its_own() -> None:
    start = Line(name="pear")

    def add(line: Line = start) -> str:
        """Adds a line."""
        return line.article

    add.__annotations__["line"] = Line
    tool = callboard.tool(add)
    first, second = (tool.decode("{}").value.line for _ in range(2))
    assert first == second == start
    assert first is not second is not start


def test_another_class_is_still_refused() -> None:
    def work(thing: Any) -> None:
        """Works."""

    work.__annotations__["thing"] = pytest.MonkeyPatch
    with pytest.raises(callboard.ValidationError, match="a type that JSON can't carry"):
        callboard.tool(work)


def test_callboard_never_imports_pydantic_itself() -> None:
    code = (
        "import sys, callboard\n"
        "@callboard.tool\n"
        "def add(a: int, b: list[float]) -> dict[str, int]:\n"
        "    '''Adds.'''\n"
        'add.decode(\'{"a": 1, "b": [2]}\')\n'
        "assert 'pydantic' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


class Stay(pydantic.BaseModel):
    """A stay."""

    since: date = date(2026, 1, 1)
    until: date | None = date(2026, 1, 31)
    paid: Annotated[date | None, pydantic.Field(description="When")] = None
    left: UUID | None = pydantic.Field(default_factory=lambda: UUID(int=0))


async def test_null_is_offered_and_taken_where_it_says_more_than_a_key_that_is_not_there() -> None:
    heard: list[Any] = []

    @callboard.tool(tier="read_only", effect="read")
    def book(stay: Stay, by: date | None = date(2026, 1, 1), note: str | None = None) -> str:
        """Books."""
        heard.append((stay.until, stay.paid, stay.left, by, note))
        return "done"

    assert isinstance(book, FunctionTool)
    fields = book.definition.parameters["properties"]
    stay = fields["stay"]["properties"]
    null = {"type": "null"}
    for field in (fields["by"], stay["until"], stay["left"]):
        assert null in field["anyOf"], field
    for field in (fields["note"], stay["paid"], stay["since"]):
        assert "anyOf" not in field, field
    assert stay["paid"] == {"type": "string", "format": "date", "description": "When"}
    nulls = {"stay": {"since": None, "until": None, "paid": None, "left": None}, "by": None}
    calls: list[dict[str, Any]] = [nulls, {"stay": {}}]
    for arguments in calls:
        [done] = await outcomes(book, arguments)
        assert done["result"] == "done", done
    assert heard == [
        (None, None, None, None, None),
        (date(2026, 1, 31), None, UUID(int=0), date(2026, 1, 1), None),
    ]
