"""Several runs in one session: the later one waits, and takes neither its options nor its people from the first."""

from __future__ import annotations

import trio

from callboard.providers.testing.script import Step, reply
from callboard.providers.testing.scripted_server import ScriptedRequest, open_scripted_server
from support.cli.command import PATIENCE_SECONDS, Command, at
from support.cli.command import command as command
from support.cli.warm_process import start_piped

ANSWERS = {
    "Begin": reply("Begun."),
    "One": reply(calls=[("write_file", {"path": "a.txt", "content": "a"})]),
    "a.txt": reply(calls=[("write_file", {"path": "b.txt", "content": "b"})]),
    "b.txt": reply("One is done."),
    "Two": reply("Two is done."),
}


def answer(request: ScriptedRequest) -> Step:
    """By what was said last; a title is asked for, too."""
    said = str(request.body["messages"][-1]["content"])
    return next(
        (step for word, step in ANSWERS.items() if word in said and "<record>" not in said),
        reply("A title"),
    )


async def test_a_run_that_goes_on_with_a_session_in_use_waits_for_it(command: Command) -> None:
    """A script's `run --continue` took the person of the first run away: its next call was denied, since nobody was there."""
    async with open_scripted_server([answer] * 7) as server:
        await command("run", *at(server), "Begin")
        line = ("run", "--continue", *at(server))
        async with command.at_terminal(*line, "--policy", "strict", "One") as first:
            await first.expect("your answer:")
            with trio.fail_after(PATIENCE_SECONDS):
                second = start_piped((*line, "Two"), command.workspace, command.environ)
                try:
                    said = b""
                    while b"works in session_" not in said:
                        said += (piece := await second.stderr.receive_some())
                        assert piece, said
                    await first.type("y\n")
                    await first.expect("your answer:")
                    await first.type("y\n")
                    assert await first.end() == 0
                    assert await second.stdout.receive_some() == b"Two is done.\n"
                    assert await second.wait() == 0
                finally:
                    second.kill()
                    with trio.CancelScope(shield=True):
                        await second.wait()
                        await second.stdout.aclose()
                        await second.stderr.aclose()
    assert (command.workspace / "a.txt").read_text() == "a"
    assert (command.workspace / "b.txt").read_text() == "b"
    assert await command.outcomes() == ["answered"] * 3
