"""`callboard run`, as a process before a scripted server or with the rehearsal model."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
import trio

import callboard.cli.run.stopping
from callboard.config.daemon_file import find_daemon
from callboard.providers.testing.script import (
    ScriptedCall,
    Step,
    cut_after,
    html,
    reply,
    stall,
    status,
)
from callboard.providers.testing.scripted_server import open_scripted_server
from callboard.runtime.disk.data_lock import DataLock
from callboard.runtime.events import CallFinished, TurnEnded
from callboard.runtime.store.codec import decode_event
from support.cli.command import PATIENCE_SECONDS, Command, at
from support.cli.command import command as command
from support.cli.warm_process import nowhere, start_piped, start_warm
from support.sandbox.sandbox_users import needs_sandbox
from support.waits import until


async def test_the_main_job_without_any_model(command: Command) -> None:
    done = await command("run", "What time is it in Tokyo? Save it to now.txt and read it back.")
    assert (done.code, done.complaints) == (0, [])
    saved = (command.workspace / "now.txt").read_text()
    assert saved.endswith("+09:00")
    lines = done.err.splitlines()
    assert lines[0] == "model: rehearsal/rehearsal, because no model is configured"
    assert "rules, not a language model" in done.err
    assert saved in done.out
    assert done.out.startswith("The time in Tokyo is ")
    calls = [line.split()[:2] for line in lines if line.startswith("✓")]
    assert calls == [["✓", "get_current_time"], ["✓", "write_file"], ["✓", "read_file"]]
    assert lines[-1].startswith("answered · ")
    assert " · 3 calls · session_" in lines[-1]
    assert "\x1b" not in done.out + done.err


async def test_a_conversation_goes_on_where_it_was(command: Command, tmp_path: Path) -> None:
    async with open_scripted_server([reply("Blue."), reply("Still blue.")]) as server:
        first = await command("run", *at(server), "My colour is blue.")
        assert (first.code, first.complaints) == (0, [])
        assert "15 tokens" not in first.err
        assert "10 tokens in · 5 tokens out" in first.err

        elsewhere = await command("run", "--continue", "--workspace", str(tmp_path), "And now?")
        assert elsewhere.code == 1
        assert f"works in {command.workspace}" in elsewhere.err

        alone = await command("run", "--continue", "And now?")
        assert alone.code == 1
        assert "give that URL again" in alone.err

        second = await command(
            "run", "--continue", *at(server), "--workspace", ".", "-", stdin=b"And now?\n"
        )
        assert (second.code, second.complaints) == (0, [])
        assert second.err.startswith("model: custom/scripted, because --base-url says so\n")
        messages = server.requests[1].body["messages"]
        said = [message["content"] for message in messages if message["role"] != "system"]
        assert said == ["My colour is blue.", "Blue.", "And now?\n"]
        server.assert_complete()
    listed = await command("sessions", "--json")
    [row] = listed.lines
    assert row["session_id"] == first.err.split()[-1] == second.err.split()[-1]
    assert row["is_tainted"]  # by what was piped in


async def test_a_continued_session_keeps_its_model(command: Command) -> None:
    assert (await command("run", "--model", "rehearsal", "Hello")).code == 0
    on = await command("run", "--continue", "Hello", environ={"OPENAI_API_KEY": "sk-unused-key"})
    assert on.code == 0
    assert on.err.startswith("model: rehearsal/rehearsal, because the session uses it")
    fresh = await command("run", "--continue", "--data", str(command.home / "other"), "Hello")
    assert fresh.code == 1
    assert "no session has been stored there" in fresh.err


async def test_events_for_programs(command: Command) -> None:
    script = [reply("Hm.", calls=[("get_current_time", {})]), reply("Done.")]
    async with open_scripted_server(script) as server:
        done = await command("run", *at(server), "--json", "Go")
    assert (done.code, done.err) == (0, "")
    durable = [line for line in done.lines if "seq" in line]
    assert [line["seq"] for line in durable] == list(range(1, len(durable) + 1))
    assert all(line["at_ms"] > 0 for line in durable)
    events = [decode_event(msgspec.json.encode(line["event"])) for line in durable]
    assert durable[0]["event"]["type"] == "session_created"
    assert isinstance(events[-1], TurnEnded)
    assert [event.status for event in events if isinstance(event, CallFinished)] == ["success"]
    live = [line["event"] for line in done.lines if "seq" not in line]
    assert "".join(e["text"] for e in live if e["type"] == "text_delta") == "Hm.Done."
    assert len({line["session_id"] for line in done.lines}) == 1
    last = {"type": "run_ended", "outcome": "answered", "answer": "Done.", "message": ""}
    assert live[-1] == done.lines[-1]["event"] == {**last, "exit_code": 0}
    shown = await command("show", "last", "--json")
    assert shown.lines == durable


async def test_what_a_model_says_can_not_command_the_terminal(command: Command) -> None:
    evil = reply("\x1b]0;owned\x07 \u202etxt", calls=[ScriptedCall("no\x1b[2Jtool", "{}")])
    async with open_scripted_server([evil, reply("ok")]) as server:
        done = await command("run", *at(server), "Go")
    assert done.code == 0
    assert not {"\x1b", "\x07", "\u202e"} & set(done.out + done.err)
    assert "\\x1b]0;owned\\x07 \\u202etxt" in done.err
    assert "✗ no\\x1b[2Jtool error" in done.err


@pytest.mark.parametrize(
    ("step", "outcome", "said"),
    [
        (html(), "failed", "a web page"),
        (status(401, {"error": {"message": "bad key sk-abcdefgh12345678"}}), "failed", "401"),
        (cut_after(150, reply("This is never whole.")), "failed", ""),
        (reply("too lo", finish="length"), "max_tokens", "limit of tokens"),
        (reply(refusal="No."), "refused", "refused"),
    ],
    ids=["web page", "wrong key", "cut off", "max tokens", "refused"],
)
async def test_a_failure_is_one_line(command: Command, step: Step, outcome: str, said: str) -> None:
    async with open_scripted_server([step, step]) as server:  # what breaks off is asked for twice
        done = await command("run", *at(server), "Go")
    assert done.code == 1
    [complaint] = done.complaints
    assert done.err.endswith(f"{complaint}\n")
    assert said in complaint
    assert done.out == ("too lo\n" if outcome == "max_tokens" else "")
    assert "sk-abcdefgh" not in done.err + done.out
    assert "Traceback" not in done.err + done.out
    assert await command.outcomes() == [outcome]


async def test_broken_files_are_named_and_left_alone(command: Command) -> None:
    (command.home / "data").mkdir()
    store = command.home / "data" / "callboard.db"
    store.write_bytes(b"This is no database, but somebody's own file. " * 100)
    before = store.read_bytes()
    done = await command("run", "--model", "rehearsal", "Hello")
    assert done.code == 1
    assert str(store) in done.err
    assert store.read_bytes() == before
    read = await command("sessions")
    assert read.code == 1
    assert str(store) in read.err

    config = command.home / "config" / "callboard.toml"
    config.write_text("[limits]\nidle_secnods = 3\n")
    done = await command("run", "Hello")
    assert done.code == 1
    assert f"{config}, line 2: limits.idle_secnods" in done.err


async def test_a_second_writer_is_told_the_first_ones_pid(command: Command) -> None:
    (command.home / "data").mkdir()
    lock = DataLock(command.home / "data")
    try:
        done = await command("run", "--model", "rehearsal", "Hello")
    finally:
        lock.release()
    assert done.code == 1
    assert f"in use by process {os.getpid()}" in done.err
    assert (await command("run", "--model", "rehearsal", "Hello")).code == 0


async def test_reading_takes_no_lock(command: Command) -> None:
    async with open_scripted_server([stall("Once upon")]) as server:
        async with command.at_terminal("run", *at(server), "Tell me a story") as terminal:
            await terminal.expect("Once upon")
            listed = await command("sessions")
            assert listed.code == 0
            assert "Tell me a story" in listed.out
            shown = await command("show", "last")
            assert "## You\n\nTell me a story\n" in shown.out


async def test_an_interrupt_cancels_and_the_session_goes_on(command: Command) -> None:
    asks = reply(calls=[("get_current_time", {})])
    script: list[Step] = [asks, stall("Once upon"), reply("The end.")]
    async with open_scripted_server(script) as server:
        done = await command.interrupted("run", *at(server), "--json", "Tell me", at="Once upon")
        assert done.code == 130
        ended = {"type": "run_ended", "outcome": "cancelled", "message": "interrupted"}
        assert done.lines[-1]["event"] == {**ended, "answer": None, "exit_code": 130}
        on = await command("run", "--continue", *at(server), "Go on")
        assert on.code == 0
        assert "The end." in on.out
        roles = [message["role"] for message in server.requests[2].body["messages"]]
        assert roles == ["system", "user", "assistant", "tool", "assistant", "user"]


async def test_an_interrupt_while_it_looks_for_a_model(command: Command) -> None:
    """A server that never answers is what callboard waits for."""
    [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener.socket.getsockname()[1]
    config = command.home / "config" / "callboard.toml"
    config.write_text(f'[providers.ollama]\nbase_url = "http://127.0.0.1:{port}/v1"\n')
    async with listener, command.at_terminal("run", "Hello") as terminal:
        async with await listener.accept():
            await terminal.type("\x03")
            assert await terminal.end() == 130
    assert "Traceback" not in terminal.seen


async def test_a_reader_that_leaves_ends_the_run_quietly(command: Command) -> None:
    (out, to_print), (err, to_complain) = os.pipe(), os.pipe()
    async with open_scripted_server([stall("Once upon")]) as server:
        async with trio.lowlevel.FdStream(out) as output, trio.lowlevel.FdStream(err) as complaints:
            with nowhere() as null:
                standard = (null, to_print, to_complain)
                words = ("run", *at(server), "--json", "Go")
                process = start_warm(words, standard, command.workspace, command.environ)
            os.close(to_print)
            os.close(to_complain)
            with trio.fail_after(PATIENCE_SECONDS):
                await output.receive_some(1)
                await output.aclose()
                errors = b"".join([data async for data in complaints])
                assert await trio.to_thread.run_sync(process.wait) == 1
    assert errors == b""


async def test_a_full_disk_under_the_output_is_named(command: Command) -> None:
    for line in ("run --model rehearsal Hello", "sessions"):
        process = await trio.run_process(
            ["sh", "-c", f"exec {sys.executable} -m callboard {line} >/dev/full"],
            capture_stderr=True,
            check=False,
            cwd=command.workspace,
            env=command.environ,
        )
        said = process.stderr.decode()
        assert process.returncode == 1
        complaint = said.splitlines()[-1]
        assert complaint.startswith("callboard: ")
        assert "No space left on device" in complaint


STOPPED_READER = """
import callboard.cli.run.stopping, sys
from callboard.__main__ import main

