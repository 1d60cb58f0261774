"""Each breakage that `callboard doctor` knows is found, and gone when its fix was followed."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio

from callboard.cli.doctor.files import LITTLE_BYTES, NO_BYTES, file_findings
from callboard.cli.doctor.finding import Finding
from callboard.config.daemon_file import DaemonFile, RunningDaemon
from callboard.config.keys.tokens import Credentials, Role
from callboard.runtime.disk.own_folders import OwnFolders
from callboard.runtime.redaction import Secret
from support.cli.command import Command
from support.providers.bodies import answering
from support.sandbox.sandbox_users import needs_sandbox


class Doctor:
    """The checks, by name."""

    def __init__(self, tmp_path: Path) -> None:
        self.command = Command(tmp_path)
        self.data = self.command.home / "data"
        self.data.mkdir(mode=0o700)
        self.file = self.command.home / "config" / "callboard.toml"
        Credentials(self.data).create("owner", Role.ADMIN)

    async def check(self, name: str) -> dict[str, Any]:
        ran = await self.command("doctor", "--json")
        assert ran.err == ""
        [found] = [each for each in json.loads(ran.out)["checks"] if each["check"] == name]
        broken = any(each["state"] == "problem" for each in json.loads(ran.out)["checks"])
        assert not broken or ran.code == 1
        return dict(found)

    async def is_good(self, name: str) -> bool:
        return bool((await self.check(name))["state"] == "good")

    async def follow(self, fix: str, **environ: str) -> None:
        """Runs what it says, as it stands there."""
        await trio.run_process(fix, shell=True, env={**os.environ, **environ})

    async def edit(self, fix: str, how: str) -> None:
        """Follows `…: $EDITOR FILE`; the editor is one that does this to the file."""
        command = fix.partition(": ")[2]
        assert command == f"$EDITOR {self.file}"
        await self.follow(command, EDITOR=f"sed -i {how}")

    async def callboard(self, fix: str, stdin: bytes = b"") -> None:
        """Runs a command of callboard's own."""
        program, *words = shlex.split(fix.strip("`"))
        assert program == "callboard"
        ran = await self.command(*words, stdin=stdin)
        assert ran.code == 0, ran.err


@pytest.fixture
def doctor(tmp_path: Path) -> Doctor:
    return Doctor(tmp_path)


async def test_permissions(doctor: Doctor) -> None:
    assert await doctor.is_good("permissions")
    (doctor.data / "tokens.json").chmod(0o644)
    doctor.data.chmod(0o777)
    found = await doctor.check("permissions")
    assert found["state"] == "problem"
    await doctor.follow(found["fix"])
    assert await doctor.is_good("permissions")


async def test_configuration(doctor: Doctor) -> None:
    doctor.file.write_text("[limits]\nidle_secondz = 3\n")
    found = await doctor.check("configuration")
    wrong, right = re.findall(r"limits\.(\w+):.* did you mean '(\w+)'", found["words"])[0]
    await doctor.edit(found["fix"], f"s/{wrong}/{right}/")
    assert await doctor.is_good("configuration")
    assert doctor.file.read_text() == "[limits]\nidle_seconds = 3\n"


async def test_sandbox(doctor: Doctor) -> None:
    needs_sandbox()
    good = doctor.file.read_text()
    doctor.file.write_text(f'{good}\n[sandbox]\nread_only = ["{doctor.data}/no-such"]\n')
    found = await doctor.check("sandbox")
    assert (found["state"], "is not there" in found["words"]) == ("problem", True)
    missing = re.findall(r"sandbox\.read_only: (\S+) is not there", found["words"])[0]
    await doctor.edit(found["fix"], f's|"{missing}"||')
    assert await doctor.is_good("sandbox")
    assert doctor.file.read_text() == f"{good}\n[sandbox]\nread_only = []\n"


def test_what_a_purge_left(doctor: Doctor) -> None:
    def check() -> Finding:
        found = {each.check: each for each in file_findings(doctor.data, doctor.file.parent)}
        return found["purged folders"]

    folders = OwnFolders(doctor.data)
    made = folders.make()
    assert check().state == "good"
    folders.set_aside(str(made))
    assert check().state == "warning"
    assert f"purged_{made.name}" in check().words
    folders.sweep()
    assert check().state == "good"


