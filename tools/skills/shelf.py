"""Where skills are: the user's own, and those of a workspace that a person approved. It blocks.

A workspace is somebody else's word: what its skills say of themselves reaches no model before a
person approved exactly this content. The user's own come first, and none of a workspace takes the
name of one of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec

from ...config.skill_approvals import Digests, SkillApprovals
from ...runtime.definitions import ErrorType, ToolFailure
from ...runtime.handles import ReadableFiles
from ..workspace.workspace import open_workspace
from .folder import SkillContent, SkillFolder
from .text import SkillFault

FOLDER_NAME = "skills"
"""Of the data folder: the user's own skills, each a folder."""
WORKSPACE_FOLDERS = (".callboard/skills", "skills")
"""Of a workspace; the first one wins."""

MAX_SKILLS = 100
"""Folders that are looked at in one place: each costs a model a line in every request."""
MAX_ENTRIES = 1_000
"""Names that are looked through for them in one place."""

State = Literal["own", "approved", "new", "changed", "broken", "hidden"]


class Skill(msgspec.Struct, frozen=True, kw_only=True):
    """A skill that was found.

    Attributes:
        name: What it is called.
        description: What it is for; empty when it is broken.
        state: `own` and `approved` ones are told to models. `new` ones wait for an approval, as do
            `changed` ones, whose content is not the approved one any more. `broken` ones say why in
            `problem`, `hidden` ones have the name of another that comes first.
        path: Its folder: absolute of one's own, else relative to the workspace.
        digest: Of a workspace's, the hash that an approval is for.
    """

    name: str
    state: State
    path: str
    description: str = ""
    digest: str = ""
    problem: str = ""

    @property
    def is_told(self) -> bool:
        """Whether models hear of it."""
        return self.state in {"own", "approved"}


class SkillShelf:
    """The skills of one user.

    Args:
        data: The data folder, or `None`: then there are no skills of one's own, and none of a
            workspace can be approved.
    """

    def __init__(self, data: Path | None) -> None:
        self._own = None if data is None else data / FOLDER_NAME
        self._approvals = None if data is None else SkillApprovals(data)

    def may_have_any(self) -> bool:
        """Whether a model may hear of a skill at all: two quick looks, so that most turns ask no more."""
        if self._own is None or self._approvals is None:
            return False
        return self._own.is_dir() or self._approvals.has_any

    def told(self, workspace: Path) -> list[Skill]:
        """The skills that models hear of in a workspace."""
        # What nobody approved needs not be read, however much of it there is.
        found = self._found(workspace, self._approved(workspace))
        return [skill for skill in found if skill.is_told]

    def all(self, workspace: Path) -> list[Skill]:
        """Every skill, in whatever state it is; raises `ValidationError` for what is no folder."""
        return self._found(workspace, None)

    def content(self, workspace: Path, name: str) -> SkillContent:
        """A skill that models hear of, as it is now.

        Raises:
            ToolFailure: There is none of that name, or nobody approved its present content.
        """
        skills = self.all(workspace)
        skill = next((each for each in skills if each.name == name), None)
        if skill is None:
            known = ", ".join(each.name for each in skills if each.is_told) or "none"
            raise ToolFailure(
                ErrorType.FILE_NOT_FOUND, f"There is no skill {name[:100]!r}. There are: {known}."
            )
        if not skill.is_told:
            raise _refused(skill)
        root, path = (self._own, skill.name) if skill.state == "own" else (workspace, skill.path)
        assert root is not None
        with open_workspace(root) as files:
            try:
                content = SkillFolder(files, path).load()
            except SkillFault as fault:
                raise _refused(_broken(skill.name, skill.path, fault)) from fault
        # Again: these are the bytes that are used, and there was time to change them.
        if skill.state == "approved" and content.digest != skill.digest:
            raise _refused(msgspec.structs.replace(skill, state="changed"))
        return content

    def _approved(self, workspace: Path) -> Digests:
        return {} if self._approvals is None else self._approvals.of(workspace)

    def _found(self, workspace: Path, only: Digests | None) -> list[Skill]:
        found: list[Skill] = []
        names: set[str] = set()
        for skill in (*self._owned(), *self._of_workspace(workspace, only)):
            is_first = skill.name not in names
            names.add(skill.name)
            found.append(skill if is_first else _hidden(skill))
        return found

    def _owned(self) -> Iterator[Skill]:
        if self._own is None or not self._own.is_dir():
            return
        with open_workspace(self._own) as files:
            for name in _folders(files, "."):
                path = str(self._own / name)
                try:
                    front = SkillFolder(files, name).front()
                except SkillFault as fault:
                    yield _broken(name, path, fault)
                else:
                    said = front.description
                    yield Skill(name=name, description=said, state="own", path=path)

    def _of_workspace(self, workspace: Path, only: Digests | None) -> Iterator[Skill]:
        if only is not None and not only:
            return
        approved = self._approved(workspace) if only is None else only
        with open_workspace(workspace) as files:
            for place in WORKSPACE_FOLDERS:
                for name in _folders(files, place):
                    path = f"{place}/{name}"
                    if only is None or path in only:
                        yield _judged(SkillFolder(files, path), approved.get(path))


def _folders(files: ReadableFiles, path: str) -> list[str]:
    """The names of the folders in a place; none where there is no such place."""
    try:
        listing = files.entries(
            path, recursive=False, include_hidden=False, max_entries=MAX_ENTRIES
        )
    except ToolFailure:
        return []
    found = [info.path for info in listing.entries if info.kind == "directory"]
    return [path.rsplit("/", 1)[-1] for path in found[:MAX_SKILLS]]


def _judged(folder: SkillFolder, approved: str | None) -> Skill:
    """A skill of a workspace, by its present content."""
    try:
        content = folder.load()
        description, digest = content.front.description, content.digest
    except SkillFault as fault:
        return _broken(folder.name, folder.path, fault)
    state: State = "new" if approved is None else "approved"
    if approved not in {None, digest}:
        state = "changed"
    return Skill(
        name=folder.name, description=description, state=state, path=folder.path, digest=digest
    )


def _broken(name: str, path: str, fault: SkillFault) -> Skill:
    return Skill(name=name, state="broken", path=path, problem=str(fault))


def _hidden(skill: Skill) -> Skill:
    return msgspec.structs.replace(
        skill, state="hidden", problem="another skill of this name comes first"
    )


def _refused(skill: Skill) -> ToolFailure:
    """Why a model may not read a skill."""
    if skill.state == "broken":
        return ToolFailure(
            ErrorType.EXECUTION_ERROR, f"The skill {skill.name} is not used: {skill.problem}."
        )
    why = "was changed since it was approved" if skill.state == "changed" else "is not approved"
    return ToolFailure(
        ErrorType.PERMISSION_DENIED,
        f"The skill {skill.name} of this workspace {why}. A person can look at it and approve it: "
        f"callboard skills allow {skill.name}",
        reason=f"the skill {why}",
    )
