"""While a daemon stops, `/readyz` tells an administrator what it waits for, and `callboard stop` repeats it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import trio

import callboard
from callboard.cli.app import execute
from callboard.cli.daemon import stop
from callboard.config.daemon_file import RunningDaemon, find_daemon
from callboard.embedding.runtime import host_of
from callboard.runtime.redaction import Secret
from callboard.runtime.wire.fields import Role
from support.gateway.daemon_scene import Daemon, open_daemon


async def ask(daemon: Daemon, token: str = "") -> str:
    async with await trio.open_tcp_stream("127.0.0.1", daemon.gateway.port) as stream:
        bearer = f"Authorization: Bearer {token}\r\n" if token else ""
        head = f"GET /readyz HTTP/1.1\r\nHost: 127.0.0.1:{daemon.gateway.port}\r\n{bearer}"
        head += "Connection: close\r\n\r\n"
        await stream.send_all(head.encode())
        return b"".join([data async for data in stream]).decode().partition("\r\n\r\n")[2].strip()


async def test_only_an_administrator_learns_what_an_end_waits_for() -> None:
    goes_on, runs = trio.Event(), trio.Event()

    @callboard.tool
    async def wait_here() -> str:
        """Waits."""
        runs.set()
        await goes_on.wait()
        return "done"

    model = callboard.ScriptedModel(
        [callboard.reply(calls=[("wait_here", {})]), callboard.reply("Done.")]
    )
    async with open_daemon(model, tools=[wait_here], policy="auto") as daemon:
        observer = daemon.credentials.create("observer", Role.OBSERVER).reveal()
        session = await daemon.runtime.create_session()
        async with session.prompt("Wait.") as turn:
            await runs.wait()
            assert await ask(daemon) == "ready"
            daemon.gateway.daemon.stop()
            assert await ask(daemon) == await ask(daemon, observer) == "stopping"
            said = await ask(daemon, daemon.token)
            assert said.startswith("stopping: 1 turn runs; it has 20 s to end (session_")
            assert "wait_here for " in said
            running = RunningDaemon(
                url=daemon.url, pid=os.getpid(), token=Secret(daemon.token), started_at_ms=0
            )
            assert f"stopping: {await stop._waits_for(running)}".startswith(said[:50])
            health = host_of(daemon.runtime).plan.store.health
            health.damage = lambda: "The disk has not answered."
            assert await ask(daemon, daemon.token) == "stopping: The disk has not answered."
            health.damage = str
            goes_on.set()
            assert await turn.answer() == "Done."
        assert await ask(daemon, daemon.token) == "stopping: its sessions end."


STUCK = """
import signal, sys, time
from pathlib import Path
from callboard.config.daemon_file import DaemonFile, RunningDaemon
from callboard.runtime.redaction import Secret
import os
signal.signal(signal.SIGTERM, signal.SIG_IGN)  # as one that waits for its disk
running = RunningDaemon(
    url="ws://127.0.0.1:9/ws", pid=os.getpid(), token=Secret("t" * 40), started_at_ms=0
)
with DaemonFile(Path(sys.argv[1]), running):
    print("runs", flush=True)
    sys.stdin.read()
"""


def test_now_ends_a_process_that_does_not_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(stop, "NOW_SECONDS", 0.1)
    monkeypatch.setattr(stop, "QUIET_SECONDS", 0.1)
    command = [sys.executable, "-c", STUCK, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"runs\n"
        assert execute(["stop", "--now", "--data", str(tmp_path)]) == 0
        assert process.wait() == -signal.SIGKILL
    said = capsys.readouterr()
    assert f"The daemon has ended (process {process.pid})" in said.out
    assert "The daemon closes its store" in said.err
    assert "so its process is ended. What was acknowledged is stored" in said.err
    assert find_daemon(tmp_path) is None
