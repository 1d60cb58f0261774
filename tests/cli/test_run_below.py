"""`callboard run` with a session that nobody waits for: the run does."""

from __future__ import annotations

from callboard.providers.testing.script import Step, reply
from callboard.providers.testing.scripted_server import ScriptedRequest, open_scripted_server
from support.cli.command import Command, at
from support.cli.command import command as command

AWAY = ("delegate", {"kind": "worker", "task": "Look around.", "wait": False})


def said(request: ScriptedRequest) -> Step:
    """By who asks: the session that gives the task away, or the one that has it."""
    text = str(request.body["messages"][-1]["content"])
    if text == "Look around.":
        return reply("I found a key.", delay_seconds=0.4)
    if "I found a key." in text:
        # Not at once: what had ended before the command looks for it is on record, but not shown.
        return reply("It found a key.", delay_seconds=0.4)
    return reply("On its way.")


async def test_a_late_answer_is_waited_for_and_shown(command: Command) -> None:
    async with open_scripted_server([reply(calls=[AWAY]), said, said, said]) as server:
        done = await command("run", *at(server), "Go.")
        server.assert_complete()
    assert (done.code, done.err) == (0, "")
    assert done.out.index("On its way.") < done.out.index("waiting for 1 delegated session")
    assert done.out.index("waiting for") < done.out.index("It found a key.")


async def test_nothing_is_waited_for_where_nothing_runs(command: Command) -> None:
    here = ("delegate", {"kind": "worker", "task": "Look around."})
    async with open_scripted_server([reply(calls=[here]), said, reply("Done.")]) as server:
        done = await command("run", *at(server), "Go.")
        server.assert_complete()
    assert (done.code, done.err) == (0, "")
    assert "waiting for" not in done.out
