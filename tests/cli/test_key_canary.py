"""A key that is known here is looked for wherever it could have got to: it reached its provider only.

Real commands, as processes, before a scripted server that echoes the key in its errors; then every
file, every output, every command line and every child's environment is searched, for the key and
for the forms in which it travels.
"""

from __future__ import annotations

import base64
import resource
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from urllib.parse import quote

import pytest
import trio

from callboard.providers.testing.script import Step, reply, stall, status
from callboard.providers.testing.scripted_server import ScriptedServer, open_scripted_server
from support.cli.command import PATIENCE_SECONDS, Command, Finished

KEY = "canary+5b/1f0e7c9a=d24?86"
FORMS = {
    KEY,
    quote(KEY),
    quote(KEY, safe=""),
    base64.b64encode(KEY.encode()).decode().rstrip("=")[:-1],
    base64.b64encode(f"user:{KEY}".encode()).decode()[8:-4],
}

ECHO = {
    "error": {
        "message": f"Incorrect key {KEY} ({base64.b64encode(KEY.encode()).decode()}, "
        f"https://api.example/v1?key={quote(KEY, safe='')})\r\n" + 20_000 * "x",
        "code": "invalid_api_key",
    }
}

PROGRAM = '''
import os
from pathlib import Path

import trio
import callboard
from callboard.config.files import data_folder, load_settings


@callboard.tool(process=True)
def look() -> dict[str, str]:
    """Says what a child process can see."""
    parent = os.getppid()  # it keeps the worker; above it is the runtime
    runtime = Path(f"/proc/{parent}/stat").read_text().rpartition(")")[2].split()[1]
    seen = {"environ": "/proc/self/environ", "argv": "/proc/self/cmdline",
            "parent": f"/proc/{parent}/cmdline", "runtime": f"/proc/{runtime}/cmdline"}
    return {name: Path(path).read_bytes().decode(errors="replace") for name, path in seen.items()}


@callboard.tool
async def leak(context: callboard.ToolContext) -> str:
    """Prints what it should not know, and fails with it."""
    value = os.environ["CANARY"]
    context.progress("progress " + value)
    raise RuntimeError("crashed with " + value)


async def main() -> None:
    async with callboard.open_runtime(
        model="house/m", data=data_folder(), settings=load_settings(), tools=[look, leak],
        policy="auto",
    ) as runtime:
        session = await runtime.create_session()
        async with session.prompt("Go.") as turn:
            async for event in turn:
                print(event)


if __name__ == "__main__":
    trio.run(main)
'''


def assert_absent(text: str | bytes, where: object) -> None:
    data = text.encode() if isinstance(text, str) else text
    for form in FORMS:
        assert form.encode() not in data, f"{form!r} is in {where}"


def assert_nowhere(command: Command, *done: Finished) -> None:
    """Searches all files below the home, and what was printed."""
    files = [path for path in command.home.rglob("*") if path.is_file()]
    assert {"callboard.db", "keys.db", "callboard.toml"} <= {path.name for path in files}
    for file in files:
        assert_absent(file.read_bytes(), file)
    for finished in done:
        assert_absent(finished.out, "stdout")
        assert_absent(finished.err, "stderr")


async def with_stored_key(folder: Path, server: ScriptedServer) -> Command:
    command = Command(folder)
    house = f'[providers.house]\nbase_url = "{server.base_url}"\nkey_env = "HOUSE_KEY"\n'
    command.configure(house)
    stored = await command("keys", "set", "house", stdin=f"{KEY}\n".encode())
    assert stored.code == 0, stored.err
    assert_absent(stored.out + stored.err, "what `keys set` says")
    return command


def assert_sent(server: ScriptedServer) -> None:
    """The key travelled in its header, and nowhere else of a request."""
    assert server.requests
    for request in server.requests:
        assert request.headers["authorization"] == f"Bearer {KEY}"
        assert_absent(str(request.body), "a request's body")


LOUD = {"CALLBOARD_DEBUG": "1"}


@pytest.mark.parametrize(
    "step",
    [
        status(401, ECHO),
        status(401, f"<html><title>{KEY}</title>"),
        status(404, {"error": {"message": f"no model at https://user:{KEY}@host/"}}),
    ],
    ids=["401", "page", "404"],
)
async def test_a_provider_that_echoes_the_key_spreads_it_nowhere(
    tmp_path: Path, step: Step
) -> None:
    async with open_scripted_server([step]) as server:
        command = await with_stored_key(tmp_path, server)
        done = await command("run", "--verbose", "--model", "house/m", "Go", environ=LOUD)
        assert done.code == 1
        assert_sent(server)
    listed = await command("keys", "list")
    shown = await command("show", "last", "--json")
    assert "house" in listed.out
    assert "turn_ended" in shown.out
    assert_nowhere(command, done, listed, shown)


