"""Programs don't reach other file systems that are mounted in their workspace; as root and as an ordinary user."""

from __future__ import annotations

import os
import subprocess
from typing import Any

import pytest

from support.environment import SUPPORT
from support.sandbox.mount_scenes import WITHIN
from support.sandbox.sandbox_users import USERS, needs_sandbox, played

SCRIPT = SUPPORT / "sandbox" / "mount_scenes.py"


@pytest.fixture(scope="module", params=USERS)
def found(request: pytest.FixtureRequest) -> dict[str, Any]:
    needs_sandbox()
    can_mount = subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False)
    if os.geteuid() != 0 or can_mount.returncode:
        pytest.skip(f"nothing can be mounted here: {can_mount.stderr.decode() or 'not root'}")
    return played(request.param, SCRIPT, WITHIN)


def test_case_74_what_is_mounted_in_a_workspace_is_empty_inside(found: dict[str, Any]) -> None:
    inside = found["mounts"]["inside"]
    assert inside["secrets"] == []
    assert inside["listed"] == {"data": [], "deep/a b": [], "plain": ["own"], "late": []}
    assert inside["written"] == {
        "data": "OSError",
        "deep/a b": "OSError",
        "plain": None,  # the controls
        "late": None,
    }
    assert inside["file"] == ["PermissionError", "PermissionError"]
    assert inside["moved"] == "OSError"
    assert found["mounts"]["outside"] == ["secret"]  # the control: it is there


def test_case_74_what_is_mounted_while_a_program_runs_ends_it(found: dict[str, Any]) -> None:
    assert found["mounts"]["late"] == "mount"
    assert found["mounts"]["hidden then"] == []


def test_case_74_where_it_can_not_be_hidden_nothing_runs(found: dict[str, Any]) -> None:
    error_type, text = found["partial"]
    assert error_type == "sandbox_unavailable"
    assert "/mounts/data" in text
