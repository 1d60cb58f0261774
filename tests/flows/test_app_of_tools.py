"""A tool gets the program's own object, typed: `ToolContext[Shop].app`."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol, assert_type

import pytest

import callboard
from callboard import reply
from support.stage import open_stage


class Shop:
    """What a program has before it knows of callboard."""

    def __init__(self) -> None:
        self.stock = {"pears": 3}


class Kept(Protocol):
    """Something with a stock; `isinstance` does not take it."""

    stock: dict[str, int]


@callboard.tool(
    tier="workspace",
    approval=lambda _, context: "none are left" if not context.app.stock["pears"] else None,
)
async def sell(count: int, context: callboard.ToolContext[Shop]) -> int:
    """Sells pears, and returns how many are left."""
    assert_type(context.app, Shop)
    context.app.stock["pears"] -= count
    return context.app.stock["pears"]


@callboard.tool(tier="read_only", effect="read")
def look(context: callboard.ToolContext[Kept | None]) -> str:
    """Says what is there."""
    assert_type(context.app, Kept | None)
    return str(context.app and context.app.stock)


@callboard.tool(tier="read_only", effect="read")
def plain(context: callboard.ToolContext) -> str:
    """Says of what type the app is."""
    return type(context.app).__name__


async def test_tools_and_their_rules_get_the_object_that_the_program_gave(tmp_path: Path) -> None:
    shop = Shop()
    steps = [
        reply(calls=[("sell", {"count": 3})]),
        reply(calls=[("sell", {"count": 1}), ("look", {}), ("plain", {})]),
        reply("Done."),
    ]
    async with open_stage(tmp_path, steps, tools=[sell, look, plain], app=shop) as stage:
        await (await stage.runtime.create_session()).run("Sell pears.")
        calls = [(call.name, str(call.result)) for call in await stage.runtime.store.calls()]
    assert shop.stock == {"pears": 0}  # the second sale asked, and nobody was there
    assert [name for name, result in calls if "permission_denied" in result] == ["sell"]
    assert "{'pears': 0}" in dict(calls)["look"]
    assert "Shop" in dict(calls)["plain"]


@pytest.mark.parametrize("app", [None, {"pears": 3}])
async def test_a_tool_that_wants_another_object_is_refused_before_anything_opens(
    app: object,
) -> None:
    with pytest.raises(callboard.CallboardError, match=r"sell takes a ToolContext\[Shop\].*app=…"):
        async with callboard.open_runtime(model="rehearsal", tools=[sell], app=app):
            pass
    async with callboard.open_runtime(model="rehearsal", tools=[look, plain], app=app):
        pass  # neither of these can be judged


def test_the_object_does_not_go_to_another_process() -> None:
    def work(context: callboard.ToolContext[Shop]) -> None:
        """Works."""

    work.__annotations__["context"] = callboard.ToolContext[Shop]
    with pytest.raises(callboard.CallboardError, match="process=True does not go with"):
        callboard.tool(process=True)(work)


def test_the_same_under_asyncio_and_in_threads() -> None:
    shop = Shop()
    model = callboard.ScriptedModel([reply(calls=[("sell", {"count": 1})]), reply("Sold.")])
    with callboard.start_in_thread(model=model, tools=[sell], app=shop) as runtime:
        assert runtime.create_session().run("Sell one.") == "Sold."
    assert shop.stock == {"pears": 2}
