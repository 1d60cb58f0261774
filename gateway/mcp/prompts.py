"""The prompts that a client of MCP may show its person: the skills that models may have in the clients' workspace."""

from __future__ import annotations

from ...runtime.errors import NotFoundError, PermissionRefused
from ...runtime.wire.skills import ListSkills, OneSkill
from ...tools.skills.book import SkillList, SkillText
from ...tools.skills.shelf import Skill
from .desk import Desk

READ = "skill/get"
"""Who may not read skills is offered none."""


async def list_skills(desk: Desk) -> list[Skill]:
    """Return the skills that models are told of; none without a workspace."""
    workspace = desk.settings.workspace
    if workspace is None or not desk.may(READ):
        return []
    try:
        found = await desk.request("skill/list", ListSkills(workspace), SkillList)
    except PermissionRefused:  # the token is limited
        return []
    return [each for each in found.skills if each.is_listed and each.kind == "skill"]


async def read_skill(desk: Desk, name: str) -> SkillText:
    """Return what a skill says; raise `NotFoundError`."""
    for skill in await list_skills(desk):
        if skill.name == name and desk.settings.workspace is not None:
            one = OneSkill(desk.settings.workspace, skill.path)
            found = await desk.request(READ, one, SkillText)
            if found.skill.is_listed:  # it may have changed meanwhile
                return found
    raise NotFoundError("there is no such prompt")
