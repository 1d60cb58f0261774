"""The tool `skill`, and what models are told of the skills that there are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from ...runtime.definitions import Effect, ErrorType, Tier, ToolFailure, ToolResult
from ..processes.threads import run_read
from ..tool import ToolContext, tool

if TYPE_CHECKING:  # the tool is known without the shelf, which needs the workspace
    from .shelf import Skill, SkillShelf

MAX_LINE_CHARS = 300
"""Of a description in the list: enough to choose by."""
MAX_LISTED_FILES = 50
"""Names of a skill's files in a result; its text says which matter."""

HEADING = (
    "Skills: instructions for tasks of a kind. When a task is of such a kind, read the skill first "
    "with the tool `skill`."
)


class OpenSkills:
    """A `SkillReader`: what the skills of a workspace say.

    Args:
        shelf: Where skills are.
        workspace: The session's.
    """

    def __init__(self, shelf: SkillShelf, workspace: str) -> None:
        self._shelf = shelf
        self._workspace = Path(workspace)

    async def read(self, name: str, file: str | None = None) -> dict[str, Any]:
        """See `SkillReader`."""
        return await run_read(self._read, name, file)

    def _read(self, name: str, file: str | None) -> dict[str, Any]:
        content = self._shelf.content(self._workspace, name)
        if file is not None:
            return {"name": name, "file": file, "content": content.file(file)}
        others = sorted(content.beside)
        output: dict[str, Any] = {"name": name, "instructions": content.body.strip()}
        if others:
            output["files"] = others[:MAX_LISTED_FILES]
        return output


async def told_skills(shelf: SkillShelf, workspace: str) -> str:
    """The part of a system prompt that lists skills; empty when there are none."""
    if not shelf.may_have_any():
        return ""
    return skill_lines(await run_read(shelf.told, Path(workspace)))


def skill_lines(skills: Sequence[Skill]) -> str:
    """A line for each skill, below a heading; empty when there are none."""
    if not skills:
        return ""
    return "\n".join([HEADING, *(f"- {skill.name}: {_line(skill)}" for skill in skills)])


@tool(tier=Tier.READ_ONLY, timeout_seconds=10, effect=Effect.READ)
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


def _line(skill: Skill) -> str:
    said = skill.description
    return said if len(said) <= MAX_LINE_CHARS else said[: MAX_LINE_CHARS - 1] + "…"
