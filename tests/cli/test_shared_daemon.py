"""Several commands on one data folder: who is the daemon, and what happens when that one is gone."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest
import trio

from callboard.config.daemon_file import find_daemon
from callboard.providers.testing.script import reply, stall
from callboard.providers.testing.scripted_server import open_scripted_server
from callboard.runtime.events import InputAccepted
from callboard.runtime.store.sqlite_store import open_reader
from support.cli.chat_scene import CTRL_D, READY, chatting, leave, prompt, say, scripted, serving
from support.cli.chat_scene import command as command
from support.cli.command import PATIENCE_SECONDS, Command, at
from support.cli.warm_process import start_piped
from support.waits import until

MAY_GO_ON = r"`callboard run --session session_\w+`, without a prompt, says what became of it"


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
            await prompt(terminal, "One")
            daemon.kill()
            await terminal.expect("the daemon is away")
            await say(terminal, "Two")
            async with serving(command):
                await terminal.expect("  After.\n")
                await terminal.expect("answered")
                await leave(terminal)
        assert len(server.requests) == 2
    assert await inputs(command) == ["One", "Two"]


async def test_a_cancel_that_waits_for_the_daemon_is_about_the_turn_that_was_seen(
    command: Command,
) -> None:
    async with scripted(command, stall("Well, "), reply("After.")):
        async with serving(command) as daemon, chatting(command) as terminal:
            await say(terminal, "One")
            await terminal.expect("Well,")
            daemon.kill()
            await terminal.expect("the daemon is away")
            await terminal.type("\x03")
            await terminal.expect("cancelling")
            await say(terminal, "Two")
            await terminal.expect("this waits for the daemon: Two")
            async with serving(command):
                await terminal.expect("  After.\n")
                if (
                    "it had ended already" not in terminal.seen
                ):  # which comes first is nobody's promise
                    await terminal.expect("it had ended already")
                await leave(terminal)
    assert await command.outcomes() == ["failed", "answered"]


async def test_a_prompt_that_is_not_waited_for_stands_in_the_input_and_counts_once(
    command: Command,
) -> None:
    async with scripted(command, reply("Before."), reply("After.")) as server:
        async with serving(command) as daemon:
            async with chatting(command) as terminal:
                await prompt(terminal, "One")
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
                    await leave(terminal)
        assert len(server.requests) == 2
    assert await inputs(command) == ["One", "Two"]


async def test_another_chat_takes_over_when_the_one_that_was_the_daemon_is_killed(
    command: Command,
) -> None:
    async with scripted(command, reply("Before."), reply("After.")):
        async with chatting(command) as first, chatting(command) as second:
            await prompt(second, "One")
            first.process.kill()
            command.kill_daemon()
            await prompt(second, "Two", "  After.\n")
            await leave(second)
    assert await inputs(command) == ["One", "Two"]


async def test_runs_at_once_all_work_in_their_own_folders_and_with_their_own_models(
    command: Command,
) -> None:
    """The first has the sessions, and the others use it: each has its own place of models, folder and policy."""
    write = ("write_file", {"path": "made.txt", "content": "made"})
    async with (
        open_scripted_server([stall("First ")]) as slow,
        open_scripted_server([reply(calls=[write]), reply("Second.")]) as other,
        command.at_terminal("run", *at(slow), "--policy", "auto", "One") as first,
    ):
        await first.expect("First")
        folder = command.workspace.parent / "elsewhere"
        folder.mkdir()
        second = await command("run", *at(other), "--workspace", str(folder), "Two")
        assert (second.code, "Second." in second.out) == (0, True), second.err
        assert (folder / "made.txt").read_text() == "made"
        denied = await command("run", "--policy", "strict", "--model", "rehearsal", "Write a file.")
        assert denied.code == 0
        recorded = await command("record", *at(other), "Three")
        assert "recorded in" in recorded.out + recorded.err
        await first.type("\x03")
        assert await first.end() == 130
    assert len(slow.requests) == 1


async def test_a_command_of_another_configuration_does_not_come_under_the_rules_of_the_first(
    command: Command,
) -> None:
    """Each would go by the other's rules: what its own file denies would run."""
    other = command.workspace.parent / "lax.toml"
    other.write_text('policy = "auto"\n')
    command.configure('[[rules]]\ntool = "delete_file"\nverdict = "deny"\nreason = "Kept."\n')
    (command.workspace / "kept.txt").write_text("kept")
    delete = reply(calls=[("delete_file", {"path": "kept.txt"})])
    async with (
        open_scripted_server([stall("First ")]) as slow,
        open_scripted_server([delete, reply("Second.")]) as server,
        command.at_terminal("run", "--config", str(other), *at(slow), "One") as first,
    ):
        await first.expect("First")
        for refused in (
            await command("run", *at(server), "--policy", "auto", "Two"),
            await command("run", "--continue", *at(server), "Two"),
        ):
            assert refused.code == 1
            assert "callboard.toml" in refused.err
            assert "lax.toml" in refused.err
        assert (command.workspace / "kept.txt").exists()
        assert not server.requests
        joined = await command(
            "run", "--config", str(other), "--policy", "auto", *at(server), "Two"
        )
        assert (joined.code, "Second." in joined.out) == (0, True), joined.err
        assert not (
            command.workspace / "kept.txt"
        ).exists()  # by the rules of the file that both have
        await first.type("\x03")
        assert await first.end() == 130


