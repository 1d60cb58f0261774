"""The end of a chat: by `callboard stop`, with what that says, and beside a daemon that says nothing."""

from __future__ import annotations

from typing import cast

import pytest
import trio
from trio.testing import MockClock

from callboard.cli.chat.chat import end_turn
from callboard.client.client import Client
from callboard.providers.testing.script import stall
from callboard.runtime.errors import NetworkError
from support.cli.chat_scene import chatting, say, scripted, serving
from support.cli.chat_scene import command as command
from support.cli.command import Command


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
    class Daemon:
        asked = ""

        async def cancel(self, session_id: str, reason: str) -> bool:
            self.asked = session_id
            if why == "silence":
                await trio.sleep_forever()
            raise NetworkError("the connection to the daemon broke")

    daemon = Daemon()
    await end_turn(cast(Client, daemon), "session_1")
    assert daemon.asked == "session_1"
