"""Several commands on one data folder: who is the daemon, and what happens when that one is gone."""

from __future__ import annotations

from callboard.providers.testing.script import reply
from callboard.runtime.events import InputAccepted
from callboard.runtime.store.sqlite_store import open_reader
from support.cli.chat_scene import chatting, say, scripted, serving
from support.cli.chat_scene import command as command
from support.cli.command import Command

CTRL_D = "\x04"


async def inputs(command: Command) -> list[str]:
    """The prompts on record, of all sessions."""
    reader = await open_reader(command.home / "data")
    sessions = await reader.sessions()
    events = [stored.event for row in sessions for stored in await reader.events(row.session_id)]
    await reader.aclose()
    return [event.text for event in events if isinstance(event, InputAccepted)]


async def test_a_prompt_typed_while_the_daemon_is_away_is_done_once(command: Command) -> None:
    async with scripted(command, reply("Before."), reply("After.")) as server:
        async with serving(command) as daemon, chatting(command) as terminal:
            await say(terminal, "One")
            await terminal.expect("answered")
            daemon.kill()
            await terminal.expect("the daemon is away")
            await say(terminal, "Two")
            async with serving(command):
                await terminal.expect("  After.\n")
                await terminal.expect("answered")
                await terminal.type(CTRL_D)
                assert await terminal.end() == 0
        assert len(server.requests) == 2
    assert await inputs(command) == ["One", "Two"]


async def test_a_prompt_that_is_not_waited_for_stands_in_the_input_and_counts_once(
    command: Command,
) -> None:
    async with scripted(command, reply("Before."), reply("After.")) as server:
        async with serving(command) as daemon:
            async with chatting(command) as terminal:
                await say(terminal, "One")
                await terminal.expect("answered")
                daemon.kill()
                await terminal.expect("the daemon is away")
                await say(terminal, "Two")
                await terminal.expect("this waits for the daemon: Two")
                await terminal.type("\x03")
                await terminal.expect("not waited for")
                await terminal.expect("Two")
                async with serving(command):
                    await terminal.expect("connected again")
                    await terminal.type("\r")
                    await terminal.expect("  After.\n")
                    await terminal.expect("answered")
                    await terminal.type(CTRL_D)
                    assert await terminal.end() == 0
        assert len(server.requests) == 2
    assert await inputs(command) == ["One", "Two"]


async def test_another_chat_takes_over_when_the_one_that_was_the_daemon_is_killed(
    command: Command,
) -> None:
    async with scripted(command, reply("Before."), reply("After.")):
        async with chatting(command) as first, chatting(command) as second:
            await say(second, "One")
            await second.expect("answered")
            first.process.kill()
            await say(second, "Two")
            await second.expect("  After.\n")
            await second.expect("answered")
            await second.type(CTRL_D)
            assert await second.end() == 0
    assert await inputs(command) == ["One", "Two"]
