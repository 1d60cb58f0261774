"""A test that hangs says where, and fails under its name, before whoever runs it gives up on it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parent

HANGS = """
import trio

def test_before():
    pass

async def waits_for_ever():
    await trio.Event().wait()

async def main():
    async with trio.open_nursery() as nursery:
        nursery.start_soon(waits_for_ever, name="the one that waits")

def test_that_hangs():
    trio.run(main)
"""


def test_a_test_that_hangs_has_its_stacks_and_tasks_written_and_ends(tmp_path: Path) -> None:
    module = tmp_path / "test_hanging.py"
    module.write_text(HANGS)
    begun = (
        "import conftest, pytest, sys; conftest.REARM_SECONDS = 0.0; "
        "sys.exit(pytest.main(sys.argv[1:], plugins=[conftest]))"
    )
    ran = subprocess.run(
        [
            *(sys.executable, "-c", begun, "-q", "-p", "no:cacheprovider", "-p", "no:trio"),
            *("-c", os.devnull, f"--rootdir={tmp_path}", "-o", "hang_seconds=0.2", str(module)),
        ],
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    stacks, _, tasks = ran.stderr.partition("test_hanging.py::test_that_hangs hangs.")
    assert "Timeout" in stacks, ran.stderr
    assert "in test_that_hangs" in stacks, ran.stderr
    assert "the one that waits" in tasks, ran.stderr
    assert "in waits_for_ever" in tasks, ran.stderr
    assert ran.returncode == 1
