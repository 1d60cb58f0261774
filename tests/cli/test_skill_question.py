"""`callboard run` in a workspace with skills that nobody approved: asked once, by their content."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from callboard.providers.testing.script import reply
from callboard.providers.testing.scripted_server import ScriptedServer, open_scripted_server
from support.cli.command import Command, Terminal, at

ASKS = "callboard asks: the skill"


@pytest.fixture
def command(tmp_path: Path) -> Command:
    command = Command(tmp_path)
    put(command, "theirs")
    return command


def put(command: Command, name: str, body: str = "Do it well.") -> None:
    folder = command.workspace / "skills" / name
    folder.mkdir(parents=True, exist_ok=True)
    text = f"---\nname: {name}\ndescription: What {name} is for.\n---\n{body}\n"
    (folder / "SKILL.md").write_text(text)
    (folder / "form.md").write_text("A form.")


def told(server: ScriptedServer) -> str:
    """All that the model was told in the last request."""
    return str(server.requests[-1].body)


@asynccontextmanager
async def running(command: Command) -> AsyncGenerator[tuple[Terminal, ScriptedServer]]:
    async with open_scripted_server([reply("Done.")]) as server:
        async with command.at_terminal("run", *at(server), "Go") as terminal:
            yield terminal, server


async def answered(command: Command, *answers: str) -> tuple[str, str]:
    """What was shown, and what the model was told."""
    async with running(command) as (terminal, server):
        for answer in answers:
            await terminal.expect("your answer:")
            await terminal.type(answer)
        assert await terminal.end() == 0
        return terminal.seen, told(server)


async def test_an_approved_skill_is_told_at_once_and_asked_about_once(command: Command) -> None:
    seen, request = await answered(command, "perhaps\n", "s\n", "y\n")
    assert f"{ASKS} theirs of this workspace is new; may models use it?" in seen
    assert "skills/theirs, 2 files, " in seen
    assert "SKILL.md, form.md" in seen
    assert "sha256 " in seen
    assert "Please answer with one of y, n, s." in seen
    assert "Do it" in seen
    assert "What theirs is" in request
    again, request = await answered(command)
    assert ASKS not in again
    assert "What theirs is" in request


async def test_not_now_holds_for_this_content_and_a_change_asks_again(command: Command) -> None:
    seen, request = await answered(command, "n\n")
    assert "Not now. callboard skills allow theirs approves it." in seen
    assert "What theirs is" not in request
    again, request = await answered(command)
    assert ASKS not in again
    assert "not told of" not in again
    (command.workspace / "skills" / "theirs" / "form.md").write_text("Another form.")
    changed, request = await answered(command, "y\n")
    assert f"{ASKS} theirs of this workspace is new" in changed
    assert "What theirs is" in request
    put(command, "theirs", "Do it badly.")
    changed, request = await answered(command, "n\n")
    assert f"{ASKS} theirs of this workspace was changed since you approved it" in changed
    assert "What theirs is" not in request


async def test_the_end_of_the_input_approves_nothing_and_keeps_nothing(command: Command) -> None:
    seen, request = await answered(command, "\x04")
    assert "What theirs is" not in request
    seen, _ = await answered(command, "n\n")
    assert ASKS in seen


async def test_without_a_terminal_it_is_said_how_to_approve(command: Command) -> None:
    """Control: approved, nothing is said, and models are told."""
    put(command, "other")
    async with open_scripted_server([reply("Done."), reply("Done.")]) as server:
        run = ("run", *at(server), "Go")
        first = await command(*run)
        said = "models can't use 2 skills of this workspace that nobody approved: other, theirs"
        assert f"{said} (callboard skills show NAME, then allow NAME)" in first.out + first.err
        assert "What theirs is" not in told(server)
        for name in ("theirs", "other"):
            assert (await command("skills", "allow", name)).code == 0
        second = await command(*run)
        assert "not told of" not in second.out + second.err
        assert "What theirs is" in told(server)


async def test_an_agent_without_skills_is_not_asked_about(command: Command) -> None:
    command.configure('[agents.general]\ntools = ["get_current_time"]\n')
    seen, _ = await answered(command)
    assert ASKS not in seen


# ── AGENTS.md ────────────────────────────────────────────────────────────────────────────────────


async def test_instructions_are_asked_about_by_their_content(tmp_path: Path) -> None:
    command = Command(tmp_path)
    file = command.workspace / "AGENTS.md"
    file.write_text("Use tabs.\nBe kind.")
    seen, request = await answered(command, "y\n")
    assert "callboard asks: AGENTS.md is new; may models go by these instructions?" in seen
    assert "    | Use tabs.\n    | Be kind.\n" in seen  # nobody approves what was not shown
    assert "tabs." in request
    again, request = await answered(command)
    assert "callboard asks" not in again
    assert "tabs." in request
    file.write_text("Use spaces.\nBe kind.")
    changed, request = await answered(command, "n\n")
    assert "AGENTS.md was changed since you approved it" in changed
    assert "    | -Use tabs.\n    | +Use spaces.\n    |  Be kind.\n" in changed
    assert "Use spaces." not in request


async def test_without_a_terminal_instructions_are_left_out_aloud(tmp_path: Path) -> None:
    command = Command(tmp_path)
    (command.workspace / "AGENTS.md").write_text("Use tabs.")
    async with open_scripted_server([reply("Done.")] * 3) as server:
        run = ("run", *at(server), "Go")
        first = await command(*run)
        assert "models can't use 1 text of this workspace that nobody approved: AGENTS.md" in (
            first.out + first.err
        )
        assert "Use tabs." not in told(server)
        shown = await command("skills", "show", "AGENTS.md")
        assert "Use tabs." in shown.out
        assert (await command("skills", "allow", "AGENTS.md")).code == 0
        second = await command(*run)
        assert "nobody approved" not in second.out + second.err
        assert "Use tabs." in told(server)
        assert (await command("skills", "revoke", "AGENTS.md")).code == 0
        await command(*run)
        assert "Use tabs." not in told(server)
