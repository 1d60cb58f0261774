"""The bounds of control groups: where they are made, and that they hold."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from callboard.config.sections import MIB, SandboxSettings
from callboard.tools.sandbox.box.control_group import (
    RUNTIME_GROUP,
    STALE_SECONDS,
    TASKS_PER_PROCESS,
    Groups,
    find_groups,
)

SMALL = SandboxSettings(memory_bytes=64 * MIB, processes=10)

FILLS = "import sys; sys.stdin.read(1); kept = b'x' * (int(sys.argv[1]) << 20); print(len(kept))"
FORKS = """
import os, sys, time
sys.stdin.read(1)
count = 0
try:
    for _ in range(100):
        if os.fork() == 0:
            time.sleep(30)
        count += 1
except OSError:
    pass
print(count, flush=True)
"""


def real_groups(kind: str) -> Groups:
    groups = find_groups()
    if groups is None or kind not in groups.bounds:
        pytest.skip(f"no control group for {kind} can be written here")
    return groups


def joined(groups: Groups, code: str, *args: str) -> tuple[str, int, bool]:
    """What a program in a small group said, how it ended, and whether the kernel ended it."""
    group = groups.open(SMALL)
    try:
        with subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", code, *args],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            said = ""
            try:
                group.join(process.pid)
                process.stdin.write("x")
                process.stdin.close()
                said = process.stdout.readline().strip()
            finally:
                if said:
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        return said, process.returncode, group.is_out_of_memory()
    finally:
        for _ in range(200):  # those that it forked are reaped by somebody else
            group.close()
            if not any(folder.exists() for folder in group._folders.values()):
                break
            time.sleep(0.01)


def test_case_45_the_kernel_ends_what_fills_the_memory_of_its_group() -> None:
    groups = real_groups("memory")
    assert joined(groups, FILLS, "200") == ("", -signal.SIGKILL, True)
    assert joined(groups, FILLS, "10")[::2] == (str(10 * MIB), False)  # the control


def test_case_45_no_more_processes_are_started_than_it_holds() -> None:
    count, _, is_full = joined(real_groups("pids"), FORKS)
    assert 10 < int(count) < TASKS_PER_PROCESS * 10
    assert not is_full


def first_version(tmp_path: Path) -> tuple[Path, Path]:
    """Folders as they are with version 1, and where the process is."""
    mount, own = tmp_path / "cgroup", tmp_path / "own"
    for folder in (mount / "memory" / "some" / "service", mount / "pids"):
        folder.mkdir(parents=True)
        (folder / "cgroup.procs").touch()
    own.write_text("9:name=systemd:/\n8:pids:/\n4:memory:/some/service\n3:cpu,cpuacct:/\n0::/\n")
    return mount, own


def test_of_version_1_each_that_can_be_written_is_used(tmp_path: Path) -> None:
    mount, own = first_version(tmp_path)
    found = find_groups(mount, own)
    assert found is not None
    assert (found.version, dict(found.folders)) == (
        1,
        {"memory": mount / "memory" / "some" / "service", "pids": mount / "pids"},
    )
    (mount / "pids" / "cgroup.procs").unlink()
    found = find_groups(mount, own)
    assert found is not None
    assert found.bounds == {"memory"}
    (mount / "memory" / "some" / "service" / "cgroup.procs").unlink()
    assert find_groups(mount, own) is None
    assert find_groups(mount, tmp_path / "missing") is None


def second_version(tmp_path: Path, *, given: str, divided: str, inside: str) -> tuple[Path, Path]:
    mount, own = tmp_path / "cgroup", tmp_path / "own"
    service = mount / "user.slice" / "callboard.service"
    service.mkdir(parents=True)
    (mount / "cgroup.controllers").write_text("cpu memory pids")
    (service / "cgroup.controllers").write_text(given)
    (service / "cgroup.subtree_control").write_text(divided)
    (service / "cgroup.procs").write_text(inside)
    own.write_text("0::/user.slice/callboard.service\n")
    return service, own


def test_of_version_2_a_delegated_group_is_divided_when_nobody_else_is_in_it(
    tmp_path: Path,
) -> None:
    service, own = second_version(
        tmp_path, given="cpu memory pids", divided="", inside=f"{os.getpid()}\n"
    )
    found = find_groups(tmp_path / "cgroup", own)
    assert found is not None
    assert (found.version, set(found.folders.values())) == (2, {service})
    assert found.bounds == {"memory", "pids"}
    moved = service / RUNTIME_GROUP / "cgroup.procs"
    assert moved.read_text() == str(os.getpid())
    assert (service / "cgroup.subtree_control").read_text() == "+memory +pids"
    # From then on the runtime is one below.
    own.write_text(f"0::/user.slice/callboard.service/{RUNTIME_GROUP}\n")
    (service / "cgroup.subtree_control").write_text("memory pids")
    assert find_groups(tmp_path / "cgroup", own) == found


@pytest.mark.parametrize(
    ("given", "inside"), [("cpu memory pids", "1\n2\n"), ("cpu pids", ""), ("", "")]
)
def test_of_version_2_others_are_not_moved_and_nothing_is_taken(
    tmp_path: Path, given: str, inside: str
) -> None:
    service, own = second_version(tmp_path, given=given, divided="", inside=inside)
    assert find_groups(tmp_path / "cgroup", own) is None
    assert not (service / RUNTIME_GROUP).exists()


def test_what_a_killed_runtime_left_is_removed_and_what_is_young_is_not(tmp_path: Path) -> None:
    mount, own = first_version(tmp_path)
    groups = find_groups(mount, own)
    assert groups is not None
    old, young = (mount / "pids" / f"callboard-sandbox-{name}" for name in ("old", "young"))
    foreign = mount / "pids" / "else"
    for folder in (old, young, foreign):
        folder.mkdir()
    for folder in (old, foreign):
        os.utime(folder, (0, time.time() - 2 * STALE_SECONDS))
    groups.sweep()
    assert (old.exists(), young.exists(), foreign.exists()) == (False, True, True)
