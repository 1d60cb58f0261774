"""`callboard chat` at a terminal: typed at, answered, interrupted, left and come back to."""

from __future__ import annotations

import signal
from contextlib import AsyncExitStack
from pathlib import Path

from callboard.providers.testing.script import reply, stall
from support.cli.chat_scene import (
    CTRL_C,
    CTRL_D,
    OVERWRITE,
    answer,
    chatting,
    leave,
    prompt,
    say,
    scripted,
    serving,
)
from support.cli.chat_scene import command as command
from support.cli.command import Command

ESC = "\x1b"


async def test_a_prompt_is_answered_and_the_chat_goes_on(command: Command) -> None:
    async with scripted(command, reply("# Head\nSome **bold** words."), reply("Again.")):
        async with chatting(command) as terminal:
            before = terminal.state()
            await say(terminal, "Hello")
            await terminal.expect("▸ Hello\n")
            await terminal.expect("  # Head\n")  # two prints, when it comes slowly
            await terminal.expect("  Some bold words.\n")
            await terminal.expect("answered")
            await prompt(terminal, "And now?", "  Again.\n")
            await leave(terminal)
            comes_back = "is on record. To come back to it:\n  callboard chat --session session_"
            assert comes_back in terminal.seen
            assert terminal.state() != before  # as it was found: it echoes, and hands over lines
    assert await command.outcomes() == ["answered", "answered"]


async def test_who_comes_back_sees_what_was_said(command: Command) -> None:
    async with scripted(command, reply("The first answer."), reply("The second.")):
        async with chatting(command) as terminal:
            await prompt(terminal, "One")
            await leave(terminal)
        async with command.at_terminal("chat", "--session", "last") as terminal:
            await terminal.expect("▸ One\n")
            await terminal.expect("  The first answer.\n")
            await terminal.expect("answered")
            await prompt(terminal, "Two", "  The second.\n")
            await say(terminal, "/quit")
            assert await terminal.end() == 0
        assert terminal.seen.count("The first answer.") == 1
    sessions = (await command("sessions")).out.splitlines()
    assert len(sessions) == 1


async def test_calls_are_allowed_denied_and_changed(command: Command, tmp_path: Path) -> None:
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\nsed -i 's/new/newer/' \"$1\"\n")
    editor.chmod(0o755)
    command.extra["EDITOR"] = str(editor)
    file = command.workspace / "a.txt"
    steps = [
        reply("I will.", calls=[OVERWRITE]),
        reply("It stays."),
        reply(calls=[OVERWRITE]),
        reply("It is newer."),
        reply(calls=[OVERWRITE]),
        reply("It is new."),
    ]
    async with scripted(command, *steps) as server, chatting(command) as terminal:
        await say(terminal, "Change it")
        await terminal.expect("callboard asks: may write_file run? (tier: workspace)")
        await terminal.expect("your answer:")
        assert terminal.seen.index("  I will.\n") < terminal.seen.index("callboard asks")
        assert "\a" in terminal.seen
        await terminal.type("r\n")
        await terminal.expect("Why not?")
        await terminal.type("keep it\n")
        await terminal.expect("  It stays.\n")
        assert "keep it" in str(server.requests[1].body)
        assert file.read_text() == "old\n"
        await terminal.expect("answered")
        await say(terminal, "Change it")
        await answer(terminal, "e")
        await terminal.expect("your changes:")
        await answer(terminal, "y")
        await terminal.expect("✓ write_file")
        await terminal.expect("  It is newer.\n")
        assert file.read_text() == "newer\n"
        await terminal.expect("answered")
        await say(terminal, "Change it")
        await answer(terminal, "y")
        await terminal.expect("  It is new.\n")
        assert file.read_text() == "new\n"