callboard.cli.run.stopping.GRACE_SECONDS = float(sys.argv.pop(1))
sys.exit(main())
"""


@pytest.mark.parametrize(
    ("grace", "interrupts"), [("0.1", 1), ("1000", 2)], ids=["gives up", "second interrupt"]
)
async def test_a_reader_that_stops_holds_no_interrupt_up(
    command: Command, grace: str, interrupts: int
) -> None:
    """The pipe is full and nobody reads it, as with a paused pager."""
    flood = reply(["x" * 65536] * 100)
    async with open_scripted_server([flood]) as server:
        with trio.fail_after(PATIENCE_SECONDS):
            process = start_piped(
                (grace, "run", *at(server), "--json", "Go"),
                command.workspace,
                command.environ,
                command.written(STOPPED_READER),
            )
            async with process.stdout, process.stderr:
                await process.stdout.receive_some(1)
                daemon = find_daemon(command.home / "data")
                assert daemon is not None
                os.kill(daemon.pid, signal.SIGINT)  # two within 0.1 s to the other are one
                if interrupts == 2:
                    assert b"cancelling" in await process.stderr.receive_some()
                    os.kill(daemon.pid, signal.SIGINT)
                assert await process.wait() == 130


@pytest.mark.parametrize(
    "signals",
    [[signal.SIGHUP], [signal.SIGINT, signal.SIGINT]],
    ids=["hung up", "twice"],
)
async def test_a_signal_leaves_no_program(command: Command, signals: list[signal.Signals]) -> None:
    needs_sandbox()
    seconds = f"{secrets.randbelow(10**9)}.25"  # by which its process is found
    code = f"(trap '' TERM INT; sleep {seconds}) & echo there; sleep {seconds}"
    call = ("run_code", {"language": "bash", "code": code})
    with trio.fail_after(PATIENCE_SECONDS):
        async with open_scripted_server([reply(calls=[call])]) as server:
            process = await trio.lowlevel.open_process(
                [sys.executable, "-m", "callboard", "run", *at(server), "--json", "Go"],
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd=command.workspace,
                env=command.environ,
            )
            assert process.stdout is not None
            async with process.stdout:
                said = b""
                while b"call_progress" not in said:
                    said += await process.stdout.receive_some()
                await until(lambda: len(running(seconds)) == 2)  # both, as they were forked
                for number in signals:
                    process.send_signal(number)
                assert await process.wait() == 130
                assert not running(seconds)


def test_a_hangup_that_is_ignored_stays_so() -> None:
    stopping = callboard.cli.run.stopping.stopping_signals
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert signal.SIGHUP not in stopping()
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        assert signal.SIGHUP in stopping()
    finally:
        signal.signal(signal.SIGHUP, before)


def running(words: str) -> list[str]:
    """The processes that have these words in their command."""
    found: list[str] = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if words.encode() in entry.read_bytes().split(b"\0"):
                found.append(entry.parent.name)
    return found


async def test_a_second_signal_sees_all_programs_gone() -> None:
    """In a process of its own, since it ends all that its process has begun."""
    program = (
        "import subprocess, sys\n"
        "from callboard.tools.processes.process_tree import descendants, end_descendants\n"
        "tree = 'trap \"\" TERM INT; sleep 1000 & setsid sleep 1000 & echo there; wait'\n"
        "begun = subprocess.Popen(['bash', '-c', tree], stdout=subprocess.PIPE)\n"
        "begun.stdout.readline()\n"
        "import os\n"
        "tree = descendants(os.getpid())\n"
        "end_descendants(60)\n"
        "print(len(tree), [pid for pid in tree if os.path.exists(f'/proc/{pid}/exe')])\n"
    )
    done = await trio.run_process([sys.executable, "-c", program], capture_stdout=True)
    assert done.stdout == b"3 []\n"


async def test_closed_descriptors_never_become_the_store(command: Command) -> None:
    script = f"exec {sys.executable} -m callboard run --model rehearsal 'Hello' <&- >&- 2>&-"
    process = await trio.run_process(
        ["sh", "-c", script], check=False, cwd=command.workspace, env=command.environ
    )
    assert process.returncode == 0
    shown = await command("show", "last")
    assert shown.code == 0
    assert "## You\n\nHello\n" in shown.out


async def test_warnings_go_to_a_file_of_the_owner(command: Command) -> None:
    async with open_scripted_server([stall("Once")]) as server:
        async with command.at_terminal("run", *at(server), "Go") as terminal:
            await terminal.expect("Once")
            command.kill_daemon()
            await terminal.end()
    done = await command("run", "--model", "rehearsal", "Hello")
    assert (done.code, done.complaints) == (0, [])
    log = command.home / "data" / "callboard.log"
    assert "was interrupted" in log.read_text()
    assert log.stat().st_mode & 0o777 == 0o600
