"""`callboard skills` and its options; what they do is imported when they run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from ..parameters import Data, Json, data_path

SkillName = Annotated[str, Parameter(help="The skill's name, or its folder in the workspace.")]
Workspace = Annotated[Path | None, Parameter(help="The folder of the work; by default this one.")]

skills = App(name="skills", help="List skills, and approve those of a workspace.")


@skills.default
def list_skills(*, workspace: Workspace = None, json: Json = False, data: Data = None) -> int:
    """List your own skills and those of a workspace, and which of them models are told of."""
    from .skills import show_skills

    return show_skills(data_path(data), workspace, json=json)


@skills.command
def show(name: SkillName, /, *, workspace: Workspace = None, data: Data = None) -> int:
    """Print what a skill says and which files it has; nothing is approved by it."""
    from .skills import show_skill

    return show_skill(data_path(data), workspace, name)


@skills.command
def allow(name: SkillName, /, *, workspace: Workspace = None, data: Data = None) -> int:
    """Approve a skill of a workspace as it is now: models are told of it until it changes."""
    from .skills import allow_skill

    return allow_skill(data_path(data), workspace, name)


@skills.command
def revoke(name: SkillName, /, *, workspace: Workspace = None, data: Data = None) -> int:
    """Take the approval of a skill back."""
    from .skills import revoke_skill

    return revoke_skill(data_path(data), workspace, name)