@pytest.mark.parametrize(("free", "state"), [(NO_BYTES - 1, "problem"), (NO_BYTES, "warning")])
def test_disk(
    free: int, state: str, doctor: Doctor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    roomy = tmp_path / "roomy"
    roomy.mkdir()

    def usage(path: Path) -> Any:
        return SimpleNamespace(free=LITTLE_BYTES if path == roomy else free)

    def check(data: Path) -> Finding:
        [found] = [each for each in file_findings(data, doctor.file.parent) if each.check == "disk"]
        return found

    monkeypatch.setattr(shutil, "disk_usage", usage)
    found = check(doctor.data)
    assert (found.state, str(doctor.data) in found.words) == (state, True)
    assert "move the data folder: --data" in found.fix
    assert check(roomy).state == "good"
    free = LITTLE_BYTES  # as if some space had been freed
    assert check(doctor.data).state == "good"


async def test_data_folder(doctor: Doctor) -> None:
    moved = doctor.data.with_name("elsewhere")
    doctor.data.rename(moved)
    doctor.data.write_text("")
    found = await doctor.check("data folder")
    assert found["state"] == "problem"
    fix = found["fix"].removeprefix("move it away: ").partition(",")[0]
    await doctor.follow(fix)
    moved.rename(doctor.data)
    assert await doctor.is_good("data folder")


async def test_clock(doctor: Doctor, tmp_path: Path) -> None:
    """A clock that is set by the command that is named; here one that tells what it was called with."""
    file = doctor.data / "tokens.json"
    now = file.stat().st_mtime
    os.utime(file, (now + 7200, now + 7200))
    found = await doctor.check("clock")
    assert (found["state"], "2.0 h" in found["words"]) == ("problem", True)
    fix = found["fix"].removeprefix("set it: ").partition(";")[0]
    told = tmp_path / "timedatectl"
    told.write_text(f'#!/bin/sh\n[ "$*" = "set-ntp true" ] && touch "{file}"\n')
    told.chmod(0o755)
    await doctor.follow(fix, PATH=f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert await doctor.is_good("clock")


@contextmanager
def another_process(code: str, *arguments: str) -> Generator[subprocess.Popen[str]]:
    """One that does this, and then nothing more until it is ended."""
    words = [sys.executable, "-c", code + "\nprint('there', flush=True)\ntime.sleep(60)"]
    with subprocess.Popen([*words, *arguments], stdout=subprocess.PIPE, text=True) as running:
        try:
            assert running.stdout is not None
            assert running.stdout.readline() == "there\n"
            yield running
        finally:
            running.kill()


async def test_what_a_dead_daemon_left(doctor: Doctor) -> None:
    assert await doctor.is_good("locks")
    doctor.file.write_text(f"{doctor.file.read_text()}\n[server]\nport = 0\n")  # free in any case
    running = RunningDaemon(
        url="ws://127.0.0.1:9/ws", pid=os.getpid(), token=Secret("cb_x"), started_at_ms=1
    )
    with DaemonFile(doctor.data, running) as file:
        content = file.path.read_bytes()
    file.path.write_bytes(content)
    file.path.chmod(0o600)
    found = await doctor.check("locks")
    assert (found["state"], "has died" in found["words"]) == ("warning", True)
    await doctor.follow(found["fix"].rpartition("or: ")[2])
    assert await doctor.is_good("locks")


async def test_another_process_that_writes(doctor: Doctor) -> None:
    code = (
        "import sys, time; from pathlib import Path; "
        "from callboard.runtime.disk.data_lock import DataLock; lock = DataLock(Path(sys.argv[1]))"
    )
    with another_process(code, str(doctor.data)) as holder:
        found = await doctor.check("locks")
        assert f"process {holder.pid} writes" in found["words"]
        await doctor.follow(found["fix"].rpartition(": ")[2])
        holder.wait(10)
        assert await doctor.is_good("locks")


async def test_port(doctor: Doctor) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        doctor.file.write_text(f"{doctor.file.read_text()}\n[server]\nport = {port}\n")
        found = await doctor.check("port")
        assert (found["state"], str(port) in found["words"]) == ("warning", True)
        free = re.findall(r"--port (\d+)` takes a free one; \[server\] port keeps it", found["fix"])
        doctor.file.write_text(
            doctor.file.read_text().replace(f"port = {port}", f"port = {free[0]}")
        )
        assert await doctor.is_good("port")


async def test_provider_and_key(doctor: Doctor) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()[:2]
        url = f"http://{address[0]}:{address[1]}/v1"
        text = f'model = "house/qwen"\n[providers.house]\nbase_url = "{url}"\n'
        doctor.file.write_text(text + 'key_env = "HOUSE_TEST_KEY"\n')
        found = await doctor.check("keys")
        assert (found["state"], "HOUSE_TEST_KEY" in found["words"]) == ("problem", True)
        name = re.findall(r"`callboard keys set (\w+)`", found["words"])[0]
        await doctor.callboard(
            found["fix"].replace("PROVIDER", name), stdin=b"house-key-for-a-test\n"
        )
        assert await doctor.is_good("provider")
    found = await doctor.check("provider")
    assert found["state"] == "problem"
    assert "`callboard providers test house`" in found["fix"]
    with socket.create_server(address):  # it was started
        assert await doctor.is_good("provider")


async def test_the_window_of_a_local_server(doctor: Doctor) -> None:
    bodies: dict[bytes, bytes | None] = {
        b"/v1/models": b'{"data":[{"id":"qwen3:8b","owned_by":"library"}]}',
        b"/api/ps": b'{"models":[{"model":"qwen3:8b","context_length":4096}]}',
    }
    async with answering(bodies) as url:
        doctor.file.write_text(
            f'model = "ollama/qwen3:8b"\n[providers.ollama]\nbase_url = "{url}"\n'
        )
        found = await doctor.check("window")
        assert (found["state"], "4096 tokens" in found["words"]) == ("warning", True)
        assert found["fix"].startswith("OLLAMA_CONTEXT_LENGTH=")
        bodies[b"/api/ps"] = b'{"models":[{"model":"qwen3:8b","context_length":32768}]}'
        assert await doctor.is_good("window")


async def test_model(doctor: Doctor) -> None:
    await doctor.callboard("callboard models default rehearsal/rehearsal")
    chosen = doctor.file.with_name("managed.toml")
    chosen.write_text(chosen.read_text().replace("rehearsal/", "nobody/"))
    found = await doctor.check("model")
    assert (found["state"], "nobody" in found["words"]) == ("problem", True)
    fix = found["fix"].replace("PROVIDER/MODEL", "rehearsal/rehearsal").partition(" chooses")[0]
    await doctor.callboard(fix)
    assert (await doctor.check("model"))["state"] != "problem"


async def test_a_model_of_ones_own_file(doctor: Doctor) -> None:
    """There no command helps: the file wins over what commands write."""
    doctor.file.write_text(f'model = "nobody/x"\n{doctor.file.read_text()}')
    found = await doctor.check("model")
    assert (found["state"], "nobody" in found["words"]) == ("problem", True)
    await doctor.edit(found["fix"], "s|nobody/x|rehearsal/rehearsal|")
    assert (await doctor.check("model"))["state"] != "problem"


async def test_a_daemon_that_holds_its_file_and_does_not_answer(doctor: Doctor) -> None:
    doctor.file.write_text(f"{doctor.file.read_text()}\n[server]\nport = 0\n")  # free in any case
    code = (
        "import os, sys, time; from pathlib import Path; "
        "from callboard.config.daemon_file import DaemonFile, RunningDaemon; "
        "from callboard.runtime.redaction import Secret; "
        "DaemonFile(Path(sys.argv[1]), RunningDaemon(url='ws://127.0.0.1:9/ws', pid=os.getpid(), "
        "token=Secret('cb_x'), started_at_ms=1)).__enter__()"
    )
    with another_process(code, str(doctor.data)) as stuck:
        found = await doctor.check("daemon")
        assert found["state"] == "problem"
        assert str(stuck.pid) in found["words"]
        logs, stop = found["fix"].partition(" says why; ")[::2]
        assert logs == "`callboard logs`"
        await doctor.callboard(stop.partition(",")[0])
        stuck.wait(10)
        assert await doctor.is_good("port")
