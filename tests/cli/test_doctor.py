"""`callboard doctor` says how strong the sandbox is, and fails when that is not enough."""

from __future__ import annotations

import json
import os

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
