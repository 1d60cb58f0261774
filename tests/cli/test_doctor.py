"""`callboard doctor` says how strong the sandbox is, and fails when that is not enough."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from sandbox_users import needs_sandbox

from callboard.__main__ import main
from callboard.config.sandbox_settings import Strength
from callboard.tools.sandbox import sandbox
from callboard.tools.sandbox.strength import SandboxStatus


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
    assert "not offered" in out
    assert "not offered to models: run_code, shell, process, git_status, " in out
    assert "run_tests" in out


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
