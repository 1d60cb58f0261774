"""The plan of a session: what its model intends to do, and the progress."""

from __future__ import annotations

from typing import Literal

import msgspec

from .durable import Event


class PlanItem(msgspec.Struct, frozen=True):
    """One thing to do; `status` is `pending`, `in_progress` or `done`."""

    text: str
    status: Literal["pending", "in_progress", "done"] = "pending"


class PlanSet(Event, frozen=True, kw_only=True, tag="plan_set"):
    """The session has this plan from here on; it replaces the previous one.

    Example:
        async for event in turn:
            if isinstance(event, callboard.PlanSet):
                print(*(f"{item.status}: {item.text}" for item in event.items), sep="\\n")
    """

    turn_id: str
    call_id: str
    items: tuple[PlanItem, ...]


SIGNS = {"pending": "[ ]", "in_progress": "[>]", "done": "[x]"}
"""The sign of each status in lists, for people and models."""


def plan_lines(items: tuple[PlanItem, ...]) -> list[str]:
    """Return a plan as text, one line for each item."""
    return [f"{SIGNS[item.status]} {' '.join(item.text.split())}" for item in items]


def progress_of(items: tuple[PlanItem, ...]) -> str:
    """Return the progress of a plan in one line."""
    if not items:
        return "the plan is empty"
    done = sum(item.status == "done" for item in items)
    now = next((item.text for item in items if item.status == "in_progress"), "")
    return f"{done} of {len(items)} done" + (f", now: {' '.join(now.split())}" if now else "")
