"""`callboard doctor` says how strong the sandbox is, and fails when that is not enough."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from callboard.__main__ import main
from callboard.config.sections import Strength
from callboard.tools.sandbox import sandbox
from callboard.tools.sandbox.selftest.self_test import INSTALL, USER_NAMESPACES, SandboxStatus
from support.sandbox.sandbox_users import needs_sandbox


def test_a_sandbox_that_holds(capsys: pytest.CaptureFixture[str]) -> None:
    needs_sandbox()
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("sandbox: full (at least full is wanted)\n")
    assert "bwrap" in out
    assert "  memory and processes: " in out
    assert ("run_as" in out) is (os.geteuid() == 0)
    assert main(["doctor", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["sandbox"]
    assert told["strength"] == "full"
    assert told["bounds"] in out
    assert told["advice"] in out


def test_none_says_what_is_missing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    none = SandboxStatus(strength=Strength.NONE, reason="bwrap was not found.")
    monkeypatch.setattr(sandbox.Sandbox, "status", lambda self: none)
    assert main(["doctor"]) == 1
    out = capsys.readouterr().out
    assert "bwrap was not found." in out
    assert "  fix: docs/sandbox.md says what it takes" in out
    assert "not offered" in out
    assert "not offered to models: run_code, shell, process, git_status, " in out
    assert "run_tests" in out


@pytest.mark.parametrize(
    ("strength", "reason", "fix"),
    [
        (Strength.NONE, f"bwrap was not found in /bin. {INSTALL}", "apt install bubblewrap"),
        (Strength.NONE, f"it could not be started. {USER_NAMESPACES}", "bwrap-userns-restrict"),
        (Strength.NONE, "sandbox.run_as: there is no user 'x'", "$EDITOR"),
        (Strength.PARTIAL, "no filter", 'minimum = "partial"'),
    ],
)
def test_each_weakness_has_its_fix(
    strength: Strength,
    reason: str,
    fix: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def checked(status: SandboxStatus) -> dict[str, str]:
        monkeypatch.setattr(sandbox.Sandbox, "status", lambda self: status)
        assert main(["doctor", "--json"]) == (status.strength is not Strength.FULL)
        told = json.loads(capsys.readouterr().out)["checks"]
        return next(each for each in told if each["check"] == "sandbox")

    found = checked(SandboxStatus(strength=strength, reason=reason))
    assert (found["state"], reason in found["words"], fix in found["fix"]) == (
        "problem",
        True,
        True,
    )
    good = checked(SandboxStatus(strength=Strength.FULL))
    assert good == {"check": "sandbox", "state": "good", "words": "full"}


def test_tools_that_are_withheld_are_told_with_the_reason(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    needs_sandbox()
    config = tmp_path / "callboard.toml"
    place = tmp_path / "data sets"
    config.write_text(f'[sandbox]\nread_only = ["{place}"]\n')
    assert main(["tools", "--config", str(config)]) == 0
    told = capsys.readouterr()
    assert "run_tests" in told.out
    said = " ".join(told.err.split())
    assert said.startswith("callboard: Not offered to models here: run_code, shell, process, git_")
    assert f"sandbox.read_only: {place} is not there" in said
    assert main(["doctor", "--config", str(config)]) == 1
    assert f"sandbox.read_only: {place} is not there" in capsys.readouterr().out

    (there := tmp_path / "there").mkdir()  # the test of the other one is kept for some hours
    config.write_text(f'[sandbox]\nread_only = ["{there}"]\n')
    assert main(["tools", "--config", str(config)]) == 0
    told = capsys.readouterr()
    assert ("run_tests" in told.out, told.err) == (True, "")
