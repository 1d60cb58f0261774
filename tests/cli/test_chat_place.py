"""A chat that is begun where no session works: in the home folder, where every fresh terminal stands."""

from __future__ import annotations

from pathlib import Path

import pytest

from callboard.providers.testing.script import reply
from support.cli.chat_scene import READY, chatting, say, scripted
from support.cli.chat_scene import command as command
from support.cli.command import Command

QUESTION = "a folder of its own? [Y/n] "


@pytest.fixture
def home(command: Command) -> Path:
    """The person's home, with the workspace in it, where the command runs."""
    home = command.workspace.with_name("person")
    home.mkdir()
    command.extra["HOME"] = str(home)
    command.workspace = home
    return home


async def test_one_key_goes_on_in_a_folder_of_its_own(command: Command, home: Path) -> None:
    async with scripted(command, reply("Here.")):
        async with command.at_terminal("chat") as terminal:
            await terminal.expect(QUESTION)
            await terminal.type("\n")
            await terminal.expect(READY)
            await say(terminal, "Hello")
            await terminal.expect("Here.")
            await say(terminal, "/status")
            await terminal.expect("folder: ~/callboard")
            await say(terminal, "/quit")
            assert await terminal.end() == 0
    assert (home / "callboard").is_dir()


async def test_a_prompt_typed_at_the_question_is_no_no(command: Command, home: Path) -> None:
    """Who types on, as in a chat that has begun, is told that it was not sent, and asked again."""
    async with scripted(command, reply("Here.")):
        async with command.at_terminal("chat") as terminal:
            await terminal.expect(QUESTION)
            await terminal.type("List the files here\n")
            await terminal.expect("Nothing was sent.")
            await terminal.type("y\n")
            await terminal.expect(READY)
            assert "next login." in terminal.seen  # folded between words
            await say(terminal, "/quit")
            assert await terminal.end() == 0
    assert (home / "callboard").is_dir()


@pytest.mark.parametrize("typed", ["n\n", "\x04"])
async def test_a_no_leaves_and_makes_nothing(command: Command, home: Path, typed: str) -> None:
    async with command.at_terminal("chat") as terminal:
        await terminal.expect(QUESTION)
        await terminal.type(typed)
        await terminal.expect("name it with --workspace")
        assert await terminal.end() == 0
    assert not (home / "callboard").exists()


async def test_where_nobody_sits_it_is_refused_at_once(command: Command, home: Path) -> None:
    done = await command("chat", stdin=b"Hello\nAgain\n")
    assert (done.code, done.out) == (1, "")
    assert "No session works in ~: " in done.err
    assert done.err.count("\n") == 1


async def test_a_folder_in_the_home_is_a_place(command: Command, home: Path) -> None:
    """The control."""
    (home / "tea").mkdir()
    command.workspace = home / "tea"
    async with scripted(command, reply("Here.")), chatting(command) as terminal:
        await say(terminal, "Hello")
        await terminal.expect("Here.")
        assert "folder of its own" not in terminal.seen
