"""Questions at a terminal: a pseudo-terminal, the real command, a scripted server."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from callboard.cli.show.question_text import (
    PLAIN,
    change_lines,
    changed_question,
    coverage,
    question,
)
from callboard.config.policy.grant_binding import binding_of
from callboard.providers.testing.script import Step, reply
from callboard.providers.testing.scripted_server import ScriptedServer, open_scripted_server
from callboard.runtime.definitions import Tier
from support.cli.chat_scene import OVERWRITE
from support.cli.command import Command, Terminal, at, results
from support.cli.questions import approval_request

READ = ("read_file", {"path": "b.txt"})


@pytest.fixture
def command(tmp_path: Path) -> Command:
    command = Command(tmp_path)
    (command.workspace / "a.txt").write_text("old\n")
    (command.workspace / "b.txt").write_text("other\n")
    return command


@asynccontextmanager
async def running(
    command: Command, *steps: Step, options: Sequence[str] = ()
) -> AsyncGenerator[tuple[Terminal, ScriptedServer]]:
    async with open_scripted_server(steps) as server:
        async with command.at_terminal("run", *at(server), *options, "Change it") as terminal:
            yield terminal, server


def asked(command: Command, calls: Sequence[tuple[str, Any]], *options: str) -> Any:
    return running(command, reply("I will.", calls=calls), reply("So be it."), options=options)


async def test_a_yes_runs_the_call_and_siblings_run_meanwhile(command: Command) -> None:
    async with asked(command, [OVERWRITE, READ]) as (terminal, server):
        await terminal.expect("[y] allow")
        assert "may write_file run? (tier: workspace)" in terminal.seen
        assert '"path": "a.txt"' in terminal.seen
        assert '"content": "new\\n"' in terminal.seen
        assert terminal.seen.index("I will.") < terminal.seen.index("callboard asks")
        await terminal.type("perhaps\n")
        await terminal.expect("Please answer with one of y, ")
        assert (command.workspace / "a.txt").read_text() == "old\n"
        await terminal.type("y\n")
        assert await terminal.end() == 0
        assert (command.workspace / "a.txt").read_text() == "new\n"
        assert "✓ write_file" in terminal.seen
        assert "✓ read_file" in terminal.seen
        assert {result["status"] for result in results(server)} == {"success"}


async def test_a_no_may_have_a_reason(command: Command) -> None:
    async with asked(command, [OVERWRITE]) as (terminal, server):
        await terminal.expect("[y] allow")
        await terminal.type("r\n")
        await terminal.expect("Why not?")
        await terminal.type("it is Ann's\n")
        assert await terminal.end() == 0
        assert "✗ write_file denied" in terminal.seen
        assert "denied by you: it is Ann's" in terminal.seen
        assert "denied by terminal: it is Ann's" in results(server)[0]["message"]
        assert (command.workspace / "a.txt").read_text() == "old\n"


async def test_questions_come_one_after_another_as_the_model_asked(command: Command) -> None:
    other = ("write_file", {"path": "b.txt", "content": "new too\n"})
    async with asked(command, [OVERWRITE, other]) as (terminal, _):
        await terminal.expect("[y] allow")
        assert "callboard asks (1 of 2): may write_file run?" in terminal.seen
        assert '"path": "a.txt"' in terminal.seen
        assert terminal.seen.count("callboard asks") == 1
        await terminal.type("n\n")
        await terminal.expect("callboard asks (2 of 2)")
        await terminal.expect('"path": "b.txt"')
        await terminal.expect("[y] allow")
        await terminal.type("y\n")
        assert await terminal.end() == 0
        assert (command.workspace / "a.txt").read_text() == "old\n"
        assert (command.workspace / "b.txt").read_text() == "new too\n"


THREE = [OVERWRITE, *(("write_file", {"path": f"{n}.txt", "content": n}) for n in "cd")]


async def test_all_questions_of_one_answer_are_allowed_when_all_were_shown(
    command: Command,
) -> None:
    (command.workspace / "c.txt").write_text("old\n")
    async with asked(command, THREE, "--policy", "strict") as (terminal, _):
        await terminal.expect("[all] show the next 2 too, and allow all of these at once")
        assert '"path": "c.txt"' not in terminal.seen
        await terminal.expect("your answer: ")
        await terminal.type("all\n")
        await terminal.expect("(2 of 3)")
        await terminal.expect("(3 of 3)")
        await terminal.expect("Allow this one and the 2 others shown here, once each? [y/N] ")
        await terminal.type("n\n")  # then nothing is allowed yet
        # What stood last on the screen was the third; the keys are about the first, which is shown again.
        await terminal.expect("callboard asks (1 of 3)")
        await terminal.expect('"path": "a.txt"')
        await terminal.expect("your answer: ")
        await terminal.type("all\n")
        await terminal.expect("[y/N] ")
        await terminal.type("y\n")
        assert await terminal.end() == 0
        assert terminal.seen.count("allowed with the others: write_file") == 2
        texts = [(command.workspace / f"{name}.txt").read_text() for name in "acd"]
        assert texts == ["new\n", "c", "d"]


async def test_what_was_not_allowed_with_the_others_is_asked_about(command: Command) -> None:
    """The answer of the next one is its own; what comes in a later answer of the model, too."""
    later = ("write_file", {"path": "e.txt", "content": "e"})
    steps = (reply(calls=THREE[:2]), reply(calls=[later]), reply("So be it."))
    async with running(command, *steps, options=("--policy", "strict")) as (terminal, _):
        await terminal.expect("[all]")
        await terminal.expect("your answer: ")
        await terminal.type("all\n")
        await terminal.expect("[y/N] ")
        await terminal.type("y\n")
        await terminal.expect('"path": "e.txt"')
        await terminal.expect("your answer: ")
        await terminal.type("n\n")
        assert await terminal.end() == 0
        assert (command.workspace / "c.txt").exists()
        assert not (command.workspace / "e.txt").exists()


async def test_a_run_with_a_pipe_on_stdin_asks_at_its_terminal(command: Command) -> None:
    steps = (reply(calls=[OVERWRITE]), reply("So be it."))
    async with open_scripted_server(steps) as server:
        line = ("run", *at(server), "Change it")
        async with command.at_terminal(*line, piped=b"as this says") as terminal:
            await terminal.expect("12 bytes; questions are asked at the terminal")
            await terminal.expect("your answer: ")
            await terminal.type("y\n")
            assert await terminal.end() == 0
    assert (command.workspace / "a.txt").read_text() == "new\n"
    assert "as this says" in str(server.requests[0].body)


async def test_the_end_of_the_input_is_a_no(command: Command) -> None:
    async with asked(command, [OVERWRITE]) as (terminal, _):
        await terminal.expect("[y] allow")
        await terminal.type("\x04")
        assert await terminal.end() == 0
        assert (command.workspace / "a.txt").read_text() == "old\n"


async def test_events_on_stdout_do_not_mix_with_the_question(command: Command) -> None:
    async with asked(command, [OVERWRITE], "--json") as (terminal, _):
        await terminal.expect("[y] allow")
        await terminal.type("y\n")
        assert await terminal.end() == 0
        assert '"decision":"allow"' in terminal.seen


async def test_ctrl_c_withdraws_the_question(command: Command) -> None:
    async with asked(command, [OVERWRITE]) as (terminal, _):
        await terminal.expect("[y] allow")
        await terminal.type("\x03")
        assert await terminal.end() == 130
        assert "(no longer asked)" in terminal.seen
        # No seconds: they were those of the question.
        assert re.search(r"✗ write_file cancelled  \S", terminal.shown)
        assert "\ncancelled · " in terminal.shown.rpartition("✗ write_file")[2]
        assert (command.workspace / "a.txt").read_text() == "old\n"


async def test_esc_at_the_pattern_goes_back_to_the_keys(command: Command) -> None:
    async with asked(command, [OVERWRITE]) as (terminal, server):
        await terminal.expect("your answer: ")
        for back in ("\x1b\n", "\x04"):
            await terminal.type("a\n")
            await terminal.expect("Esc and Enter: back")
            terminal.expect_from_here()
            await terminal.type(back)
            await terminal.expect("[y] allow")
        await terminal.type("n\n")
        assert await terminal.end() == 0
        assert (command.workspace / "a.txt").read_text() == "old\n"
        assert "permission_denied" in str(results(server))
    assert (await command("grants", "--json")).lines == []


async def test_the_keys_of_a_question_that_fills_the_screen_say_again_what_it_is(
    command: Command,
) -> None:
    long = ("write_file", {"path": "a.txt", "content": "".join(f"{n}\n" for n in range(40))})
    async with asked(command, [long]) as (terminal, _):
        await terminal.expect("your answer: ")
        head, _, keys = terminal.shown.rpartition("39\n")
        assert "may write_file run? (tier: workspace)" in head
        assert "may write_file run? (tier: workspace; all of the question is above)" in keys
        await terminal.type("n\n")
        assert await terminal.end() == 0
    async with asked(command, [OVERWRITE]) as (terminal, _):  # the control
        await terminal.expect("your answer: ")
        assert "is above)" not in terminal.seen
        await terminal.type("n\n")
        assert await terminal.end() == 0


async def test_without_a_terminal_the_answer_is_no(command: Command) -> None:
    async with open_scripted_server([reply(calls=[OVERWRITE]), reply("Then not.")]) as server:
        done = await command("run", *at(server), "Change it")
        assert done.code == 0
        assert "there is nobody to ask: run in a terminal, choose --policy auto" in done.err
        assert "there is nobody to ask" in results(server)[0]["message"]
        assert (command.workspace / "a.txt").read_text() == "old\n"
    async with open_scripted_server([reply(calls=[OVERWRITE]), reply("Done.")]) as server:
        assert (await command("run", *at(server), "--policy", "auto", "Change it")).code == 0
        assert (command.workspace / "a.txt").read_text() == "new\n"


async def test_an_answer_for_the_session_is_remembered_and_told(command: Command) -> None:
    steps = [
        reply(calls=[OVERWRITE]),
        reply(calls=[("write_file", {"path": "a.txt", "content": "newer\n"})]),
        reply(calls=[("write_file", {"path": "b.txt", "content": "newer\n"})]),
        reply("Done."),
    ]
    async with running(command, *steps) as (terminal, _):
        await terminal.expect('if remembered, the answer covers write_file with path "a.txt"')
        await terminal.expect("your answer:")
        await terminal.type("s\n")
        await terminal.expect('"path": "b.txt"')  # the second of a.txt needs no question
        assert (command.workspace / "a.txt").read_text() == "newer\n"
        await terminal.expect("your answer:")
        await terminal.type("n\n")
        assert await terminal.end() == 0
    assert terminal.seen.count("callboard asks") == 2
    told = 'allowed for this session: write_file with path "a.txt"'
    assert told in terminal.seen.replace("\n    |> ", "")
    assert (command.workspace / "b.txt").read_text() == "other\n"
    shown = (await command("show", "last")).out
    assert "allowed for this session by terminal" in shown
    assert "*remembered as grant_" in shown


async def test_always_may_be_for_a_pattern_that_fits(command: Command) -> None:
    second = ("write_file", {"path": "b.txt", "content": "new too\n"})
    steps = [reply(calls=[OVERWRITE]), reply(calls=[second]), reply("Done.")]
    async with running(command, *steps) as (terminal, _):
        await terminal.expect("your answer:")
        await terminal.type("a\n")
        await terminal.expect("For which paths? (Enter: a.txt alone")
        await terminal.type("notes/**\n")
        await terminal.expect("That can't be: ")
        await terminal.expect("your answer:")
        assert (command.workspace / "a.txt").read_text() == "old\n"
        await terminal.type("a\n")
        await terminal.expect("For which paths?")
        await terminal.type("*.txt\n")
        assert await terminal.end() == 0
    assert terminal.seen.count("callboard asks") == 1
    assert "'notes/**' does not match 'a.txt'" in terminal.seen
    assert (command.workspace / "b.txt").read_text() == "new too\n"


async def test_a_denial_may_last(command: Command) -> None:
    steps = [reply(calls=[OVERWRITE]), reply(calls=[OVERWRITE]), reply("Then not.")]
    async with running(command, *steps) as (terminal, server):
        await terminal.expect("[d] deny and don't ask again")
        await terminal.expect("your answer:")
        await terminal.type("d\n")
        await terminal.expect("Don't ask again [t] for this turn")
        await terminal.type("x\n")
        await terminal.expect("your answer:")
        await terminal.type("d\n")
        await terminal.expect("Don't ask again [t]")
        await terminal.type("t\n")
        await terminal.expect("Why not?")
        await terminal.type("it is Ann's\n")
        assert await terminal.end() == 0
        first, second = results(server)
    assert terminal.seen.count("callboard asks") == 1
    assert "it is Ann's" in first["message"]
    assert second["error_type"] == "permission_denied"
    assert (command.workspace / "a.txt").read_text() == "old\n"


async def test_the_change_of_a_file_is_shown_as_a_diff(command: Command) -> None:
    command.extra["NO_COLOR"] = ""
    async with asked(command, [OVERWRITE]) as (terminal, _):
        await terminal.expect("your answer:")
        assert "  preview:\n" in terminal.seen
        assert "\x1b[31m-old\x1b[0m\n" in terminal.seen
        assert "\x1b[32m+new\x1b[0m\n" in terminal.seen
        await terminal.type("n\n")
        assert await terminal.end() == 0


def test_every_argument_is_shown_in_full() -> None:
    text = question(
        approval_request('{"content":"a\\n\\tb\\u202ec\\r\\nd","mode":"append","n":[1,{"x":null}]}')
    )
    assert '  "content": text of 9 characters\n    | a\n    | \tb\\u202ec\\u000d\n    | d\n' in text
    assert "shown as \\u escapes" in text
    assert '  "mode": "append"\n' in text
    assert '  "n": [1, {"x": null}]\n' in text
    assert "no arguments" in question(approval_request("{}"))
    long = "x" * 100_000
    assert long in question(approval_request('{"content":"' + long + '"}'))


def test_no_argument_can_forge_a_question() -> None:
    fake = "x\\n\\ncallboard asks: may read_file run?\\n  reason: none"
    text = question(
        approval_request('{"content":"' + fake + '"}', reason="a\x1b[2K\nb", preview="+\x1b")
    )
    assert "\n    | callboard asks: may read_file run?\n" in text
    assert text.count("\ncallboard asks") == 1
    assert "  reason: a\\x1b[2K b\n" in text
    assert "    | +\\u001b\n" in text


def test_a_preview_has_no_empty_line_at_its_end() -> None:
    text = question(approval_request("{}", preview="@@ -1 +1 @@\n-old\n+new\n"))
    assert text.endswith("    | -old\n    | +new\n")


def test_changes_of_a_text_have_no_empty_line_at_their_end() -> None:
    lines = list(change_lines('{"c":"one\\ntwo\\n"}', '{"c":"one\\n2\\n"}'))
    assert lines[-3:] == ["    |  one", "    | -two", "    | +2"]
    longer = list(change_lines('{"c":"one\\ntwo\\n"}', '{"c":"one\\ntwo"}'))
    assert longer[-1] == "    | -"  # the line break at the end is gone


def test_changed_arguments_are_shown_as_a_question_of_their_own() -> None:
    before, after = (
        approval_request('{"path":"a"}'),
        approval_request('{"path":"b"}', reason="why\nnot", preview="p\n"),
    )
    text = changed_question(before, after, PLAIN)
    assert text == (
        'your changes:\n  "path":\n    | - "a"\n    | + "b"\n'
        "  reason: why not\n  preview:\n    | p\n"
    )
    higher = msgspec.structs.replace(after, tier=Tier.ELEVATED)
    raised = "  tier: elevated instead of workspace: it is asked about once more\n"
    assert raised in changed_question(before, higher, PLAIN)
    lower = msgspec.structs.replace(after, tier=Tier.READ_ONLY)
    assert "  tier: read_only instead of workspace\n" in changed_question(before, lower, PLAIN)


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        (
            "http_request",
            '{"url":"https://a.example/x"}',
            'http_request with host "a.example", method "GET"; headers, body, timeout may differ',
        ),
        (
            "http_request",
            '{"method":"POST","url":"https://a.example/x"}',
            'http_request with host "a.example", method "POST"; headers, body, timeout may differ',
        ),
        (
            "write_file",
            '{"content":"x","mode":"append","path":"a"}',
            'write_file with path "a", mode "append"; content, encoding, create_dirs may differ',
        ),
        (
            "move_file",
            '{"from":"a","to":"b"}',
            'move_file with from "a", to "b", overwrite false',
        ),
        (
            "launch",
            '{"far":true}',
            'launch with exactly the arguments {"far":true}',
        ),
    ],
)
def test_what_is_remembered_is_said_as_it_binds(tool: str, arguments: str, said: str) -> None:
    binding = binding_of(tool, arguments, tier=Tier.SYSTEM)
    assert coverage(tool, binding) == said


async def test_a_killed_run_goes_on_with_its_question(command: Command) -> None:
    steps = [reply("I will.", calls=[OVERWRITE]), reply("So be it."), reply("You are welcome.")]
    async with open_scripted_server(steps) as server:
        async with command.at_terminal("run", *at(server), "Change it") as terminal:
            await terminal.expect("[y] allow")
            command.kill_daemon()
            await terminal.end()
        assert (command.workspace / "a.txt").read_text() == "old\n"
        async with command.at_terminal("run", *at(server), "--continue", "Thanks") as terminal:
            await terminal.expect("[y] allow")
            assert '"path": "a.txt"' in terminal.seen
            await terminal.type("y\n")
            assert await terminal.end() == 0
            assert terminal.seen.index("So be it.") < terminal.seen.index("You are welcome.")
        assert (command.workspace / "a.txt").read_text() == "new\n"
