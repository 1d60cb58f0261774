"""Programs under Landlock, where bubblewrap can't be used: what the second tier holds."""

from __future__ import annotations

import json
import os
import pwd
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

from callboard.config.sections import MIB, SandboxSettings, Strength
from callboard.runtime.definitions import ToolFailure
from callboard.runtime.processes import Command, Ran
from callboard.tools.processes.system_programs import find_system_program
from callboard.tools.sandbox.sandbox import Sandbox
from callboard.tools.sandbox.selftest import self_test as strength
from callboard.tools.sandbox.session_processes import SessionProcesses
from callboard.tools.sandbox.tiers import landlock as second_tier
from callboard.tools.sandbox.tiers.landlock_exec import landlock_abi
from support.sandbox.sandbox_scenes import LEAVES, new_tag, tagged
from support.sandbox.sandbox_users import give_up
from support.waits import leap

NOBODY = "nobody"


@pytest.fixture(autouse=True)
def without_bubblewrap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        strength,
        "find_system_program",
        lambda name: None if name == "bwrap" else find_system_program(name),
    )


@pytest.fixture
def folder() -> Iterator[Path]:
    """A workspace of the user that programs run as, in a place that others can get to."""
    with tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o755)
        workspace = Path(place, "workspace")
        for each in (
            workspace,
            workspace / "src",
            workspace / ".git",
            workspace / ".git" / "hooks",
        ):
            each.mkdir()
            if os.geteuid() == 0:
                os.chown(each, pwd.getpwnam(NOBODY).pw_uid, -1)
        yield workspace


def settings(**more: Any) -> SandboxSettings:
    user = NOBODY if os.geteuid() == 0 else None
    return SandboxSettings(minimum=Strength.PARTIAL, run_as=user, **more)


def opened(**more: Any) -> Sandbox:
    if (why := second_tier.why_none()) is not None:
        give_up(why)
    sandbox = Sandbox(settings(**more), os.environ)
    assert sandbox.status().strength is Strength.PARTIAL, sandbox.status().reason
    return sandbox


async def python(
    folder: Path,
    code: str,
    *args: str,
    seconds: float = 20,
    heard: Callable[[str], None] | None = None,
    **more: Any,
) -> Ran:
    command = Command(
        argv=("python3", "/run/callboard/code.py", *args),
        files={"code.py": code.encode()},
        seconds=seconds,
    )
    return await SessionProcesses(opened(**more), str(folder), "session").run(command, heard)


def test_it_is_partial_and_used_only_where_that_is_enough() -> None:
    sandbox = opened()
    assert sandbox.problem() is None
    assert "Landlock confines programs in its place" in sandbox.status().reason
    full = Sandbox(SandboxSettings(run_as=settings().run_as), os.environ)
    assert full.status().strength is Strength.NONE
    with pytest.raises(ToolFailure, match="bwrap was not found"):
        full.recipe()


def test_case_49_without_landlock_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(second_tier, "landlock_abi", lambda: 0)
    monkeypatch.setattr(strength, "_tests", {})
    found = Sandbox(settings(), os.environ).status()
    assert found.strength is Strength.NONE
    assert "Landlock is missing or too old (its version is 0, and 4 is needed)" in found.reason


