"""Where everything must run, recorded answers that are there are not skipped over."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.mark.parametrize(("environment", "code"), [({}, 0), ({"CI": "true"}, 1)])
def test_a_recorded_test_that_is_skipped_fails_the_whole_check(
    tmp_path: Path, environment: dict[str, str], code: int
) -> None:
    # The folder is there, and holds nothing of this wire format.
    (tmp_path / "expected.jsonl").touch()
    assert run(tmp_path, environment) == code


def test_without_the_folder_the_whole_check_skips(tmp_path: Path) -> None:
    assert run(tmp_path / "missing", {"CI": "true"}) == 0


def run(folder: Path, environment: dict[str, str]) -> int:
    inherited = {name: value for name, value in os.environ.items() if name != "CI"}
    module = str(HERE / "test_openai_chat_recorded.py")
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", module],
        env={**inherited, "CALLBOARD_STREAMS": str(folder), **environment},
        cwd=HERE.parents[1],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    ).returncode
