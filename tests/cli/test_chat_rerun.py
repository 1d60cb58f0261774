"""The last turn once more, in a chat, by a run, and in what is printed of a session."""

from __future__ import annotations

from callboard.providers.testing.script import reply, status
from support.cli.chat_scene import chatting, leave, prompt, say, scripted
from support.cli.chat_scene import command as command
from support.cli.command import Command
from support.cli.daemon_process import serving


async def test_a_chat_has_the_last_turn_answered_anew(command: Command) -> None:
    async with scripted(command, reply("Old answer."), reply("New answer.")) as server:
        done = await command("chat", stdin=b"/retry\nGo.\n/retry\n/regenerate\n")
        assert done.code == 1  # two of the commands were refused
        first, last = done.out.index("Old answer."), done.out.index("New answer.")
        assert first < done.out.index("nothing to retry") < done.out.index("answered again") < last
        assert "there is no session yet" in done.out[:first]
        assert done.out.count("> Go.") + done.out.count("▸ Go.") == 1
        asked = [[m["content"] for m in r.body["messages"][1:]] for r in server.requests]
        assert asked == [["Go."], ["Go."]]
    shown = await command("show", "last")
    assert shown.code == 0
    old, new = shown.out.index("Old answer."), shown.out.index("New answer.")
    assert old < shown.out.index("is set aside") < new


async def it_is_run_again(command: Command) -> None:
    """A turn that failed, then the same one once more, and once more for another answer."""
    failed = await command("run", "-q", "Go.")
    assert failed.code == 1
    retried = await command("run", "-q", "--continue", "--retry")
    assert (retried.code, retried.out, retried.err) == (0, "Old answer.\n", "")
    refused = await command("run", "-q", "--continue", "--retry")
    assert refused.code == 1
    assert "answered" in refused.err
    again = await command("run", "-q", "--continue", "--regenerate")
    assert (again.code, again.out, again.err) == (0, "New answer.\n", "")


async def test_a_run_is_the_last_turn_once_more(command: Command) -> None:
    steps = status(400, {"error": {"message": "no"}}), reply("Old answer."), reply("New answer.")
    async with scripted(command, *steps) as server:
        await it_is_run_again(command)
        asked = [[m["content"] for m in r.body["messages"][1:]] for r in server.requests]
        assert asked == [["Go."]] * 3


async def test_a_run_is_the_last_turn_once_more_in_the_daemon(command: Command) -> None:
    steps = status(400, {"error": {"message": "no"}}), reply("Old answer."), reply("New answer.")
    async with scripted(command, *steps), serving(command, "--root", str(command.workspace)):
        await it_is_run_again(command)


async def test_a_turn_once_more_takes_nothing_new(command: Command) -> None:
    for line, said in (
        (("--retry",), "goes with --continue"),
        (("--continue", "--retry", "--regenerate"), "give one"),
        (("--continue", "--retry", "Go."), "runs the last prompt again"),
        (("--continue", "--regenerate", "--attach", "x.txt"), "--attach goes with a prompt"),
        (("--continue", "--regenerate", "--budget", "tokens=5"), "no --budget"),
    ):
        done = await command("run", *line)
        assert done.code == 2
        assert said in done.err


async def test_a_prompt_that_failed_is_not_done_with_the_next_one(command: Command) -> None:
    steps = status(400, {"error": {"message": "no"}}), reply("Hello."), reply("I look.")
    async with scripted(command, *steps) as server, chatting(command) as terminal:
        await say(terminal, "Delete all files.")
        await terminal.expect("/retry runs it again")
        await prompt(terminal, "Say hello.", "Hello.")
        await prompt(terminal, "Look around.", "I look.")
        await leave(terminal)
        asked = [[m["content"] for m in r.body["messages"][1:]] for r in server.requests]
    request, note, greeting = asked[1][0].split("\n\n")
    assert (request, greeting) == ("Delete all files.", "Say hello.")
    assert "was not answered, because its turn failed: do nothing of it" in note
    assert asked[2] == [*asked[1], "Hello.", "Look around."]


async def test_a_run_that_failed_says_how_it_is_asked_for_once_more(command: Command) -> None:
    async with scripted(command, status(400, {"error": {"message": "no"}}), reply("Well.")):
        async with command.at_terminal("run", "Go.") as terminal:
            await terminal.expect("To ask for it once more:")
            assert await terminal.end() == 1
        done = await command("run", "--continue", "--retry")
        assert (done.code, done.out) == (0, "Well.\n")


async def test_a_piped_chat_ends_as_its_own_turns_did(command: Command) -> None:
    no = status(400, {"error": {"message": "no"}})
    async with scripted(command, no, reply("Well."), no):
        assert (await command("run", "Go.")).code == 1
        assert (await command("chat", "--continue", stdin=b"Again.\n")).code == 0
        assert (await command("chat", "--continue", stdin=b"Again.\n")).code == 1