@pytest.mark.parametrize(
    ("words", "end"), [(("run", "One"), "\x03"), (("chat",), CTRL_D)], ids=["run", "chat"]
)
async def test_rules_that_were_written_meanwhile_hold_for_who_comes(
    command: Command, words: tuple[str, ...], end: str
) -> None:
    """As they would without the first command, which read the file before."""
    kept = command.workspace / "kept.txt"
    delete = reply(calls=[("delete_file", {"path": "kept.txt"})])
    deny = '[[rules]]\ntool = "delete_file"\nverdict = "deny"\n'
    async with (
        open_scripted_server([stall("First ")]) as slow,
        open_scripted_server([delete, reply("Done.")] * 2) as server,
        command.at_terminal(words[0], *at(slow), *words[1:]) as first,
    ):
        await first.expect("First" if "One" in words else READY)
        for rule, is_kept in (("", False), (deny, True)):
            kept.write_text("kept")
            command.configure(rule)
            done = await command("run", *at(server), "--policy", "auto", "Two")
            assert (done.code, kept.exists()) == (0, is_kept), done.err
        command.configure("[sandbox]\nprocesses = 200\n")
        refused = await command("run", *at(server), "Three")
        assert refused.code == 1
        assert "(sandbox.processes)" in refused.err
        await first.type(end)
        assert await first.end() in {0, 130}


async def test_a_command_of_another_configuration_that_takes_over_has_no_turn_of_a_chat(
    command: Command,
) -> None:
    """It waits, as where no daemon is, and goes on by its own rules."""
    async with (
        scripted(command, reply("Before."), reply("Mine.")) as server,
        open_scripted_server([stall("Third ")]) as slow,
        chatting(command) as first,
        chatting(command) as second,
    ):
        lax = command.workspace.parent / "lax.toml"
        rules = (command.home / "config/callboard.toml").read_text()
        lax.write_text(f'policy = "auto"\n{rules}')
        await say(second, "Zero")
        await second.expect("answered")
        second.process.send_signal(signal.SIGSTOP)
        first.process.kill()
        command.kill_daemon()
        async with command.at_terminal("run", "--config", str(lax), *at(slow), "Three") as third:
            await third.expect("Third")
            second.process.send_signal(signal.SIGCONT)
            await second.expect("goes by the rules of")
            await second.expect("the daemon is away")
            await say(second, "One")
            await second.expect("this waits for the daemon: One")
            assert len(server.requests) == 1
            await third.type("\x03")
            assert await third.end() == 130
        await second.expect("  Mine.\n")
        await second.expect("answered")
        await second.type(CTRL_D)
        assert await second.end() == 0