LOOKS = """
import ctypes, errno, fcntl, json, os, resource, signal, socket, sys
told = json.loads(sys.argv[1])
def worked(act):
    try:
        act()
    except OSError:
        return False
    return True
def put(path):
    return lambda: open(path, "w").close()
def pair(kind):
    return lambda: [each.close() for each in socket.socketpair(socket.AF_UNIX, kind)]
libc = ctypes.CDLL(None, use_errno=True)
def called(*arguments):
    if libc.syscall(*arguments) < 0:
        raise OSError(ctypes.get_errno(), "")
def called_in_libc(name, *arguments):
    # Refused by the filter, and not because there is nothing of this number.
    if getattr(libc, name)(*arguments) < 0 and ctypes.get_errno() == errno.EPERM:
        raise OSError(errno.EPERM, "")
open("src/kept", "w").close()
bad = {
    "read outside": lambda: open(told["outside"]).close(),
    "write outside": put(told["outside"] + ".new"),
    "list home folders": lambda: os.listdir("/root" if told["root"] else "/home"),
    "environ of callboard": lambda: open(f"/proc/{told['pid']}/environ").close(),
    "passwd": lambda: open("/etc/shadow").close(),
    "tcp": lambda: socket.create_connection(("127.0.0.1", told["port"]), timeout=2),
    "udp": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).close(),
    "unix": lambda: socket.socket(socket.AF_UNIX).close(),
    "datagram pair": pair(socket.SOCK_DGRAM),
    "signal callboard": lambda: os.kill(told["pid"], 0),
    "signal its confiner": lambda: os.kill(os.getppid(), 0),
    "limit callboard": lambda: resource.prlimit(told["pid"], resource.RLIMIT_CORE),
    "plant a hook": put(".git/hooks/pre-commit"),
    "move .git": lambda: os.rename(".git", "aside"),
    "plant .bashrc": put(".bashrc"),
    "new name at the top": put("new.txt"),
    "change rights": lambda: os.chmod("src", 0o777),
    "link in": lambda: os.link(told["outside"], "src/linked"),
    "abstract": lambda: socket.socket(socket.AF_UNIX).connect("\\0x"),
    "times of what is outside": lambda: os.utime(told["outside"], (1, 1)),
    "times of what a name leads to": lambda: os.utime("src/kept", (1, 1)),
    "signals to others": lambda: fcntl.fcntl(0, fcntl.F_SETOWN, os.getpid()),
    "another signal": lambda: fcntl.fcntl(0, fcntl.F_SETSIG, signal.SIGUSR1),
    "watch what is outside": lambda: called_in_libc("inotify_init1", 0),
    "remove shared memory": lambda: called_in_libc("shmctl", 0, 0, None),
    "remove a semaphore": lambda: called_in_libc("semctl", 0, 0, 0),
    "shared memory": lambda: called(29, 0, 4096, 0o1600) if os.uname().machine == "x86_64" else open("/nowhere"),
}
fine = {
    "write": put("src/new.txt"),
    "make a folder": lambda: os.makedirs("src/a/b"),
    "remove": lambda: os.unlink("src/new.txt"),
    "own folder": put(os.environ["TMPDIR"] + "/x"),
    "stream pair": pair(socket.SOCK_STREAM),
    "times of what is open": lambda: os.utime(os.open("src/kept", os.O_RDONLY), (1, 1)),
    "flags of what is open": lambda: fcntl.fcntl(0, fcntl.F_GETFL),
    "own limits": lambda: resource.getrlimit(resource.RLIMIT_CORE),
    "signal itself": lambda: os.kill(os.getpid(), 0),
}
print(json.dumps([[n for n, a in bad.items() if worked(a)], [n for n, a in fine.items() if not worked(a)]]))
"""


async def test_a_program_reaches_nothing_but_the_folders_of_its_workspace(folder: Path) -> None:
    outside = folder.parent / "outside"
    outside.write_text("canary")
    outside.chmod(0o666)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port), timeout=5):
            pass  # the control: from here it is reached
        told = {
            "outside": str(outside),
            "pid": os.getpid(),
            "port": port,
            "root": os.geteuid() == 0,
        }
        ran = await python(folder, LOOKS, json.dumps(told))
    assert (ran.exit_code, ran.stderr, ran.sandbox) == (0, "", "partial")
    worked, failed = json.loads(ran.stdout)
    assert worked == []
    # A signal to itself needs Landlock to confine signals.
    assert set(failed) <= ({"signal itself"} if landlock_abi() < 6 else set())
    assert sorted(os.listdir(folder)) == [".git", "src"]


async def test_what_it_leaves_behind_is_gone_at_its_end_and_when_it_is_cancelled(
    folder: Path, leaping_clock: trio.testing.MockClock
) -> None:
    ran = await python(folder, LEAVES, tag := new_tag(), "0")
    assert (ran.stdout, ran.exit_code, tagged(tag)) == ("left\n", 0, [])
    ran = await python(
        folder, LEAVES, tag := new_tag(), "600", seconds=60, heard=lambda _: leap(60)
    )
    assert (ran.stdout, ran.killed_by, ran.killed >= 2, tagged(tag)) == (
        "left\n",
        "timeout",
        True,
        [],
    )
    tag = new_tag()
    said: list[bool] = []
    with trio.CancelScope() as scope:
        command = Command(
            argv=("python3", "/run/callboard/code.py", tag, "600"),
            files={"code.py": LEAVES.encode()},
            seconds=30,
        )

        def heard(line: str) -> None:
            said.append(bool(tagged(tag)))
            scope.cancel()

        await SessionProcesses(opened(), str(folder), "session").run(command, heard)
    assert (said, scope.cancelled_caught, tagged(tag)) == ([True], True, [])


