"""Which of /proc's entries could be written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from callboard.config.sections import SandboxSettings, Strength
from callboard.tools.sandbox.box.kernel_files import MAX_LOOKED_AT, writable_kernel_files
from callboard.tools.sandbox.selftest import self_test as strength
from callboard.tools.sandbox.selftest.self_test import StrengthTest
from support.sandbox.sandbox_users import needs_sandbox


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    for name, mode in {
        "cpuinfo": 0o444,
        "mtrr": 0o644,
        "pressure/cpu": 0o666,
        "sys/kernel/core_pattern": 0o644,
        "sys/kernel/osrelease": 0o444,
        "tty/drivers": 0o444,
        "17/oom_score_adj": 0o644,
    }.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("")
        file.chmod(mode)
    (tmp_path / "self").symlink_to("17")
    return tmp_path


def found(proc: Path, uid: int) -> list[str]:
    return [os.path.basename(path) for path in writable_kernel_files(uid, str(proc))]


def test_what_its_owner_or_everybody_may_write(proc: Path) -> None:
    assert found(proc, os.getuid()) == ["mtrr", "pressure", "sys"]
    assert found(proc, os.getuid() + 1) == ["pressure"]


def test_a_folder_that_holds_too_much_is_covered_unseen(proc: Path) -> None:
    for number in range(MAX_LOOKED_AT):
        (proc / "tty" / str(number)).touch(0o444)
    assert found(proc, os.getuid() + 1) == ["pressure", "tty"]


def test_case_49_one_that_lets_settings_of_the_kernel_be_written_is_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    needs_sandbox()
    if os.geteuid() != 0:
        pytest.skip("an ordinary user may write none of them in any case")
    monkeypatch.setattr(strength, "writable_kernel_files", lambda uid: ())
    status = StrengthTest(SandboxSettings(), os.environ).status()
    assert status.strength is Strength.NONE
    assert "change a setting of the kernel" in status.reason
