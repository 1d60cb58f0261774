"""Asks a person at the terminal about skills of a workspace that nobody approved, once for each.

Where nobody can be asked, one line says how to approve them. Either way models see none that is
not approved.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import trio

from ...config.skill_approvals import SkillApprovals
from ...runtime.errors import ValidationError
from ...tools.skills.front_matter import SkillFault
from ...tools.skills.shelf import WORKSPACE_FOLDERS, Skill, SkillContent, SkillShelf, load_skill
from ...tools.workspace.workspace import open_workspace
from ..terminal.escaping import safe_line, safe_text
from ..terminal.keyboard import Keyboard
from ..terminal.style import counted

MAX_ASKED = 5
"""The most questions before one prompt; for more skills, a line says how to approve them."""


class PendingSkill(msgspec.Struct, frozen=True):
    """A skill that waits for an approval, as it was read."""

    skill: Skill
    content: SkillContent


class SkillQuestion:
    """Asks about the skills of one workspace.

    Args:
        data: The data folder.
        workspace: The folder of the work.
    """

    def __init__(self, data: Path, workspace: Path) -> None:
        self._shelf = SkillShelf(data)
        self._approvals = SkillApprovals(data)
        self._workspace = workspace.expanduser().absolute()

    async def put(self, keyboard: Keyboard | None, notice: Callable[[str], None]) -> None:
        """Ask about each skill that waits, or print how to approve them."""
        waiting = await trio.to_thread.run_sync(self._waiting)
        asked = waiting[:MAX_ASKED] if keyboard is not None else []
        for each in asked:
            if keyboard is None or not await self._ask(keyboard, each):
                break
        if left := waiting[len(asked) :]:
            names = ", ".join(each.skill.name for each in left[:MAX_ASKED])
            more = ", …" if len(left) > MAX_ASKED else ""
            notice(
                f"models can't use {counted(len(left), 'skill')} of this workspace that nobody "
                f"approved: {names}{more} (callboard skills show NAME, then allow NAME)"
            )

    def _waiting(self) -> list[PendingSkill]:
        if not any((self._workspace / place).is_dir() for place in WORKSPACE_FOLDERS):
            return []
        try:
            skills = self._shelf.all(self._workspace)
        except ValidationError:
            return []  # no workspace: whoever opens it says why
        put_off = self._approvals.put_off(self._workspace)
        found: list[PendingSkill] = []
        with open_workspace(self._workspace) as files:
            for skill in skills:
                if skill.state not in {"new", "changed"} or put_off.get(skill.path) == skill.digest:
                    continue
                try:
                    content = load_skill(files, skill.path)
                except SkillFault:
                    continue  # it was changed a moment ago: the next run sees what it is
                found.append(PendingSkill(skill, content))
        return found

    async def _ask(self, keyboard: Keyboard, waiting: PendingSkill) -> bool:
        """Ask about one skill; return whether more may be asked about."""
        skill, content = waiting.skill, waiting.content
        keyboard.write(_question(waiting))
        await keyboard.settle()
        while True:
            match await keyboard.choice("your answer: "):
                case "y":
                    await self._keep(self._approvals.allow, skill.path, content.digest)
                    keyboard.write(f"{skill.name} is approved as it is now.\n\n")
                    return True
                case "n":
                    await self._keep(self._approvals.put_it_off, skill.path, content.digest)
                    keyboard.write(f"Not now. callboard skills allow {skill.name} approves it.\n\n")
                    return True
                case "s":
                    keyboard.write(f"\n{safe_text(content.body.strip())}\n\n{_CHOICES}")
                case None:
                    keyboard.write("\n")
                    return False
                case _:
                    keyboard.write("Please answer with one of y, n, s.\n")

    async def _keep(
        self, change: Callable[[Path, str, str], None], folder: str, digest: str
    ) -> None:
        await trio.to_thread.run_sync(change, self._workspace, folder, digest)


_CHOICES = "  [y] approve exactly this content  [n] not now  [s] show its instructions\n"


def _question(waiting: PendingSkill) -> str:
    skill, content = waiting.skill, waiting.content
    size = sum(map(len, content.files.values()))
    what = "was changed since you approved it" if skill.state == "changed" else "is new"
    files = ", ".join(safe_line(name) for name in sorted(content.files)[:10])
    more = ", …" if len(content.files) > 10 else ""
    return (
        f"\ncallboard asks: the skill {skill.name} of this workspace {what}; may models use it?\n"
        f"  {safe_line(skill.description)}\n"
        f"  {safe_line(skill.path)}, {counted(len(content.files), 'file')}, {size} bytes: "
        f"{files}{more}\n"
        f"  sha256 {content.digest}\n{_CHOICES}"
    )
