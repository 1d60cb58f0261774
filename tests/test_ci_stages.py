"""The whole check runs its stages beside and behind each other, says which one failed, and leaves nothing running."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "scripts" / "ci-stages"
STAGES = """
first second third:
\t@echo $@ >> order; echo what $@ says
meets waits:  # each ends when both are there
\t@test -p pipe || mkfifo pipe; if [ $@ = meets ]; then echo here > pipe; else read word < pipe; fi
fails:
\t@read word < ready; echo what is wrong; false
endless:
\t@setsid sleep 1000 & echo $$! > pid; echo is there; echo go > ready; sleep 1000
leaves:
\t@setsid sleep 1000 >/dev/null & echo $$! > pid
"""


@pytest.fixture
def stages(tmp_path: Path) -> Path:
    """A folder with stages; what fails does so when `endless` is there."""
    (tmp_path / "Makefile").write_text(STAGES)
    os.mkfifo(tmp_path / "ready")
    os.mkfifo(tmp_path / "pipe")
    return tmp_path


def begin(folder: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, SCRIPT, *words],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def run(folder: Path, *words: str) -> tuple[int, str]:
    process = begin(folder, *words)
    said, _ = process.communicate()
    return process.returncode, said


def is_running(folder: Path) -> bool:
    return Path("/proc", (folder / "pid").read_text().strip()).exists()


def test_what_stands_in_one_word_or_behind_then_runs_one_behind_another(stages: Path) -> None:
    code, said = run(stages, "second first", "then", "third", "then", "first")
    assert (stages / "order").read_text().split() == ["second", "first", "third", "first"]
    assert [line for line in said.splitlines() if line.startswith("what")] == [
        *("what second says", "what first says", "what third says", "what first says")
    ]
    assert re.search(r"── passed, in \d+ s\n$", said)
    assert code == 0


def test_words_run_beside_each_other(stages: Path) -> None:
    code, said = run(stages, "meets", "waits")
    assert (code, "── waits: " in said, "── meets: " in said) == (0, True, True)


def test_the_first_that_fails_ends_those_beside_it_and_stands_last(stages: Path) -> None:
    code, said = run(stages, "endless third", "fails second", "then", "first")
    *_, words, last = re.findall(r"^(?!make(?:\[\d+\])?: ).+$", said, re.MULTILINE)
    assert words == "what is wrong"
    assert re.fullmatch(r"── fails failed \(2\) .* beside it: endless\. .*", last)
    assert code == 1
    assert not (stages / "order").exists()
    assert not is_running(stages)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_run_that_is_ended_says_so_and_leaves_nothing(stages: Path, number: int) -> None:
    process = begin(stages, "waits", "endless second", "then", "first")
    (stages / "ready").read_text()
    assert is_running(stages)
    process.send_signal(number)
    said, _ = process.communicate()
    assert "is there" in said
    assert re.search(
        rf"── ended by {signal.Signals(number).name}, unfinished: waits, endless\n$", said
    )
    assert process.returncode == 128 + number
    assert not (stages / "order").exists()
    assert not is_running(stages)


def test_what_a_stage_that_passed_has_left_is_named_and_ended(stages: Path) -> None:
    code, said = run(stages, "leaves")
    left = (stages / "pid").read_text().strip()  # whatever it is called: it may still be a shell
    assert f"── left running, and ended: {left} " in said
    assert (code, is_running(stages)) == (0, False)


def test_a_lane_without_a_stage_is_refused(stages: Path) -> None:
    code, said = run(stages, "first", "then")
    assert (code, "has no stage: first then" in said) == (1, True)
    assert not (stages / "order").exists()


def test_the_whole_check_has_every_stage_of_the_makefile_that_there_is() -> None:
    called = (ROOT / ".ci/run").read_text(encoding="utf-8").partition("ci-stages")[2].split()
    names = {word.strip("'\"\\") for word in called} - {"", "then"}
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z./-]+):", makefile, re.MULTILINE))
    assert names <= targets
    own = re.findall(r"check-\w+", re.findall(r"^check:.*\n.*", makefile, re.MULTILINE)[0])
    assert len(own) == 4
    by_hand = {"run", "check", "format", "bench", "instructions", "soak", "clean"}
    assert {each for each in targets if not each.startswith(".")} - by_hand == {
        each for each in names if not each.startswith(".")
    }