async def test_a_named_configuration_is_not_passed_over_beside_a_serve(command: Command) -> None:
    """A run without one goes by the rules of the daemon, as documented."""
    kept = command.workspace / "kept.txt"
    kept.write_text("kept")
    strict = command.workspace.parent / "strict.toml"
    strict.write_text('[[rules]]\ntool = "delete_file"\nverdict = "deny"\n')
    steps = (reply(calls=[("delete_file", {"path": "kept.txt"})]), reply("Done."))
    async with scripted(command, *steps, reply("Again.")) as server, serving(command):
        for name in ("run", "chat"):
            refused = await command(name, "--config", str(strict), "--policy", "auto", "One")
            assert refused.code == 1
            assert "strict.toml" in refused.err
            assert "callboard.toml" in refused.err
        assert (kept.exists(), server.requests) == (True, [])
        own = str(command.home / "config/callboard.toml")
        for words in (("--policy", "auto"), ("--config", own)):  # the controls
            assert (await command("run", *words, "One")).code == 0
        assert not kept.exists()


async def test_a_run_in_another_folder_beside_a_chat(command: Command) -> None:
    folder = command.workspace.parent / "elsewhere"
    folder.mkdir()
    async with (
        scripted(command, reply("In the chat.")),
        open_scripted_server([reply("In the run.")]) as other,
        chatting(command) as chat,
    ):
        done = await command("run", *at(other), "--workspace", str(folder), "Two")
        assert (done.code, "In the run." in done.out) == (0, True), done.err
        refused = await command("run", *at(other), "--workspace", "/etc", "Three")
        assert refused.code == 1
        assert "closed to sessions" in refused.err
        await say(chat, "One")
        await chat.expect("In the chat.")
    assert len(other.requests) == 1


async def test_a_run_that_lost_its_daemon_becomes_it_and_says_what_came_of_its_turn(
    command: Command,
) -> None:
    async with (
        open_scripted_server([stall("First ")]) as one,
        open_scripted_server([stall("Second ")]) as two,
        command.at_terminal("run", *at(one), "One") as first,
    ):
        await first.expect("First")
        async with command.at_terminal("run", *at(two), "Two") as second:
            await second.expect("Second")
            command.kill_daemon()
            assert await second.end() == 1
            assert "The process ended while this turn ran." in second.seen
        # What was left is said, and what to do about it.
        last = (await command("sessions", "--json")).lines[0]["session_id"]
        left = await command("run", *at(two), "--session", last)
        again = f"`callboard run --session {last} --retry` runs it again"
        assert f"its last turn was cut off. {again}" in left.err, left
    assert await command.outcomes() == ["failed", "failed"]


async def test_a_prompt_that_is_not_utf_8_is_asked_in_a_daemon_too(command: Command) -> None:
    async with scripted(command, reply("Well."), reply("Well.")) as server:
        for place in (nullcontext(), serving(command)):
            async with place:
                done = await command("run", "What is in caf\udce9?")
            assert (done.code, done.out) == (0, "Well.\n"), done.err
            assert "What is in caf\ufffd?" in str(server.requests[-1].body)


STALE = """
import sys

from callboard.__main__ import main
from callboard.cli.run import run
from callboard.config.daemon_file import RunningDaemon
from callboard.runtime.redaction import Secret

gone = RunningDaemon(
    url="ws://127.0.0.1:9/ws", pid=1, token=Secret("cb_gone"), started_at_ms=0, command=sys.argv.pop(1), drain_seconds=1.0
)
looks = iter([gone, gone])  # of the command, which asks whether to be a process of its own, and of its run
find = run.running
run.running = lambda data: next(looks, None) or find(data)
sys.exit(main())
"""


