"""Agents that are deleted or vanish: their sessions go on with General Assistant, and say so."""

from __future__ import annotations

import os
import shutil
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

import callboard
from callboard.config.managed import load_managed
from callboard.embedding.agents import AgentBook
from callboard.providers.testing.script import reply
from callboard.runtime.definitions import Agent
from callboard.runtime.errors import ConflictError, NotFoundError, ValidationError
from callboard.runtime.events import AgentSwitched
from callboard.runtime.schedules.schedule import Schedule
from callboard.runtime.wire.fields import Role
from support.acp.editor import bare_editor, words
from support.cli.chat_scene import READY, chatting, leave
from support.cli.command import Command
from support.cli.command import command as command
from support.flows.scheduled import scheduling
from support.gateway.configured_daemon import served
from support.gateway.daemon_scene import open_client
from support.portal.doors import options_of

READER = Agent(name="reader", prompt="You read.", tools=("read_file",))


def scripted(folder: Path, *steps: Any) -> dict[str, Any]:
    return {**options_of(folder), "model": callboard.ScriptedModel(steps)}


async def switches(runtime: callboard.Runtime, session_id: str) -> list[AgentSwitched]:
    """What the session has said about other agents."""
    found = await runtime.store.events(session_id)
    return [each.event for each in found if isinstance(each.event, AgentSwitched)]


async def agent_of(runtime: callboard.Runtime, session_id: str) -> str:
    row = await runtime.store.session(session_id)
    assert row is not None
    return row.agent


async def test_a_deleted_agents_sessions_move_with_an_event_in_each(tmp_path: Path) -> None:
    async with callboard.open_runtime(**options_of(tmp_path)) as runtime:
        await runtime.agents.create(READER)
        mine = [await runtime.create_session(agent="reader") for _ in range(3)]
        other = await runtime.create_session()
        await mine[0].delete()  # one in the bin, which may be restored
        gone = await runtime.agents.delete("reader")
        assert gone.moved_sessions == 3
        for session in mine:
            assert await agent_of(runtime, session.session_id) == "general"
            [said] = await switches(runtime, session.session_id)
            assert (said.agent, said.reason) == ("general", "the agent 'reader' was deleted")
        assert await switches(runtime, other.session_id) == []
        with pytest.raises(NotFoundError):
            await runtime.create_session(agent="reader")


async def test_a_turn_that_runs_ends_under_the_agent_that_it_began_with(tmp_path: Path) -> None:
    began, go_on = trio.Event(), trio.Event()

    @callboard.tool(tier="read_only")
    async def wait_here() -> str:
        """Waits."""
        began.set()
        await go_on.wait()
        return "waited"

    model = callboard.ScriptedModel(
        [reply(calls=[("wait_here", {})]), reply("Done."), reply("Again.")]
    )
    options = {**options_of(tmp_path), "model": model, "tools": [wait_here]}
    async with callboard.open_runtime(**options) as runtime:
        await runtime.agents.create(Agent(name="waiter", prompt="You wait.", tools=("wait_here",)))
        session = await runtime.create_session(agent="waiter")
        answers: list[str] = []

        async def run() -> None:
            answers.append(await session.run("Wait."))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(run)
            await began.wait()
            await runtime.agents.delete("waiter")
            assert await agent_of(runtime, session.session_id) == "general"
            go_on.set()
        assert answers == ["Done."]
        await session.run("Once more.")
        systems = [request.system for request in model.requests]
        assert ["You wait." in system for system in systems] == [True, True, False]


async def test_one_that_vanished_from_the_operators_file_is_told_once(tmp_path: Path) -> None:
    options = scripted(tmp_path, reply("One."), reply("Two."), reply("Three."))
    options["config"].write_text('[agents.late]\nprompt = "Late."\n')
    async with callboard.open_runtime(**options) as runtime:
        session = await runtime.create_session(agent="late")
        await session.run("1?")
        options["config"].write_text("")
        await runtime.reload()
        assert await switches(runtime, session.session_id) == []  # it did nothing since
        assert await session.run("2?") == "Two."
        await session.run("3?")
        [said] = await switches(runtime, session.session_id)
        assert (said.agent, said.reason) == ("general", "there is no agent 'late' now")
        assert await agent_of(runtime, session.session_id) == "general"


