"""Changing the arguments of a call at a terminal, with editors that are scripts."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import trio

from callboard.providers.testing.script import reply
from callboard.providers.testing.scripted_server import ScriptedServer, open_scripted_server
from support.cli.chat_scene import command as command
from support.cli.command import Command, Terminal, at, results

CALL = ("write_file", {"path": "a.txt", "content": "new\n"})
LONG_CALL = ("write_file", {"path": "a.txt", "content": "one\ntwo\n"})


@asynccontextmanager
async def asked(
    command: Command, call: tuple[str, Any] = CALL
) -> AsyncGenerator[tuple[Terminal, ScriptedServer]]:
    async with open_scripted_server([reply(calls=[call]), reply("So be it.")]) as server:
        async with command.at_terminal("run", *at(server), "Change it") as terminal:
            await terminal.expect("your answer:")
            yield terminal, server


async def answer(terminal: Terminal, *keys: str) -> None:
    """Presses keys, each at a question of its own but the last, whose answer is awaited later."""
    for key in keys[:-1]:
        await terminal.type(f"{key}\n")
        await terminal.expect("your answer:")
    await terminal.type(f"{keys[-1]}\n")


def left_over(command: Command) -> Sequence[Path]:
    return list((command.home / "data").glob("callboard.edit-*"))


async def test_what_the_editor_saves_is_shown_and_runs(command: Command) -> None:
    command.has_editor(
        "facts = f'{path.stat().st_mode & 0o777:o} {path.parent.stat().st_mode & 0o777:o}'\n"
        "print('in:', path.parent.parent, facts, os.getcwd(), os.isatty(0), os.isatty(1))\n"
        "path.write_text(text.replace('a.txt', 'c.txt'))\n",
    )
    async with asked(command) as (terminal, server):
        await answer(terminal, "e")
        data, workspace = command.home / "data", command.workspace
        await terminal.expect(f"in: {data} 600 700 {workspace} True True")
        await terminal.expect("your changes:")
        await terminal.expect('"path":\n    | - "a.txt"\n    | + "c.txt"\n')
        # What is allowed from here on is another call: it has a preview and a reason of its own.
        await terminal.expect("  reason: balanced lets workspace calls run\n")
        await terminal.expect("  preview:\n    | new file c.txt (4 bytes)")
        await terminal.expect('if remembered, the answer covers write_file with path "c.txt"')
        await terminal.expect("[y] allow as changed")
        assert "[d]" not in terminal.seen.rpartition("your changes:")[2]
        await terminal.expect("your answer:")
        assert not (command.workspace / "c.txt").exists()
        await answer(terminal, "y")
        assert await terminal.end() == 0
        (result,) = results(server)
    assert (command.workspace / "a.txt").read_text() == "old\n"
    assert (command.workspace / "c.txt").read_text() == "new\n"
    assert result["arguments"]["path"] == "c.txt"
    assert left_over(command) == []
    assert "changed to:" in (await command("show", "last")).out


async def test_a_long_text_is_edited_as_text(command: Command) -> None:
    command.has_editor("path.write_text(text.replace('\\ntwo\\n', '\\n2\\n'))\n", name="VISUAL")
    command.extra["EDITOR"] = "false"
    async with asked(command, LONG_CALL) as (terminal, _):
        await answer(terminal, "e")
        await terminal.expect("    | -two\n    | +2\n")
        await terminal.expect('"path": as it was')
        await terminal.expect("your answer:")
        await answer(terminal, "y")
        assert await terminal.end() == 0
    assert (command.workspace / "a.txt").read_text() == "one\n2\n"


async def test_an_edit_can_be_undone(command: Command) -> None:
    command.has_editor("path.write_text(text.replace('a.txt', 'c.txt'))\n")
    async with asked(command) as (terminal, _):
        await answer(terminal, "e", "u", "y")
        assert await terminal.end() == 0
    assert (command.workspace / "a.txt").read_text() == "new\n"
    assert not (command.workspace / "c.txt").exists()


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("sys.exit(3)", "the editor ended with 3"),
        ("", "what you saved is what was there"),
        ("path.write_text('{')", "it is not JSON"),
        ("path.write_bytes(b'\\xff')", "it is not UTF-8 text"),
        ("path.unlink()", "the file can't be read any more"),
        ("os.kill(os.getpid(), 9)", "the editor was ended by signal 9"),
    ],
)
async def test_an_edit_that_comes_to_nothing_leaves_the_question(
    command: Command, body: str, problem: str
) -> None:
    command.has_editor(body)
    async with asked(command) as (terminal, _):
        await answer(terminal, "e")
        await terminal.expect(f"Nothing is changed: {problem}")
        await terminal.expect("your answer:")
        assert left_over(command) == []
        await answer(terminal, "u", "y")
        assert await terminal.end() == 0
    assert (command.workspace / "a.txt").read_text() == "new\n"


async def test_what_was_written_wrongly_is_not_lost(command: Command) -> None:
    command.has_editor(
        "is_second = 'oops' in text\n"
        "path.write_text(text.replace('oops', '').replace('a.txt', 'c.txt')\n"
        "                if is_second else text + 'oops')\n",
    )
    async with asked(command) as (terminal, _):
        await answer(terminal, "e")
        await terminal.expect("[e] goes on from what you wrote")
        await terminal.expect("your answer:")
        assert left_over(command) == []
        await answer(terminal, "e")
        await terminal.expect('+ "c.txt"')
        await terminal.expect("your answer:")
        await answer(terminal, "y")
        assert await terminal.end() == 0
    assert (command.workspace / "c.txt").read_text() == "new\n"


@pytest.mark.parametrize(("path", "why"), [(7, "`path`: expected"), ("b/c.txt", "denied: kept")])
async def test_what_can_not_be_is_told_and_the_question_stays(
    command: Command, path: int | str, why: str
) -> None:
    command.configure(
        '[[rules]]\ntool = "write_file"\nverdict = "deny"\nreason = "denied: kept"\n'
        'arguments.path = { path = "b/**" }\n'
    )
    command.has_editor(f"path.write_text(text.replace('\"a.txt\"', {json.dumps(path)!r}))\n")
    async with asked(command) as (terminal, _):
        await answer(terminal, "e")
        await terminal.expect("That can't be: arguments: ")
        await terminal.expect(why)
        await terminal.expect("[e] goes on from what you wrote.")
        await terminal.expect("your answer:")
        assert "call it again" not in terminal.seen
        offered = terminal.seen.rpartition("That can't be: ")[2]
        assert "[n] deny" in offered
        for key in ("[y]", "[s]", "[d]", "remembered"):
            assert key not in offered
        await answer(terminal, "y")  # would allow what they did not want
        await terminal.expect("Please answer with one of n, r, e, u.")
        await terminal.expect("your answer:")
        assert (command.workspace / "a.txt").read_text() == "old\n"
        await answer(terminal, "u", "y")
        assert await terminal.end() == 0
    assert (command.workspace / "a.txt").read_text() == "new\n"


@pytest.mark.parametrize(
    ("editor", "problem"),
    [
        ("/nowhere/at/all", "the editor '/nowhere/at/all' can't be started: No such file"),
        ("vi 'a", "can't be read: No closing quotation"),
    ],
)
async def test_an_editor_that_is_not_there_is_told(
    command: Command, editor: str, problem: str
) -> None:
    command.extra["EDITOR"] = editor
    async with asked(command) as (terminal, _):
        await answer(terminal, "e")
        await terminal.expect(problem)
        await terminal.expect("your answer:")
        await answer(terminal, "n")
        assert await terminal.end() == 0
    assert left_over(command) == []


async def test_without_an_editor_each_argument_is_typed(command: Command) -> None:
    call = ("write_file", {"content": "new\n", "path": "a.txt", "create_dirs": False})
    async with asked(command, call) as (terminal, _):
        await answer(terminal, "e")
        await terminal.expect('"content": "new\\n"')
        await terminal.expect("new value:")
        await terminal.type('"a\\u0062\\n"\n')
        await terminal.expect('"create_dirs": false')
        await terminal.expect("new value (- leaves it out):")
        await terminal.type("perhaps\n")
        await terminal.expect("That is not JSON")
        await terminal.type("true\n")
        await terminal.expect('"path": "a.txt"')
        await terminal.expect("new value:")
        await terminal.type("sub/c.txt\n")
        await terminal.expect('  mode ("append" or "overwrite", default "overwrite"): ')
        await terminal.expect("add which one?")
        await terminal.type("mood\n")
        await terminal.expect("Not added: mood is none of these.")
        await terminal.type("mode\n")
        await terminal.expect("new value:")
        await terminal.type("overwrite\n")
        await terminal.expect("add which one?")
        await terminal.type("\n")
        await terminal.expect('+ "sub/c.txt"')
        await terminal.expect("your answer:")
        await answer(terminal, "e")  # goes on from there; what is optional is left out again
        for name, typed in (("content", ""), ("create_dirs", ""), ("mode", "-"), ("path", "-")):
            await terminal.expect(f'"{name}": ')
            await terminal.expect("new value")
            await terminal.type(f"{typed}\n")
        await terminal.expect("  mode (")
        await terminal.expect("add which one?")
        await terminal.type("\n")
        await terminal.expect('+ "-"')  # of what is required it is a value
        await terminal.expect("your answer:")
        await answer(terminal, "e")
        for typed in ("", "", "sub/c.txt"):
            await terminal.expect("new value")
            await terminal.type(f"{typed}\n")
        await terminal.expect("add which one?")
        await terminal.type("\n")
        await terminal.expect('+ "sub/c.txt"')
        await terminal.expect("your answer:")
        await answer(terminal, "e")  # Enter keeps each
        for _ in range(3):
            await terminal.expect("new value")
            await terminal.type("\n")
        await terminal.expect("add which one?")
        await terminal.type("\n")
        await terminal.expect("Nothing is changed: what you saved is what was there")
        await terminal.expect("your answer:")
        await answer(terminal, "y")
        assert await terminal.end() == 0
    assert (command.workspace / "sub" / "c.txt").read_text() == "ab\n"


async def test_ctrl_c_in_the_editor_is_the_editors(command: Command) -> None:
    command.has_editor(
        "import termios\n"
        "state = termios.tcgetattr(0)\n"
        "state[3] &= ~termios.ECHO\n"
        "termios.tcsetattr(0, termios.TCSANOW, state)\n"
        "print('editing', flush=True)\n"
        "import signal\n"
        "signal.signal(signal.SIGINT, signal.SIG_DFL)\n"
        "print('ready', flush=True)\n"
        "signal.pause()\n",
    )
    async with asked(command) as (terminal, _):
        await answer(terminal, "e")
        await terminal.expect("ready")
        await terminal.type("\x03")
        await terminal.expect("Nothing is changed: the editor was ended by signal 2")
        await terminal.expect("your answer:")
        await terminal.type("xyzzy\n")
        await terminal.expect(" xyzzy\n")  # it is echoed again: the terminal is as it was
        await terminal.expect("your answer:")
        await terminal.type("n\n")
        assert await terminal.end() == 0
    assert "cancelling" not in terminal.seen


@pytest.mark.parametrize("patience", ["", "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"])
async def test_a_run_that_is_stopped_leaves_no_editor_behind(
    command: Command, patience: str
) -> None:
    command.has_editor(
        f"import signal\n{patience}print('I am', os.getpid(), '.', flush=True)\nsignal.pause()\n",
    )
    async with asked(command) as (terminal, _):
        await answer(terminal, "e")
        await terminal.expect("I am")
        await terminal.expect(".")
        editor = int(terminal.seen.rpartition("I am")[2].split()[0])
        terminal.process.send_signal(signal.SIGTERM)
        assert await terminal.end() == 130
    with pytest.raises(ProcessLookupError):
        os.kill(editor, 0)
    assert left_over(command) == []
    assert (command.workspace / "a.txt").read_text() == "old\n"


async def gone(pid: int) -> None:
    """Waits until a killed process is reaped by whoever inherits it."""
    with suppress(ProcessLookupError):
        while True:  # noqa: ASYNC110  nobody tells
            os.kill(pid, 0)
            await trio.sleep(0.01)


async def test_a_second_signal_leaves_the_terminal_as_it_was(command: Command) -> None:
    stubborn = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    raw = "import tty\ntty.setraw(0)\nattributes = termios.tcgetattr(0)\n"
    command.has_editor(
        f"import signal, termios\n{stubborn}{raw}"
        "attributes[3] &= ~termios.ECHO\ntermios.tcsetattr(0, termios.TCSANOW, attributes)\n"
        "print('I am', os.getpid(), '.', flush=True)\nsignal.pause()\n",
    )
    async with asked(command) as (terminal, _):
        before = terminal.state()
        await answer(terminal, "e")
        await terminal.expect("I am")
        await terminal.expect(".")
        editor = int(terminal.seen.rpartition("I am")[2].split()[0])
        assert terminal.state() != before
        terminal.process.send_signal(signal.SIGTERM)
        await terminal.expect("again exits at once")
        terminal.process.send_signal(signal.SIGTERM)
        assert await trio.to_thread.run_sync(terminal.process.wait) == 130
        assert terminal.state() == before
    await gone(editor)
    assert left_over(command) == []


async def test_what_a_killed_run_left_goes_with_the_next_edit(command: Command) -> None:
    left = command.home / "data" / "callboard.edit-left"
    left.mkdir(parents=True)
    (left / "arguments.json").write_text("{}")
    command.has_editor("")
    async with asked(command) as (terminal, _):
        await answer(terminal, "e", "n")
        assert await terminal.end() == 0
    assert left_over(command) == []
