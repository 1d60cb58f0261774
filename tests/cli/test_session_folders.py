"""A session belongs to its folder: what goes on, what `last` means and what is listed, in two folders."""

from __future__ import annotations

import re

import pytest

from callboard.providers.testing.script import Step, reply, stall, status
from callboard.providers.testing.scripted_server import open_scripted_server
from support.cli.command import Command, at
from support.cli.command import command as command
from support.waits import until


@pytest.fixture
def other(command: Command) -> Command:
    """The same user, in another folder."""
    other = Command.__new__(Command)
    other.extra, other.home = command.extra, command.home
    other.workspace = command.workspace.with_name("elsewhere")
    other.workspace.mkdir()
    return other


async def ids(command: Command, *tokens: str) -> list[str]:
    return [line["session_id"] for line in (await command("sessions", "--json", *tokens)).lines]


async def test_what_goes_on_is_the_session_of_the_folder(command: Command, other: Command) -> None:
    write = ("write_file", {"path": "a.txt", "content": "A"})
    steps = [reply("One."), reply("Two."), reply(calls=[write]), reply("Written.")]
    async with open_scripted_server(steps) as server:
        assert (await command("run", "First", *at(server))).code == 0
        [first] = await ids(command)
        refused = await other("run", "--continue", "On", *at(server))
        assert refused.code == 1
        assert f"No session works in {other.workspace}." in refused.err
        assert first in refused.err
        assert str(command.workspace) in refused.err
        assert len(server.requests) == 1
        assert (await other("run", "Second", *at(server))).code == 0
        # The latest of all is the other folder's.
        went_on = await command("run", "--continue", "On", *at(server))
        assert "Written." in went_on.out
        [line] = [each for each in went_on.err.splitlines() if each.startswith("folder: ")]
        assert line.endswith(command.workspace.name)
    assert (command.workspace / "a.txt").read_text() == "A"
    assert not (other.workspace / "a.txt").exists()
    [second] = await ids(other)
    assert second != first
    # By its id it goes on from anywhere.
    async with open_scripted_server([reply("Here.")]) as server:
        named = await other("run", "--continue", "--session", first, "Go on", *at(server))
        assert named.code == 0
        assert "Here." in named.out


async def test_lists_and_last_are_of_the_folder(command: Command, other: Command) -> None:
    async with open_scripted_server([reply("One."), reply("Two.")]) as server:
        await command("run", "First", *at(server))
        await other("run", "Second", *at(server))
    [first], [second] = await ids(command), await ids(other)
    assert await ids(command, "--all") == [second, first]
    assert "/work  First" in (await command("sessions")).out
    assert f"- session: {first}" in (await command("show", "last")).out
    assert f"- session: {second}" in (await other("show", "last")).out
    third = command.workspace.with_name("third")
    third.mkdir()
    command.workspace = third
    nothing = await command("sessions")
    assert (nothing.code, nothing.out) == (0, "")
    assert "--all lists those of other folders" in nothing.err
    assert "name it, or change to that folder" in (await command("show", "last")).err
    assert (await command("session", "delete", "last")).code == 1
    assert len(await ids(command, "--all")) == 2


async def test_a_run_that_failed_at_once_is_passed_over_aloud(command: Command) -> None:
    refusal = status(401, {"error": {"message": "bad key"}})
    steps: list[Step] = [refusal, reply("One."), refusal, *map(reply, ("Two.", "Three.", "Four."))]
    async with open_scripted_server(steps) as server:
        assert (await command("run", "Never heard", *at(server))).code == 1
        unanswered = await command("run", "--continue", "On", *at(server))
        assert unanswered.code == 1
        assert "No model has answered in a session of" in unanswered.err
        [failed] = await ids(command)
        assert f"callboard run --session {failed} …" in unanswered.err
        assert (await command("run", "First", *at(server))).code == 0
        first = (await ids(command))[0]
        assert (await command("run", "Fails", *at(server))).code == 1
        failed = (await ids(command))[0]
        for how in ("--quiet", "--json"):
            went_on = await command("run", "--continue", "On", how, *at(server))
            assert went_on.code == 0
            # By the second one, the other is the last that was used: there is nothing to say.
            assert ("going on with 'First'" in went_on.err) == (how == "--quiet")
            if how == "--quiet":
                assert f"({first}): 'Fails' of 2" in went_on.err
                assert "failed before a model answered" in went_on.err
                assert f"`callboard run --session {failed} …`" in went_on.err
        assert (await ids(command))[0] == first
        assert len(await ids(command)) == 3
        named = await command("run", "--session", failed, "Fails no more", *at(server))
        assert "Four." in named.out
        assert "going on with" not in named.err
    prompts = [m["content"] for m in server.requests[-1].body["messages"] if m["role"] == "user"]
    assert "Fails" in prompts[0]


async def test_a_run_that_was_called_off_before_a_word_is_gone_on_with(command: Command) -> None:
    async with open_scripted_server([reply("One."), stall(), reply("Two.")]) as server:
        assert (await command("run", "Old talk", *at(server))).code == 0
        async with command.at_terminal("run", "Use this branch", *at(server)) as terminal:
            await until(lambda: len(server.requests) == 2)
            await terminal.type("\x03")
            assert await terminal.end() == 130
        went_on = await command("run", "-q", "--continue", "Use the other branch", *at(server))
        assert (went_on.code, went_on.err) == (0, "")
    said = str(server.requests[-1].body["messages"])
    assert ("Use this branch" in said, "Old talk" in said) == (True, False)


async def test_a_chat_goes_on_with_the_last_session_and_shows_it(command: Command) -> None:
    """None is passed over: what was asked stands there, with what came of it."""
    refusal = status(400, {"error": {"message": "no"}})
    async with open_scripted_server([reply("One."), refusal]) as server:
        assert (await command("run", "Old talk", *at(server))).code == 0
        assert (await command("run", "Fails", *at(server))).code == 1
    failed = (await ids(command))[0]
    shown = (await command("chat", "-c", stdin=b"")).out
    assert re.search(rf"session {failed} .* Fails\n", shown)


async def test_a_chat_finds_and_lists_the_sessions_of_its_folder(
    command: Command, other: Command
) -> None:
    async with open_scripted_server([reply("One."), reply("Two.")]) as server:
        await command("run", "First", *at(server))
        await other("run", "Second", *at(server))
    [first] = await ids(command)
    lines = "/status\n/sessions\n/sessions --all\n/quit\n"
    said = await command("chat", "--session", "last", stdin=lines.encode())
    assert said.code == 0
    shown = said.out
    assert f"session {first}" in shown
    assert re.search(r"folder: .*/work\n", shown)
    assert shown.count("Second") == 1  # in the list of all folders
    third = command.workspace.with_name("third")
    third.mkdir()
    command.workspace = third
    refused = await command("chat", "--session", "last", stdin=b"Hello\n")
    assert refused.code == 1
    assert f"No session works in {third}" in refused.err
