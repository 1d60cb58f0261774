"""A run between pipes, in a real shell: what goes in on stdin, what comes out on stdout, and where else."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
import trio

from callboard.providers.testing.script import Step, reply
from callboard.providers.testing.scripted_server import ScriptedServer, open_scripted_server
from callboard.runtime.store.sqlite_store import open_reader
from support.cli.command import PATIENCE_SECONDS, Command, Finished, at
from support.cli.command import command as command
from support.cli.warm_process import warm_line

LOOKS: list[Step] = [
    reply("Let me look.", calls=[("list_directory", {"path": "."})]),
    reply("Two\nlines."),
]


async def in_shell(
    command: Command, line: str, server: ScriptedServer, *, is_warm: bool = True
) -> Finished:
    """Run a line of a shell, in which `ask` is `callboard run`."""
    callboard, warm = warm_line()
    if not is_warm:
        callboard = f"{sys.executable} -m callboard"
    ask = f'ask() {{ {callboard} run {" ".join(at(server))} "$@"; }}\n'
    with trio.fail_after(PATIENCE_SECONDS):
        done = await trio.run_process(
            ["bash", "-c", f"set -o pipefail\n{ask}{line}"],
            capture_stdout=True,
            capture_stderr=True,
            stdin=None,
            check=False,
            cwd=command.workspace,
            env=command.environ,
            pass_fds=[warm],
        )
    return Finished(done.returncode, done.stdout.decode(), done.stderr.decode())


def said(server: ScriptedServer) -> str:
    """What the model was given of the person, in the last request."""
    [message] = [m for m in server.requests[-1].body["messages"] if m["role"] == "user"]
    return json.dumps(message["content"])


async def test_a_file_is_piped_in_and_the_answer_alone_comes_out(command: Command) -> None:
    (command.workspace / "notes.txt").write_text("Buy milk.\n")
    async with open_scripted_server(LOOKS) as server:
        line = "cat notes.txt | ask Summarise | tr a-z A-Z"
        done = await in_shell(command, line, server, is_warm=False)
        assert "Buy milk." in said(server)
    assert (done.code, done.out, done.complaints) == (0, "TWO\nLINES.\n", [])
    assert "stdin goes with the prompt: 10 bytes" in done.err
    assert "Let me look." in done.err
    assert "✓ list_directory" in done.err
    assert "Two" not in done.err
    reader = await open_reader(command.home / "data")
    [row] = await reader.sessions()
    await reader.aclose()
    assert row.is_tainted  # strangers may have written what is piped in


async def test_text_of_any_encoding_reaches_the_model_and_what_does_not_is_said(
    command: Command,
) -> None:
    """A diff with one byte of an old file, and a text of a Windows program; a program is none."""
    (command.workspace / "wide.txt").write_bytes("größer\n".encode("utf-16"))
    line = r"printf 'caf\351 failed\n' | ask --attach wide.txt 'What failed?'"
    async with open_scripted_server([reply("Tea.")]) as server:
        done = await in_shell(command, line, server)
        assert r"caf\ufffd failed" in said(server)
        assert r"gr\u00f6\u00dfer" in said(server)
    assert "stdin: 1 byte of it is not UTF-8, and shown as �" in done.err
    async with open_scripted_server([reply("Hm.")]) as server:
        done = await in_shell(command, r"printf 'a\000b' | ask 'What is it?'", server)
    assert "stdin is no text (application/octet-stream, 3 bytes): models can't" in done.err


@pytest.mark.parametrize("line", ["echo Hello | ask", "echo Hello | ask -", "ask <<< Hello"])
async def test_without_a_prompt_stdin_is_it(command: Command, line: str) -> None:
    async with open_scripted_server([reply("Hi.")]) as server:
        done = await in_shell(command, line, server)
        assert "Hello" in said(server)
    assert (done.code, done.out) == (0, "Hi.\n")


async def test_verbose_says_what_each_request_and_call_was(command: Command) -> None:
    async with open_scripted_server(LOOKS) as server:
        done = await in_shell(command, "ask --verbose Look < /dev/null", server)
    assert (done.code, done.out) == (0, "Two\nlines.\n")
    first, call, second = [
        line for line in done.err.splitlines() if line.startswith(("request ", "policy: "))
    ]
    assert first.startswith("request 1: custom/scripted, ")
    assert "asks for 1 call" in first
    assert "tokens" in first
    assert call == "policy: list_directory: not asked about"
    assert second.startswith("request 2: custom/scripted, ")
    assert "answers" in second


async def test_quiet_says_the_answer_alone(command: Command) -> None:
    async with open_scripted_server(LOOKS) as server:
        done = await in_shell(command, "ask -q Look < /dev/null", server)
        assert (done.code, done.out, done.err) == (0, "Two\nlines.\n", "")
    async with open_scripted_server(LOOKS) as server:
        tokens = ("run", *at(server), "--quiet", "Look")
        async with command.at_terminal(*tokens) as terminal:
            assert await terminal.end() == 0
        assert terminal.shown == "Two\nlines.\n"


async def test_a_terminal_has_the_answer_drawn_and_a_pipe_has_it_as_it_is(command: Command) -> None:
    """Piece by piece, at the left edge, so that it can be copied; in `attach` and `chat` likewise."""
    command.extra["NO_COLOR"] = ""
    source = "# Tea\n\nIt is **hot**:\n\n| cup | g |\n|---|--:|\n| one | 3 |\n\n- `milk`\n"
    drawn = "\nTea\n\nIt is hot:\n\ncup │ g\n────┼──\none │ 3\n\n• milk\n\nanswered · "
    async with open_scripted_server([reply(list(source))] * 3) as server:
        async with command.at_terminal("run", *at(server), "Tea?") as terminal:
            assert await terminal.end() == 0
        assert drawn in terminal.shown
        async with command.at_terminal("run", *at(server), "-q", "Tea?") as terminal:
            assert await terminal.end() == 0
        assert terminal.shown == drawn.partition("\nanswered")[0].removeprefix("\n")
        done = await in_shell(command, "ask Tea? < /dev/null", server)
        assert done.out == source


async def test_the_answer_goes_to_a_file(command: Command) -> None:
    async with open_scripted_server(LOOKS) as server:
        done = await in_shell(command, "ask Look -o answer.md < /dev/null && cat answer.md", server)
        assert (done.code, done.out) == (0, "Two\nlines.\n")
        assert len(server.requests) == 2
        wrong = await in_shell(command, "ask Look --output nowhere/answer.md < /dev/null", server)
        assert wrong.code == 1
        assert "there is no folder nowhere; nothing was sent" in wrong.err
        assert len(server.requests) == 2


async def test_a_dash_attaches_stdin(command: Command) -> None:
    async with open_scripted_server([reply("Hm.")]) as server:
        done = await in_shell(command, "printf hello | ask --attach - What?", server)
        assert done.code == 0
        assert "hello" in said(server)
        empty = await in_shell(command, "ask --attach - What? < /dev/null", server)
        assert empty.code == 1
        assert "stdin is empty; nothing was sent" in empty.err
        both = await in_shell(command, "printf hello | ask --attach - -", server)
        assert both.code == 2
        assert "the prompt or the file, not both" in both.err


async def test_several_read_no_stdin_of_each_other(command: Command) -> None:
    async with open_scripted_server([reply("One."), reply("One.")]) as server:
        line = "export -f ask; printf 'a\\nb\\n' | xargs -I{} bash -c 'ask {}'"
        done = await in_shell(command, line, server)
    assert (done.code, done.out) == (0, "One.\nOne.\n")


async def test_who_waits_for_stdin_says_so(command: Command, tmp_path: Path) -> None:
    """As a program does that starts it with a pipe, and never closes that."""
    os.mkfifo(tmp_path / "pipe")
    async with open_scripted_server([reply("Hi.")]) as server:
        # The shell's own descriptor holds the pipe open until the run has said that it waits.
        line = (
            f"exec 3<>{tmp_path}/pipe; ask Hello 3>&- <{tmp_path}/pipe 2>said & "
            "until grep -q 'waiting for stdin' said 2>&- || ! kill -0 $!; do sleep 0.05; done; exec 3>&-; wait $!"
        )
        done = await in_shell(command, line, server)
    said = (command.workspace / "said").read_text()
    assert (done.code, done.out) == (0, "Hi.\n"), said
    assert "waiting for stdin" in said
