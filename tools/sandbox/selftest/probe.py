"""The probe: the program that the self-test runs inside a sandbox, to try what must not work.

It is started as a file of its own, with the standard library alone. It prints one line of JSON: the names
of the attempts that succeeded, and a nonce that shows that it really ran. As a control it writes a file in
its workspace.
"""

import ctypes
import json
import os
import re
import resource
import socket
import stat
import sys
import time
from collections.abc import Callable
from pathlib import Path

GET_SECCOMP, GET_NO_NEW_PRIVILEGES = 21, 39
"""Options of `prctl`, which works in each kind of sandbox, while /proc may be missing."""

SETTINGS = (
    "sys/kernel/core_pattern",
    "sys/kernel/modprobe",
    "sys/kernel/hotplug",
    "sys/kernel/randomize_va_space",
    "sys/vm/overcommit_memory",
    "sys/fs/suid_dumpable",
    "sysrq-trigger",
    "irq/default_smp_affinity",
    "mtrr",
)
"""Files below /proc that can run a program outside, stop the machine, or concern all of it."""

OWN_MOUNTS = ("/proc", "/tmp", "/dev/shm", "/dev/pts")
"""What may be mounted writable beside the workspace and the devices: all of it goes with the sandbox."""

LINGER_SECONDS = 15
"""Longer than the test; bounded, for where nothing ends the probe."""


def attempts(task: dict[str, str]) -> dict[str, Callable[[], object]]:
    """Return what must raise `OSError` inside, by name."""
    return {
        "read outside the workspace": lambda: open(task["outside"], "rb").close(),
        "write outside the workspace": lambda: open(task["outside"] + ".new", "wb").close(),
        "write to a file system of this machine": writable_mount,
        "lend its rights to whoever runs a file": lending_file,
        "connect to a port of this machine": lambda: socket.create_connection(
            ("127.0.0.1", int(task["port"])), timeout=2
        ).close(),
        "open a socket to the virtual machine's host": lambda: socket.socket(40).close(),
        "put .git aside": lambda: os.rename(".git", "aside"),
        "write a git hook": lambda: open(".git/hooks/pre-commit", "wb").close(),
        "see the environment of callboard": lambda: seen(b"=", "/proc/1/environ"),
        "see processes of the machine": lambda: os.stat(f"/proc/{task['pid']}/{task['mark']}"),
        "share a namespace with the machine": lambda: shared(task),
        "change a setting of the kernel": writable_setting,
        "have capabilities": lambda: status("CapEff", 0),
        "make system calls unfiltered": lambda: controlled(GET_SECCOMP, 2),
        "gain rights by a program's file": lambda: controlled(GET_NO_NEW_PRIVILEGES, 1),
        "limit a process of the machine": lambda: unlimited_elsewhere(task),
        "run beyond its limits": lambda: unlimited(json.loads(task["limits"])),
    }


def writable_mount() -> None:
    """Raise unless something is mounted writable that is neither the workspace nor the sandbox's own."""
    workspace = os.getcwd()
    for line in Path("/proc/self/mountinfo").read_text("utf-8", "surrogateescape").splitlines():
        place, how = line.split(" ")[4:6]
        place = re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), place)
        is_known = place in OWN_MOUNTS or f"{place}/".startswith((f"{workspace}/", "/dev/"))
        if "rw" in how.split(",") and not is_known:
            return
    raise OSError("none is")


def lending_file() -> None:
    """Raise unless a setuid or setgid file or a device can be made, which would lie on the machine's disk."""
    ways: tuple[Callable[[], None], ...] = (
        lambda: os.close(os.open("work/lending", os.O_CREAT | os.O_WRONLY, 0o4700)),
        lambda: os.chmod("work", 0o2755),
        lambda: os.mknod("work/device", stat.S_IFCHR | 0o600, os.makedev(0, 0)),
    )
    for way in ways:
        try:
            way()
        except OSError:  # as it must be
            continue
        return
    raise OSError("none of them")


def writable_setting() -> None:
    """Raise unless one of the machine's settings can be opened for writing; writes nothing."""
    for name in SETTINGS:
        try:
            os.close(os.open(f"/proc/{name}", os.O_WRONLY))
        except OSError:  # this one is not there, or is as it must be
            continue
        return
    raise OSError("none of them")


def seen(part: bytes, path: str) -> None:
    """Raise unless a file holds this."""
    if part not in Path(path).read_bytes():
        raise OSError("not there")


def shared(task: dict[str, str]) -> None:
    """Raise unless one of the namespaces is the machine's."""
    for name in ("ipc", "mnt", "net", "pid", "user", "uts"):
        if os.readlink(f"/proc/self/ns/{name}") == task[name]:
            return
    raise OSError("all are its own")


def status(name: str, wanted: int) -> None:
    """Raise when a field of the process's status has the wanted value."""
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:
        values = [line.split()[1] for line in file if line.startswith(name + ":")]
    if values and int(values[0], 16) == wanted:
        raise OSError("as it must be")


def unlimited(limits: dict[str, list[int]]) -> None:
    """Raise unless one of the limits is not as set."""
    if all(list(resource.getrlimit(int(kind))) == bound for kind, bound in limits.items()):
        raise OSError("they are as set")


def controlled(option: int, wanted: int) -> None:
    """Raise when `prctl` answers what is wanted."""
    if ctypes.CDLL(None).prctl(option, 0, 0, 0, 0) == wanted:
        raise OSError("as it must be")


def unlimited_elsewhere(task: dict[str, str]) -> None:
    """Raise unless callboard's own process can be limited; changes nothing."""
    os.stat(f"/proc/{task['pid']}/{task['mark']}")  # else that number is somebody's inside
    resource.prlimit(int(task["pid"]), resource.RLIMIT_CORE)
    os.kill(int(task["pid"]), 0)


def linger() -> None:
    """Start a process that leaves the group, holds the output open, and lives long."""
    child = os.fork()
    if child == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(LINGER_SECONDS)
        os._exit(0)
    os.waitpid(child, 0)


def main() -> None:
    """Try all, print what worked, and wait to be killed."""
    task = json.loads(sys.argv[1])
    worked = []
    for name, attempt in attempts(task).items():
        try:
            attempt()
        except OSError:  # as it must be
            continue
        worked.append(name)
    open(task["control"], "wb").close()
    linger()
    sys.stdout.write(json.dumps({"nonce": task["nonce"], "worked": worked}) + "\n")
    sys.stdout.flush()
    time.sleep(LINGER_SECONDS)


if __name__ == "__main__":
    main()
