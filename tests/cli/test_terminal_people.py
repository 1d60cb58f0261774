"""What else a model says to the person at a terminal: questions of its own, messages, branches'."""

from __future__ import annotations

from callboard.providers.testing.script import reply
from callboard.providers.testing.scripted_server import ScriptedServer, open_scripted_server
from support.cli.chat_scene import OVERWRITE, answer
from support.cli.chat_scene import command as command
from support.cli.command import Command, at, results

BRANCH = ("delegate", {"kind": "branch", "task": "Tidy up a.txt"})


def run_at(server: ScriptedServer, *options: str) -> tuple[str, ...]:
    return ("run", *at(server), *options, "Do it")


async def test_a_models_question_is_answered_by_a_number(command: Command) -> None:
    question = ("ask_user", {"question": "Which one?", "options": ["red", "blue"]})
    async with open_scripted_server([reply("Hm.", calls=[question]), reply("Blue.")]) as server:
        async with command.at_terminal(*run_at(server)) as terminal:
            await terminal.expect("the model asks you:\n    | Which one?\n  [1] red\n  [2] blue\n")
            assert "Hm.\n" in terminal.seen
            await terminal.expect("a number, or your own answer:")
            await terminal.type("2\n")
            assert await terminal.end() == 0
        assert results(server)[-1]["result"] == {"answer": "blue", "option": 1}
    shown = (await command("show", "last")).out
    assert "*the model asks: Which one? (red / blue)*" in shown
    assert "*terminal answers: blue*" in shown


async def test_without_a_terminal_a_models_question_has_no_answer(command: Command) -> None:
    question = ("ask_user", {"question": "Which one?"})
    async with open_scripted_server([reply(calls=[question]), reply("So be it.")]) as server:
        done = await command(*run_at(server))
        assert done.code == 0
        assert results(server)[-1]["error_type"] == "permission_denied"


async def test_a_message_is_printed(command: Command) -> None:
    message = ("message", {"text": "Half done\x1b[2J."})
    async with open_scripted_server([reply(calls=[message]), reply("Done.")]) as server:
        async with command.at_terminal(*run_at(server)) as terminal:
            assert await terminal.end() == 0
        assert results(server)[-1]["status"] == "success"
    assert "\nmessage:\n    | Half done\\u001b[2J.\n" in terminal.seen
    assert "*message to terminal: Half done\\x1b[2J.*" in (await command("show", "last")).out


async def test_a_branch_asks_in_the_session_that_has_the_terminal(command: Command) -> None:
    steps = [
        reply(calls=[BRANCH]),
        reply(calls=[OVERWRITE]),
        reply("It is tidy."),
        reply("Done."),
    ]
    async with open_scripted_server(steps) as server:
        async with command.at_terminal(*run_at(server)) as terminal:
            await terminal.expect("may write_file run?")
            await terminal.expect("  asked by: ")
            await terminal.expect("Tidy up a.txt")
            await answer(terminal, "y")
            assert await terminal.end() == 0
    assert (command.workspace / "a.txt").read_text() == "new\n"
    assert " asks about write_file (approval_" in (await command("show", "last")).out


async def test_a_deferred_call_is_named_and_not_asked_about(command: Command) -> None:
    command.configure('[agents.general]\ndefer = true\nprompt = "You help."\n')
    async with open_scripted_server([reply(calls=[OVERWRITE]), reply("Later.")]) as server:
        async with command.at_terminal(*run_at(server)) as terminal:
            assert await terminal.end() == 0
        assert results(server)[-1]["status"] == "pending_approval"
    hint = "write_file waits for an answer: callboard approve approval_"
    assert "callboard asks" not in terminal.seen
    assert terminal.seen.count(hint) == 2
    assert terminal.seen.rindex(hint) > terminal.seen.index("answered · ")
    assert "### write_file: deferred" in (await command("show", "last")).out
    assert (command.workspace / "a.txt").read_text() == "old\n"
