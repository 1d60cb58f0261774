"""`callboard skills`: lists and shows skills and each AGENTS.md, and approves those of a workspace."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from ...config.daemon_file import find_daemon
from ...config.skill_approvals import SkillApprovals
from ...runtime.errors import ConflictError, NotFoundError, ValidationError
from ...tools.skills.front_matter import SkillFault
from ...tools.skills.shelf import (
    INSTRUCTIONS_NAME,
    Skill,
    SkillContent,
    SkillShelf,
    place_of_approval,
)
from ..backend import ask_daemon
from ..exit_codes import ANSWERED
from ..parameters import Data, Json, data_path
from ..terminal.complaint import complain
from ..terminal.escaping import safe_line, safe_text
from ..terminal.json_lines import json_line
from ..terminal.listing import write_list

if TYPE_CHECKING:
    from ...client.client import Client

_STATES = {
    "own": "your own",
    "approved": "approved",
    "new": "not approved",
    "changed": "changed since it was approved",
    "broken": "not used",
    "hidden": "not used",
}

SkillName = Annotated[
    str,
    Parameter(help="The skill's name, its folder in the workspace, or the path of an AGENTS.md."),
]
Workspace = Annotated[Path | None, Parameter(help="The folder of the work; by default this one.")]

skills = App(name="skills", help="List skills, and approve those of a workspace.")


@skills.default
def list_skills(*, workspace: Workspace = None, json: Json = False, data: Data = None) -> int:
    """List your own skills and those of a workspace, and which of them models may use."""
    own = data_path(data)
    found = SkillShelf(own).all(_folder(workspace))
    if json:
        sys.stdout.writelines(map(json_line, found))
    else:
        write_list(("skill", "state", "folder", "what it is for"), map(_cells, found))
    if not found:
        complain(f"There are no skills, neither in {own / 'skills'} nor in this workspace.")
    elif any(skill.state in {"new", "changed"} for skill in found):
        complain(
            "Read a skill before you approve it: callboard skills show NAME, then "
            "callboard skills allow NAME"
        )
    return ANSWERED


@skills.command(name="show")
def show_skill(name: SkillName, /, *, workspace: Workspace = None, data: Data = None) -> int:
    """Print what a skill says and which files it has, without approving it."""
    folder, own = _folder(workspace), data_path(data)
    skill = _find(SkillShelf(own).all(folder), name)
    if skill.state == "broken":
        raise ConflictError(f"{_subject(skill)} can't be shown: {skill.problem}.")
    try:
        content = SkillShelf(own).load(folder, skill)
    except SkillFault as fault:
        raise ConflictError(f"{_subject(skill)} can't be shown: {fault}.") from fault
    _show_content(_line(skill), content)
    if skill.state in {"new", "changed"}:
        sys.stdout.write(
            "Models can't use it. To approve exactly this content: "
            f"callboard skills allow {skill.known_as}\n"
        )
    return ANSWERED


@skills.command(name="allow")
def allow_skill(name: SkillName, /, *, workspace: Workspace = None, data: Data = None) -> int:
    """Approve a skill of a workspace as it is now: models may use it until it changes."""
    folder, own = _folder(workspace), data_path(data)
    skill = _find(SkillShelf(own).all(folder), name)
    if skill.state not in {"new", "changed"}:
        raise ConflictError(f"{_subject(skill)} {_why_not(skill)}")
    try:
        content = SkillShelf(own).load(folder, skill)
    except SkillFault as fault:
        raise ConflictError(f"{_subject(skill)} can't be approved: {fault}.") from fault
    place = place_of_approval(folder, skill.path)
    _change(
        own,
        lambda client: client.skills.allow(skill.path, content.digest, workspace=str(folder)),
        lambda: SkillApprovals(own).allow(*place, content.digest),
    )
    SkillApprovals(own).keep_text(*place, content.digest, content.body)
    _show_content(_line(skill).replace(_STATES[skill.state], "approved", 1), content)
    sys.stdout.write(
        f"Models may use it until a file of it changes. callboard skills revoke {skill.known_as} "
        "takes it back.\n"
    )
    return ANSWERED


@skills.command(name="revoke")
def revoke_skill(name: SkillName, /, *, workspace: Workspace = None, data: Data = None) -> int:
    """Take the approval of a skill back."""
    folder, own = _folder(workspace), data_path(data)
    approvals = SkillApprovals(own)
    paths = [path for path in approvals.of(folder) if name in {path, path.rsplit("/", 1)[-1]}]
    if name.rsplit("/", 1)[-1] == INSTRUCTIONS_NAME:
        place, path = place_of_approval(folder, name)
        paths = [name] if path in approvals.of(place) else []
    if not paths:
        raise NotFoundError(
            f"No skill {name!r} of {folder} is approved; `callboard skills` lists them."
        )
    for path in paths:
        _revoke(own, folder, path)
    sys.stdout.write(f"{safe_line(name)}: models can't use it any more.\n")
    return ANSWERED


def _revoke(data: Path, folder: Path, path: str) -> None:
    _change(
        data,
        lambda client: client.skills.revoke(path, workspace=str(folder)),
        lambda: SkillApprovals(data).revoke(*place_of_approval(folder, path)),
    )


def _change(
    data: Path, there: Callable[[Client], Awaitable[object]], here: Callable[[], object]
) -> None:
    """Have a daemon that runs make a change, and tell its clients; make it here where none works in the folder."""
    if (daemon := find_daemon(data)) is not None:
        with suppress(ValidationError):  # the folder lies below none of its roots
            ask_daemon(daemon, there)
            return
    here()


def _show_content(head: str, content: SkillContent) -> None:
    sys.stdout.write(head)
    for file in sorted(content.files):
        size = len(content.files[file])
        sys.stdout.write(f"  {safe_line(file)} ({size} bytes)\n")
    sys.stdout.write(f"\n{safe_text(content.body.strip())}\n\n")


def _folder(workspace: Path | None) -> Path:
    return (workspace or Path.cwd()).expanduser().absolute()


def _find(skills: list[Skill], name: str) -> Skill:
    exact = [skill for skill in skills if name == skill.path]
    found = exact or [skill for skill in skills if name == skill.name]
    if not found:
        raise NotFoundError(f"There is no skill {name!r} here; `callboard skills` lists them.")
    waiting = [skill for skill in found if skill.state in {"new", "changed"}]
    if len(waiting) > 1:
        paths = ", ".join(skill.path for skill in waiting)
        raise ValidationError(f"Several are called {name!r}: {paths}. Name one of these.")
    return (waiting or found)[0]


def _subject(skill: Skill) -> str:
    return f"The skill {skill.name}" if skill.kind == "skill" else skill.path


def _why_not(skill: Skill) -> str:
    if skill.state == "own":
        return "is your own: it needs no approval."
    if skill.state == "approved":
        return "is approved already, as it is now."
    return f"can't be approved: {skill.problem}."


def _line(skill: Skill) -> str:
    return "  ".join(_cells(skill)) + "\n"


def _cells(skill: Skill) -> tuple[str, ...]:
    said = skill.problem or skill.description
    return safe_line(skill.known_as), _STATES[skill.state], safe_line(skill.path), safe_line(said)
