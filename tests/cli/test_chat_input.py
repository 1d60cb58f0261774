"""What is typed into a chat besides prompts: files, lines of one's own shell, commands, earlier inputs."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from callboard.cli.chat.mentions import is_dropped_file, mentioned
from callboard.providers.testing.script import reply
from support.cli.chat_scene import chatting, say, scripted
from support.cli.chat_scene import command as command
from support.cli.command import Command

CTRL_R, CTRL_J = "\x12", "\n"
ANSWER = "See:\n```sh\nls -l\n```\n"


async def test_files_and_own_commands_go_with_a_prompt(command: Command) -> None:
    """A file by its sign and Tab, the output of one's own command once agreed, in several lines."""
    command.extra["SHELL"] = "/bin/sh"
    (command.workspace / "notes.txt").write_text("words of the file")
    async with scripted(command, reply("One."), reply("Two.")) as server:
        async with chatting(command) as terminal:
            await say(terminal, "!echo dear; echo reader")
            await terminal.expect("(runs as you, outside the sandbox)")
            await terminal.expect("  dear\n  reader\n")
            await terminal.expect("Give the output to the model with your next prompt? [y/N]")
            await terminal.type("y\n")
            await terminal.expect("it goes with your next prompt")
            await say(terminal, "What is this?")
            await terminal.expect("the session has read what strangers may have written")
            await terminal.expect("  One.\n")
            await say(terminal, "!echo mine")
            await terminal.expect("[y/N]")
            await terminal.type("\n")
            await terminal.expect("/help")
            await terminal.type("Read @no\t")
            await terminal.expect("tes.txt")
            await terminal.type(f"{CTRL_J}!echo no\r")
            await terminal.expect("attached: notes.txt")
            await terminal.expect("  Two.\n")
    first, second = (str(request.body["messages"][-1]) for request in server.requests)
    assert "$ echo dear; echo reader\\ndear\\nreader\\n" in first
    assert "words of the file" in second
    assert "!echo no" in second  # a text of several lines reaches no shell
    assert "mine" not in second


async def test_nothing_that_is_piped_reaches_a_shell_or_attaches_a_file(command: Command) -> None:
    (command.workspace / "notes.txt").write_text("words of the file")
    async with scripted(command, reply("One."), reply("Two.")) as server:
        await command("chat", stdin=b"!touch made\n@notes.txt\n")
    assert not (command.workspace / "made").exists()
    assert "!touch made" in str(server.requests[0].body)
    assert "words of the file" not in str(server.requests[1].body)


async def test_answers_are_copied_and_sessions_counted_and_forked(command: Command) -> None:
    """Help in groups, a command that was mistyped, the clipboard, usage, a copy of the session, a search."""
    async with scripted(command, reply(ANSWER), reply("In the copy.")) as server:
        async with chatting(command) as terminal:
            await say(terminal, "/help")
            await terminal.expect("Turns\n  /steer TEXT")
            await terminal.expect("Sessions\n  /sessions")
            await say(terminal, "/uasge")
            await terminal.expect("Did you mean /usage?")
            await say(terminal, "Which command?")
            await terminal.expect("answered")
            await say(terminal, "/copy")
            await terminal.expect(f"\x1b]52;c;{base64.b64encode(ANSWER.encode()).decode()}\x07")
            await say(terminal, "/copy code")
            await terminal.expect(f"\x1b]52;c;{base64.b64encode(b'ls -l').decode()[:4]}")
            await say(terminal, "/usage")
            await terminal.expect("local/scripted  1 call  10 in  5 out")
            await say(terminal, "/fork")
            await terminal.expect("this is a copy")
            await terminal.expect("▸ Which command?\n")
            await terminal.expect("/help")
            await terminal.type(f"{CTRL_R}which\r")  # finds the earlier prompt
            await terminal.type("\r")
            await terminal.expect("  In the copy.\n")
    asked = [
        each["content"] for each in server.requests[1].body["messages"] if each["role"] == "user"
    ]
    assert len(asked) == 2
    assert len((await command("sessions")).out.splitlines()) == 2


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("look at @a.txt, please", ["a.txt"]),
        ('@"with space.txt" and @a.txt @a.txt', ["with space.txt", "a.txt"]),
        ("mail me@a.txt or @nobody", []),
        ("what is {folder}/pic.png?", []),
        ("'{folder}/my pic.png' what is it", ["my pic.png"]),
        ("{folder}/my\\ pic.png", ["my pic.png"]),
        ("file://{folder}/my%20pic.png", ["my pic.png"]),
        ("{folder}/a.txt", []),  # which is no picture
    ],
)
def test_a_prompt_names_files(tmp_path: Path, text: str, found: list[str]) -> None:
    for name in ("a.txt", "with space.txt", "my pic.png"):
        (tmp_path / name).touch()
    text = text.format(folder=tmp_path)
    assert [path.name for path in mentioned(text, tmp_path)] == found
    is_first = bool(found) and text.startswith(("/", "'"))
    assert is_dropped_file(text) == (is_first or text.startswith("file:"))
