"""A folder goes with all that is in it, whatever programs did to it; what is linked from it stays."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from callboard.runtime.disk.tree_removal import remove_tree

NOBODY = 65534
DEEP = 1500
"""Folders in each other: more than calls may stand in each other, and more than files may be open."""


@contextmanager
def as_ordinary_user(*owned: Path) -> Generator[None]:
    """Root may write everywhere: as root, the block runs as somebody else."""
    if os.geteuid() != 0:
        yield
        return
    for path in owned:
        for folder, _, files in os.walk(path):
            os.chown(folder, NOBODY, NOBODY)
            for name in files:
                os.chown(os.path.join(folder, name), NOBODY, NOBODY, follow_symlinks=False)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@contextmanager
def opened(folder: Path) -> Generator[int]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("mode", [0o555, 0o000, 0o300, 0o600, 0o400])
def test_folders_that_permit_nothing_go(tmp_path: Path, mode: int) -> None:
    (tmp_path / "gone" / "pkg" / "mod" / "deep").mkdir(parents=True)
    (tmp_path / "gone" / "pkg" / "mod" / "secret.txt").write_text("private")
    (tmp_path / "kept").mkdir(mode=0o500)
    (tmp_path / "gone" / "link").symlink_to(tmp_path / "kept")
    for folder in ("pkg/mod/deep", "pkg/mod", "pkg", "."):
        (tmp_path / "gone" / folder).chmod(mode)
    with opened(tmp_path) as parent, as_ordinary_user(tmp_path):
        remove_tree(parent, "gone")
        remove_tree(parent, "gone")  # again is harmless
    assert os.listdir(tmp_path) == ["kept"]
    assert (tmp_path / "kept").stat().st_mode & 0o777 == 0o500


def test_a_tree_deeper_than_any_path_goes(tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    with opened(tmp_path) as parent:
        folder = os.open("gone", os.O_RDONLY, dir_fd=parent)
        for _ in range(DEEP):
            os.mkdir("deeper", dir_fd=folder)
            below = os.open("deeper", os.O_RDONLY, dir_fd=folder)
            os.close(folder)
            folder = below
        os.close(folder)
        remove_tree(parent, "gone")
    assert os.listdir(tmp_path) == []


def test_what_can_not_be_removed_keeps_nothing_else(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("files of another account take root")
    for name in ("a", "theirs", "z"):
        (tmp_path / "gone" / name / "in").mkdir(parents=True)
        (tmp_path / "gone" / name / "in" / "file").write_text("")
    with opened(tmp_path) as parent:
        with as_ordinary_user(tmp_path):
            os.seteuid(0)
            os.chown(tmp_path / "gone" / "theirs", 0, 0)
            (tmp_path / "gone" / "theirs").chmod(0o700)
            os.seteuid(NOBODY)
            with pytest.raises(PermissionError):
                remove_tree(parent, "gone")
        assert os.listdir(tmp_path / "gone") == ["theirs"]
        remove_tree(parent, "gone")
    assert os.listdir(tmp_path) == []


MOUNTING = """
import os, subprocess, sys
from callboard.runtime.disk.tree_removal import remove_tree

top, precious = sys.argv[1:]
for place in ("gone/mounted", "gone/sub/mounted", "alone"):
    command = ["mount", "--bind", precious, os.path.join(top, place)]
    if subprocess.run(command, capture_output=True).returncode:
        sys.exit(77)
parent = os.open(top, os.O_RDONLY)
for name in ("gone", "alone"):
    try:
        remove_tree(parent, name)
    except OSError as error:
        print(error.errno, *sorted(os.listdir(os.path.join(top, name))))
for folder in (".", "gone/mounted", "gone/sub", "gone/sub/mounted"):
    print(*sorted(os.listdir(os.path.join(top, folder))))
"""


def test_what_is_mounted_in_it_stays_and_keeps_nothing_else(tmp_path: Path) -> None:
    top, precious = tmp_path / "top", tmp_path / "precious"
    for folder in ("gone/mounted", "gone/sub/mounted", "alone"):
        (top / folder).mkdir(parents=True)
    for number in range(10):
        (top / "gone" / "sub" / f"beside{number}" / "in").mkdir(parents=True)
    (precious / "folder").mkdir(parents=True)
    (precious / "file").write_text("kept")
    precious.chmod(0o500)
    if sys.platform != "linux" or (unshare := shutil.which("unshare")) is None:
        pytest.skip("mounts of its own need Linux's unshare")
    command = [unshare, "--user", "--map-root-user", "--mount"]
    command += [sys.executable, "-c", MOUNTING, str(top), str(precious)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip("nothing can be mounted here")
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        f"{errno.EBUSY} mounted sub",
        f"{errno.EBUSY} file folder",
        "alone gone",
        "file folder",
        "mounted",
        "file folder",
    ]
    assert precious.stat().st_mode & 0o777 == 0o500
    with opened(top) as parent:  # the control: without the mounts it goes
        remove_tree(parent, "gone")
    assert os.listdir(top) == ["alone"]
