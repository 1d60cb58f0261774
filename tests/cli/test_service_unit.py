"""`callboard service` writes a unit that systemd reads without a complaint."""

from __future__ import annotations

import os
import plistlib
import pwd
import shutil
import stat
import subprocess
from pathlib import Path

import msgspec
import pytest

from callboard.cli.daemon import service
from callboard.cli.daemon.service_unit import ServicePlan, launchd_plist, systemd_unit
from callboard.config.files import data_folder
from callboard.runtime.errors import ValidationError
from support.cli.command import Command


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
    assert found["ReadWritePaths"] == '"/var/lib/a $place of 50%%" /srv'


def test_no_path_adds_a_setting() -> None:
    good = plan(is_system=True)
    bad = "/srv/x\nExecStartPre=/bin/evil"
    for place in (
        {"command": ("/usr/bin/env", bad)},
        {"data": Path(bad)},
        {"roots": (Path(bad),)},
        {"user": "a\rb"},
        {"environment": (("CALLBOARD_HOME", bad),)},
        {"roots": (Path("/srv/\udcff"),)},
        {"roots": (Path("/srv/\x1b[2J"),)},
    ):
        for text_of in (systemd_unit, launchd_plist):
            assert text_of(good)
            with pytest.raises(ValidationError, match="control character, or is not UTF-8"):
                text_of(msgspec.structs.replace(good, **place))


def test_a_dollar_is_doubled_in_commands_alone() -> None:
    value = "/srv/$HOME of %h"
    text = systemd_unit(
        msgspec.structs.replace(
            plan(is_system=True),
            command=("/usr/bin/env", value),
            data=Path(value),
            roots=(),
            environment=(("CALLBOARD_HOME", value),),
        )
    )
    assert 'ExecStart=/usr/bin/env "/srv/$$HOME of %%h"' in text
    assert 'Environment="CALLBOARD_HOME=/srv/$HOME of %%h"' in text
    assert 'ReadWritePaths="/srv/$HOME of %%h"' in text


# ── of the machine ───────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine on which this test may write units, and whose user `ada` is the one of this process."""

    def named(name: str) -> pwd.struct_passwd:
        uid = {"ada": os.geteuid(), "bob": os.geteuid() + 1}[name]
        home = str(tmp_path / "homes" / name)
        return pwd.struct_passwd((name, "x", uid, os.getegid(), "", home, "/bin/sh"))

    monkeypatch.setattr(service, "SYSTEM_FOLDER", tmp_path / "units")
    monkeypatch.setattr(service, "_check_rights", lambda *, is_system: None)
    monkeypatch.setattr(pwd, "getpwnam", named)
    monkeypatch.setenv("SUDO_USER", "ada")
    monkeypatch.delenv("CALLBOARD_HOME", raising=False)
    return tmp_path


def install(user: str | None = None, data: Path | None = None) -> int:
    return service.install(system=True, user=user, data=data, no_start=True)


def test_a_unit_of_the_machine_has_the_folders_of_its_account(
    machine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert install() == 0
    unit = settings((machine / "units" / "callboard.service").read_text())
    data = data_folder({"HOME": str(machine / "homes" / "ada")})
    assert (unit["User"], unit["ReadWritePaths"]) == ("ada", str(data))
    assert unit["ExecStart"].endswith(f"serve --data {data}")
    assert stat.S_IMODE(data.stat().st_mode) == 0o700
    assert f"as:   ada, with the data in {data}" in capsys.readouterr().out


def test_an_account_that_can_not_use_its_folder_is_refused(machine: Path) -> None:
    data = machine / "taken"
    data.mkdir()
    assert install("ada", data) == 0
    with pytest.raises(ValidationError, match=f"chown -R bob {data}"):
        install("bob", data)
    with pytest.raises(ValidationError, match="no user 'nobody-at-all'"):
        install("nobody-at-all")
    unit = settings((machine / "units" / "callboard.service").read_text())
    assert unit["User"] == "ada"  # nothing was written for the others
    with pytest.raises(ValidationError, match="--user is for --system"):
        service.install(user="ada", data=data, no_start=True)


def test_the_plist_of_launchd_has_the_same_command() -> None:
    document = plistlib.loads(launchd_plist(plan(is_system=False)).encode())
    assert document["ProgramArguments"] == list(plan(is_system=False).command)


async def test_it_is_written_and_removed(tmp_path: Path) -> None:
    command = Command(tmp_path)
    command.extra = {"XDG_CONFIG_HOME": str(tmp_path / "xdg"), "PATH": "/nowhere"}
    unit = tmp_path / "xdg" / "systemd" / "user" / "callboard.service"
    written = await command("service", "install", "--no-start", "--root", str(command.workspace))
    assert (written.code, written.err) == (0, "")
    assert f"--root {command.workspace}" in unit.read_text()
    assert f"CALLBOARD_HOME={command.home}" in unit.read_text()
    assert "systemctl --user enable --now callboard.service" in written.out
    removed = await command("service", "uninstall")
    assert (removed.code, unit.exists()) == (1, False)  # no systemctl is on that PATH: it says so
    assert "systemctl" in removed.out
    again = await command("service", "uninstall")
    assert "nothing is installed" in again.err
    unit.write_text("[Unit]\nDescription=of somebody else\n")
    refused = await command("service", "install", "--no-start")
    assert (refused.code, "not callboard's" in refused.err) == (1, True)
