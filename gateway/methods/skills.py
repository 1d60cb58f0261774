"""`skill/…`: skills and each AGENTS.md of a workspace, and which of them models may have."""

from __future__ import annotations

from ...runtime.errors import PermissionRefused
from ...runtime.wire.fields import Role
from ...runtime.wire.skills import AllowSkill, ListSkills, OneSkill
from ...tools.skills.book import SkillList, SkillText
from ...tools.skills.shelf import Skill
from ..connection.caller import Caller
from ..connection.method_table import MethodTable, Nothing
from ..shared.workspaces import check_workspace_named

methods = MethodTable()


@methods.add("skill/list", Role.OPERATOR)
async def list_skills(caller: Caller, params: ListSkills) -> SkillList:
    """Return the skills that there are for a workspace, then each AGENTS.md, whatever its state."""
    await _check(caller, params.workspace)
    return SkillList(await caller.runtime.skills.list(workspace=params.workspace))


@methods.add("skill/get", Role.ADMIN)
async def get_skill(caller: Caller, params: OneSkill) -> SkillText:
    """Return what a skill says, allowed or not."""
    await _check(caller, params.workspace)
    return await caller.runtime.skills.get(params.path, workspace=params.workspace)


@methods.add("skill/allow", Role.ADMIN)
async def allow_skill(caller: Caller, params: AllowSkill) -> Skill:
    """Let models have exactly this content, from the next turn on."""
    await _check(caller, params.workspace)
    skills = caller.runtime.skills
    return await skills.allow(params.path, params.digest, workspace=params.workspace)


@methods.add("skill/revoke", Role.ADMIN)
async def revoke_skill(caller: Caller, params: OneSkill) -> Nothing:
    """Take back what was allowed."""
    await _check(caller, params.workspace)
    await caller.runtime.skills.revoke(params.path, workspace=params.workspace)
    return Nothing()


async def _check(caller: Caller, workspace: str) -> None:
    if caller.is_limited:
        raise PermissionRefused("skills are not for a token that is limited")
    await check_workspace_named(caller.daemon, workspace)
