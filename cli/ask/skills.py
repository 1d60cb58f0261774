"""Asks a person at the terminal about skills and instructions of a workspace that nobody approved, once for each.

Where nobody can be asked, one line says how to approve them. Either way models see none that is
not approved.
"""

from __future__ import annotations

import difflib
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import msgspec
import trio

from ...config.skill_approvals import SkillApprovals
from ...runtime.definitions import Agent
from ...runtime.errors import ValidationError
from ...tools.skills.front_matter import SkillFault
from ...tools.skills.shelf import (
    WORKSPACE_FOLDERS,
    Skill,
    SkillContent,
    SkillShelf,
    may_have_instructions,
    place_of_approval,
)
from ..terminal.escaping import safe_line, safe_text
from ..terminal.keyboard import Keyboard
from ..terminal.style import counted

MAX_ASKED = 5
"""The most questions before one prompt; for more skills, a line says how to approve them."""


MAX_SHOWN_LINES = 40
"""Of a text, or of how it differs, that stands in the question itself: a screen."""

Allow = Callable[[str, str], Awaitable[object]]


class PendingSkill(msgspec.Struct, frozen=True):
    """A skill that waits for an approval, as it was read."""

    skill: Skill
    content: SkillContent


class SkillQuestion:
    """Asks about the skills of one workspace, and about each AGENTS.md that holds for it.

    Args:
        data: The data folder.
        workspace: The folder of the work.
        allow: Allows what has this path and this digest; by default, the files of this user say it.
    """

    def __init__(self, data: Path, workspace: Path, allow: Allow | None = None) -> None:
        self._allow = allow or self._keep_allowed
        self._shelf = SkillShelf(data)
        self._approvals = SkillApprovals(data)
        self._workspace = workspace.expanduser().absolute()

    async def look(self) -> list[PendingSkill]:
        """Return what waits for an approval, and was not put off."""
        return await trio.to_thread.run_sync(self._waiting)

    async def put(
        self,
        waiting: list[PendingSkill],
        agent: Agent,
        keyboard: Keyboard | None,
        notice: Callable[[str], None],
    ) -> None:
        """Ask about each that the agent may have, or print how to approve them."""
        waiting = [each for each in waiting if _may_have(agent, each.skill)]
        asked = waiting[:MAX_ASKED] if keyboard is not None else []
        for each in asked:
            if keyboard is None or not await self._ask(keyboard, each):
                break
        if left := waiting[len(asked) :]:
            names = ", ".join(each.skill.known_as for each in left[:MAX_ASKED])
            more = ", …" if len(left) > MAX_ASKED else ""
            noun = "text" if any(each.skill.kind == "instructions" for each in left) else "skill"
            notice(
                f"models can't use {counted(len(left), noun)} of this workspace that nobody "
                f"approved: {names}{more} (callboard skills show NAME, then allow NAME)"
            )

    def _waiting(self) -> list[PendingSkill]:
        has_folders = any((self._workspace / place).is_dir() for place in WORKSPACE_FOLDERS)
        if not has_folders and not may_have_instructions(self._workspace):
            return []
        try:
            skills = self._shelf.all(self._workspace)
        except ValidationError:
            return []  # no workspace: whoever opens it says why
        found: list[PendingSkill] = []
        for skill in skills:
            if skill.state not in {"new", "changed"}:
                continue
            folder, path = place_of_approval(self._workspace, skill.path)
            if self._approvals.put_off(folder).get(path) == skill.digest:
                continue
            try:
                content = self._shelf.load(self._workspace, skill)
            except SkillFault:
                continue  # it was changed a moment ago: the next run sees what it is
            found.append(PendingSkill(skill, content))
        return found

    async def _ask(self, keyboard: Keyboard, waiting: PendingSkill) -> bool:
        """Ask about one skill; return whether more may be asked about."""
        skill, content = waiting.skill, waiting.content
        place = place_of_approval(self._workspace, skill.path)
        before = await trio.to_thread.run_sync(self._approvals.approved_text, *place)
        keyboard.write(_question(waiting, before))
        await keyboard.settle()
        while True:
            match await keyboard.choice("your answer: "):
                case "y":
                    await self._allow(skill.path, content.digest)
                    keep = partial(self._approvals.keep_text, *place, content.digest)
                    await trio.to_thread.run_sync(keep, content.body)
                    keyboard.write(f"{skill.known_as} is approved as it is now.\n\n")
                    return True
                case "n":
                    put_off = self._approvals.put_it_off
                    await trio.to_thread.run_sync(put_off, *place, content.digest)
                    keyboard.write(
                        f"Not now. callboard skills allow {skill.known_as} approves it.\n\n"
                    )
                    return True
                case "s":
                    keyboard.write(f"\n{safe_text(content.body.strip())}\n\n{_CHOICES}")
                case None:
                    keyboard.write("\n")
                    return False
                case _:
                    keyboard.write("Please answer with one of y, n, s.\n")

    async def _keep_allowed(self, path: str, digest: str) -> None:
        place = place_of_approval(self._workspace, path)
        await trio.to_thread.run_sync(self._approvals.allow, *place, digest)


def _may_have(agent: Agent, skill: Skill) -> bool:
    reads = skill.kind == "instructions" or agent.tools is None or "skill" in agent.tools
    return reads and (agent.skills is None or skill.name in agent.skills)


_CHOICES = "  [y] approve exactly this content  [n] not now  [s] show its instructions\n"


def _question(waiting: PendingSkill, before: str | None) -> str:
    skill, content = waiting.skill, waiting.content
    size = sum(map(len, content.files.values()))
    what = "was changed since you approved it" if skill.state == "changed" else "is new"
    files = ", ".join(safe_line(name) for name in sorted(content.files)[:10])
    more = ", …" if len(content.files) > 10 else ""
    is_skill = skill.kind == "skill"
    subject = f"the skill {skill.name} of this workspace" if is_skill else skill.path
    may = "may models use it?" if is_skill else "may models go by these instructions?"
    return (
        f"\ncallboard asks: {subject} {what}; {may}\n"
        f"  {safe_line(skill.description)}\n"
        f"  {safe_line(skill.path)}, {counted(len(content.files), 'file')}, {size} bytes: "
        f"{files}{more}\n"
        f"  sha256 {content.digest}\n{_shown(content.body, before)}{_CHOICES}"
    )


def _shown(text: str, before: str | None) -> str:
    """Return what a person is to approve: how it differs from what they approved, or the whole of a short text."""
    lines = text.strip().splitlines()
    if before is not None and before != text:
        old = before.strip().splitlines()
        lines = [*difflib.unified_diff(old, lines, "approved", "now", lineterm="", n=2)]
        lines = lines or ["(only files beside it were changed)"]
    if len(lines) > MAX_SHOWN_LINES:
        return (
            ""
            if before is None
            else f"  {counted(len(lines), 'line')} of it differ: [s] shows it whole\n"
        )
    return "".join(f"    | {safe_text(line)}\n" for line in lines)
