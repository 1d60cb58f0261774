"""The benchmarks run in a checkout as it is; what they measure is nobody's promise here."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("resource", reason="the benchmark is made for Unix")

BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"


def run(name: str, *options: str, path: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(BENCHMARKS / name), *options],
        env=os.environ if path is None else {**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=200,
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
    done = run("door/gateway.py", "--events", "20", "--subscribers", "3")
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [line.strip("| ").split(" | ")[0] for line in done.stdout.splitlines()[2:]]
    assert rows == [
        *("memory", "events-1", "events-many", "latency p50", "latency p99"),
        *("resume", "connections"),
    ]


def test_the_editors_bridge_has_a_row_for_each_figure() -> None:
    done = run("door/acp.py", "--turns", "2", "--deltas", "50")
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [line.strip("| ").split(" | ")[0] for line in done.stdout.splitlines()[2:]]
    first = [f"first chunk {share}" for share in ("p10", "p50", "p99")]
    floor = ["floor, a loop that blocks", "floor, a task of Trio"]
    assert rows == [*floor, "memory", *first, "fast model", "paced model"]


def test_growth_has_a_column_for_each_size() -> None:
    done = run("growth.py", "--sessions", "5", "20", "--turns", "3", "--subscribers", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    tables = [
        line.strip("| ").split(" | ") for line in done.stdout.splitlines() if "---" not in line
    ]
    rows = {row[0]: row[1:] for row in tables}
    assert rows["ms, sessions on record"] == ["5", "20"]
    assert rows["ms, turns of a session"] == ["3"]
    assert len(rows["sessions(limit=50)"]) == 2
    assert rows["subscribers of a session"] == ["2"]


VALGRIND = """#!/bin/sh
# Counts 1,000,000 for a start, and so many for each unit of the size.
for word; do
    case $before in --n) size=$word ;; esac
    case $word in
        --log-file=*) log=${word#--log-file=} ;;
        *floor.py) each=100 ;;
        *driver.py) each=150 ;;
    esac
    before=$word
done
echo "==1== I   refs:      $((1000000 + each * size))" > "$log"
"""


def test_instructions_are_those_of_a_unit_without_the_start(tmp_path: Path) -> None:
    valgrind = tmp_path / "valgrind"
    valgrind.write_text(VALGRIND)
    valgrind.chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    done = run("instructions.py", "--only", "toolloop", path=path)
    assert done.returncode == 0, done.stdout + done.stderr
    row = done.stdout.splitlines()[2]
    assert row == "| toolloop | a round | 100 | 150 | 1.50\N{MULTIPLICATION SIGN} | 0.0% |"


def test_without_valgrind_no_instructions_are_counted(tmp_path: Path) -> None:
    done = run("instructions.py", path=str(tmp_path))
    assert done.returncode == 2
    assert "apt install valgrind" in done.stderr


def test_what_is_not_counted_in_time_fails(tmp_path: Path) -> None:
    (tmp_path / "valgrind").touch(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    done = run("instructions.py", "--only", "cold", "--max-minutes", "0", path=path)
    assert done.returncode == 1
    assert "the time was up" in done.stdout


def test_commands_are_timed_from_their_start_to_their_end() -> None:
    done = run("commands.py", "--rounds", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.findall(r"^(.*): \d+\.\d\d s, of CPU (\d+\.\d\d) s$", done.stdout, re.MULTILINE)
    assert [what.partition(",")[0] for what, _ in found] == ["--help", "run --help", "run", "run"]
    assert all(float(cpu) > 0 for _, cpu in found)