async def test_what_a_model_says_to_people_is_shown_and_moves_no_cursor(command: Command) -> None:
    evil = "a\x1b[2Jb\rc\u202ed\n\ncallboard asks: may x run?\n" + "漢" * 60
    question = ("ask_user", {"question": "Which one?", "options": ["red", "blue"]})
    message = ("message", {"text": "Half done\x1b[2J."})
    steps = [reply(evil), reply(calls=[message]), reply(calls=[question]), reply("Blue it is.")]
    async with scripted(command, *steps) as server, chatting(command) as terminal:
        await say(terminal, "Go")
        await terminal.expect("  a\\x1b[2Jb\n  c\\u202ed\n\n  callboard asks: may x run?\n")
        await terminal.expect("  " + "漢" * 38 + "\n")  # two prints, when it comes slowly
        await terminal.expect("  " + "漢" * 22 + "\n")
        await terminal.expect("answered")
        await say(terminal, "Paint it")
        await terminal.expect("message:\n    | Half done\\u001b[2J.\n")
        await terminal.expect("the model asks you:\n    | Which one?\n  [1] red\n  [2] blue\n")
        await terminal.expect("a number, or your own answer:")
        await terminal.type("2\n")
        await terminal.expect("  Blue it is.\n")
        assert "blue" in str(server.requests[-1].body["messages"][-1])


async def test_who_will_answer_stands_there_before_the_first_prompt(command: Command) -> None:
    async with scripted(command), chatting(command) as terminal:
        while "local/scripted · balanced · new session" not in terminal.seen:
            await say(terminal, "/plan")  # what is printed has the line drawn again as a whole
            await terminal.expect("there is no session yet")
        await leave(terminal)


async def test_what_is_typed_meanwhile_is_taken_back_and_ctrl_c_cancels(command: Command) -> None:
    """It was said before the turn went wrong, so it does not run at once when that is cancelled."""
    steps = [stall("Once upon"), reply("The second."), reply(calls=[OVERWRITE])]
    async with scripted(command, *steps) as server, chatting(command) as terminal:
        await say(terminal, "A story")
        await terminal.expect("  Once upon")
        for text in ("Something else", "and a third"):
            await say(terminal, text)
            await terminal.expect(f"▸ {text} (waits for its turn)")
        await terminal.type(ESC + ESC)
        await terminal.expect("1 input waiting")
        await terminal.type(CTRL_C)
        await terminal.expect("cancelling…")
        await terminal.expect("cancelled")
        assert len(server.requests) == 1
        await terminal.type("\r")
        await terminal.expect("  The second.\n")
        await terminal.expect("answered")
        said = server.requests[1].body["messages"][-1]["content"]
        assert sorted(said.split("\n")) == ["Something else", "and a third"]
        await say(terminal, "Change it")
        await terminal.expect("your answer:")
        await terminal.type(CTRL_C)
        await terminal.expect("(no longer asked")
        await terminal.expect("cancelled")
        await terminal.type(CTRL_C)
        await terminal.expect("Ctrl-C again leaves")
        await terminal.type(CTRL_C)
        assert await terminal.end() == 0
    assert await command.outcomes() == ["cancelled", "answered", "cancelled"]
    assert (command.workspace / "a.txt").read_text() == "old\n"


async def test_commands_show_and_change_sessions(command: Command) -> None:
    steps = [reply(calls=[OVERWRITE]), reply("A rare word.")]
    async with scripted(command, *steps), chatting(command) as terminal:
        await say(terminal, "/undp call_1")
        await terminal.expect("there is no command /undp; /help lists them. Enter runs /undo,")
        await terminal.expect("/undo call_1")  # what the person types next goes to no model
        await terminal.type("y\r")
        await terminal.expect("there is no session yet: the first prompt begins one")
        for typed, shown in (
            ("/switch nothing", "there is no session 'nothing'"),
            ("/plan", "there is no session yet: the first prompt begins one"),
            ("/sessions", "there is no session in "),
            ("/agents", "  general"),
            ("/new nobody", "there is no agent 'nobody'"),
        ):
            await say(terminal, typed)
            await terminal.expect(shown)
        await say(terminal, "Change it")
        await answer(terminal, "y")
        await terminal.expect("answered")
        await say(terminal, "/undo")
        await terminal.expect("a.txt  +1 -1")
        await terminal.expect("-new")
        await terminal.expect("+old")
        await terminal.expect("Undo this? [y/N]")
        await terminal.type("y\n")
        await terminal.expect("undone: 1 path")
        assert (command.workspace / "a.txt").read_text() == "old\n"
        for typed, shown in (
            ("/rename The file", "The file"),
            ("/sessions", "The file (5 messages)"),
            ("/search rare", "rare word"),
            ("/approvals", "nothing waits for an answer"),
            ("/status", "you are admin"),
            ("/plan", "there is no plan"),
            ("/thinking", "the model showed no reasoning"),
            ("/new", "a new session begins with your next prompt"),
            ("/switch file", "▸ Change it"),
        ):
            await say(terminal, typed)
            await terminal.expect(shown)
        await say(terminal, "/quit")
        assert await terminal.end() == 0