@pytest.mark.parametrize(
    ("late", "is_known"),
    [
        ('policy = "strict"', True),
        ('tools = ["read_file"]', True),
        ("turn_budget = { tool_calls = 3 }", True),
        ('rules = [{ tool = "write_file", verdict = "deny" }]', True),
        ("", False),  # nobody in this process has seen what it was
    ],
)
async def test_whoever_asks_nobody_gets_no_more_than_the_agent_that_is_gone_had(
    tmp_path: Path, late: str, is_known: bool
) -> None:
    options = scripted(tmp_path, *[reply("Done.")] * 2)
    options["config"].write_text(f"[agents.late]\n{late}\n")
    async with callboard.open_runtime(**options) as runtime:
        session_id = (await runtime.create_session(agent="late")).session_id
        if is_known:
            options["config"].write_text("")
            await runtime.reload()
            await refuses_and_goes_on(await runtime.get_session(session_id))
    if not is_known:
        options["config"].write_text("")
        async with callboard.open_runtime(**options) as runtime:
            await refuses_and_goes_on(await runtime.get_session(session_id))


async def refuses_and_goes_on(session: callboard.Session) -> None:
    with pytest.raises(ConflictError, match=r"had the agent 'late', which is gone, and general"):
        await session.run("1?")
    with pytest.raises(ConflictError, match=rf"`callboard session agent {session.session_id} "):
        await session.submit("2?")
    assert await session.messages() == []
    await session.set_agent("general")
    assert await session.run("3?") == "Done."


async def test_a_schedule_says_that_its_sessions_agent_is_gone(tmp_path: Path) -> None:
    hourly = Schedule(name="hourly", prompt="Look.", every="1h", session="same", agent="late")
    late = callboard.Settings(
        agents={"late": Agent(name="late", policy=callboard.Preset.STRICT)},
        schedules={"hourly": hourly},
    )
    async with scheduling(tmp_path, "2026-11-02T08:59", hourly, settings=late) as scene:
        scene.wall.set("2026-11-02T09:00")
        await scene.look()
        await scene.settled()
        assert len(await scene.fired("hourly")) == 1
        await scene.runtime.reload(callboard.Settings(schedules={"hourly": hourly}))
        scene.wall.set("2026-11-02T10:00")
        await scene.look()
        await trio.testing.wait_all_tasks_blocked()
        [row] = await scene.runtime.schedules.list()
        assert "had the agent 'late', which is gone" in row.problem
        assert len(await scene.fired("hourly")) == 1
        [session] = await scene.runtime.sessions()
        assert session.agent == "late"


async def test_a_store_that_is_opened_with_other_agents_keeps_its_own(tmp_path: Path) -> None:
    options = options_of(tmp_path)
    async with callboard.open_runtime(**{**options, "agents": [READER]}) as runtime:
        session = await runtime.create_session(agent="reader")
    async with callboard.open_runtime(**options) as runtime:
        assert await agent_of(runtime, session.session_id) == "reader"
        assert await switches(runtime, session.session_id) == []


async def test_a_deletion_that_was_cut_off_is_finished_at_the_next_start(tmp_path: Path) -> None:
    """The file is on disk, and the process was killed before a session moved."""
    options = options_of(tmp_path)
    folder = options["config"].parent
    async with callboard.open_runtime(**options) as runtime:
        await runtime.agents.create(READER)
        session = await runtime.create_session(agent="reader")
    AgentBook(options["config"], runtime.tools()).delete("reader")
    assert load_managed(folder).deleted_agents == ("reader",)
    async with callboard.open_runtime(**options) as runtime:
        [said] = await switches(runtime, session.session_id)
        assert said.reason == "the agent 'reader' was deleted"
        assert load_managed(folder).deleted_agents == ()
        # One of the same name is another agent, and gets none of these sessions.
        await runtime.agents.create(READER)
        assert await agent_of(runtime, session.session_id) == "general"


async def test_a_token_for_the_old_agent_is_none_for_general_assistant(tmp_path: Path) -> None:
    async with served(tmp_path, '[agents.late]\nprompt = "Late."\n') as (daemon, _):
        token = daemon.new_token("guest", Role.OPERATOR, agents=("late",))
        async with open_client(daemon) as admin, open_client(daemon, token) as guest:
            session = await guest.create_session(agent="late")
            await guest.prompt(session.session_id, "What is 2 + 2?")  # the control
            (tmp_path / "config" / "callboard.toml").write_text("")
            await admin.upkeep.reload()
            with pytest.raises(NotFoundError):
                await guest.prompt(session.session_id, "What is 2 + 2?")
            await admin.prompt(session.session_id, "What is 2 + 2?")


