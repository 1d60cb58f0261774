"""What a program leaves lends nobody rights, and it writes nowhere but in its workspace; as root and as an ordinary user."""

from __future__ import annotations

import json
import os
import re
import struct
from pathlib import Path
from typing import Any

import pytest

from callboard.config.sections import SandboxSettings
from callboard.runtime.definitions import ToolFailure
from callboard.runtime.processes import Command
from callboard.tools.sandbox.changes import scan
from callboard.tools.sandbox.changes.change_tracker import conclude, observe
from callboard.tools.sandbox.changes.snapshot import CopyCache
from callboard.tools.sandbox.sandbox import Sandbox
from callboard.tools.sandbox.session_processes import SessionProcesses
from support.environment import SUPPORT
from support.sandbox.sandbox_users import USERS, needs_sandbox, played

SCRIPT = SUPPORT / "sandbox" / "rights_scenes.py"

ROOTS_OWN = {
    "mknod a character device",
    "mknod a disk",
    "capabilities",
    "capabilities of a namespace",
    "give away",
    "give to a group",
    "give a link away",
}
"""What outside only root can do."""


@pytest.fixture(scope="module", params=USERS)
def found(request: pytest.FixtureRequest) -> dict[str, Any]:
    needs_sandbox()
    return played(request.param, SCRIPT)


def test_case_73_nothing_that_it_leaves_lends_rights(found: dict[str, Any]) -> None:
    (bad, fine, all_fine), left, outside, lends = found["lends"]
    assert bad == []
    assert left == []
    assert fine == all_fine
    # the control: outside each way works, for who may
    worked, _, _ = json.loads(outside)
    assert len(worked) >= 14
    assert {"chmod setuid", "fchmodat", "open", "openat2", "unnamed", "mknod a whiteout"} <= {
        *worked
    }
    assert {*lends} >= {"a", "b", "c", "d", "f", "g", "unnamed-4755", "k"}


DEVICES = {f"/dev/{name}" for name in ("full", "null", "pts/ptmx", "random", "urandom", "zero")}
PRIVATE = {"/dev/shm", "/tmp"}
"""In memory, and gone with the sandbox."""


def test_case_73_it_writes_to_its_workspace_and_nowhere_else(found: dict[str, Any]) -> None:
    workspace, places, files, looked, mounts, processes = found["writable"]
    points = {place: how for place, how, _ in mounts}

    def mount_of(path: str) -> str:
        while path not in points:
            path = path.rpartition("/")[0] or "/"
        return path

    assert looked > 100
    # what is left of the host is the workspace alone
    assert [path for path in places if mount_of(path) not in PRIVATE] == [
        workspace,
        f"{workspace}/below",
    ]
    assert {path for path in files if not re.match(r"/proc/[0-9]+/", path)} == {
        *DEVICES,
        f"{workspace}/own.txt",
    }
    assert {*places} >= PRIVATE  # the control
    assert not {"sysfs", "cgroup", "cgroup2", "debugfs"} & {kind for _, _, kind in mounts}
    for place, how in points.items():
        assert "nosuid" in how
        assert "nodev" in how or place in {*DEVICES, "/dev/tty", "/dev/pts"}
        is_own = place in {"/proc", "/dev/tty", "/dev/pts", *PRIVATE, *DEVICES, workspace}
        assert ("ro" in how) is not is_own, place
    # neither could any process inside that a program takes over
    assert {tuple(each) for each in processes} == {("2", "1", f"{0:016x}", f"{0:016x}")}
    assert len(processes) >= 2


REWRITE = """
import mmap, os, sys
def shared(name):
    with open(name, "r+b") as file, mmap.mmap(file.fileno(), 4) as memory:
        memory[:4] = b"evil"
def moved(name):
    os.rename(os.path.dirname(name), "aside")
def replaced(name):
    open("new", "wb").close()
    os.rename("new", name)
for act in (shared, moved, replaced):
    try:
        act(sys.argv[1])
    except OSError:
        print("refused")
    else:
        print("worked")
"""


async def test_case_73_a_file_that_lends_roots_rights_can_not_be_rewritten(tmp_path: Path) -> None:
    """The kernel takes such rights from what is written, but not through shared memory."""
    needs_sandbox()
    if os.geteuid() != 0:
        pytest.skip("only root's files lend root's rights")
    names = {"rootfs/bin/setuid": 0o4755, "rootfs/bin/capable": 0o755, "other/plain": 0o755}
    for name, mode in names.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("good")
        (tmp_path / name).chmod(mode)
    capability = struct.pack("<5I", 2 << 24 | 1, 1 << 7, 0, 0, 0)
    try:
        os.setxattr(tmp_path / "rootfs/bin/capable", "security.capability", capability)
    except OSError:  # a root without that capability, or a file system without it
        del names["rootfs/bin/capable"]
    processes = SessionProcesses(Sandbox(SandboxSettings(), os.environ), str(tmp_path), "s")
    for name in names:
        ran = await processes.run(Command(argv=("python3", "-c", REWRITE, name), seconds=20))
        is_plain = name == "other/plain"  # the control
        assert ran.stdout.split() == (
            ["worked", "worked", "refused"] if is_plain else ["refused"] * 3
        )
        if not is_plain:
            assert (tmp_path / name).read_text() == "good"


def test_case_73_too_much_that_lends_roots_rights_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        (tmp_path / f"{number}").touch()
        (tmp_path / f"{number}").chmod(0o4755)
    monkeypatch.setattr(scan, "MAX_LENDING", 4)
    assert len(scan.lending_files(str(tmp_path))) == 4
    for bound in ("MAX_LENDING", "MAX_LOOKED_AT"):
        with monkeypatch.context() as narrower:
            narrower.setattr(scan, bound, 3)
            with pytest.raises(
                ToolFailure, match=r"lend root's rights|too much to look at"
            ) as refused:
                scan.lending_files(str(tmp_path))
            assert "chown" in str(refused.value)


def test_case_73_where_nothing_denies_it_a_look_takes_them_back(tmp_path: Path) -> None:
    """The second line, behind the filter: what a program without one would leave."""
    for name in ("old", "fine"):
        (tmp_path / name).touch()
    (tmp_path / "old").chmod(0o4755)
    (tmp_path / "fine").chmod(0o755)
    observation = observe(str(tmp_path), CopyCache(), None)
    for name, mode in {"made": 0o4711, "fine": 0o6755, "closed": 0o4000}.items():
        (tmp_path / name).touch()
        (tmp_path / name).chmod(mode)
    (tmp_path / "link").symlink_to("old")
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o2775)
    found = conclude(str(tmp_path), observation, None)
    assert {*found.created} == {"made", "closed", "link", "shared/"}
    assert {path.name: f"{path.stat().st_mode & 0o7777:o}" for path in tmp_path.iterdir()} == {
        "old": "4755",  # somebody had meant it
        "link": "4755",
        "made": "711",
        "fine": "755",
        "closed": "0",
        "shared": "2775",  # of a folder it lends nothing
    }