@pytest.mark.parametrize("kind", ["run", "serve"])
async def test_a_run_whose_daemon_ends_before_it_comes_in_takes_its_place(
    command: Command, kind: str
) -> None:
    """Many short runs at once: of each the sessions may be gone when the next one has found them."""
    async with scripted(command, reply("Done.")):
        with trio.fail_after(PATIENCE_SECONDS):
            done = await command.changed(STALE, kind, "run", "One")
    assert (done.code, done.out) == (0, "Done.\n"), done.err


async def test_a_process_that_has_the_sessions_and_was_stopped_is_named(command: Command) -> None:
    """After Ctrl-Z in one terminal, all others say whose process it is, at once, and what to do."""
    async with open_scripted_server([stall("First ")]) as server:
        async with command.at_terminal("run", *at(server), "One") as first:
            await first.expect("First")
            holder = find_daemon(command.home / "data")
            assert holder is not None
            os.kill(holder.pid, signal.SIGSTOP)
            stat = Path(f"/proc/{holder.pid}/stat")
            await until(lambda: b") T " in stat.read_bytes())
            for line in (("run", *at(server), "Two"), ("status",), ("providers",)):
                refused = await command(*line)
                said = f"process {holder.pid} (callboard run), which has the sessions, is stopped"
                assert (refused.code, said in refused.err) == (1, True), refused
            assert (await command("stop", "--now")).code == 0
            await first.end()


async def until_outcomes(command: Command, outcomes: list[str]) -> None:
    with trio.fail_after(PATIENCE_SECONDS):
        while await command.outcomes() != outcomes:  # noqa: ASYNC110  nothing tells of it
            await trio.sleep(0.02)


@pytest.mark.parametrize("how", ["left", "closed", "killed"])
async def test_a_chat_that_ends_does_not_end_turns_of_others(command: Command, how: str) -> None:
    """What it did itself ends with it; its process ends with the last command that uses it."""
    data = command.home / "data"
    async with scripted(command, stall("Mine, "), stall("Well, "), reply("After.")):
        async with chatting(command) as first, chatting(command) as second:
            await say(first, "Mine")
            await first.expect("Mine,")
            await say(second, "One")
            await second.expect("Well,")
            if how == "left":
                await first.type(CTRL_D)
                await first.expect("leaving ends the turn")
                await first.type(CTRL_D)
                await first.expect("goes on in the background")
            else:
                number = signal.SIGHUP if how == "closed" else signal.SIGKILL
                first.process.send_signal(number)
            await trio.to_thread.run_sync(first.process.wait)
            await until_outcomes(command, ["cancelled"])
            assert find_daemon(data) is not None
            await second.type("\x03")
            await second.expect("cancelled")
            await prompt(second, "Two", "  After.\n")
            await leave(second)
    await until(lambda: find_daemon(data) is None)
    assert sorted(await command.outcomes()) == ["answered", "cancelled", "cancelled"]


async def test_a_model_that_a_chat_brought_along_is_brought_to_the_next_daemon(
    command: Command,
) -> None:
    command.configure('[sessions]\ntitles = "words"\n')
    async with (
        open_scripted_server([stall("First ")]) as one,
        open_scripted_server([reply("Before."), reply("After.")]) as two,
        command.at_terminal("run", *at(one), "One") as first,
    ):
        await first.expect("First")
        async with chatting(command, *at(two)) as chat:
            await say(chat, "One")
            await chat.expect("Before.")
            await chat.expect("answered")
            command.kill_daemon()
            await say(chat, "Two")
            await chat.expect("  After.\n")
            await chat.expect("answered")
            await chat.type(CTRL_D)
            assert await chat.end() == 0
    assert len(two.requests) == 2