# ── two of one name ──────────────────────────────────────────────────────────────────────────────


async def test_a_clash_is_refused_with_both_places(tmp_path: Path) -> None:
    options = options_of(tmp_path)
    own = '[limits]\nmax_repeats = 7\n[agents.reader]\nprompt = "Mine."\n'
    async with callboard.open_runtime(**options) as runtime:
        await runtime.agents.create(READER)
        options["config"].write_text(own)
        with pytest.raises(
            ValidationError, match=r"callboard\.toml, line 3: .*managed\.toml, line"
        ):
            await runtime.reload()
        assert (await runtime.agents.get("reader")).prompt == "You read."  # the last good one
        assert (await runtime.agents.delete("reader")).moved_sessions == 0
        assert (await runtime.agents.get("reader")).prompt == "Mine."
        for change in (
            partial(runtime.agents.create, READER),
            partial(runtime.agents.update, READER),
            partial(runtime.agents.delete, "reader"),
        ):
            with pytest.raises(ConflictError, match=r"stands in .*callboard\.toml, line 3"):
                await change()


async def test_whoever_was_slower_is_told(tmp_path: Path) -> None:
    async with callboard.open_runtime(**options_of(tmp_path)) as runtime:
        made = await runtime.agents.create(READER)
        changed = Agent(name="reader", prompt="Mine.", updated_at_ms=made.updated_at_ms)
        late = Agent(name="reader", prompt="Yours.", updated_at_ms=(made.updated_at_ms or 0) - 1)
        with pytest.raises(ConflictError, match="changed meanwhile"):
            await runtime.agents.update(late)
        await runtime.agents.update(changed)
        assert (await runtime.agents.get("reader")).prompt == "Mine."


async def test_a_program_without_files_says_what_it_needs(tmp_path: Path) -> None:
    async with callboard.open_runtime(model="rehearsal", workspace=tmp_path) as runtime:
        assert [row.name for row in await runtime.agents.list()] == ["general"]
        with pytest.raises(ConflictError, match="config=PATH"):
            await runtime.agents.create(READER)
        with pytest.raises(ConflictError, match="config=PATH"):
            await runtime.reload()
        change = await runtime.reload(callboard.Settings(agents={"reader": READER}))
        assert change.changed == ("agents",)
        assert (await runtime.agents.get("reader")).prompt == "You read."


async def test_no_workspace_holds_the_files(tmp_path: Path) -> None:
    """A model that may write there could make itself an agent that is asked nothing."""
    options = {**options_of(tmp_path), "workspace": tmp_path}
    async with callboard.open_runtime(**options) as runtime:
        with pytest.raises(ValidationError):
            await runtime.create_session()
        await runtime.create_session(workspace=tmp_path / "work")  # the control


# ── the command line ─────────────────────────────────────────────────────────────────────────────


async def test_edit_opens_the_editor_and_refuses_what_does_not_parse(command: Command) -> None:
    assert (await command("agents", "create", "reader", "--prompt", "You read.")).code == 0
    assert (await command("agents", "edit", "reader")).code != 0  # no editor is named
    command.has_editor("path.write_text(text.replace('You read.', 'You read aloud.'))")
    assert (await command("agents", "edit", "reader")).out == "Changed reader.\n"
    shown = await command("agents", "show", "reader")
    assert "You read aloud." in shown.out
    assert "read_file" in shown.out
    command.has_editor("path.write_text('description = \"x\"\\ntemperature = 9\\n')")
    refused = await command("agents", "edit", "reader")
    assert refused.code == 1
    assert "reader.toml, line 2: temperature" in refused.err
    kept = refused.err.partition("--file ")[2].partition("`")[0]
    command.has_editor("raise SystemExit('no editor is needed')")
    again = await command("agents", "edit", "reader", "--file", kept)
    assert "line 2: temperature" in again.err
    shutil.rmtree(os.path.dirname(kept))
    assert "You read aloud." in (await command("agents", "show", "reader")).out


