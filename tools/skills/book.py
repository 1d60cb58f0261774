"""Skills and each AGENTS.md as programs and clients manage them: list, read, allow, revoke."""

from __future__ import annotations

import builtins
from pathlib import Path

import msgspec

from ...config.skill_approvals import SkillApprovals
from ...runtime.errors import ConflictError, NotFoundError
from ...runtime.kernel.live_lists import ListName, LiveLists
from ...runtime.text import did_you_mean
from ..processes.threads import run_read
from .front_matter import SkillFault
from .shelf import Skill, SkillShelf, place_of_approval


class SkillList(msgspec.Struct, frozen=True):
    """What there is for one workspace: one's own skills, those of the workspace, then each AGENTS.md."""

    skills: builtins.list[Skill]


class SkillText(msgspec.Struct, frozen=True, kw_only=True):
    """What a skill says, and its files with their sizes in bytes."""

    skill: Skill
    text: str
    files: dict[str, int]


class SkillBook:
    """`Runtime.skills`: what tells models how to work in a workspace, and what of it a person allowed.

    A skill or an AGENTS.md is named by its `path`. Without a workspace, the runtime's own counts.

    Args:
        data: The data folder; without one, nothing can be allowed.
        workspace: The folder that is meant when none is named.
        lists: Who follows the list is told of what is allowed and revoked.

    Example:
        for skill in await runtime.skills.list():
            if skill.state in {"new", "changed"}:
                print((await runtime.skills.get(skill.path)).text)
                await runtime.skills.allow(skill.path, skill.digest)
    """

    def __init__(self, data: Path | None, workspace: Path, lists: LiveLists) -> None:
        self._shelf = SkillShelf(data)
        self._approvals = None if data is None else SkillApprovals(data)
        self._workspace = workspace
        self._lists = lists

    async def list(self, *, workspace: str | Path | None = None) -> builtins.list[Skill]:
        """Return what there is, whatever its state; raise `ValidationError` for a bad folder."""
        return await run_read(self._shelf.all, self._folder(workspace))

    async def get(self, path: str, *, workspace: str | Path | None = None) -> SkillText:
        """Return what a skill says, allowed or not.

        Raises:
            NotFoundError: There is none at this path.
            ConflictError: It can't be read; says why.
        """
        return await run_read(self._get, path, self._folder(workspace))

    async def allow(self, path: str, digest: str, *, workspace: str | Path | None = None) -> Skill:
        """Let models have exactly this content, from the next turn on; durable on return.

        Raises:
            NotFoundError: There is none at this path.
            ConflictError: Its content has another digest by now, or it can't be allowed.
        """
        allowed = await run_read(self._allow, path, digest, self._folder(workspace))
        self._lists.changed(ListName.SKILLS)
        return allowed

    async def revoke(self, path: str, *, workspace: str | Path | None = None) -> None:
        """Take what was allowed back; raise `NotFoundError` when nothing was."""
        await run_read(self._revoke, path, self._folder(workspace))
        self._lists.changed(ListName.SKILLS)

    def _folder(self, workspace: str | Path | None) -> Path:
        return self._workspace if workspace is None else Path(workspace)

    def _get(self, path: str, workspace: Path) -> SkillText:
        skill = self._find(path, workspace)
        try:
            content = self._shelf.load(workspace, skill)
            sizes = {name: len(content.files[name]) for name in sorted(content.files)}
            return SkillText(skill=skill, text=content.body.strip(), files=sizes)
        except SkillFault as fault:
            raise ConflictError(f"{path} can't be read: {fault}.") from fault

    def _allow(self, path: str, digest: str, workspace: Path) -> Skill:
        skill = self._find(path, workspace)
        if self._approvals is None:
            raise ConflictError(f"{path} can't be allowed: this runtime has no data folder.")
        if not skill.digest:
            why = skill.problem or "it is your own, and needs no approval"
            raise ConflictError(f"{path} can't be allowed: {why}.")
        if digest != skill.digest:
            raise ConflictError(f"{path} has another content by now; read it again.")
        self._approvals.allow(*place_of_approval(workspace, path), digest)
        return msgspec.structs.replace(skill, state="approved")

    def _revoke(self, path: str, workspace: Path) -> None:
        place = place_of_approval(workspace, path)
        if self._approvals is None or not self._approvals.revoke(*place):
            raise NotFoundError(f"nothing at {path!r} of {workspace} is allowed")

    def _find(self, path: str, workspace: Path) -> Skill:
        found = self._shelf.all(workspace)
        for skill in found:
            if skill.path == path:
                return skill
        paths = [skill.path for skill in found]
        known = ", ".join(paths) or "nothing"
        close = did_you_mean(path, paths)
        raise NotFoundError(f"there is no skill at {path[:200]!r}; there is: {known}.{close}")