async def test_a_run_is_left_at_once_while_its_daemon_is_away(command: Command) -> None:
    """It said that Ctrl-C leaves, and then waited two minutes to cancel its turn there."""
    async with scripted(command, stall("Well, ")), serving(command) as daemon:
        async with command.at_terminal("run", "Go.") as terminal:
            await terminal.expect("Well,")
            daemon.kill()
            await terminal.expect("the daemon is away")
            await terminal.type("\x03")
            assert await terminal.end() == 130
    said = " ".join(terminal.seen.replace("|> ", "").split())
    assert re.search(f"the turn may go on; {MAY_GO_ON}", said)


async def test_a_script_that_ends_a_run_is_told_what_becomes_of_its_turn(command: Command) -> None:
    async with scripted(command, stall("Well, ")) as server, serving(command) as daemon:
        with trio.fail_after(PATIENCE_SECONDS):
            process = await trio.lowlevel.open_process(
                [sys.executable, "-m", "callboard", "run", "Go."],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                cwd=command.workspace,
                env=command.environ,
            )
            try:
                assert process.stderr
                await until(lambda: len(server.requests) == 1)
                daemon.kill()
                process.terminate()
                said = b"".join([piece async for piece in process.stderr]).decode()
                assert await process.wait() == 130
            finally:
                process.kill()
                with trio.CancelScope(shield=True):
                    await process.wait()
    assert re.search(f"the turn may go on; {MAY_GO_ON}", said)


IMPATIENT = """
import sys

from callboard.__main__ import main
from callboard.cli.daemon import away

away.PATIENCE_SECONDS = 0.5
sys.exit(main())
"""


@pytest.mark.parametrize(
    ("line", "typed", "advice"),
    [
        (("run", "Go."), b"", r"`callboard run --session session_\w+`"),
        (("chat",), b"Go.\n", "`callboard chat --session session_"),
        (("attach", "last"), b"", r"`callboard attach session_\w+`"),
    ],
    ids=["run", "chat", "attach"],
)
async def test_where_nobody_sits_a_daemon_that_is_gone_is_not_waited_for_for_ever(
    command: Command, line: tuple[str, ...], typed: bytes, advice: str
) -> None:
    is_attach = line[0] == "attach"
    steps = [reply("Begun.")] if is_attach else [stall("Well, ")]
    async with scripted(command, *steps) as server, serving(command) as daemon:
        if is_attach:
            assert (await command("run", "Begin.")).code == 0
        with trio.fail_after(PATIENCE_SECONDS):
            program = command.written(IMPATIENT)
            process = start_piped(line, command.workspace, command.environ, program, typed)
            try:
                if is_attach:
                    assert await process.stdout.receive_some()
                else:
                    await until(lambda: len(server.requests) == 1)
                daemon.kill()
                async with process.stdout, process.stderr:
                    streams = process.stdout, process.stderr  # a chat says all on the first
                    said = b"".join([piece for each in streams async for piece in each]).decode()
                assert await process.wait() == 1
            finally:
                process.kill()
                with trio.CancelScope(shield=True):
                    await process.wait()
    assert "the daemon has been away for 0.5 seconds, and nobody sits here to wait longer" in said
    assert re.search(advice, said)


async def test_a_run_that_comes_while_a_daemon_stops_waits_and_goes_on_without_it(
    command: Command,
) -> None:
    async with scripted(command, stall("Well, "), reply("After.")):
        async with serving(command) as daemon, command.at_terminal("run", "One") as first:
            await first.expect("Well,")
            log = command.home / "data" / "callboard.log"
            daemon.send_signal(signal.SIGTERM)
            await until(lambda: b"SIGTERM: stopping" in log.read_bytes())
            async with command.at_terminal("run", "Two") as second:
                await second.expect("the daemon takes nobody in, as when it stops; this run waits")
                daemon.send_signal(signal.SIGTERM)  # its turns are cancelled now
                await second.expect("After.")
                await second.expect("answered")
                assert await second.end() == 0
    assert {*await inputs(command)} == {"One", "Two"}
