"""A test that hangs says where, before whoever runs it gives up on it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parent

HANGS = """
import threading

def test_before():
    pass

def test_that_hangs():
    threading.Event().wait(60)
"""


def test_the_stack_of_a_test_that_hangs_is_written(tmp_path: Path) -> None:
    module = tmp_path / "test_hanging.py"
    module.write_text(HANGS)
    begun = (
        "import conftest, pytest, sys; conftest.REARM_SECONDS = 0.0; "
        "sys.exit(pytest.main(sys.argv[1:], plugins=[conftest]))"
    )
    running = subprocess.Popen(
        [
            *(sys.executable, "-c", begun, "-q", "-p", "no:cacheprovider", "-p", "no:trio"),
            *("-c", os.devnull, f"--rootdir={tmp_path}", "-o", "hang_seconds=0.2", str(module)),
        ],
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert running.stderr is not None
        told = []
        for line in running.stderr:
            told.append(line)
            if "in test_that_hangs" in line:
                break
        assert any("Timeout" in line for line in told), told
        assert "in test_that_hangs" in told[-1], told
        assert running.poll() is None
    finally:
        running.kill()
        running.communicate()
