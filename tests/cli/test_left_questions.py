"""A question at several terminals: who leaves it is told how to answer it, and who denied it is told right."""

from __future__ import annotations

from callboard.providers.testing.script import reply
from support.cli.chat_scene import (
    CTRL_C,
    CTRL_D,
    OVERWRITE,
    answer,
    chatting,
    leave,
    say,
    scripted,
    serving,
)
from support.cli.chat_scene import command as command
from support.cli.command import Command


async def test_who_leaves_a_question_knows_that_it_waits_and_only_who_denied_it_did(
    command: Command,
) -> None:
    async with scripted(command, reply(calls=[OVERWRITE]), reply("So be it.")):
        async with serving(command), chatting(command) as first:
            await say(first, "Change it")
            await first.expect("your answer:")
            for line, key in (("attach last", CTRL_C), ("chat --session last", CTRL_D)):
                async with command.at_terminal(*line.split()) as left:
                    await left.expect("your answer:")
                    await left.type(key)
                    assert await left.end() == 0
                    assert "\n(it still waits: callboard approve approval_" in left.seen
                    assert "no longer asked" not in left.seen
            async with command.at_terminal("attach", "last", "--until-idle") as second:
                await answer(second, "n")
                assert await second.end() == 0
                assert "denied by you" in second.seen
            await first.expect("(no longer asked")
            await first.expect("denied at a terminal")
            assert "denied by you" not in first.seen
            await first.expect("  So be it.\n")
            await first.expect("answered")
            for typed, shown in (
                ("/steer left", "no turn is running: send it without /steer"),
                ("/retry", "the last turn was answered: /regenerate has it"),
                ("/s", "Like it are /steer"),
            ):
                await say(first, typed)
                await first.expect(shown)
    assert (command.workspace / "a.txt").read_text() == "old\n"


async def test_a_chat_that_only_prints_has_its_prompt_again_behind_a_turn(command: Command) -> None:
    command.extra["TERM"] = "dumb"
    async with scripted(command, reply("Well.")), command.at_terminal("chat") as terminal:
        await terminal.expect("> ")
        await terminal.type("Hello\n")
        await terminal.expect("answered")
        await terminal.expect("\n> ")
        await leave(terminal)
