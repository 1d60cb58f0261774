"""`callboard skills`: which there are, and the approval of those of a workspace; and plans, shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from callboard.providers.testing.script import reply
from callboard.providers.testing.scripted_server import open_scripted_server
from support.cli.command import Command, at


@pytest.fixture
def command(tmp_path: Path) -> Command:
    command = Command(tmp_path)
    put(command.home / "data" / "skills", "mine")
    put(command.workspace / "skills", "theirs")
    return command


def put(parent: Path, name: str) -> Path:
    folder = parent / name
    folder.mkdir(parents=True)
    text = f"---\nname: {name}\ndescription: What {name} is for.\n---\nDo it.\n"
    (folder / "SKILL.md").write_text(text)
    (folder / "form.md").write_text("A form.")
    return folder


async def states(command: Command) -> dict[str, str]:
    return {line["name"]: line["state"] for line in (await command("skills", "--json")).lines}


async def test_a_skill_is_approved_as_it_is_and_taken_back(command: Command) -> None:
    listed = await command("skills")
    said = " ".join(listed.out.split())
    assert "mine your own " in said
    assert "theirs not approved skills/theirs What theirs is for." in said
    allowed = await command("skills", "allow", "theirs")
    assert allowed.code == 0
    assert allowed.out.startswith("theirs  approved  skills/theirs")
    assert "form.md (7 bytes)" in allowed.out
    assert "Do " in allowed.out
    assert await states(command) == {"mine": "own", "theirs": "approved"}
    (command.workspace / "skills" / "theirs" / "form.md").write_text("Another.")
    assert await states(command) == {"mine": "own", "theirs": "changed"}
    assert (await command("skills", "allow", "skills/theirs")).code == 0
    assert (await command("skills", "revoke", "theirs")).code == 0
    assert await states(command) == {"mine": "own", "theirs": "new"}


async def test_a_skill_is_read_before_it_is_approved(command: Command) -> None:
    assert "callboard skills show NAME" in (await command("skills")).err
    shown = await command("skills", "show", "theirs")
    assert shown.code == 0
    assert shown.out.startswith("theirs  not approved  skills/theirs  What theirs is for.\n")
    assert "form.md (7 bytes)" in shown.out
    assert "Do " in shown.out
    assert shown.out.endswith("callboard skills allow theirs\n")
    assert await states(command) == {"mine": "own", "theirs": "new"}  # and `allow` would change it
    mine = await command("skills", "show", "mine")
    assert (mine.code, "Do " in mine.out, "allow" in mine.out) == (0, True, False)


@pytest.mark.parametrize(
    ("tokens", "why"),
    [
        (("show", "nothing"), "There is no skill 'nothing'"),
        (("show", "broken"), "can't be"),
        (("allow", "nothing"), "There is no skill 'nothing'"),
        (("allow", "mine"), "is your own"),
        (("allow", "broken"), "can't be approved: its SKILL.md does not begin"),
        (("revoke", "theirs"), "is approved"),
    ],
)
async def test_what_can_not_be_approved_is_said(
    command: Command, tokens: tuple[str, ...], why: str
) -> None:
    (put(command.workspace / "skills", "broken") / "SKILL.md").write_text("Do it.")
    refused = await command("skills", *tokens)
    assert refused.code == 1
    assert why in refused.err
    assert (await states(command))["theirs"] == "new"


async def test_a_plan_is_shown_while_it_changes_and_afterwards(command: Command) -> None:
    items = [{"text": "look", "status": "done"}, {"text": "le\x1bap", "status": "in_progress"}]
    steps = [reply(calls=[("plan", {"items": items})]), reply("Ok.")]
    async with open_scripted_server(steps) as server:
        run = await command("run", "Go.", *at(server))
    assert run.code == 0
    assert "plan: 1 of 2 done, now: le" in run.err
    assert "[x] look\n" in run.err
    assert "\x1b" not in run.err
    shown = await command("show", "last")
    assert "- [x] look\n- [>] le" in shown.out
    assert "\x1b" not in shown.out
