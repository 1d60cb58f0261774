"""Each breakage that `callboard doctor` knows is found, and gone when its fix was followed."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest
import trio
from command import Command

from callboard.config.credentials import Credentials, Role
from callboard.config.daemon_file import DaemonFile, RunningDaemon
from callboard.runtime.data_lock import DataLock
from callboard.runtime.secrets import Secret


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


@pytest.fixture
def doctor(tmp_path: Path) -> Doctor:
    return Doctor(tmp_path)


async def test_permissions(doctor: Doctor) -> None:
    assert await doctor.is_good("permissions")
    (doctor.data / "tokens.json").chmod(0o644)
    doctor.data.chmod(0o777)
    found = await doctor.check("permissions")
    assert found["state"] == "problem"
    await trio.run_process(found["fix"], shell=True)
    assert await doctor.is_good("permissions")


async def test_configuration(doctor: Doctor) -> None:
    good = doctor.file.read_text()
    doctor.file.write_text("[limits]\nidle_secondz = 3\n")
    found = await doctor.check("configuration")
    assert "idle_seconds" in found["words"]
    assert str(doctor.file) in found["fix"]
    doctor.file.write_text(good)
    assert await doctor.is_good("configuration")


async def test_data_folder(doctor: Doctor) -> None:
    moved = doctor.data.with_name("elsewhere")
    doctor.data.rename(moved)
    doctor.data.write_text("")
    found = await doctor.check("data folder")
    assert found["state"] == "problem"
    fix = found["fix"].removeprefix("move it away: ").partition(",")[0]
    await trio.run_process(fix, shell=True)
    moved.rename(doctor.data)
    assert await doctor.is_good("data folder")


async def test_clock(doctor: Doctor) -> None:
    file = doctor.data / "tokens.json"
    now = file.stat().st_mtime
    os.utime(file, (now + 7200, now + 7200))
    found = await doctor.check("clock")
    assert (found["state"], "2.0 h" in found["words"]) == ("problem", True)
    os.utime(file, (now, now))  # as if the clock had been set
    assert await doctor.is_good("clock")


async def test_locks(doctor: Doctor) -> None:
    assert await doctor.is_good("locks")
    running = RunningDaemon(
        url="ws://127.0.0.1:9/ws", pid=os.getpid(), token=Secret("cb_x"), started_at_ms=1
    )
    with DaemonFile(doctor.data, running) as file:
        content = file.path.read_bytes()
    file.path.write_bytes(content)
    file.path.chmod(0o600)
    found = await doctor.check("locks")
    assert (found["state"], "has died" in found["words"]) == ("warning", True)
    file.path.unlink()
    lock = DataLock(doctor.data)
    found = await doctor.check("locks")
    assert f"process {os.getpid()} writes" in found["words"]
    lock.release()
    assert await doctor.is_good("locks")


async def test_port(doctor: Doctor) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        doctor.file.write_text(f"{doctor.file.read_text()}\n[server]\nport = {port}\n")
        found = await doctor.check("port")
        assert (found["state"], str(port) in found["words"]) == ("warning", True)
        assert "--port 0" in found["fix"]
    assert await doctor.is_good("port")


async def test_provider_and_key(doctor: Doctor) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"http://127.0.0.1:{server.getsockname()[1]}/v1"
        text = f'model = "house/qwen"\n[providers.house]\nbase_url = "{address}"\n'
        doctor.file.write_text(text + 'key_env = "HOUSE_TEST_KEY"\n')
        found = await doctor.check("keys")
        assert (found["state"], "HOUSE_TEST_KEY" in found["words"]) == ("problem", True)
        doctor.command.extra = {"HOUSE_TEST_KEY": "house-key-for-a-test"}
        assert await doctor.is_good("provider")
    found = await doctor.check("provider")
    assert found["state"] == "problem"
    assert "providers test house" in found["fix"]


async def test_a_daemon_that_holds_its_file_and_does_not_answer(doctor: Doctor) -> None:
    running = RunningDaemon(
        url="ws://127.0.0.1:9/ws", pid=os.getpid(), token=Secret("cb_x"), started_at_ms=1
    )
    with DaemonFile(doctor.data, running):
        found = await doctor.check("daemon")
        assert found["state"] == "problem"
        assert "callboard stop" in found["fix"]
    assert await doctor.is_good("port")
