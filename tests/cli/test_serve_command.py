"""`callboard serve` lives as a process: it is found, watched, told to end, and ends in order."""

from __future__ import annotations

import json
import os
import signal
import stat
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from callboard.client.client import connect
from callboard.config.daemon_file import find_daemon
from callboard.runtime.errors import NetworkError
from support.cli.command import Command
from support.cli.warm_process import WarmProcess, nowhere, start_warm

PATIENCE_SECONDS = 60.0

HUNG_UP_EARLY = """
import os, runpy, signal
from callboard.cli.daemon import serve

def load_settings(config, *, load=serve.load_settings):
    serve.load_settings = load
    settings = load(config)
    os.kill(os.getpid(), signal.SIGHUP)
    return settings

serve.load_settings = load_settings
runpy.run_module("callboard", run_name="__main__")
"""
"""`callboard`, which is hung up on as soon as it has read its configuration."""


class Served:
    """A daemon in a process of its own."""

    def __init__(
        self,
        process: trio.Process | WarmProcess,
        output: trio.abc.ReceiveStream,
        command: Command,
    ) -> None:
        self.process = process
        self.output = output
        self.command = command
        self.out = ""

    @property
    def data(self) -> Path:
        return self.command.home / "data"

    async def see(self, text: str) -> None:
        while text not in self.out:
            data = await self.output.receive_some()
            assert data, f"{text!r} was never printed, but: {self.out}"
            self.out += data.decode()

    async def end(self) -> int:
        """Waits until it has ended."""
        if isinstance(self.process, trio.Process):
            return await self.process.wait()
        return await trio.to_thread.run_sync(self.process.wait)

    async def log(self) -> str:
        try:
            return await trio.Path(self.data / "callboard.log").read_text()
        except FileNotFoundError:
            return ""  # a thread writes it, which may not have come to the first record yet

    async def logged(self, text: str) -> None:
        while text not in await self.log():  # noqa: ASYNC110  # ruff: ignore[async-busy-wait]
            await trio.sleep(0.05)


@asynccontextmanager
async def serving(
    command: Command, *tokens: str, program: tuple[str, ...] = ()
) -> AsyncGenerator[Served]:
    """`callboard serve`; as a process that starts by itself if Python is told its program."""
    words = ("serve", "--port", "0", *tokens)
    read, write = os.pipe()
    async with trio.lowlevel.FdStream(read) as output:
        with trio.fail_after(PATIENCE_SECONDS):
            try:
                process = await start(command, (*program, *words), write, is_warm=not program)
            finally:
                os.close(write)
            served = Served(process, output, command)
            try:
                await served.see("Stop it with")
                yield served
            finally:
                if process.poll() is None:
                    process.kill()
                with trio.CancelScope(shield=True):
                    await served.end()


async def start(
    command: Command, words: tuple[str, ...], output: int, *, is_warm: bool
) -> trio.Process | WarmProcess:
    with nowhere() as null:
        if is_warm:
            standard = (null, output, output)
            return start_warm(words, standard, command.workspace, command.environ)
        return await trio.lowlevel.open_process(
            [sys.executable, *words],
            stdin=null,
            stdout=output,
            stderr=output,
            cwd=command.workspace,
            env=command.environ,
        )


async def test_its_life_from_the_first_start_to_the_end(tmp_path: Path) -> None:
    command = Command(tmp_path)
    none = await command("status")
    assert (none.code, none.out.partition(".")[0][:18]) == (1, "No daemon runs on ")
    async with serving(
        command, "--root", str(command.workspace), program=("-m", "callboard")
    ) as served:
        assert f"root:          {command.workspace}" in served.out
        assert ("programs:      run as root" in served.out) is (os.geteuid() == 0)
        daemon = find_daemon(served.data)
        assert daemon is not None
        assert daemon.pid == served.process.pid
        made = await command("token", "create", "owner", "--role", "admin")
        token = made.out.strip()
        assert stat.S_IMODE((served.data / "tokens.json").stat().st_mode) == 0o600
        async with connect(daemon.url, token) as client:
            assert client.welcome.role == "admin"
        told = json.loads((await command("status", "--json")).out)
        assert (told["is_running"], told["pid"]) == (True, daemon.pid)
        shown = await command("status")
        assert shown.code == 0
        assert "actors:        all run" in shown.out
        assert daemon.token.reveal() not in await served.log()
        assert token not in await served.log()
        stopped = await command("stop")
        assert (stopped.code, stopped.out) == (0, f"The daemon has ended (process {daemon.pid}).\n")
        assert await served.end() == 0
        assert find_daemon(served.data) is None
        with pytest.raises(NetworkError):
            async with connect(daemon.url, token):
                pass
    again = await command("stop")
    assert again.code == 1
    assert "nothing to stop" in again.err
    async with serving(command) as served:
        assert "token: " not in served.out
    logged = await command("logs", "--lines", "2")
    assert logged.code == 0
    assert len(logged.out.splitlines()) == 2


async def test_a_second_daemon_says_where_the_first_one_is(tmp_path: Path) -> None:
    command = Command(tmp_path)
    async with serving(command) as served:
        daemon = find_daemon(served.data)
        assert daemon is not None
        second = await command("serve", "--port", "0")
        assert second.code == 1
        assert daemon.url in second.err
        port = daemon.url.rpartition(":")[2].partition("/")[0]
        third = await command("serve", "--port", port, "--data", str(tmp_path / "other"))
        assert third.code == 1
        assert "is taken" in third.err
        served.process.kill()
        await served.end()
        assert find_daemon(served.data) is None
    async with serving(command) as served:
        assert find_daemon(served.data) is not None


async def test_a_token_is_shown_to_a_person_and_to_no_file_pipe_or_journal(tmp_path: Path) -> None:
    command = Command(tmp_path)
    async with serving(command) as served:
        assert "cb_" not in served.out
        assert "callboard token create owner --role admin" in served.out
        assert not (served.data / "tokens.json").exists()
    for shows in (True, False):  # once
        async with command.at_terminal("serve", "--port", "0") as terminal:
            await terminal.expect("Stop it with")
            assert ("token:         cb_" in terminal.seen) is shows
            assert "none yet" not in terminal.seen


async def test_other_addresses_than_loopback_are_asked_for_twice(tmp_path: Path) -> None:
    command = Command(tmp_path)
    refused = await command("serve", "--host", "0.0.0.0", "--port", "0")
    assert refused.code == 1
    assert "--expose" in refused.err
    async with serving(command, "--host", "0.0.0.0", "--expose") as served:
        assert "ws://127.0.0.1:" in served.out
        assert (await command("status")).code == 0


async def test_a_signal_ends_it_and_the_configuration_is_read_on_hangup(tmp_path: Path) -> None:
    command = Command(tmp_path)
    async with serving(command, "--log-format", "json") as served:
        command.configure("[limits]\nmax_repeats = 7\n")
        served.process.send_signal(signal.SIGHUP)
        await served.logged("changed: limits.max_repeats")
        served.process.send_signal(signal.SIGINT)
        assert await served.end() == 0
        lines = [json.loads(line) for line in (await served.log()).splitlines()]
        assert [line["message"].partition(" ")[0] for line in lines][-1] == "ended"
        assert {"at", "level", "logger", "message"} == set(lines[0])
    assert os.listdir(command.workspace) == []


async def test_a_hangup_ahead_of_its_handlers_is_a_reload_and_no_end(tmp_path: Path) -> None:
    async with serving(Command(tmp_path), program=("-c", HUNG_UP_EARLY)) as served:
        await served.logged("changed: nothing")