async def test_delete_moves_sessions_without_a_daemon(command: Command) -> None:
    await command("agents", "create", "reader", "--prompt", "You read.")
    asked = await command("run", "--model", "rehearsal", "--agent", "reader", "What is 2 + 2?")
    assert asked.code == 0
    deleted = await command("agents", "delete", "reader", "--yes")
    assert deleted.out.startswith("Deleted reader. A session goes on with general.\n")
    [row] = (await command("sessions", "--json")).lines
    assert row["agent"] == "general"
    again = await command("agents", "delete", "reader")
    assert (again.code, "no agent 'reader'" in again.err) == (1, True)


async def begins_with(command: Command, agent: str) -> None:
    """Begins a session of an agent."""
    words = ("run", "--model", "rehearsal", "--agent", agent, "List the files here.")
    assert (await command(*words)).code == 0


async def test_delete_asks_at_a_terminal_and_says_what_sessions_may_do_then(
    command: Command,
) -> None:
    strict = ("--policy", "strict", "--tools", "read_file,list_directory")
    await command("agents", "create", "reader", *strict)
    await begins_with(command, "reader")
    for word in ("n", "y"):
        async with command.at_terminal("agents", "delete", "reader") as terminal:
            await terminal.expect("reader has a session, which goes on with general. ")
            await terminal.expect("Delete reader? [y/N] ")
            assert "write_file" in terminal.seen
            assert "its policy is balanced, not strict." in terminal.seen
            await terminal.type(f"{word}\n")
            assert await terminal.end() == 0
        assert ("Deleted reader." in terminal.seen) == (word == "y")
        assert (await command("agents", "show", "reader")).code == (word == "y")


async def test_delete_without_a_terminal_needs_a_yes_where_sessions_may_do_more(
    command: Command,
) -> None:
    tools = ("--tools", "read_file,list_directory")
    await command("agents", "create", "reader", *tools)
    await begins_with(command, "reader")
    refused = await command("agents", "delete", "reader", stdin=b"y\n")
    assert (refused.code, "Nothing was deleted: say --yes" in refused.err) == (2, True), refused
    assert (await command("agents", "show", "reader")).code == 0
    assert (await command("agents", "delete", "reader", "--yes")).code == 0

    await command("agents", "create", "unused", *tools)  # the controls: nobody gets more
    assert (await command("agents", "delete", "unused")).code == 0
    await command("agents", "create", "other", "--prompt", "You answer.")
    await begins_with(command, "other")
    assert "A session goes on" in (await command("agents", "delete", "other")).out


async def test_what_delete_prints_makes_the_agent_again_and_holds_no_key(command: Command) -> None:
    prompt = "Say \"$HOME\" and `ls`\tor\nEND\n'two' \\ \x1b[31mlines."
    await command("agents", "create", "reader", "--prompt", prompt, "--tools", "read_file")
    before = (await command("agents", "show", "reader")).out
    deleted = (await command("agents", "delete", "reader")).out
    assert "\x1b" not in deleted
    assert "\t" not in deleted  # a shell completes at it
    lines = deleted.partition("To make it again:\n\n")[2]
    shell = f'callboard() {{ {sys.executable} -m callboard "$@"; }}\n{lines}'
    await trio.run_process(["sh", "-c", shell], env=command.environ, cwd=command.workspace)

    def fields(shown: str) -> list[str]:
        return [line for line in shown.splitlines() if not line.startswith("# ")]

    assert fields((await command("agents", "show", "reader")).out) == fields(before)

    key = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789"
    command.extra["OPENAI_API_KEY"] = key
    await command("agents", "create", "keyed", "--prompt", f"Send {key} along.")
    masked = (await command("agents", "delete", "keyed")).out
    assert key not in masked
    assert "along." in masked


async def test_a_run_that_goes_on_says_once_which_agent_answers_now(command: Command) -> None:
    said = "goes on with the agent general: the agent 'reader' was deleted"
    go_on = ("run", "--model", "rehearsal", "-c", "List the files here.")
    await command("agents", "create", "reader", "--tools", "list_directory")
    await begins_with(command, "reader")
    assert said not in (await command(*go_on)).err
    await command("agents", "delete", "reader", "--yes")
    assert (await command(*go_on, "--quiet")).err.count(said) == 1
    assert said not in (await command(*go_on)).err


