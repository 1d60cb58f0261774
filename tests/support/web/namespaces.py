"""Starts scenes of `network_scenes` in a network namespace of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from support.environment import finds_support
from support.web.empty_network import NOT_POSSIBLE

SCRIPT = Path(__file__).with_name("network_scenes.py")

Play = tuple[str, ...]
"""A scene of `network_scenes.py`, the tool that makes its requests, and what the scene is told."""


def in_namespace(scene: str, tool: str = "http_request", **environment: str) -> Any:
    """What a scene found that has a process to itself; it is played once."""
    return all_in_namespace((scene, tool), **environment)[scene, tool]


def all_in_namespace(*plays: Play, **environment: str) -> dict[Play, Any]:
    """What scenes found, one after the other in one process; they are played once."""
    why_not = namespace_problem()
    if not why_not:
        code, printed, said = play(*plays, **environment)
        if code != NOT_POSSIBLE:
            assert code == 0, said
            return dict(zip(plays, json.loads(printed), strict=True))
        why_not = said
    if os.environ.get("CI"):
        pytest.fail(why_not)
    pytest.skip(why_not)


@cache
def play(*plays: Play, **environment: str) -> tuple[int, str, str]:
    ran = subprocess.run(
        [*unshare(), sys.executable, str(SCRIPT), json.dumps(plays)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=finds_support({**os.environ, **environment}),
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
