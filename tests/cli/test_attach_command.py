"""`callboard attach`: a second terminal shows the same turn, and either side answers."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

import callboard
from callboard.providers.provider import Emit, ModelRequest
from callboard.providers.testing.script import reply
from callboard.runtime.stream import Done, StopReason, TextDelta
from support.cli.command import Command
from support.cli.own_daemon import daemon_of

DELETE = ("delete_file", {"path": "b.txt"})
QUESTION = ("ask_user", {"question": "Which door?", "options": ["left", "right"]})


@pytest.fixture
def command(tmp_path: Path) -> Command:
    command = Command(tmp_path)
    (command.workspace / "b.txt").write_text("b\n")
    return command


class HalfSaid:
    """A model that stops in the middle of a sentence until it is told to go on."""

    def __init__(self) -> None:
        self.goes_on = trio.Event()

    async def run(self, request: ModelRequest, emit: Emit) -> None:
        await emit([TextDelta("The first ha")])
        await self.goes_on.wait()
        await emit([TextDelta("lf, and the second half.")])
        await emit([Done(StopReason.END)])


async def test_a_second_terminal_joins_in_the_middle_of_a_sentence(command: Command) -> None:
    model = HalfSaid()
    async with (
        daemon_of(command, model),
        command.at_terminal("run", "Say it.") as first,
    ):
        await first.expect("The first ha")
        async with (
            command.at_terminal("attach", "last") as second,
            command.at_terminal("attach", "last", "--until-idle", "--verbose") as third,
        ):
            for terminal in (second, third):
                await terminal.expect("The first ha")
            model.goes_on.set()
            for terminal in (first, second, third):
                await terminal.expect("lf, and the second half.")
                if terminal is third:
                    await terminal.expect("request 1: local/HalfSaid, ")
                await terminal.expect("answered")
                assert terminal.shown.count("The first half, and the second half.") == 1
            assert await first.end() == 0
            assert await third.end() == 0
            model.goes_on = trio.Event()
            async with command.at_terminal("run", "--continue", "Again.") as fourth:
                await second.expect("The first ha")
                model.goes_on.set()
                await second.expect("answered")
                assert await fourth.end() == 0
            model.goes_on = trio.Event()
            async with command.at_terminal("run", "--continue", "Again.") as fifth:
                await second.expect("The first ha")
                await second.type("\x03")
                assert await second.end() == 0
                assert second.shown.endswith("\n")  # the shell's prompt has a row of its own
                model.goes_on.set()
                assert await fifth.end() == 0
    assert await command.outcomes() == ["answered"] * 3


async def test_what_others_say_is_shown_before_its_answer(command: Command) -> None:
    model = HalfSaid()
    async with (
        daemon_of(command, model) as runtime,
        command.at_terminal("run", "Say it.") as first,
    ):
        await first.expect("The first ha")
        async with command.at_terminal("attach", "last") as second:
            await second.expect("▸ Say it.")  # of the turn that runs
            await second.expect("The first ha")
            [row] = await runtime.sessions()
            session = await runtime.get_session(row.session_id)
            await session.submit("Be quick.\nAnd \x1b[31mkind.", mode="steer")
            model.goes_on.set()
            for terminal in (first, second):
                await terminal.expect("▸ Be quick.")
                await terminal.expect("  And \\x1b[31mkind.")
                await terminal.expect("The first half, and")
                await terminal.expect("answered")
            assert await first.end() == 0
            for terminal in (first, second):  # that was too late for the turn, and had its own
                assert terminal.shown.count("The first half, and the second half.") == 2
            async with command.at_terminal("run", "--continue", "Again.") as third:
                await second.expect("▸ Again.")
                await second.expect("The first half, and")
                await second.expect("answered")
                assert await third.end() == 0
            assert "▸ Again." not in third.seen  # who typed it has it
        assert "▸ Say it." not in first.seen


async def test_what_steers_a_turn_is_shown_where_the_model_hears_it(command: Command) -> None:
    model = callboard.ScriptedModel([reply(calls=[QUESTION]), reply("In.")])
    async with (
        daemon_of(command, model) as runtime,
        command.at_terminal("run", "Go in.") as first,
    ):
        await first.expect("a number, or your own answer: ")
        async with command.at_terminal("attach", "last") as second:
            await second.expect("a number, or your own answer: ")
            [row] = await runtime.sessions()
            session = await runtime.get_session(row.session_id)
            await session.submit("Be quick.", mode="steer")
            await second.type("1\n")
            for terminal in (second, first):
                await terminal.expect("▸ Be quick.")
                await terminal.expect("the model hears that now")
                await terminal.expect("In.")
            assert await first.end() == 0


@pytest.mark.parametrize("answers", ["first", "second"])
async def test_either_side_answers_an_approval(command: Command, answers: str) -> None:
    model = callboard.ScriptedModel([reply(calls=[DELETE]), reply("So be it.")])
    async with (
        daemon_of(command, model) as runtime,
        command.at_terminal("run", "Delete it.") as first,
    ):
        await first.expect("your answer: ")
        async with command.at_terminal("attach", "last", "--until-idle") as second:
            await second.expect("may delete_file run?")
            await second.expect("your answer: ")
            here, there = (first, second) if answers == "first" else (second, first)
            await here.type("y\n")
            await there.expect("(no longer asked)")
            for terminal in (first, second):
                await terminal.expect("So be it.")
                assert await terminal.end() == 0
                assert terminal.seen.count("\a") == 1
        (row,) = await runtime.approvals(state=None)
        assert (row.state, row.answered_by) == ("used", "terminal")
    assert not (command.workspace / "b.txt").exists()


async def test_a_models_question_is_answered_at_the_second_terminal(command: Command) -> None:
    model = callboard.ScriptedModel([reply(calls=[QUESTION]), reply("In.")])
    async with (
        daemon_of(command, model) as runtime,
        command.at_terminal("run", "Go in.") as first,
    ):
        await first.expect("a number, or your own answer: ")
        async with command.at_terminal("attach", "last", "--until-idle") as second:
            await second.expect("[2] right")
            await second.expect("a number, or your own answer: ")
            await second.type("2\n")
            await first.expect("(no longer asked)")
            for terminal in (first, second):
                await terminal.expect("In.")
                assert await terminal.end() == 0
                assert terminal.seen.count("\a") == 1
        (call,) = await runtime.store.calls()
        assert '"right"' in (call.result or "")


async def test_a_message_of_a_model_is_shown_at_both(command: Command) -> None:
    message = ("message", {"text": "Half done."})
    model = callboard.ScriptedModel([reply(calls=[message, QUESTION]), reply("Done.")])
    async with (
        daemon_of(command, model) as runtime,
        command.at_terminal("run", "Go.") as first,
    ):
        await first.expect("a number, or your own answer: ")
        async with command.at_terminal("attach", "last", "--until-idle") as second:
            await second.expect("a number, or your own answer: ")
            await first.type("1\n")
            for terminal in (first, second):
                assert await terminal.end() == 0
                assert terminal.seen.count("| Half done.") == 1
        assert {call.status for call in await runtime.store.calls()} == {"success"}


async def test_a_run_without_a_terminal_says_who_may_answer(command: Command) -> None:
    model = callboard.ScriptedModel([reply(calls=[DELETE]), reply("So be it.")])
    async with daemon_of(command, model) as runtime, trio.open_nursery() as nursery:

        async def run() -> None:
            done = await command("run", "Delete it.")
            assert done.code == 0
            (row,) = await runtime.approvals(state=None)
            assert f"callboard approve {row.approval_id}" in done.err
            assert "So be it." in done.out

        nursery.start_soon(run)
        while not (waiting := await runtime.approvals()):  # noqa: ASYNC110  it tells no test
            await trio.sleep(0.01)
        assert (await command("deny", waiting[0].approval_id)).code == 0
    assert (command.workspace / "b.txt").exists()


async def test_ctrl_c_cancels_the_turn_in_the_daemon(command: Command) -> None:
    async with (
        daemon_of(command, HalfSaid()),
        command.at_terminal("run", "Say it.") as terminal,
    ):
        await terminal.expect("The first ha")
        await terminal.type("\x03")
        await terminal.expect("cancelled")
        assert await terminal.end() == 130
    assert await command.outcomes() == ["cancelled"]


async def test_without_a_daemon_there_is_nothing_to_attach_to(command: Command) -> None:
    refused = await command("attach", "last")
    assert refused.code == 1
    assert "callboard serve" in refused.err
    async with daemon_of(command, HalfSaid()):
        none = await command("attach", "nothing")
        assert none.code == 1
        assert "There is no session 'nothing'" in none.err
