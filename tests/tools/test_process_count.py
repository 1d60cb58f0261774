"""The bound on how many processes a sandbox of root holds."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from callboard.tools.sandbox import process_count
from callboard.tools.sandbox.process_count import TASKS_PER_PROCESS, open_process_count

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="others have the kernel's own limit")

STARTED = 'n=0; while [ $n -lt 60 ]; do sleep 20 & n=$((n+1)); done 2>/dev/null; echo "$n"'


def test_no_more_are_started_than_it_holds() -> None:
    count = open_process_count(10)
    try:
        argv = count.joining(["/bin/bash", "-c", "ulimit -c 0; " + STARTED])
        with subprocess.Popen(argv, stdout=subprocess.PIPE, start_new_session=True) as process:
            try:
                folder = Path(argv[3]).parent
                assert (folder / "pids.max").read_text().strip() == str(10 * TASKS_PER_PROCESS)
                most = 0
                while process.poll() is None and most < 10 * TASKS_PER_PROCESS:
                    most = max(most, int((folder / "pids.current").read_text()))
                assert most <= 10 * TASKS_PER_PROCESS
                assert most > 10  # the control: it did start some
            finally:
                os.killpg(process.pid, 9)
    finally:
        count.close()


def test_what_can_not_join_does_not_run(tmp_path: Path) -> None:
    count = open_process_count(10)
    ran = tmp_path / "ran"
    argv = count.joining(["/usr/bin/touch", str(ran)])
    assert subprocess.run(argv, check=False).returncode == 0
    assert ran.exists()
    ran.unlink()
    count.close()
    assert subprocess.run(argv, stderr=subprocess.DEVNULL, check=False).returncode != 0
    assert not ran.exists()


def test_without_a_controller_there_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_count, "ROOTS", (tmp_path / "pids", tmp_path))
    with pytest.raises(OSError, match="as an ordinary user"):
        open_process_count(10)
