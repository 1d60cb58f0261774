"""Tools whose effects are counted by the world, and nothing else."""

from __future__ import annotations

import contextvars
from typing import TYPE_CHECKING, Literal

import msgspec
import trio

import callboard

if TYPE_CHECKING:
    from simulation.world import Life

Fails = Literal["", "failure", "crash"]

life_of: contextvars.ContextVar[Life] = contextvars.ContextVar("life")
"""The life of the daemon in which a task runs."""


class Took(msgspec.Struct, frozen=True):
    """An effect, as the world outside saw it.

    Attributes:
        had_started: Whether its start was on record.
        was_allowed: Whether a person's or a grant's yes was on record.
        has_ended: Whether its turn, or its call, had ended on record.
    """

    at: float
    life: int
    tool: str
    session_id: str
    call_id: str
    name: str
    had_started: bool
    was_allowed: bool
    has_ended: bool


class _Name(msgspec.Struct):
    name: str


def _key(arguments: _Name) -> list[str]:
    return [f"notes/{len(arguments.name) % 2}"]


async def _act(
    context: callboard.ToolContext, tool: str, name: str, seconds: float, fails: Fails
) -> str:
    context.progress(f"{tool} {name}")
    await trio.sleep(seconds / 2)
    life_of.get().took_effect(tool, context, name)
    await trio.sleep(seconds / 2)
    if fails == "failure":
        raise callboard.ToolFailure("not_empty", f"{name} fails.")
    if fails == "crash":
        raise RuntimeError(f"{name} crashes")
    return f"{tool} of {name}"


@callboard.tool(tier="read_only", effect="read")
async def look(
    name: str, context: callboard.ToolContext, seconds: float = 0, fails: Fails = ""
) -> str:
    """Looks at something."""
    return await _act(context, "look", name, seconds, fails)


@callboard.tool(tier="workspace", resources=_key)
async def note(
    name: str, context: callboard.ToolContext, seconds: float = 0, fails: Fails = ""
) -> str:
    """Notes something, one at a time."""
    return await _act(context, "note", name, seconds, fails)


@callboard.tool(tier="elevated", resources=_key)
async def post(
    name: str, context: callboard.ToolContext, seconds: float = 0, fails: Fails = ""
) -> str:
    """Sends something away, which always asks."""
    return await _act(context, "post", name, seconds, fails)


@callboard.tool(tier="system", effect="idempotent")
async def put(
    name: str, context: callboard.ToolContext, seconds: float = 0, fails: Fails = ""
) -> str:
    """Puts something where it may be already."""
    return await _act(context, "put", name, seconds, fails)


@callboard.tool(tier="read_only", needs=["network"], effect="read")
async def fetch(
    name: str, context: callboard.ToolContext, seconds: float = 0, fails: Fails = ""
) -> str:
    """Reads what strangers wrote."""
    return await _act(context, "fetch", name, seconds, fails)


READS = ("look", "fetch")
PLAYED_TOOLS = (look, note, post, put, fetch)
FILE_TOOLS = ("write_file", "read_file", "delete_file", "move_file")
TOOL_NAMES = (
    *(tool.name for tool in PLAYED_TOOLS),
    *FILE_TOOLS,
    *("delegate", "ask_user", "message", "memory_store", "plan"),
)
"""What agents have, of ours and of callboard's own."""