async def test_a_file_that_holds_the_key_is_read_without_it(tmp_path: Path) -> None:
    steps = [reply(calls=[("read_file", {"path": "notes.txt"})]), reply("Done.")]
    async with open_scripted_server(steps) as server:
        command = await with_stored_key(tmp_path, server)
        (command.workspace / "notes.txt").write_text(f"first\nHOUSE_KEY={KEY}\nlast\n")
        done = await command("run", "--json", "--model", "house/m", f"Is {KEY} right?")
        assert done.code == 0, done.err
        [_, second] = server.requests
        assert "HOUSE_KEY=***" in str(second.body)
        assert_sent(server)
    shown = await command("show", "last")
    assert "last" in shown.out
    assert_nowhere(command, done, shown)


async def test_children_and_crashing_tools_get_no_key(tmp_path: Path) -> None:
    steps = [reply(calls=[("look", {}), ("leak", {})]), reply("Done.")]
    async with open_scripted_server(steps) as server:
        command = await with_stored_key(tmp_path, server)
        program = tmp_path / "program.py"
        program.write_text(PROGRAM)
        with trio.fail_after(PATIENCE_SECONDS):
            process = await trio.run_process(
                [sys.executable, str(program)],
                capture_stdout=True,
                capture_stderr=True,
                check=False,
                cwd=command.workspace,
                env={**command.environ, "CANARY": KEY},
            )
        done = Finished(process.returncode, process.stdout.decode(), process.stderr.decode())
        assert done.code == 0, done.err
        assert "crashed with ***" in done.out
        assert "progress ***" in done.out
        assert "program.py" in str(server.requests[1].body)  # what the child saw of the runtime
        assert_sent(server)
    assert_nowhere(command, done)


async def test_the_key_of_the_environment_reaches_no_child_and_no_record(tmp_path: Path) -> None:
    steps = [reply(calls=[("look", {}), ("leak", {})]), reply("Done.")]
    async with open_scripted_server(steps) as server:
        command = await with_stored_key(tmp_path, server)
        (tmp_path / "program.py").write_text(PROGRAM)
        other = "canary-of-the-environment-77"
        with trio.fail_after(PATIENCE_SECONDS):
            process = await trio.run_process(
                [sys.executable, str(tmp_path / "program.py")],
                capture_stdout=True,
                cwd=command.workspace,
                env={**command.environ, "CANARY": other, "HOUSE_KEY": other},
            )
        assert all(r.headers["authorization"] == f"Bearer {other}" for r in server.requests)
        assert other.encode() not in process.stdout
        assert other not in str([request.body for request in server.requests])
    for file in command.home.rglob("*"):
        assert file.is_dir() or other.encode() not in file.read_bytes()


async def test_a_command_that_is_killed_leaves_no_core(tmp_path: Path) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    allow = partial(resource.setrlimit, resource.RLIMIT_CORE, (hard, hard))
    async with open_scripted_server([stall("Thinking")]) as server:
        command = await with_stored_key(tmp_path, server)
        async with trio.open_nursery() as nursery:
            process: trio.Process = await nursery.start(
                partial(
                    trio.run_process,
                    [
                        sys.executable,
                        "-m",
                        "callboard",
                        "run",
                        "--model",
                        "house/m",
                        "--json",
                        "Go",
                    ],
                    stdout=subprocess.PIPE,
                    check=False,
                    cwd=command.workspace,
                    env=command.environ,
                    preexec_fn=allow,
                )
            )
            assert process.stdout is not None
            with trio.fail_after(PATIENCE_SECONDS):
                seen = await process.stdout.receive_some()
                while b"Thinking" not in seen:
                    seen += await process.stdout.receive_some()
            running = trio.Path(f"/proc/{process.pid}")
            limits = await (running / "limits").read_text()
            assert_absent(await (running / "cmdline").read_bytes(), "argv")
            process.send_signal(signal.SIGABRT)
            await process.wait()
    [cores] = [line.split()[4:6] for line in limits.splitlines() if line.startswith("Max core")]
    assert cores == ["0", "0"]
    assert process.returncode == -signal.SIGABRT
    assert [path.name for path in command.workspace.iterdir()] == []
