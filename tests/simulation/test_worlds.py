"""Worlds drawn from seeds: in none of them is an invariant broken, and each can be played again."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from simulation.plan import LARGE, SMALL, Size, draw_mixed, draw_plan
from simulation.planted import PLANTED, PYTHON, Planted, first_seed
from simulation.world import play

ROOT = Path(__file__).parents[2]
IS_SOAK = bool(os.environ.get("CALLBOARD_SOAK"))
WORLDS = range(2_000 if IS_SOAK else 32)
SHARES = 4
"""Workers of the test run share the worlds."""
SAME_WORLDS = 50 if IS_SOAK else 6


@pytest.mark.parametrize("share", range(SHARES))
def test_no_world_breaks_an_invariant(share: int) -> None:
    for number in WORLDS[share::SHARES]:
        for draw in (draw_mixed, draw_plan) if IS_SOAK else (draw_mixed,):
            played = play(draw(number))
            words = f"python -m tests.simulation {played.plan.words}"
            assert not played.broken, "\n".join([*played.trace[-60:], words])


@pytest.mark.parametrize("size", [SMALL, LARGE] if IS_SOAK else [SMALL])
def test_the_same_seed_gives_the_same_trace_in_every_process(size: Size) -> None:
    def digests(hash_seed: str, first: int) -> list[str]:
        done = subprocess.run(
            [*PYTHON, size.name, "digests", str(first), str(SAME_WORLDS)],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        return done.stdout.splitlines()

    # Not in this process: what it has imported and cached by now is another world's doing.
    half = SAME_WORLDS // 2
    whole = digests("7", 0)
    assert len(whole) == SAME_WORLDS
    assert digests("8", half) == whole[half:]  # worlds that come first change nothing for the next


@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.name.partition(":")[0])
def test_a_planted_bug_can_be_planted(planted: Planted) -> None:
    for path, before, after in planted.edits:
        text = (ROOT / path).read_text()
        assert text.count(before) == 1, "the code has moved on: plant this bug elsewhere"
        compile(text.replace(before, after), path, "exec")


def test_the_document_has_the_table_of_planted_bugs() -> None:
    text = (ROOT / "docs" / "simulation.md").read_text()
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    table = rows[rows.index("| planted bug | file | large | small | found by |") + 1 :]
    assert table == [planted.row() for planted in PLANTED]


@pytest.mark.parametrize("planted", PLANTED if IS_SOAK else PLANTED[:1])
def test_a_planted_bug_is_found(planted: Planted) -> None:
    if planted.small >= 0:
        assert first_seed(planted, range(planted.small, planted.small + 1), SMALL)
    if planted.seed >= 0 and (IS_SOAK or planted.small < 0):
        assert first_seed(planted, range(planted.seed, planted.seed + 1), LARGE)