async def test_what_it_uses_up_is_bounded(folder: Path) -> None:
    hog = """
import os, time
for _ in range(6):
    if os.fork() == 0:
        kept = b"x" * (60 * 1024 * 1024)
        time.sleep(30)
time.sleep(30)
"""
    ran = await python(folder, hog, memory_bytes=192 * MIB)
    assert ran.killed_by == "memory"
    big = "try:\n    open('src/big', 'wb').write(b'x' * (9 << 20))\nexcept OSError as e:\n    print(e.errno)"
    assert (await python(folder, big, file_bytes=8 * MIB)).stdout.strip() == "27"  # EFBIG


async def test_its_own_folder_goes_with_it(folder: Path) -> None:
    ran = await python(folder, "import os; print(os.environ['TMPDIR'], os.environ['HOME'])")
    own, home = ran.stdout.split()
    assert home == f"{own}/home"
    with pytest.raises(FileNotFoundError):
        os.lstat(own)


async def test_there_is_no_network_in_it(folder: Path) -> None:
    async def answer(asked: bytes) -> bytes:
        await trio.lowlevel.checkpoint()
        return asked

    processes = SessionProcesses(opened(), str(folder), "session")
    with pytest.raises(ToolFailure, match="no network and no socket in it"):
        await processes.run(Command(argv=("true",), seconds=5, answers={"x": answer}))
    assert (await processes.run(Command(argv=("true",), seconds=5))).exit_code == 0


async def test_own_data_in_the_workspace_is_not_shown(folder: Path) -> None:
    opened()
    sandbox = Sandbox(settings(), os.environ, [folder / "src"])
    with pytest.raises(ToolFailure, match="Choose another workspace"):
        await SessionProcesses(sandbox, str(folder), "s").run(Command(argv=("true",), seconds=5))


ORPHANED = """
import os, sys, trio
from callboard.config.sections import SandboxSettings, Strength
from callboard.runtime.processes import Command
from callboard.tools.sandbox.selftest import self_test as strength
from callboard.tools.sandbox.sandbox import Sandbox
from callboard.tools.sandbox.session_processes import SessionProcesses
find = strength.find_system_program
strength.find_system_program = lambda name: None if name == "bwrap" else find(name)
folder, tag, user, code = sys.argv[1:]
settings = SandboxSettings(minimum=Strength.PARTIAL, run_as=user or None)
command = Command(
    argv=("python3", "/run/callboard/code.py", tag, "600"), files={"code.py": code.encode()}, seconds=60
)
trio.run(SessionProcesses(Sandbox(settings, os.environ), folder, "s").run, command, lambda line: print(line, flush=True))
"""


def test_case_46_when_the_runtime_is_killed_nothing_of_it_is_left(folder: Path) -> None:
    opened()
    tag = new_tag()
    user = NOBODY if os.geteuid() == 0 else ""
    with subprocess.Popen(
        [sys.executable, "-c", ORPHANED, str(folder), tag, user, LEAVES], stdout=subprocess.PIPE
    ) as runtime:
        try:
            assert runtime.stdout is not None
            assert runtime.stdout.readline() == b"left\n"
            assert tagged(tag)  # the control: it runs
        finally:
            runtime.kill()
    for _ in range(500):
        if not tagged(tag):
            break
        time.sleep(0.01)
    assert tagged(tag) == []


def test_root_itself_is_not_confined_by_it() -> None:
    needs_sandbox_or_landlock()
    if os.geteuid() != 0:
        pytest.skip("the tests run as an ordinary user")
    found = Sandbox(SandboxSettings(minimum=Strength.PARTIAL), os.environ).status()
    assert found.strength is Strength.NONE
    assert "no second tier for root" in found.reason


def needs_sandbox_or_landlock() -> None:
    if (why := second_tier.why_none()) is not None:
        give_up(why)
