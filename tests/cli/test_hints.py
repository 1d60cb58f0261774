"""A command that callboard names works when it is pasted: with the options of the command line, and whole on its row."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from callboard.cli.app import COMMANDS, complete_parser
from callboard.cli.hints import command_line, has_option, note_options, runnable
from callboard.cli.terminal.escaping import safe_line
from callboard.cli.terminal.folding import folded
from callboard.providers.testing.script import reply, status
from callboard.providers.testing.scripted_server import open_scripted_server
from support.cli.chat_scene import chatting, leave, scripted
from support.cli.command import Command, Finished, at
from support.cli.command import command as command
from support.cli.daemon_process import serving
from support.cli.in_process import own_logging as own_logging
from support.cli.in_process import run_here as run_here

NO = status(400, {"error": {"message": "no"}})


def named(text: str, before: str) -> list[str]:
    """The words of the command that stands behind what introduces it."""
    return shlex.split(text.partition(before)[2].strip().partition("\n")[0])


async def test_the_command_after_a_failed_run_works_from_any_folder(
    command: Command, tmp_path: Path
) -> None:
    """It was `run --continue --retry`, which looked in another folder, another store, or for another server."""
    work, data, config = tmp_path / "my work", tmp_path / "my data", tmp_path / "own.toml"
    work.mkdir()
    config.write_text('model = "rehearsal"\n')
    places = ("--workspace", str(work), "--data", str(data), "--config", str(config))
    async with open_scripted_server([NO, reply("Well.")]) as server:
        async with command.at_terminal("run", *places, *at(server), "Go.") as terminal:
            await terminal.expect("To ask for it once more:\n")
            assert await terminal.end() == 1
        words = named(terminal.seen, "To ask for it once more:\n")
        command.workspace = tmp_path
        done = await command(*words[1:])
    assert (done.code, done.out) == (0, "Well.\n"), (words, done)


async def test_after_another_run_in_the_folder_it_is_still_the_one_that_failed(
    command: Command,
) -> None:
    async with scripted(command, NO, reply("Another."), reply("Well.")):
        async with command.at_terminal("run", "Go.") as terminal:
            assert await terminal.end() == 1
        await command("run", "Something else.")
        done = await command(*named(terminal.seen, "To ask for it once more:\n")[1:])
    assert (done.code, done.out) == (0, "Well.\n")


async def test_an_error_names_commands_with_the_options_of_its_line(
    command: Command, run_here: Callable[..., Awaitable[Finished]], tmp_path: Path
) -> None:
    data = tmp_path / "a store"
    for line, said in (("keys list", "callboard keys set"), ("status", "callboard serve")):
        plain = await run_here(command, *line.split())
        assert f"`{said}" in plain.err + plain.out
        assert "--data" not in plain.err + plain.out
        done = await run_here(command, *line.split(), "--data", str(data))
        assert f"`{said}" in done.err + done.out
        assert f" --data '{data}'`" in done.err + done.out


def test_only_options_that_a_command_has_are_added() -> None:
    """The tables against the parser; `grants revoke` alone has an option that is not added."""
    parser = complete_parser()
    for name in (*COMMANDS, "run", "record"):
        below = [each for each in parser[name] if not each.startswith("-")]
        for words in ([name], *([name, each] for each in below)):
            place = parser
            for word in words:
                place = place[word]
            if place.default_command is None:
                continue
            names = {each for found in place.assemble_argument_collection() for each in found.names}
            for option in ("data", "config"):
                is_left_out = (words, option) == (["grants", "revoke"], "config")
                expected = f"--{option}" in names and not is_left_out
                assert has_option(option, words) == expected, (words, option)


def test_options_stand_before_what_is_left_open_and_another_programs_words() -> None:
    note_options({"data": Path("/d"), "config": Path("c.toml"), "yes": True})
    both = "--data /d --config c.toml"
    assert command_line("callboard run --session s …") == f"callboard run --session s {both} …"
    add = runnable("`callboard mcp add NAME -- COMMAND` adds one")
    assert add == f"`callboard mcp add NAME {both} -- COMMAND` adds one"
    assert (
        runnable("`callboard tools` lists them") == "`callboard tools --config c.toml` lists them"
    )
    assert runnable("`callboard protocol`") == "`callboard protocol`"
    assert command_line("callboard show last --data /e") == "callboard show last --data /e"
    note_options({"data": None})
    assert runnable("`callboard tools` lists them") == "`callboard tools` lists them"


def test_a_command_is_not_folded_in_its_midst() -> None:
    command = "`callboard run --session session_6vb822krey0xvbzr5251 --retry`"
    for before in ("To ask again: ", "Its last turn was cut off in the midst of what it did. "):
        text = folded(f"{before}{command} runs it again.", 80)
        assert command in text
        assert all(len(row) < 80 for row in text.split("\n"))
    long = f"`callboard run --data {'x' * 90}` runs it"
    assert all(len(row) < 80 for row in folded(long, 80).split("\n"))


async def test_of_old_failures_the_last_alone_is_offered_again(command: Command) -> None:
    async with scripted(command, NO, reply("Well."), NO, NO, reply("Done.")):
        for _ in range(4):
            await command("run", "Go.")
            command.workspace.touch()
        await command("session", "rename", "last", "Something")  # an event behind the last failure
        async with chatting(command, "-c") as terminal:
            pass
        listed = await command("sessions", "--json")
        assert len(listed.lines) == 4  # each failed at once in a session of its own
    async with scripted(command, reply("One."), NO, NO, reply("Done.")):
        await command("run", "Go.")
        for _ in range(2):
            await command("run", "-c", "Go on.")
        await command("session", "rename", "last", "Something")
        async with command.at_terminal("chat", "-c") as terminal:
            await terminal.expect("/retry runs it again.")
            assert terminal.seen.count("/retry runs it again.") == 1
            assert terminal.seen.count("failed") >= 2
            await terminal.type("/retry\r")
            await terminal.expect("Done.")
            await leave(terminal)


GARDENER = '[agents.gardener]\ntools = ["read_fil", "write_file"]\n'
MISSPELT = (
    "agent 'gardener' names a tool 'read_fil', which does not exist. Did you mean \"read_file\"?"
)


async def test_a_guest_is_told_of_a_misspelt_tool(command: Command) -> None:
    async with scripted(command):
        command.configure(GARDENER)
        async with chatting(command) as terminal:
            guest = await command("run", "-a", "gardener", "-m", "rehearsal", "Hello")
            assert (guest.code, MISSPELT in guest.err) == (0, True), guest
            await leave(terminal)


async def test_a_client_of_a_daemon_is_told_of_a_misspelt_tool(command: Command) -> None:
    async with scripted(command):
        command.configure(GARDENER)
        async with serving(command, "--root", str(command.workspace)):
            client = await command("run", "-a", "gardener", "-m", "rehearsal", "Hello")
            general = await command("run", "-m", "rehearsal", "Hello")
    assert (client.code, MISSPELT in client.err) == (0, True), client
    assert "does not exist" not in general.err


def test_a_path_with_a_backslash_is_named_as_it_is(tmp_path: Path) -> None:
    r"""`\q` and `\1` were read as signs of a regular expression, and the command ended with a fault of its own."""
    note_options({"data": Path(r"a\q b\1")})
    assert runnable("`callboard show last`") == r"`callboard show last --data 'a\q b\1'`"
    note_options({})


@pytest.mark.parametrize("name", ["my  store", " of   mine ", "a\tb", "it's  here", "a\u00a0 b"])
def test_a_path_with_white_spaces_is_the_same_when_its_command_is_pasted(
    tmp_path: Path, name: str
) -> None:
    """Two spaces were one in the message, and the command that it named had another folder."""
    note_options({"data": tmp_path / name})
    try:
        said = safe_line(runnable("Then `callboard status` says more."))
    finally:
        note_options({})
    pasted = said.partition("`callboard status --data ")[2].partition("`")[0]
    there = subprocess.run(
        ["bash", "-c", f"printf %s {pasted}"],
        stdout=subprocess.PIPE,
        check=True,
        env={"LC_ALL": "C.UTF-8"},
    )
    assert there.stdout.decode() == str(tmp_path / name)


PATHS = {
    "run": ("--data", "--config", "--workspace", "--attach", "--output", "--answer-schema"),
    "sessions": ("--data",),
    "serve": ("--root",),
    "skills": ("--workspace",),
    "backup": ("",),
    "restore": ("",),
    "store copy": ("",),
}


@pytest.mark.parametrize(
    ("line", "option"), [(line, option) for line, options in PATHS.items() for option in options]
)
async def test_a_path_in_the_home_of_nobody_is_said_to_be_that(
    command: Command, run_here: Callable[..., Awaitable[Finished]], line: str, option: str
) -> None:
    """It was "a bug of callboard", or looked for in a folder whose name begins with a tilde."""
    words = [*line.split(), *filter(None, [option]), "~nosuchuser/x"]
    words += {"run": ["Go."], "store copy": ["~nosuchuser/y"]}.get(line, [])
    done = await run_here(command, *words)
    assert done.code == 1
    assert "~nosuchuser/x: there is no user 'nosuchuser'." in done.err


async def test_a_path_at_home_is_found_where_no_shell_expands_it(
    command: Command, tmp_path: Path
) -> None:
    (tmp_path / "words.txt").write_text("Hello.")
    home = {"HOME": str(tmp_path)}
    words = ("--attach=~/words.txt", "--output=~/answer.md")
    done = await command("run", *words, "Go.", environ=home)
    assert done.code == 0, done
    assert (tmp_path / "answer.md").exists()
