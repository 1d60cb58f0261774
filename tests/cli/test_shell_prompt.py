"""A run gives the shell its prompt back when it has answered, also while turns of other commands go on in its process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
import trio

from callboard.config.daemon_file import RunningDaemon, find_daemon
from callboard.providers.testing.script import Step, reply, stall
from callboard.providers.testing.scripted_server import (
    ScriptedRequest,
    ScriptedServer,
    open_scripted_server,
)
from support.cli.command import PATIENCE_SECONDS, Command, Terminal, at
from support.cli.command import command as command
from support.cli.warm_process import PipedProcess, start_piped
from support.waits import until

COUNTING = reply([f"{number} " for number in range(20_000)], piece_seconds=0.01)
"""An answer that goes on for longer than any test."""

CALLBOARD = (sys.executable, "-m", "callboard")
"""A process that starts by itself; elsewhere one is forked, which takes a third of the time."""


class Held:
    """A model server of one answer, `Done.`, which comes when it is let out.

    Attributes:
        base_url: Where it is.
        is_asked: Set when the question is there.
        out: Lets the answer out.
    """

    def __init__(self, base_url: str) -> None:
        self.base_url = base_url
        self.is_asked = trio.Event()
        self.out = trio.Event()


@asynccontextmanager
async def open_held() -> AsyncGenerator[Held]:
    async with open_scripted_server([reply("Done.")]) as server, trio.open_nursery() as nursery:
        port = int(server.base_url.rpartition(":")[2].removesuffix("/v1"))
        [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
        held = Held(f"http://127.0.0.1:{listener.socket.getsockname()[1]}/v1")

        async def serve(stream: trio.SocketStream) -> None:
            question = await stream.receive_some()
            if not question:
                return
            held.is_asked.set()
            await held.out.wait()
            async with await trio.open_tcp_stream("127.0.0.1", port) as model, stream:
                await model.send_all(question)
                async with trio.open_nursery() as both:
                    both.start_soon(pass_on, stream, model)
                    await pass_on(model, stream)
                    both.cancel_scope.cancel()

        async def pass_on(source: trio.SocketStream, target: trio.SocketStream) -> None:
            with suppress(trio.BrokenResourceError):
                async for data in source:
                    await target.send_all(data)

        nursery.start_soon(trio.serve_listeners, serve, [listener])
        try:
            yield held
        finally:
            nursery.cancel_scope.cancel()


def daemon_of(command: Command) -> RunningDaemon:
    daemon = find_daemon(command.home / "data")
    assert daemon is not None
    return daemon


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


async def until_gone(pid: int) -> None:
    await until(lambda: not Path(f"/proc/{pid}").exists())


@asynccontextmanager
async def counting(command: Command) -> AsyncGenerator[Terminal]:
    """Another command, whose turn works in the process of the first one."""
    async with (
        open_scripted_server([COUNTING]) as server,
        command.at_terminal("run", *at(server), "Count") as terminal,
    ):
        await terminal.expect(" 5 ")
        yield terminal


async def still_counts(terminal: Terminal) -> None:
    """It was not disturbed, and ends when its own person wants it to."""
    terminal.expect_from_here()
    await terminal.expect("0 ")
    await terminal.type("\x03")
    assert await terminal.end() == 130
    assert "cancelled" in terminal.seen


@asynccontextmanager
async def in_pipes(
    command: Command,
    *words: str,
    program: Sequence[str] = (),
) -> AsyncGenerator[trio.Process | PipedProcess]:
    """A command between pipes, as programs start one, in a group of its own."""
    process: trio.Process | PipedProcess
    if program:
        process = await trio.lowlevel.open_process(
            [*program, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=command.workspace,
            env=command.environ,
            start_new_session=True,
        )
    else:
        process = start_piped(words, command.workspace, command.environ)
    assert process.stdout
    assert process.stderr
    try:
        async with process.stdout, process.stderr:
            yield process
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()


async def all_of(stream: object) -> str:
    assert isinstance(stream, trio.abc.ReceiveStream)
    with trio.fail_after(PATIENCE_SECONDS):
        return b"".join([piece async for piece in stream]).decode()


async def test_a_run_that_has_answered_ends_and_the_turns_of_others_go_on(command: Command) -> None:
    """With its own exit code, its pipes closed; the process that others use has no terminal, and ends with them."""
    async with (
        open_held() as server,
        in_pipes(command, "run", *at(server), "Hello", program=CALLBOARD) as first,
    ):
        await server.is_asked.wait()
        async with counting(command) as other:
            server.out.set()
            assert await all_of(first.stdout) == "Done.\n"
            said = await all_of(first.stderr)
            with trio.fail_after(PATIENCE_SECONDS):
                assert await first.wait() == 0
            left = daemon_of(command)
            assert f"turns of other commands go on in the background, in process {left.pid}" in said
            assert left.pid != first.pid
            assert os.getsid(left.pid) == left.pid
            opened = {os.readlink(f"/proc/{left.pid}/fd/{number}") for number in (0, 1, 2)}
            assert opened == {os.devnull}
            status = await command("status")
            assert (f"process {left.pid}" in status.out, "run" in status.out) == (True, True)
            await still_counts(other)
        await until_gone(left.pid)
    assert sorted(await command.outcomes()) == ["answered", "cancelled"]


async def test_a_quiet_run_says_nothing_of_the_turns_of_others(command: Command) -> None:
    async with (
        open_held() as server,
        in_pipes(command, "run", "--quiet", *at(server), "Hello") as first,
    ):
        await server.is_asked.wait()
        async with counting(command) as other:
            server.out.set()
            assert await all_of(first.stdout) == "Done.\n"
            assert await all_of(first.stderr) == ""
            await still_counts(other)
    assert sorted(await command.outcomes()) == ["answered", "cancelled"]


async def test_a_run_that_is_alone_leaves_no_process(command: Command) -> None:
    async with open_scripted_server([reply("Done."), stall("Well, ")]) as server:
        assert (await command("run", *at(server), "Hello")).code == 0
        assert find_daemon(command.home / "data") is None
        async with command.at_terminal("run", *at(server), "Hello") as run:
            await run.expect("Well,")
            pid = daemon_of(command).pid
            assert parent_of(pid) == run.process.pid
            await run.type("\x03")
            assert await run.end() == 130
        await until_gone(pid)


async def test_the_last_event_and_the_file_are_there_when_the_prompt_is_back(
    command: Command,
) -> None:
    async with (
        open_held() as server,
        in_pipes(command, "run", *at(server), "--json", "-o", "answer.md", "Hello") as first,
    ):
        await server.is_asked.wait()
        async with counting(command) as other:
            server.out.set()
            last = (await all_of(first.stdout)).splitlines()[-1]
            assert await first.wait() == 0
            assert '"type":"run_ended"' in last
            assert '"answer":"Done."' in last
            assert (command.workspace / "answer.md").read_text() == "Done.\n"
            await still_counts(other)


async def test_a_reader_that_has_enough_ends_the_run_and_nothing_of_others(
    command: Command,
) -> None:
    """`callboard run … | head -1`"""
    async with (
        open_scripted_server([COUNTING]) as server,
        in_pipes(command, "run", *at(server), "--json", "Hello") as first,
    ):
        await until(lambda: len(server.requests) == 1)
        async with counting(command) as other:
            assert first.stdout
            await first.stdout.aclose()
            with trio.fail_after(PATIENCE_SECONDS):
                assert await first.wait() == 1
            await still_counts(other)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize(
    "ways", [(os.kill,), (os.killpg,), (os.kill, os.killpg)], ids=["process", "group", "both"]
)
async def test_a_signal_cancels_the_turn_once_whoever_gets_it(
    command: Command, number: signal.Signals, ways: tuple[Callable[[int, int], None], ...]
) -> None:
    """The process that the shell knows; its group, by a shell; or both, as `timeout` sends it."""
    async with (
        open_scripted_server([stall("Well, ")]) as server,
        in_pipes(command, "run", *at(server), "Hello") as first,
    ):
        await until(lambda: len(server.requests) == 1)
        pid = daemon_of(command).pid
        for send in ways:
            send(first.pid, number)
        said = await all_of(first.stderr)
        assert await first.wait() == 130
        assert "cancelled" in said  # in order: a second signal would have ended it on the spot
        await until_gone(pid)
    assert await command.outcomes() == ["cancelled"]


async def test_a_first_process_that_is_killed_ends_the_turn_and_nothing_of_others(
    command: Command,
) -> None:
    async with (
        open_scripted_server([stall("Well, ")]) as server,
        command.at_terminal("run", *at(server), "Hello") as first,
    ):
        await first.expect("Well,")
        pid = daemon_of(command).pid
        async with counting(command) as other:
            first.process.kill()
            await first.end()
            await until(lambda: os.getsid(pid) == pid)  # it has left the terminal
            assert daemon_of(command).pid == pid
            await still_counts(other)
        await until_gone(pid)
    assert sorted(await command.outcomes()) == ["cancelled", "cancelled"]


ASK = ("ask_user", {"question": "Which door?"})


async def test_a_question_of_a_model_outlives_a_kill_of_the_first_process(command: Command) -> None:
    """As one about a call does; it was cancelled, and nobody could answer it any more."""
    async with open_scripted_server([reply(calls=[ASK]), reply("The left one.")]) as server:
        async with command.at_terminal("run", *at(server), "Go") as first:
            await first.expect("Which door?")
            pid = daemon_of(command).pid
            first.process.kill()
            await until_gone(pid)
        async with command.at_terminal("run", "--continue", *at(server)) as again:
            await again.expect("Which door?")
            await again.expect("your answer:")
            await again.type("left\n")
            assert await again.end() == 0
    assert await command.outcomes() == ["answered"]


AWAY = ("delegate", {"kind": "worker", "task": "Look around.", "wait": False})


def away(request: ScriptedRequest) -> Step:
    """The session below says nothing more; the one above answers at once."""
    text = str(request.body["messages"][-1]["content"])
    return stall("I look, ") if text == "Look around." else reply("On its way.")


async def test_what_nobody_waits_for_ends_with_its_run_and_nothing_of_others(
    command: Command,
) -> None:
    async with (
        open_scripted_server([reply(calls=[AWAY]), away, away]) as server,
        command.at_terminal("run", *at(server), "Go") as first,
    ):
        await first.expect("waiting for 1 delegated session (Ctrl-C ends them)")
        pid = daemon_of(command).pid
        async with counting(command) as other:
            await first.type("\x03")
            assert await first.end() == 130
            assert "go on in the background" in first.seen
            assert daemon_of(command).pid == pid
            await still_counts(other)
        await until_gone(pid)
        assert len(server.requests) == 3  # its end woke nobody
    assert sorted(await command.outcomes()) == ["answered", "cancelled", "cancelled"]


STOPPED_READER = """
import callboard.cli.run.stopping, sys
from callboard.__main__ import main