async def test_a_chat_says_which_agent_answers_now(command: Command) -> None:
    said = "goes on with the agent general: the agent 'reader' was deleted"
    await command("agents", "create", "reader", "--tools", "list_directory")
    await begins_with(command, "reader")
    async with command.at_terminal("chat", "-c", "--model", "rehearsal") as terminal:
        await terminal.expect(
            "answered"
        )  # what was before is shown, ahead of the input line or behind it
        assert said not in terminal.seen
        assert (await command("agents", "delete", "reader", "--yes")).code == 0
        await terminal.expect(said)
        await leave(terminal)
    async with command.at_terminal("chat", "-c", "--model", "rehearsal") as terminal:
        await terminal.expect(said)  # ahead of the input line or behind it
        await leave(terminal)


async def test_a_session_whose_agent_has_gone_from_the_file_goes_on_when_a_person_agrees(
    command: Command,
) -> None:
    """Nobody knows any more what that agent was allowed, and `general` may do more."""
    file = command.home / "config" / "callboard.toml"
    before = file.read_text()
    command.configure('\n[agents.late]\nprompt = "Late."\npolicy = "strict"\n')
    await begins_with(command, "late")
    file.write_text(before)
    write = ("run", "--model", "rehearsal", "-c", "Write the time to x.txt")
    refused = await command(*write)
    assert (refused.code, "`--agent general` goes on with it" in refused.err) == (1, True)
    piped = await command("chat", "--model", "rehearsal", "-c", stdin=b"Write the time to x.txt")
    assert (piped.code, "Nothing was sent" in piped.out) == (1, True)
    async with command.at_terminal(*write) as terminal:
        await terminal.expect("had the agent 'late', which is gone.\nGo on with general")
        await terminal.type("\n")
        assert await terminal.end() == 1
    assert not (command.workspace / "x.txt").exists()
    async with chatting(command, "-c", "--model", "rehearsal") as chat:
        await chat.type("What time is it?\r")
        await chat.expect("Go on with general, its tools and its policy? [y/N]")
        await chat.type("n\n")
        await chat.expect("Nothing was sent")
        await chat.expect(READY)
        await chat.type("\r")  # the prompt stands in the input line again
        await chat.expect("Go on with general")
        await chat.type("y\n")
        await chat.expect("there is no agent 'late' now")
        await leave(chat)
    done = await command(*write)
    assert done.code == 0  # it was agreed, which is on record
    assert (command.workspace / "x.txt").exists()
    assert (await command("run", "--agent", "late", "Go.")).code != 0  # a new one is refused


async def test_a_run_names_the_agent_that_goes_on_for_one_that_is_gone(command: Command) -> None:
    file = command.home / "config" / "callboard.toml"
    before = file.read_text()
    command.configure('\n[agents.late]\nprompt = "Late."\n')
    await begins_with(command, "late")
    other = await command("run", "-c", "-a", "general", "--model", "rehearsal", "Go.")
    assert "has the agent 'late'" in other.err
    file.write_text(before)
    done = await command("run", "-c", "-a", "general", "--model", "rehearsal", "Go.")
    assert (done.code, "there is no agent 'late' now" in done.err) == (0, True)


async def test_an_editor_refuses_a_session_whose_agent_is_gone_until_another_is_chosen(
    command: Command,
) -> None:
    file = command.home / "config" / "callboard.toml"
    before = file.read_text()
    command.configure('\n[agents.late]\nprompt = "Late."\ntools = ["list_directory"]\n')
    await begins_with(command, "late")
    file.write_text(before)
    [row] = (await command("sessions", "--json")).lines
    place = {"sessionId": row["session_id"], "cwd": str(command.workspace), "mcpServers": []}
    async with bare_editor(command) as editor:
        await editor.ask("initialize", protocolVersion=1, clientCapabilities={})
        await editor.ask("session/load", **place)
        prompt = {"sessionId": row["session_id"], "prompt": words("Write the time to x.txt")}
        refused = await editor.refused("session/prompt", **prompt)
        assert "had the agent 'late', which is gone" in str(refused)
        choice = {"configId": "_agent", "value": "general", "sessionId": row["session_id"]}
        await editor.ask("session/set_config_option", **choice)
        await editor.ask("session/prompt", **prompt)
    assert (command.workspace / "x.txt").exists()
