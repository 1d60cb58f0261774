"""skill: a model reads a skill's instructions, or one of its files."""

from __future__ import annotations

from typing import Annotated, NotRequired, TypedDict

import msgspec

from ...runtime.definitions import Effect, ErrorType, Tier, ToolFailure, ToolResult
from ..tool import ToolContext, tool


class Instructions(TypedDict):
    """A skill's instructions, and the names of its other files."""

    name: str
    instructions: str
    files: NotRequired[list[str]]


class SkillFile(TypedDict):
    """One file of a skill."""

    name: str
    file: str
    content: str


@tool(
    tier=Tier.READ_ONLY,
    timeout_seconds=10,
    effect=Effect.READ,
    output=(Instructions, SkillFile),
)
async def skill(
    context: ToolContext,
    name: Annotated[str, msgspec.Meta(min_length=1, max_length=64)],
    file: Annotated[str, msgspec.Meta(min_length=1, max_length=500)] | None = None,
) -> ToolResult:
    """Reads a skill: instructions for tasks of a kind, and the files that come with them.

    Args:
        name: One of the skills that are listed.
        file: A file of the skill, as its instructions name it; default: the instructions.
    """
    if context.skills is None:
        raise ToolFailure(ErrorType.PERMISSION_DENIED, "skill: there are no skills here.")
    output = await context.skills.read(name, file)
    return ToolResult(output=output, display=name if file is None else f"{name}: {file}"[:200])
