"""A runtime is killed at operations of its disk, killed again in its recovery, and goes on soundly.

`support/crash/lives.py` says what an operation is, what is played, and what is judged. Here two places;
`make soak` takes all of them, with the power lost and without.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.crash.lives import FLOWS

SOAK = bool(os.environ.get("CALLBOARD_SOAK"))
EVERYWHERE = [f"{flow}:{power}:*" for flow in FLOWS for power in (0, 1)]
SOME = ["parallel:1:118", "delegation:0:145"]
"""Within the flow: commits, and changes of files."""


def deaths(folder: Path, *words: str) -> dict[str, list[int]]:
    """How many first lives died, and how many died again while they recovered."""
    done = subprocess.run(
        [sys.executable, "-m", "support.crash.lives", str(folder), *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[1],
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, list[int]] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("words", [[each] for each in EVERYWHERE] if SOAK else [SOME])
def test_wherever_it_dies_what_was_acknowledged_goes_on(tmp_path: Path, words: list[str]) -> None:
    counts = deaths(tmp_path, *words)
    assert len(counts) == len(words)
    assert all(first for first, _ in counts.values())
