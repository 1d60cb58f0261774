"""A runtime is killed at operations of its disk, killed again in its recovery, and goes on soundly.

`support/crash/lives.py` says how, `flows.py` what is played, `mortal.py` what an operation is. Here a few places;
`make soak` takes all of them: killed, with the power lost, and with a bit of the log flipped.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TypeAlias, get_args

import pytest

from support.crash.flows import FLOWS
from support.crash.mortal import How

SOAK = bool(os.environ.get("CALLBOARD_SOAK"))
EVERYWHERE = [[f"{flow}:{how}:*"] for flow in FLOWS for how in get_args(How)]
SOME = [
    "parallel:power:118",
    "delegation:flip:145",
    "suspension:kill:230",
    "purge:kill:63",
    "restore:power:200",
    "migration:power:40",
]
"""Within the flow: commits, changes of files, the step from one store to another."""


Found: TypeAlias = dict[str, tuple[int, int, int, int, list[str]]]


def deaths(folder: Path, *words: str) -> Found:
    """The places, how many lives died there, died again, how many stores were refused, and what was unsound."""
    done = subprocess.run(
        [sys.executable, "-m", "support.crash.lives", str(folder), *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[1],
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found: Found = json.loads(done.stdout)
    assert not any(unsound for *_, unsound in found.values()), done.stderr[-4000:]
    return found


@pytest.mark.parametrize("words", EVERYWHERE if SOAK else [SOME])
def test_wherever_it_dies_what_was_acknowledged_goes_on(tmp_path: Path, words: list[str]) -> None:
    counts = deaths(tmp_path, *words)
    assert len(counts) == len(words)
    assert all(first for first, *_ in counts.values())