callboard.cli.run.stopping.GRACE_SECONDS = float(sys.argv.pop(1))
sys.exit(main())
"""


@pytest.mark.parametrize(
    ("grace", "interrupts"), [("0.1", 1), ("1000", 2)], ids=["gives up", "second interrupt"]
)
async def test_an_interrupt_of_a_run_whose_reader_has_stopped_ends_nothing_of_others(
    command: Command, grace: str, interrupts: int
) -> None:
    """The pipe is full, as with a paused pager, so the cancelled turn is not shown in time."""
    flood = stall("x" * 2_000_000)
    callboard = [sys.executable, "-c", STOPPED_READER, grace]
    async with (
        open_scripted_server([flood]) as server,
        in_pipes(command, "run", *at(server), "--json", "Go", program=callboard) as first,
    ):
        assert first.stdout is not None
        assert first.stderr is not None
        await first.stdout.receive_some(1)
        pid = daemon_of(command).pid
        async with counting(command) as other:
            os.kill(pid, signal.SIGINT)
            if interrupts == 2:
                said = await first.stderr.receive_some()
                assert b"Ctrl-C again gives the prompt back at once" in said
                os.kill(pid, signal.SIGINT)  # as from a terminal, which knows no time between two
            with trio.fail_after(PATIENCE_SECONDS):
                assert await first.wait() == 130
            assert daemon_of(command).pid == pid
            assert os.getsid(pid) == pid
            await still_counts(other)
        await until_gone(pid)
    assert sorted(await command.outcomes()) == ["cancelled", "cancelled"]


async def test_a_run_whose_process_is_killed_says_so(command: Command) -> None:
    async with (
        open_scripted_server([stall("Well, ")]) as server,
        in_pipes(command, "run", *at(server), "Hello") as first,
    ):
        await until(lambda: len(server.requests) == 1)
        pid = daemon_of(command).pid
        os.kill(pid, signal.SIGKILL)
        said = await all_of(first.stderr)
        assert await first.wait() == 1
        assert f"callboard: the process of this run ({pid}) was killed" in said
        assert "`callboard run --continue` says what was cut off" in said


async def test_a_run_ends_by_the_signal_that_ended_its_process(command: Command) -> None:
    # What a script runs in the background ignores it, and so would the run.
    program = ("env", "--default-signal=QUIT", sys.executable, "-m", "callboard")
    async with (
        open_scripted_server([stall("Well, ")]) as server,
        in_pipes(command, "run", *at(server), "Hello", program=program) as first,
    ):
        await until(lambda: len(server.requests) == 1)
        first.send_signal(signal.SIGQUIT)
        said = await all_of(first.stderr)
        assert await first.wait() == -signal.SIGQUIT, said


async def test_stop_drains_the_process_that_was_left(command: Command) -> None:
    command.configure("[server]\ndrain_seconds = 0.1\n")
    async with open_held() as one, open_scripted_server([COUNTING]) as two:
        async with in_pipes(command, "run", *at(one), "Hello") as first:
            await one.is_asked.wait()
            async with command.at_terminal("run", *at(two), "Count") as second:
                await second.expect(" 5 ")
                one.out.set()
                with trio.fail_after(PATIENCE_SECONDS):
                    assert await first.wait() == 0
                pid = daemon_of(command).pid
                stopped = await command("stop")
                assert (stopped.code, f"process {pid}" in stopped.out) == (0, True), stopped
                await until_gone(pid)
                await second.end()
    assert sorted(await command.outcomes()) == ["answered", "cancelled"]


SHELL = """
set -m
{callboard} run {words} Hello
echo "came back with $?"
read line
fg
echo "ended with $?"
"""


async def test_ctrl_z_stops_the_run_and_fg_goes_on(command: Command) -> None:
    """At the prompt of a shell with job control, as a person has it."""
    async with open_scripted_server([COUNTING]) as server:
        async with at_shell(command, server) as shell:
            await shell.expect(" 5 ")
            pid = daemon_of(command).pid
            first = parent_of(pid)
            await shell.type("\x1a")
            await shell.expect("came back with 148")
            await until(lambda: (state_of(pid), state_of(first)) == ("T", "T"))
            await shell.type("go on\n")
            await until(lambda: "T" not in (state_of(pid), state_of(first)))
            await shell.expect("0 ")
            await shell.type("\x03")
            await shell.expect("cancelled")
            await shell.expect("ended with 130")
            await until_gone(pid)


async def test_the_prompt_of_a_shell_is_back_while_turns_of_others_go_on(command: Command) -> None:
    async with open_held() as server, at_shell(command, server) as shell:
        await server.is_asked.wait()
        async with counting(command) as other:
            server.out.set()
            await shell.expect("Done.")
            await shell.expect("came back with 0")
            pid = daemon_of(command).pid
            await shell.hang_up()  # what is left has nothing to do with that terminal any more
            assert state_of(pid) != "Z"
            await still_counts(other)
        await until_gone(pid)


@asynccontextmanager
async def at_shell(command: Command, server: ScriptedServer | Held) -> AsyncGenerator[Terminal]:
    """A shell with job control at a terminal, which runs a command, and then what is typed."""
    callboard = f"{sys.executable} -m callboard"
    script = command.home.parent / "shell.py"
    lines = SHELL.format(callboard=callboard, words=" ".join(at(server)))
    script.write_text(f"import os\nos.execvp('bash', ['bash', '--norc', '-c', {lines!r}])\n")
    async with command.program_at_terminal(script) as terminal:
        yield terminal
