"""The end of a chat: by `callboard stop`, with what that says, and beside a daemon that says nothing."""

from __future__ import annotations

import signal
from typing import cast

import pytest
import trio
from trio.testing import MockClock

from callboard.cli.chat.chat import end_turn
from callboard.cli.chat.talk import Talk
from callboard.providers.testing.script import reply, stall
from callboard.runtime.errors import NetworkError
from callboard.runtime.store.sqlite_store import open_reader
from support.cli.chat_scene import (
    CTRL_C,
    CTRL_D,
    OVERWRITE,
    READY,
    chatting,
    say,
    scripted,
    serving,
)
from support.cli.chat_scene import command as command
from support.cli.command import PATIENCE_SECONDS, Command, Terminal
from support.waits import until


async def test_a_chat_that_is_the_daemon_says_who_ended_it_and_how_to_come_back(
    command: Command,
) -> None:
    async with scripted(command, stall("Well, ")):
        command.configure("[server]\ndrain_seconds = 1.2\n")
        async with chatting(command) as terminal:
            await say(terminal, "Think")
            await terminal.expect("Well,")
            assert "a chat is the daemon" in (await command("status")).out
            refused = (await command("serve", "--port", "0")).err
            assert "a chat is the daemon of" in refused
            assert "try again then" in refused
            assert "callboard stop" not in refused
            await terminal.type("half a thou")
            await terminal.expect("thou")
            stopped = await command("stop")
            assert stopped.code == 0
            assert stopped.out.startswith("The chat that was the daemon has ended (process ")
            assert await terminal.end() == 0
        told = "`callboard stop` ends this chat: its turn has 1.2 s"
        ended = "`callboard stop` ended this chat"
        places = [terminal.seen.find(text) for text in (told, "cancelled", ended, "is on record")]
        assert places == sorted(places)
        assert places[0] > 0
        assert "\n  callboard chat --session session_" in terminal.seen
        assert "This was typed, and not sent:\nhalf a thou\n" in terminal.seen
    assert await command.outcomes() == ["cancelled"]


async def test_the_command_and_the_chat_say_what_a_daemon_waits_for(command: Command) -> None:
    async with scripted(command, stall("Well, ")):
        command.configure("[server]\ndrain_seconds = 1.2\n")  # more than what is not worth a word
        async with serving(command), chatting(command) as terminal:
            await say(terminal, "Think")
            await terminal.expect("Well,")
            stopped = await command("stop")
            assert stopped.code == 0
            assert stopped.err.startswith("callboard: 1 turn runs; it has 1.2 s to end (session_")
            assert "--now" in stopped.err
            await terminal.expect("the daemon stops: turns have 1.2 s to end")


@pytest.mark.parametrize("why", ["silence", "a broken connection"])
async def test_a_chat_is_left_whatever_its_daemon_says(why: str, autojump_clock: MockClock) -> None:
    class Asking:
        has_asked = False

        async def end_left(self) -> None:
            self.has_asked = True
            if why == "silence":
                await trio.sleep_forever()
            raise NetworkError("the connection to the daemon broke")

    talk = Asking()
    await end_turn(cast(Talk, talk))
    assert talk.has_asked


@pytest.mark.parametrize("how", ["/quit", "Ctrl-D twice", "Ctrl-C twice", "SIGHUP", "closed"])
async def test_what_waits_behind_a_turn_never_begins_once_the_chat_is_left(
    command: Command, how: str
) -> None:
    async with scripted(command, stall("Well, "), reply(calls=[OVERWRITE])) as server:
        async with chatting(command, "--policy", "auto") as terminal:
            await _say_three(terminal)
            match how:
                case "/quit":
                    await say(terminal, how)
                case "Ctrl-D twice":
                    await terminal.type(CTRL_D)
                    await terminal.expect("Ctrl-D again leaves")
                    await terminal.type(CTRL_D)
                case "Ctrl-C twice":
                    await terminal.type(CTRL_C + CTRL_C)
                    if await terminal.comes_to(READY):  # the turn was gone before the second one
                        terminal.process.send_signal(signal.SIGHUP)
                case "SIGHUP":
                    terminal.process.send_signal(signal.SIGHUP)
                case _:
                    await terminal.hang_up()
            if how == "closed":
                await trio.to_thread.run_sync(terminal.process.wait)
            else:
                await terminal.end()
            if how in {"/quit", "Ctrl-D twice"}:
                assert "This was typed, and not sent:\nChange it\nand again\n" in terminal.seen
        await _nothing_open(command)
        assert len(server.requests) == 1
    assert await command.outcomes() == ["cancelled"]
    assert (command.workspace / "a.txt").read_text() == "old\n"


async def test_a_chat_that_became_the_daemon_takes_back_what_waits_when_it_is_ended(
    command: Command,
) -> None:
    async with scripted(command, stall("Well, ")), chatting(command) as first:
        async with chatting(command) as terminal:
            assert (await command("stop", "--now")).code == 0
            assert await first.end() == 0
            await _say_three(terminal)
            terminal.process.send_signal(signal.SIGHUP)
            await terminal.end()
        await _nothing_open(command)
    assert await command.outcomes() == ["cancelled"]


async def _say_three(terminal: Terminal) -> None:
    await say(terminal, "Think")
    await terminal.expect("Well,")
    for text in ("Change it", "and again"):
        await say(terminal, text)
        await terminal.expect(f"▸ {text} (waits for its turn)")


async def _nothing_open(command: Command) -> None:
    """Waits until no input waits on record: none begins at the next start either."""
    reader = await open_reader(command.home / "data")
    (session,) = await reader.sessions()
    with trio.fail_after(PATIENCE_SECONDS):
        while await reader.open_inputs(session.session_id):  # ruff: ignore[async-busy-wait] another process writes it  # noqa: ASYNC110
            await trio.sleep(0.01)
    await reader.aclose()


async def test_a_run_whose_turn_ends_with_its_daemon_ends_too(command: Command) -> None:
    """It waited for the daemon, and so did scripts that stopped it."""
    ended: list[tuple[int, str]] = []

    async def run() -> None:
        done = await command("run", "Think")
        ended.append((done.code, done.err))

    async with scripted(command, stall("Well, ")) as server:
        command.configure("[server]\ndrain_seconds = 0.1\n")
        async with serving(command), trio.open_nursery() as nursery:
            with trio.fail_after(PATIENCE_SECONDS):
                nursery.start_soon(run)
                await until(lambda: server.requests)
                assert (await command("stop")).code == 0
                await until(lambda: ended)
    [(code, said)] = ended
    assert code == 130
    assert "cancelled" in said
    assert await command.outcomes() == ["cancelled"]
