"""The benchmarks run in a checkout as it is; what they measure is nobody's promise here."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("resource", reason="the benchmark is made for Unix")

BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"


def run(name: str, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(BENCHMARKS / name), *options],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def compare(*options: str) -> subprocess.CompletedProcess[str]:
    return run("compare.py", *options)


def test_a_row_for_each_workload(tmp_path: Path) -> None:
    done = compare(
        *("--rounds", "1", "--n", "3", "--folder", str(tmp_path)),
        *("--only", "stream", "toolloop-disk"),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [line.split(" | ") for line in done.stdout.splitlines() if line.startswith("| ")]
    assert [row[0] for row in rows] == ["| row", "| stream", "| toolloop-disk"]
    for row in rows[1:]:
        assert re.fullmatch(r"[\d.]+\N{MULTIPLICATION SIGN}", row[4])
    assert list(tmp_path.iterdir()) == []  # what it wrote is gone


def test_an_unknown_row_is_refused() -> None:
    done = compare("--only", "streem")
    assert done.returncode == 2
    assert "streem" in done.stderr


def test_no_rounds_are_refused() -> None:
    done = compare("--rounds", "0")
    assert done.returncode == 2
    assert "at least 1" in done.stderr


def test_decoding_has_two_rows_for_each_wire_format() -> None:
    done = run("decoder.py", "--events", "50", "--repeats", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [line.strip("| ").split(" | ") for line in done.stdout.splitlines()[2:]]
    assert [(row[0], row[2]) for row in rows] == [
        (name, read)
        for name in ("openai_chat", "openai_responses", "anthropic", "gemini")
        for read in ("in a burst", "one by one")
    ]


def test_the_door_has_a_row_for_each_figure() -> None:
    done = run("gateway.py", "--events", "20", "--subscribers", "3")
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [line.strip("| ").split(" | ")[0] for line in done.stdout.splitlines()[2:]]
    assert rows == [
        *("memory", "events-1", "events-many", "latency p50", "latency p99"),
        *("resume", "connections"),
    ]


def test_growth_has_a_column_for_each_size() -> None:
    done = run("growth.py", "--sessions", "5", "20", "--turns", "3")
    assert done.returncode == 0, done.stdout + done.stderr
    tables = [
        line.strip("| ").split(" | ") for line in done.stdout.splitlines() if "---" not in line
    ]
    rows = {row[0]: row[1:] for row in tables}
    assert rows["ms, sessions on record"] == ["5", "20"]
    assert rows["ms, turns of a session"] == ["3"]
    assert len(rows["sessions(limit=50)"]) == 2
