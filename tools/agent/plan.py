"""plan: what the model means to do, for itself and for people to see."""

from __future__ import annotations

from typing import Annotated, Literal, TypedDict

import msgspec

from ...runtime.definitions import Effect, ErrorType, Tier, ToolFailure, ToolResult
from ...runtime.event_types.plan import PlanItem, plan_lines, progress_of
from ..failures import invalid
from ..tool import ToolContext, tool

MAX_ITEMS = 50
"""A screen of a terminal."""
MAX_ITEM_CHARS = 300
"""Some lines: what to do, not how."""


class Item(msgspec.Struct, frozen=True):
    """One step, and how far it is."""

    text: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_ITEM_CHARS)]
    status: Literal["pending", "in_progress", "done"] = "pending"


class Planned(TypedDict):
    """What plan returns: a line a step, and how far it all is."""

    plan: list[str]
    progress: str


Items = Annotated[list[Item], msgspec.Meta(max_length=MAX_ITEMS)]


@tool(tier=Tier.READ_ONLY, timeout_seconds=10, effect=Effect.IDEMPOTENT, output=Planned)
async def plan(context: ToolContext, items: Items) -> ToolResult:
    """Sets the plan of this session, which people see; give the whole list each time.

    Args:
        items: What to do, in order, each with its status; an empty list drops the plan.
    """
    if context.plan is None:
        raise ToolFailure(
            ErrorType.PERMISSION_DENIED, "plan: there is no session here to keep a plan."
        )
    if not all(item.text.strip() for item in items):
        raise invalid("items", "plan: items: one of them is empty.")
    whole = tuple(PlanItem(item.text, item.status) for item in items)
    await context.plan.set(whole)
    return ToolResult(
        output={"plan": plan_lines(whole), "progress": progress_of(whole)},
        display=progress_of(whole),
    )
