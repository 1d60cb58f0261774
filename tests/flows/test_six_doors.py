"""Agents are managed the same way through every door: one table of cases, a driver for each door."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import msgspec
import pytest

from callboard.runtime.budget import Budget
from callboard.runtime.definitions import Agent, Preset
from callboard.runtime.errors import CallboardError
from callboard.runtime.wire.agents import agent_of_row
from support.cli.in_process import own_logging as own_logging
from support.cli.in_process import run_here as run_here
from support.portal.doors import DOORS, CommandLine, Door, RunHere

READER = Agent(
    name="reader",
    description="Reads files.",
    prompt="You read.\nNothing else.",
    tools=("read_file", "list_directory"),
    model="rehearsal/rehearsal",
    fallbacks=("openai/gpt-5-mini",),
    policy=Preset.STRICT,
    temperature=0.5,
    max_output_tokens=1000,
    turn_budget=Budget(tokens=5000),
    skills=("letters",),
)


def plain(agent: Agent) -> Agent:
    """An agent without the times, which the clock says."""
    return msgspec.structs.replace(agent, created_at_ms=None, updated_at_ms=None)


async def every_field_comes_back(door: Door) -> None:
    await door.create(READER)
    rows = await door.rows()
    row = rows["reader"]
    assert plain(agent_of_row(row)) == READER
    assert [(tool.name, tool.tier) for tool in row.tools] == [
        ("read_file", "read_only"),
        ("list_directory", "read_only"),
    ]
    assert all(tool.description for tool in row.tools)
    assert (row.built_in, row.has_all_tools, row.source) == (False, False, door.source)
    if door.source == "managed":
        assert row.created_at_ms
        assert row.created_at_ms == row.updated_at_ms
    general = rows["general"]
    assert (general.built_in, general.has_all_tools, general.source) == (True, True, "built_in")
    assert "General Assistant" in general.description
    assert "delete_file" in {tool.name for tool in general.tools}


async def a_change_keeps_when_it_was_made(door: Door) -> None:
    await door.create(READER)
    before = (await door.rows())["reader"]
    changed = msgspec.structs.replace(READER, prompt="You read aloud.", tools=None, skills=None)
    await door.update(changed)
    after = (await door.rows())["reader"]
    assert plain(agent_of_row(after)) == changed
    assert after.has_all_tools
    assert after.created_at_ms == before.created_at_ms
    assert (after.updated_at_ms or 0) >= (before.updated_at_ms or 0)


async def a_copy_is_an_agent_of_its_own(door: Door) -> None:
    await door.create(READER)
    await door.clone("reader", "scribe")
    await door.update(msgspec.structs.replace(READER, prompt="Changed."))
    rows = await door.rows()
    assert plain(agent_of_row(rows["scribe"])) == msgspec.structs.replace(READER, name="scribe")
    await door.delete("reader")
    assert set(await door.rows()) == {"general", "scribe"}


async def what_is_built_in_is_changed_and_stays(door: Door) -> None:
    await door.update(Agent(prompt="You are terse.", policy=Preset.STRICT))
    general = (await door.rows())["general"]
    assert (general.prompt, general.policy, general.built_in) == ("You are terse.", "strict", True)
    if door.source == "managed":
        with pytest.raises(CallboardError, match="built in"):
            await door.delete("general")
        assert "general" in await door.rows()


async def what_is_not_there_is_said(door: Door) -> None:
    if door.source != "managed":
        return
    changes = (
        partial(door.delete, "nobody"),
        partial(door.update, msgspec.structs.replace(READER, name="nobody")),
        partial(door.clone, "nobody", "somebody"),
    )
    for change in changes:
        with pytest.raises(CallboardError, match="no agent 'nobody'"):
            await change()


BAD: list[tuple[Agent, str, bool]] = [
    (Agent(name="re ader"), "name", True),
    (Agent(name="x" * 65), "name", True),
    (Agent(name="r\u0435ader"), "name", True),  # a Cyrillic letter
    (Agent(name="general"), "name", False),
    (Agent(name="Genera1"), "name.*looks like 'general'", False),
    (Agent(name="General-Assistant"), "name.*reserved", False),
    (Agent(name="all"), "name.*reserved", False),
    (Agent(name="there"), "name.*taken", False),
    (Agent(name="THERE"), "name.*looks like 'there'", False),
    (Agent(name="a", tools=("reed_file",)), "tools.*reed_file.*read_file", False),
    (Agent(name="a", model="nobody/m"), "model.*nobody", False),
    (Agent(name="a", model="rehearsal/x"), "model.*rehearsal/x", False),
    (Agent(name="a", fallbacks=("nobody/m",)), "fallback.*nobody", True),
    (Agent(name="a", temperature=9.0), "temperature", True),
    (Agent(name="a", description="x" * 1001), "description", True),
]
"""What can't be an agent, what is said about it, and whether an editor's file is refused for it, too."""


async def what_cannot_be_names_its_field_and_changes_nothing(door: Door) -> None:
    await door.create(Agent(name="there"))
    before = await door.rows()
    for agent, said, is_for_all in BAD:
        if is_for_all or door.source == "managed":
            with pytest.raises(CallboardError, match=f"(?s){said}"):
                await door.create(agent)
    assert await door.rows() == before


async def a_setting_holds_until_it_is_taken_back(door: Door) -> None:
    before = await door.setting("limits.idle_seconds")
    await door.set("limits.idle_seconds", 7.5)
    await door.create(READER)  # what stands beside it stays
    assert await door.setting("limits.idle_seconds") == 7.5
    await door.set("limits.idle_seconds", None)
    assert await door.setting("limits.idle_seconds") == before
    assert "reader" in await door.rows()


async def what_can_not_be_set_is_said(door: Door) -> None:
    for name, value, said in (
        ("limits.idle_seconds", "soon", r"limits\.idle_seconds.*number, got string"),
        ("limits.idle_secondz", 7, "limits.idle_secondz"),
        ("limits.max_repeats", 0, r"limits\.max_repeats"),
    ):
        with pytest.raises(CallboardError, match=said):
            await door.set(name, value)
    if door.source == "managed":  # these say who may do what, and are the operator's
        for name in ("policy", "sandbox.minimum", "server.roots", "network.allow", "rules"):
            with pytest.raises(CallboardError, match="can't be set"):
                await door.set(name, "x")
    assert await door.setting("limits.max_repeats") == 25


async def what_a_folder_tells_models_is_allowed_by_its_content(door: Door) -> None:
    assert await door.skills() == {}
    file = door.work / "AGENTS.md"
    file.write_text("Use tabs.")
    skill = (await door.skills())["AGENTS.md"]
    assert (skill.state, skill.kind) == ("new", "instructions")
    assert "Use tabs." in await door.text("AGENTS.md")
    await door.allow(skill)
    assert (await door.skills())["AGENTS.md"].state == "approved"
    file.write_text("Use spaces.")
    assert (await door.skills())["AGENTS.md"].state == "changed"
    if not isinstance(door, CommandLine):  # which shows what it allows, and has no digest
        with pytest.raises(CallboardError, match="another content by now"):
            await door.allow(skill)
    await door.revoke("AGENTS.md")
    assert (await door.skills())["AGENTS.md"].state == "new"
    for change in (door.revoke("AGENTS.md"), door.text("skills/nothing")):
        with pytest.raises(CallboardError, match=r"(?i)is (approved|allowed)|there is no skill"):
            await change


async def what_was_said_is_read_copied_and_deleted(door: Door) -> None:
    session_id = await door.talk("One?", "Two?")
    first, _, second, answer = said = await door.messages(session_id)
    assert [row.type for row in said] == ["user", "assistant"] * 2
    assert (first.content, second.content, answer.provider) == ("One?", "Two?", "rehearsal")
    assert answer.model == "rehearsal"
    assert answer.duration_ms is not None
    page = await door.messages(session_id, latest_first=True, limit=2)
    assert [row.position for row in page] == [answer.position, second.position]
    page = await door.messages(session_id, latest_first=True, limit=9, before=second.position)
    assert [row.content for row in page][-1] == "One?"
    copy = await door.fork(session_id, second.message_id)
    copied = [row.content for row in await door.messages(copy)]
    assert copied[0] == "One?"
    assert "Two?" not in copied
    await door.delete_messages(session_id, first.message_id)
    assert "One?" not in [row.content for row in await door.messages(session_id)]
    assert [row.content for row in await door.messages(copy)] == copied
    with pytest.raises(CallboardError, match="no message"):
        await door.delete_messages(session_id, "message_nothing")


CASES = (
    what_was_said_is_read_copied_and_deleted,
    what_a_folder_tells_models_is_allowed_by_its_content,
    a_setting_holds_until_it_is_taken_back,
    what_can_not_be_set_is_said,
    every_field_comes_back,
    a_change_keeps_when_it_was_made,
    a_copy_is_an_agent_of_its_own,
    what_is_built_in_is_changed_and_stays,
    what_is_not_there_is_said,
    what_cannot_be_names_its_field_and_changes_nothing,
)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
async def test_every_door(
    door: str, case: Callable[[Door], Awaitable[None]], tmp_path: Path, run_here: RunHere
) -> None:
    async with DOORS[door](tmp_path, run_here) as opened:
        await case(opened)
