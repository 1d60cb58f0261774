"""Worlds drawn from seeds: in none of them is an invariant broken, and each can be played again."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from simulation.plan import draw_plan
from simulation.planted import PLANTED, Planted, first_seed
from simulation.world import play

ROOT = Path(__file__).parents[2]
IS_SOAK = bool(os.environ.get("CALLBOARD_SOAK"))
WORLDS = 2000 if IS_SOAK else 20
SHARES = 4
"""Workers of the test run share the worlds."""
SAME_WORLDS = 50 if IS_SOAK else 2


@pytest.mark.parametrize("share", range(SHARES))
def test_no_world_breaks_an_invariant(share: int) -> None:
    for seed in range(share, WORLDS, SHARES):
        played = play(draw_plan(seed))
        assert not played.broken, "\n".join(
            [*played.trace[-60:], f"seed {seed}: python -m tests.simulation {seed}"]
        )


def test_the_same_seed_gives_the_same_trace_in_every_process() -> None:
    def digests(hash_seed: str) -> list[str]:
        done = subprocess.run(
            [sys.executable, "-m", "tests.simulation", "digests", "0", str(SAME_WORLDS)],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        return done.stdout.splitlines()

    # Not in this process: what it has imported and cached by now is another world's doing.
    first = digests("7")
    assert len(first) == SAME_WORLDS
    assert digests("8") == first


@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.name.partition(":")[0])
def test_a_planted_bug_can_be_planted(planted: Planted) -> None:
    for path, before, after in planted.edits:
        text = (ROOT / path).read_text()
        assert text.count(before) == 1, "the code has moved on: plant this bug elsewhere"
        compile(text.replace(before, after), path, "exec")


def test_the_document_has_the_table_of_planted_bugs() -> None:
    text = (ROOT / "docs" / "simulation.md").read_text()
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    table = rows[rows.index("| planted bug | file | seed | found by |") + 1 :]
    assert table == [planted.row() for planted in PLANTED]


@pytest.mark.parametrize("planted", PLANTED if IS_SOAK else PLANTED[:2])
def test_a_planted_bug_is_found(planted: Planted) -> None:
    assert first_seed(planted, range(planted.seed, planted.seed + 1))
