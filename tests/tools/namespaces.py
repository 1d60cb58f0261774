"""Starts a scene of `network_scenes` in a network namespace of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from empty_network import NOT_POSSIBLE

SCRIPT = Path(__file__).with_name("network_scenes.py")


def in_namespace(scene: str, *arguments: str, **environment: str) -> Any:
    """What a scene of `network_scenes.py` found; each is played once."""
    why_not = namespace_problem()
    if not why_not:
        code, printed, said = play(scene, *arguments, **environment)
        if code != NOT_POSSIBLE:
            assert code == 0, said
            return json.loads(printed)
        why_not = said
    if os.environ.get("CI"):
        pytest.fail(why_not)
    pytest.skip(why_not)


@cache
def play(scene: str, *arguments: str, **environment: str) -> tuple[int, str, str]:
    ran = subprocess.run(
        [*unshare(), sys.executable, str(SCRIPT), scene, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, **environment},
    )
    return ran.returncode, ran.stdout, ran.stderr


def unshare() -> list[str]:
    return ["unshare", "-n"] if os.geteuid() == 0 else ["unshare", "-rn"]


@cache
def namespace_problem() -> str:
    """Why there can be no network namespace here; empty when there can."""
    try:
        ran = subprocess.run([*unshare(), "true"], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return "these tests need unshare (util-linux)"
    return f"no network namespace: {ran.stderr.strip()}" if ran.returncode else ""