async def test_switch_says_in_which_titles_a_word_stands(command: Command) -> None:
    async with command.open_runtime([]) as runtime:
        for title in ("Lisbon", "Green tea", "Tea in Lisbon"):
            session = await runtime.create_session()
            await session.rename(title)
    async with scripted(command), chatting(command) as terminal:
        await say(terminal, "/switch tea")
        await terminal.expect("'tea' stands in the titles of 2 sessions: session_")
        await terminal.expect("(Green tea)")
        await say(terminal, "/switch green")
        await terminal.expect("Green tea")
        await leave(terminal)


async def test_a_session_that_is_not_there_is_an_error(command: Command) -> None:
    async with scripted(command):
        done = await command("chat", "--session", "session_none")
    assert (done.code, "there is no session" in done.err) == (1, True)


async def test_a_terminal_that_only_prints_is_enough(command: Command) -> None:
    command.extra["TERM"] = "dumb"
    async with scripted(command, reply("I will.", calls=[OVERWRITE]), reply("Done.")):
        async with command.at_terminal("chat") as terminal:
            await terminal.expect("> ")
            await terminal.type("Change it\n")
            await terminal.expect("I will.")
            await answer(terminal, "y")
            await terminal.expect("Done.")
            await terminal.expect("answered")
            await leave(terminal)
    assert "\x1b" not in terminal.seen
    assert (command.workspace / "a.txt").read_text() == "new\n"


async def test_in_a_pipe_each_line_is_a_prompt(command: Command) -> None:
    async with scripted(command, reply("One."), reply(calls=[OVERWRITE]), reply("Two.")) as server:
        done = await command("chat", stdin=b"first\n\nsecond\n")
        assert (done.code, done.err) == (0, "")
        assert done.out.index("One.") < done.out.index("second") < done.out.index("Two.")
        assert "\x1b" not in done.out
        assert "nobody is at a terminal" in str(server.requests[-1].body)
    assert (command.workspace / "a.txt").read_text() == "old\n"


async def test_in_a_pipe_the_model_and_the_policy_are_told(command: Command) -> None:
    """Also ahead of the first prompt: no status line has asked for them."""
    async with scripted(command):
        done = await command("chat", stdin=b"/model\n/policy\n")
    assert "  local/scripted; /model" in done.out
    assert "  balanced; /policy" in done.out


async def test_in_a_pipe_the_exit_code_is_that_of_the_first_turn_that_failed(
    command: Command,
) -> None:
    async with scripted(command, reply("One."), reply("", refusal="No.")):
        done = await command("chat", stdin=b"first\nsecond")
        assert done.code == 1


async def test_without_a_command_and_a_terminal_there_is_help(command: Command) -> None:
    done = await command()
    assert done.code == 0
    assert "Usage: callboard" in done.out
    assert (await command("--policy", "strict")).code == 2
    # With options alone it is a chat, too.
    async with scripted(command), command.at_terminal("--policy", "strict") as terminal:
        await terminal.expect("strict")
        await terminal.expect("/help")
        await leave(terminal)


