from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from callboard.runtime.disk.data_lock import LOCK_NAME, DataLock, is_held_by
from callboard.runtime.errors import ConflictError, StorageError

HOLDER = """
import sys
from pathlib import Path
from callboard.runtime.disk.data_lock import DataLock
lock = DataLock(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


def test_a_second_taker_is_told_who_holds_it(tmp_path: Path) -> None:
    lock = DataLock(tmp_path)
    with pytest.raises(ConflictError, match=f"{tmp_path} is in use by process {os.getpid()}\\."):
        DataLock(tmp_path)
    lock.release()
    lock.release()
    DataLock(tmp_path).release()


def test_the_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        with pytest.raises(ConflictError, match=f"process {process.pid}"):
            DataLock(tmp_path)
        process.kill()
        process.wait()
    DataLock(tmp_path).release()


def test_a_child_process_does_not_inherit_the_lock(tmp_path: Path) -> None:
    lock = DataLock(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read()"],
        stdin=subprocess.PIPE,
        close_fds=False,
    ) as process:
        lock.release()
        DataLock(tmp_path).release()
        assert process.poll() is None
        assert process.stdin is not None
        process.stdin.close()


def test_whatever_the_file_holds_a_refusal_is_readable(tmp_path: Path) -> None:
    lock = DataLock(tmp_path)
    (tmp_path / LOCK_NAME).write_bytes(b"\xff garbage" * 1000)
    with pytest.raises(ConflictError, match="another process"):
        DataLock(tmp_path)
    lock.release()


def test_the_file_is_the_owners_alone(tmp_path: Path) -> None:
    lock = DataLock(tmp_path)
    assert stat.S_IMODE((tmp_path / LOCK_NAME).stat().st_mode) == 0o600
    lock.release()


def test_a_lock_file_that_cannot_be_one_is_named(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("precious")
    (tmp_path / LOCK_NAME).symlink_to("target")
    for folder in (tmp_path, tmp_path / "missing"):
        with pytest.raises(StorageError, match=LOCK_NAME):
            DataLock(folder)
    assert (tmp_path / "target").read_text() == "precious"


def test_who_holds_it_is_seen_without_taking_it(tmp_path: Path) -> None:
    assert not is_held_by(tmp_path, os.getpid())
    lock = DataLock(tmp_path)
    assert is_held_by(tmp_path, os.getpid())
    assert not is_held_by(tmp_path, os.getppid())
    lock.release()
    assert not is_held_by(tmp_path, os.getpid())
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    (tmp_path / LOCK_NAME).write_text(f"{gone.pid}\n")  # as a kill leaves it
    assert not is_held_by(tmp_path, gone.pid)
