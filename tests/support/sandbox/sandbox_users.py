"""Plays the scenes of `sandbox_scenes` as the user of the tests, and as one without rights."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from callboard.config.sections import SandboxSettings
from callboard.tools.sandbox.selftest.self_test import cheap_problem, strength_test

SCRIPT = Path(__file__).with_name("sandbox_scenes.py")
NOBODY = "65534"
USERS = ("own", "nobody")

MAY_RUN = """
import subprocess, sys
import callboard.tools.sandbox.sandbox
subprocess.run([sys.executable, "-c", ""], check=True)
"""
"""Also by itself: setpriv may start what is in a folder that is closed to who it becomes."""


def needs_sandbox() -> None:
    """Skips where there can be no sandbox; fails in the whole check."""
    if (problem := cheap_problem()) is not None:
        give_up(problem)


def measured_sandbox() -> None:
    """Waits until the sandbox of this process is measured, with the usual settings."""
    strength_test(SandboxSettings(), os.environ).status()


def give_up(why: str) -> None:
    if os.environ.get("CI"):
        pytest.fail(why)
    pytest.skip(why)


@cache
def played(user: str, script: Path = SCRIPT, within: tuple[str, ...] = ()) -> dict[str, Any]:
    """What the scenes of a script found; they are played once for each user, within another command."""
    command = [*within, *python_of(user)]
    with tempfile.TemporaryDirectory() as place:
        # Its parent is open to all, itself is the user's own.
        folder = Path(place, "scenes")
        folder.mkdir()
        os.chmod(place, 0o755)
        if user == "nobody":
            os.chown(folder, int(NOBODY), int(NOBODY))
        ran = subprocess.run(
            [*command, str(script), str(folder)],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(sys.path),
                "PYTHONDONTWRITEBYTECODE": "1",
            },
            cwd=place,
        )
    assert ran.returncode == 0, ran.stderr
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


@cache
def python_of(user: str) -> list[str]:
    """The command that runs this Python as a user: `own` or `nobody`."""
    if user == "own":
        return [sys.executable]
    if os.geteuid() != 0:
        pytest.skip("the user of the tests is an ordinary one: there is no other to be")
    if shutil.which("setpriv") is None:
        give_up("these tests need setpriv (util-linux)")
    become = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for python in (sys.executable, f"/usr/bin/{version}", f"/usr/local/bin/{version}"):
        try:
            ran = subprocess.run(
                [*become, python, "-c", MAY_RUN],
                capture_output=True,
                text=True,
                check=False,
                cwd="/",
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            )
        except OSError:
            continue
        if ran.returncode == 0:
            return [*become, python]
    give_up(f"nobody can't run a {version} that has what callboard needs")
    raise AssertionError