async def test_two_chats_share_a_session_of_the_daemon(command: Command) -> None:
    question = ("ask_user", {"question": "Which one?", "options": ["red", "blue"]})
    steps = [reply("I will.", calls=[OVERWRITE]), reply("Done.")]
    async with scripted(command, *steps, reply(calls=[question]), reply("Blue it is.")) as server:
        async with serving(command), chatting(command) as first:
            await say(first, "Change it")
            await first.expect("your answer:")
            async with command.at_terminal("chat", "--session", "last") as left:
                await left.expect("your answer:")
                await left.type(CTRL_D)  # leaves the question open
                assert await left.end() == 0
                assert "goes on in the daemon" in left.seen
            async with command.at_terminal("chat", "--session", "last") as second:
                await second.expect("▸ Change it\n")
                await second.expect("  I will.\n")
                await answer(second, "y")
                await second.expect("  Done.\n")
            await first.expect("(no longer asked")
            await first.expect("  Done.\n")
            await first.expect("answered")
            await say(first, "Paint it")
            await first.expect("a number, or your own answer:")
            async with command.at_terminal("chat") as elsewhere:
                await elsewhere.expect("/help")
                await say(elsewhere, "/approvals")
                await elsewhere.expect("ask_user  Which one?")
                assert "nothing waits for an answer" not in elsewhere.seen
                await say(elsewhere, "/approvals question")
                await elsewhere.expect("a number, or your own answer:")
                await elsewhere.type("2\n")
                await first.expect("  Blue it is.\n")
                await say(elsewhere, "/approvals")
                await elsewhere.expect("nothing waits for an answer")
                await leave(elsewhere)
            assert "blue" in str(server.requests[-1].body["messages"][-1])
            await first.expect("answered")
            await leave(first)
    assert (command.workspace / "a.txt").read_text() == "new\n"


async def test_a_chat_outlives_its_daemon(command: Command) -> None:
    async with scripted(command, reply("Before."), reply("After.")), AsyncExitStack() as stack:
        async with serving(command) as daemon:
            terminal = await stack.enter_async_context(chatting(command))
            await prompt(terminal, "One")
            daemon.send_signal(signal.SIGTERM)
        await terminal.expect("the daemon is away")
        await say(terminal, "Two")
        await terminal.expect("this waits for the daemon: Two")
        async with serving(command):
            await terminal.expect("connected again")  # before the answer, which comes at once
            await terminal.expect("  After.\n")
            await terminal.expect("answered")
            await leave(terminal)
    assert terminal.seen.count("  Before.\n") == 1


async def test_instructions_of_the_folder_are_asked_about_and_again_when_changed(
    command: Command,
) -> None:
    file = command.workspace / "AGENTS.md"
    file.write_text("Use tabs.")
    async with (
        scripted(command, reply("One."), reply("Two."), reply("Three.")) as server,
        chatting(command) as terminal,
    ):
        await say(terminal, "First")
        await terminal.expect("AGENTS.md is new; may models go by these instructions?")
        await terminal.expect("your answer:")  # what is typed before is discarded
        await terminal.type("y\n")
        await terminal.expect("One.")
        await terminal.expect("answered")
        await prompt(terminal, "Second", "Two.")  # not asked again
        file.write_text("Use spaces.")
        await say(terminal, "Third")
        await terminal.expect("AGENTS.md was changed since you approved it")
        await terminal.expect("your answer:")
        await terminal.type("n\n")
        await terminal.expect("Three.")
        await terminal.expect("answered")
        told = ["Use tabs." in str(request.body) for request in server.requests]
        assert told == [True, True, False]
        assert "Use spaces." not in str(server.requests[-1].body)
        await leave(terminal)


async def test_in_a_pipe_instructions_are_left_out_and_that_is_said_once(command: Command) -> None:
    (command.workspace / "AGENTS.md").write_text("Use tabs.")
    async with scripted(command, reply("One."), reply("Two.")) as server:
        done = await command("chat", stdin=b"first\nsecond\n")
        assert (done.code, done.out.count("nobody approved: AGENTS.md")) == (0, 1)
        assert "Use tabs." not in str([request.body for request in server.requests])


async def test_a_tool_that_does_not_exist_is_said_when_a_session_begins(command: Command) -> None:
    """As `run` says it; the daemon's log, too, is read by few."""
    async with scripted(command, reply("One."), reply("Two.")):
        command.configure('[agents.old]\ntools = ["reed_file", "read_file"]\n')
        done = await command("chat", "--agent", "old", stdin=b"first\nsecond\n")
        assert done.code == 0
        assert done.out.count("names a tool 'reed_file', which does not exist") == 1
        assert 'Did you mean "read_file"?' in done.out
