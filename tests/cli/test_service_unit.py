"""`callboard service` writes a unit that systemd reads without a complaint."""

from __future__ import annotations

import plistlib
import shutil
import subprocess
from pathlib import Path

import pytest
from command import Command

from callboard.cli.service_unit import ServicePlan, launchd_plist, systemd_unit


def plan(*, is_system: bool) -> ServicePlan:
    return ServicePlan(
        command=("/usr/bin/env", "callboard", "serve", "--data", "/var/lib/a $place of 50%"),
        is_system=is_system,
        user="root",
        data=Path("/var/lib/a $place of 50%"),
        roots=(Path("/srv"),),
        environment=(("CALLBOARD_HOME", "/srv/call board"),),
    )


def settings(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


@pytest.mark.parametrize("is_system", [False, True])
def test_systemd_reads_it_without_a_complaint(tmp_path: Path, *, is_system: bool) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("there is no systemd-analyze on this machine")
    unit = tmp_path / "callboard.service"

    def complaints(text: str) -> str:
        unit.write_text(text)
        ran = subprocess.run(
            [analyze, "verify", str(unit)], capture_output=True, text=True, check=False
        )
        return ran.stderr

    text = systemd_unit(plan(is_system=is_system))
    assert complaints(text) == ""
    assert "Wacthdog" in complaints(text.replace("WatchdogSec", "WacthdogSec"))


def test_it_is_watched_and_reloaded_and_hardened_as_far_as_the_sandbox_works() -> None:
    for is_system in (False, True):
        found = settings(systemd_unit(plan(is_system=is_system)))
        assert (found["Type"], found["WatchdogSec"]) == ("notify", "60")
        assert found["ExecReload"] == "/bin/kill -HUP $MAINPID"
        assert found["NoNewPrivileges"] == "yes"
        assert found["ExecStart"].endswith('"/var/lib/a $$place of 50%%"')
        for breaks_the_sandbox in ("RestrictNamespaces", "ProtectKernelTunables", "ProtectProc"):
            assert breaks_the_sandbox not in found
        assert ("User" in found) is is_system
    assert found["ReadWritePaths"] == '"/var/lib/a $$place of 50%%" /srv'


def test_the_plist_of_launchd_has_the_same_command() -> None:
    document = plistlib.loads(launchd_plist(plan(is_system=False)).encode())
    assert document["ProgramArguments"] == list(plan(is_system=False).command)


async def test_it_is_written_and_removed(tmp_path: Path) -> None:
    command = Command(tmp_path)
    command.extra = {"XDG_CONFIG_HOME": str(tmp_path / "xdg"), "PATH": "/nowhere"}
    unit = tmp_path / "xdg" / "systemd" / "user" / "callboard.service"
    written = await command("service", "install", "--no-start", "--root", str(tmp_path))
    assert (written.code, written.err) == (0, "")
    assert f"--root {tmp_path}" in unit.read_text()
    assert f"CALLBOARD_HOME={command.home}" in unit.read_text()
    assert "systemctl --user enable --now callboard.service" in written.out
    removed = await command("service", "uninstall")
    assert (removed.code, unit.exists()) == (
        1,
        False,
    )  # no systemctl is on that PATH, and it says so
    assert "systemctl" in removed.out
    again = await command("service", "uninstall")
    assert "nothing is installed" in again.err
    unit.write_text("[Unit]\nDescription=of somebody else\n")
    refused = await command("service", "install", "--no-start")
    assert (refused.code, "not callboard's" in refused.err) == (1, True)
