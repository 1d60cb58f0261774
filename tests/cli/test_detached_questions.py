"""A chat keeps the questions of a delegate that goes on after the turn that began it."""

from __future__ import annotations

import callboard
from callboard.config.daemon_file import find_daemon
from callboard.providers.testing.script import Step, reply
from callboard.providers.testing.scripted_server import ScriptedRequest
from support.cli.chat_scene import OVERWRITE, chatting, say, scripted
from support.cli.chat_scene import command as command
from support.cli.command import Command

AWAY = ("delegate", {"kind": "branch", "task": "Tidy up.", "wait": False})


def said(request: ScriptedRequest) -> Step:
    """By who asks: the session that gives the task away, or the branch that has it."""
    text = str(request.body["messages"][-1]["content"])
    if "Tidy up." in text:
        return reply(calls=[OVERWRITE])
    if text.startswith("Go"):
        return reply(calls=[AWAY])
    # Not at once: the turn shall end while its branch asks.
    return reply("On its way.", delay_seconds=1.0)


async def test_a_question_of_a_branch_outlives_the_turn_but_not_its_branch(
    command: Command,
) -> None:
    async with scripted(command, said, said, said, reply("Tidy."), reply("It is."), *3 * [said]):
        async with chatting(command) as chat:
            daemon = find_daemon(command.home / "data")
            assert daemon is not None
            async with callboard.connect(daemon.url, daemon.token.reveal()) as client:
                await say(chat, "Go")
                await chat.expect("your answer:")
                main = [row for row in await client.sessions() if row.parent_id is None]
                async with client.events(
                    main[0].session_id, after_seq=0, epoch=client.welcome.epoch
                ) as events:
                    async for event in events:
                        if isinstance(getattr(event, "event", None), callboard.TurnEnded):
                            break
                assert [row.tool for row in await client.approvals()] == ["write_file"]
                await chat.type("y\n")
                await chat.expect("It is.")
                assert "no longer asked" not in chat.seen
                assert (command.workspace / "a.txt").read_text() == "new\n"
                (command.workspace / "a.txt").write_text("old\n")
                await say(chat, "Go again")
                await chat.expect("your answer:")
                await client.cancel(main[0].session_id)
                await chat.expect("(no longer asked")
    assert (command.workspace / "a.txt").read_text() == "old\n"
