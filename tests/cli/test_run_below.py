"""`callboard run` with a session that nobody waits for: the run does."""

from __future__ import annotations

import pytest
import trio

from callboard.providers.testing.script import Step, reply
from callboard.providers.testing.scripted_server import ScriptedRequest, open_scripted_server
from support.cli.command import PATIENCE_SECONDS, Command, at
from support.cli.command import command as command

LATER = 0.4  # the command says first that it waits
AWAY = ("delegate", {"kind": "worker", "task": "Look around.", "wait": False})


def said(request: ScriptedRequest) -> Step:
    """By who asks: the session that gives the task away, or the one that has it."""
    text = str(request.body["messages"][-1]["content"])
    if text == "Look around.":
        return reply("I found a key.", delay_seconds=LATER)
    if "I found a key." in text:
        return reply("It found a key.")
    return reply("On its way.")


async def test_a_late_answer_is_waited_for_and_shown(command: Command) -> None:
    async with open_scripted_server([reply(calls=[AWAY]), said, said, said]) as server:
        done = await command("run", *at(server), "Go.")
        server.assert_complete()
    assert (done.code, done.complaints) == (0, [])
    assert done.err.index("answered · ") < done.err.index("waiting for 1 delegated session")
    assert done.out == "It found a key.\n"


LATE_LISTENER = """
import sys

import trio

from callboard.__main__ import main
from callboard.cli.run.run import _Job
from callboard.runtime.events import TurnEnded

listen = _Job._next_left


async def listen_late(job, runtime, session):
    found = await listen(job, runtime, session) if WHEN == "found" else None
    session_id = session.session_id
    while True:
        ended = [e for e in await runtime.store.events(session_id) if isinstance(e.event, TurnEnded)]
        if len(ended) == 2:
            return found or await listen(job, runtime, session)
        await trio.sleep(0.01)


_Job._next_left = listen_late
sys.exit(main())
"""


@pytest.mark.parametrize("when", ["looked for", "found"])
async def test_a_late_turn_that_is_over_before_anybody_listens_is_shown(
    command: Command, when: str
) -> None:
    program = f"WHEN = {when!r}\n{LATE_LISTENER}"
    async with open_scripted_server([reply(calls=[AWAY]), said, said, said]) as server:
        with trio.fail_after(PATIENCE_SECONDS):
            done = await command.changed(program, "run", *at(server), "Go.")
        server.assert_complete()
    assert (done.code, done.out) == (0, "It found a key.\n")


async def test_nothing_is_waited_for_where_nothing_runs(command: Command) -> None:
    here = ("delegate", {"kind": "worker", "task": "Look around."})
    async with open_scripted_server([reply(calls=[here]), said, reply("Done.")]) as server:
        done = await command("run", *at(server), "Go.")
        server.assert_complete()
    assert (done.code, done.complaints) == (0, [])
    assert "waiting for" not in done.err
