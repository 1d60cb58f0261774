"""In the whole check a few failed tests run again, alone; all else that is red stays so."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "scripts" / "failed-again"
PYTEST = """#!/bin/sh
echo "$@" >> runs
test $(wc -l < runs) -lt "$(cat fails_in_run)"
"""
"""Notes what it is asked to run, and fails from that run on."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    program = tmp_path / "pytest"
    program.write_text(PYTEST)
    program.chmod(0o755)
    (tmp_path / "fails_in_run").write_text("100")
    return tmp_path


def again(folder: Path, *failed: str, status: int = 1) -> tuple[int, list[str], str]:
    """What it ends with, the runs that it began, and what it said."""
    found = folder / ".pytest_cache/v/cache/lastfailed"
    found.parent.mkdir(parents=True)
    found.write_text(json.dumps(dict.fromkeys(failed, True)))
    command = [sys.executable, str(SCRIPT), str(status), "./pytest", "-p", "more"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    runs = folder / "runs"
    return done.returncode, runs.read_text().splitlines() if runs.exists() else [], done.stdout


def test_what_is_green_alone_three_times_is_named_and_passes(folder: Path) -> None:
    code, runs, said = again(folder, "tests/a.py::test_b[c d]", "tests/a.py::test_a")
    assert runs == ["-p more tests/a.py::test_a tests/a.py::test_b[c d]"] * 3
    assert "RED BESIDE OTHERS, GREEN ALONE" in said
    assert said.splitlines()[-2:] == ["──   tests/a.py::test_a", "──   tests/a.py::test_b[c d]"]
    assert code == 0


@pytest.mark.parametrize("number", [1, 2, 3])
def test_what_is_red_once_more_stays_red(folder: Path, number: int) -> None:
    (folder / "fails_in_run").write_text(str(number))
    code, runs, said = again(folder, "tests/a.py::test_a")
    assert (code, len(runs), "GREEN ALONE" in said) == (1, number, False)


def test_more_than_a_few_stay_red(folder: Path) -> None:
    assert again(folder, "a", "b", "c", "d") == (1, [], "")


def test_a_run_that_is_itself_broken_stays_red(folder: Path) -> None:
    assert again(folder, "tests/a.py::test_a", status=3) == (3, [], "")


def test_a_failure_of_no_test_stays_red(folder: Path) -> None:
    assert again(folder) == (1, [], "")
